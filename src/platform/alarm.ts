/** The object's one alarm: the earliest of all that asks for it wins. Setting it is billed as a row, so only news is set. */
export class Alarm {
  readonly #storage: DurableObjectStorage;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState) {
    this.#storage = ctx.storage;
    // Known before the first call, which must not put off what is already to come.
    void ctx.blockConcurrencyWhile(async () => {
      this.#atMs = Math.min(this.#atMs, (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY);
    });
  }

  /** It rings at `atMs` or sooner. */
  by(atMs: number): void {
    if (atMs >= this.#atMs) return;
    this.#atMs = atMs;
    void this.#storage.setAlarm(atMs);
  }

  /** Whoever it rang for has to ask again. */
  rang(): void {
    this.#atMs = Number.POSITIVE_INFINITY;
  }
}

/** The object's one alarm: the earliest of all that asks for it wins. Setting it is billed as a row, so only news is set. */
export class Alarm {
  readonly #storage: DurableObjectStorage;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState) {
    this.#storage = ctx.storage;
    // The alarm that is set is read before the first call, which must not put it off.
    void ctx.blockConcurrencyWhile(async () => {
      this.#atMs = Math.min(this.#atMs, (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY);
    });
  }

  /** Has the alarm ring at `atMs` or sooner: at once where that is past. */
  by(atMs: number): void {
    if (atMs >= this.#atMs) return;
    this.#atMs = atMs;
    // The platform refuses times before 1970, and then no alarm would be set.
    void this.#storage.setAlarm(Math.max(atMs, 1));
  }

  /** To be called when the alarm has rung: whoever it rang for has to ask again. */
  rang(): void {
    this.#atMs = Number.POSITIVE_INFINITY;
  }
}

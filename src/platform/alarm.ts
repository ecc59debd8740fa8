/** Moves only to an earlier time, because each `setAlarm` is billed as a row. */
export class Alarm {
  readonly #storage: DurableObjectStorage;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState) {
    this.#storage = ctx.storage;
    // Before the first call, which must not postpone the stored alarm.
    void ctx.blockConcurrencyWhile(async () => {
      this.#atMs = Math.min(this.#atMs, (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY);
    });
  }

  by(atMs: number): void {
    if (atMs >= this.#atMs) return;
    this.#atMs = atMs;
    // The platform rejects times before 1970.
    void this.#storage.setAlarm(Math.max(atMs, 1));
  }

  /** After the alarm fired, all later times must be requested again. */
  reset(): void {
    this.#atMs = Number.POSITIVE_INFINITY;
  }
}

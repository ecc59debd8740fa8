/**
 * Shares a capacity of an isolate among the holders that use it at the moment. A holder alone has all of it; among `n`
 * holders each has one part in `n`. So nobody's use takes the capacity from others. Requests share it, so it is plain data.
 */

/** The capacity of an isolate, in units of any kind. */
export interface Capacity {
  perSecond: number;
  /** Units that the holders may use at once, all together. */
  burst: number;
}

export class FairShare {
  readonly #burstOfEach: number;
  /** Units that each holder has used and not paid off. Holders without debt are absent. */
  readonly #debts = new Map<string, number>();
  #paidOffUntilMs = 0;

  /** @param burstOfEach units that each holder may use at once, however many there are. */
  constructor(burstOfEach: number) {
    this.#burstOfEach = burstOfEach;
  }

  /** Milliseconds until the holder may use the capacity again; 0: now. A use may exceed what is left. */
  waitMs(holder: string, nowMs: number, { perSecond, burst }: Capacity): number {
    this.#payOff(nowMs, perSecond);
    const debt = this.#debts.get(holder);
    if (debt === undefined) return 0;
    const excess = debt - Math.max(burst / this.#debts.size, this.#burstOfEach);
    return excess < 0 ? 0 : Math.max(1, (1_000 * excess * this.#debts.size) / perSecond);
  }

  /** @param units negative: a charge that was too high. */
  charge(holder: string, units: number, nowMs: number, { perSecond }: Capacity): void {
    this.#payOff(nowMs, perSecond);
    const debt = (this.#debts.get(holder) ?? 0) + units;
    if (debt <= 0) this.#debts.delete(holder);
    else this.#debts.set(holder, debt);
  }

  /** If the clock was set back, no time counts as passed. */
  #payOff(nowMs: number, perSecond: number): void {
    let units = (Math.max(0, nowMs - this.#paidOffUntilMs) * perSecond) / 1_000;
    this.#paidOffUntilMs = nowMs;
    if (units === 0) return;
    // A holder that needs less than its part leaves the rest to the others.
    for (const [holder, debt] of [...this.#debts].sort(([, a], [, b]) => a - b)) {
      const part = units / this.#debts.size;
      if (part < debt) {
        for (const [other, owed] of this.#debts) this.#debts.set(other, owed - part);
        return;
      }
      this.#debts.delete(holder);
      units -= debt;
    }
  }
}

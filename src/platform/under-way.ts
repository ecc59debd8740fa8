/**
 * Counts things of one kind that are under way in this isolate, such as open bodies, by their holder. Requests share it, so it
 * is plain data without promises.
 */

interface Bounds {
  /** Of one holder. */
  each: number;
  /** Of all holders together; default: no limit. */
  all?: number;
  /** Each holder may have so many, also beyond `all`, so that no holder depends on the others. */
  always?: number;
}

export class UnderWay {
  readonly #bounds: Required<Bounds>;
  readonly #holders = new Map<string, Set<Lease>>();
  #count = 0;

  constructor({ each, all = Number.POSITIVE_INFINITY, always = each }: Bounds) {
    this.#bounds = { each, all, always };
  }

  /** Of all holders together. */
  count(nowMs: number): number {
    this.#endExpired(nowMs);
    return this.#count;
  }

  /** @param forMs counts as ended after this time: the platform may end a request without a word. Null: too many. */
  begin(holder: string, nowMs: number, forMs: number): Lease | null {
    if (!this.#hasRoom(holder)) {
      this.#endExpired(nowMs);
      if (!this.#hasRoom(holder)) return null;
    }
    const leases = this.#holders.get(holder) ?? new Set();
    const lease = new Lease(nowMs + forMs, () => {
      if (!leases.delete(lease)) return;
      this.#count--;
      if (leases.size === 0) this.#holders.delete(holder);
    });
    leases.add(lease);
    this.#count++;
    this.#holders.set(holder, leases);
    return lease;
  }

  #hasRoom(holder: string): boolean {
    const { each, all, always } = this.#bounds;
    const count = this.#holders.get(holder)?.size ?? 0;
    return count < each && (this.#count < all || count < always);
  }

  #endExpired(nowMs: number): void {
    for (const leases of this.#holders.values()) {
      for (const lease of leases) if (nowMs > lease.untilMs) lease.release();
    }
  }
}

export class Lease {
  /** Milliseconds since 1970. */
  untilMs: number;
  readonly release: () => void;

  constructor(untilMs: number, release: () => void) {
    this.untilMs = untilMs;
    this.release = release;
  }
}

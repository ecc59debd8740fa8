/** Fingerprints of hashes, and the lines that have them: a table with open addresses, that grows until it is the largest. */

/** Slots, of 8 bytes each, that one table of the memory of duplicates may have. */
const ORIGINALS_MAX_SLOTS = 2 ** 21;
const FEWEST_SLOTS = 1_024;
const MOST_FULL = 0.7;
/** Nearly nothing that is looked for is there, so that nothing is made for it. */
const NONE: readonly number[] = [];

export class FingerprintTable {
  readonly beganAtMs: number;
  readonly #baseSeq: number;
  /**
   * Two numbers a slot: the fingerprint, 0 where the slot is free, and how far the line's number is from `baseSeq`, in
   * either direction.
   */
  #slots = new Uint32Array(FEWEST_SLOTS * 2);
  #used = 0;

  constructor(beganAtMs: number, baseSeq: number) {
    this.beganAtMs = beganAtMs;
    this.#baseSeq = baseSeq;
  }

  get bytes(): number {
    return this.#slots.byteLength;
  }

  /** Whether the next hash makes the table grow. */
  get isFull(): boolean {
    return this.#used >= (this.#slots.length / 2) * MOST_FULL;
  }

  get isLargest(): boolean {
    return this.#slots.length / 2 >= ORIGINALS_MAX_SLOTS;
  }

  add(fingerprint: number, seq: number): void {
    if (this.isFull) this.#grow();
    this.#put(fingerprint, seq - this.#baseSeq);
  }

  /** Numbers of the lines that have a fingerprint. */
  find(fingerprint: number): readonly number[] {
    const mask = this.#slots.length / 2 - 1;
    let seqs = NONE;
    for (let slot = fingerprint & mask; ; slot = (slot + 1) & mask) {
      const found = this.#slots[slot * 2];
      if (found === 0 || found === undefined) return seqs;
      // The distance is signed: where the first line was taken back, others may have come before its number.
      if (found === fingerprint) seqs = [...seqs, this.#baseSeq + ((this.#slots[slot * 2 + 1] ?? 0) | 0)];
    }
  }

  #put(fingerprint: number, offset: number): void {
    const mask = this.#slots.length / 2 - 1;
    let slot = fingerprint & mask;
    while (this.#slots[slot * 2] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot * 2] = fingerprint;
    this.#slots[slot * 2 + 1] = offset;
    this.#used++;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(before.length * 2);
    this.#used = 0;
    for (let at = 0; at < before.length; at += 2) {
      const fingerprint = before[at] ?? 0;
      if (fingerprint !== 0) this.#put(fingerprint, before[at + 1] ?? 0);
    }
  }
}

/**
 * A bounded memory: what was used longest ago is forgotten first. In plain JavaScript of a few lines, because the well-kept
 * packages for it do more when they are loaded than all of ingest.
 */
export class Lru<Key, Value> {
  readonly #maxWeight: number;
  /** The entries in the order of their last use. */
  readonly #entries = new Map<Key, { value: Value; weight: number }>();
  #weight = 0;
  /** The key used last, which is not moved when it is used again: most keys are used many times in a row. */
  #latest: Key | undefined;

  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  get(key: Key): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (key !== this.#latest) {
      this.#entries.delete(key);
      this.#entries.set(key, entry);
      this.#latest = key;
    }
    return entry.value;
  }

  /** Whether the key is remembered; asking is no use of it. */
  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  /** What is heavier than all that there may be is not remembered at all. */
  set(key: Key, value: Value, weight = 1): void {
    this.delete(key);
    this.#entries.set(key, { value, weight });
    this.#latest = key;
    this.#weight += weight;
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#maxWeight) return;
      this.delete(oldest);
    }
  }

  delete(key: Key): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#weight -= entry.weight;
  }

  clear(): void {
    this.#entries.clear();
    this.#weight = 0;
  }
}

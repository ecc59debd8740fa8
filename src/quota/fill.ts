/**
 * How full the database is. To ask it takes as long as to write a row, and each commit wants to know: it is asked only where
 * what was written since may have filled it.
 */

/** More than is written besides the outbox between two looks. */
const BESIDES_BYTES = 50_000_000;

export class Fill {
  readonly #databaseBytes: () => number;
  /** When it was last asked for. */
  #knownBytes = Number.POSITIVE_INFINITY;
  #writtenBytes = 0;

  constructor(databaseBytes: () => number) {
    this.#databaseBytes = databaseBytes;
  }

  /** Of rows, without what their pages leave empty. */
  written(bytes: number): void {
    this.#writtenBytes += bytes;
  }

  reaches(maxBytes: number): boolean {
    if (this.#knownBytes + 2 * this.#writtenBytes + BESIDES_BYTES < maxBytes) return false;
    this.#knownBytes = this.#databaseBytes();
    this.#writtenBytes = 0;
    return this.#knownBytes >= maxBytes;
  }
}

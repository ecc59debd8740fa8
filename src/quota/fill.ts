/**
 * How full the database is. To ask it takes as long as to write a row, and each commit wants to know: it is asked only where
 * what was written since may have filled it.
 */

/** More bytes than are written besides the outbox between two looks at the database. */
const BESIDES_BYTES = 50_000_000;

export class Fill {
  readonly #databaseBytes: () => number;
  /** The database's size when it was last asked for. */
  #knownBytes = Number.POSITIVE_INFINITY;
  #writtenBytes = 0;

  constructor(databaseBytes: () => number) {
    this.#databaseBytes = databaseBytes;
  }

  /** Notes the bytes of rows that were written, without what their pages leave empty. */
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

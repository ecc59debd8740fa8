/**
 * Secrets from before a rotation, which sign too until they end. There may be several: a rotation within the overlap of the
 * one before it ends no secret that a receiver still verifies with.
 */

/** Old secrets of one destination that are kept: of more, those that end first are dropped. Each makes deliveries longer. */
export const OLD_SECRETS_MAX = 5;

export class OldSecrets {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Those that still sign, the one that ends last first. */
  of(destinationId: string, nowMs: number): { secret: string; endsMs: number }[] {
    return this.#sql
      .exec<{ secret: string; endsMs: number }>(
        "SELECT secret, ends_ms AS endsMs FROM old_secrets WHERE destination_id = ? AND ends_ms > ? ORDER BY ends_ms DESC",
        destinationId,
        nowMs,
      )
      .toArray();
  }

  /** Lets `secret` sign until `endsMs`, and none before it any longer. @param endsMs not after `nowMs`: all of them end. */
  add(destinationId: string, secret: string, endsMs: number, nowMs: number): void {
    const before = this.of(destinationId, nowMs).map((one) => ({ ...one, endsMs: Math.min(one.endsMs, endsMs) }));
    this.remove(destinationId);
    if (endsMs <= nowMs) return;
    for (const one of [{ secret, endsMs }, ...before].slice(0, OLD_SECRETS_MAX)) {
      this.#sql.exec(
        "INSERT INTO old_secrets (destination_id, secret, ends_ms) VALUES (?, ?, ?)",
        destinationId,
        one.secret,
        one.endsMs,
      );
    }
  }

  remove(destinationId: string): void {
    this.#sql.exec("DELETE FROM old_secrets WHERE destination_id = ?", destinationId);
  }
}

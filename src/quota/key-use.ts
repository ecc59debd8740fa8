/**
 * When each key was last used. Written along with what is written anyway, at most once a minute for each key: an object
 * that ends in between loses no more than that of it.
 */
import { KEY_USE_WRITE_MS } from "../limits.ts";

export class KeyUse {
  readonly #sql: SqlStorage;
  readonly #usedMs = new Map<string, number>();
  readonly #writtenMs = new Map<string, number>();
  readonly #unwritten = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS key_use (key_id TEXT PRIMARY KEY, last_used_ms INTEGER NOT NULL) WITHOUT ROWID",
    );
    for (const row of sql.exec<{ key_id: string; last_used_ms: number }>("SELECT * FROM key_use")) {
      this.#usedMs.set(row.key_id, row.last_used_ms);
    }
  }

  used(keyId: string, nowMs: number): void {
    this.#usedMs.set(keyId, nowMs);
    this.#unwritten.add(keyId);
  }

  /** A row for each key of which none was written within the last minute. */
  writeDue(nowMs: number): void {
    for (const keyId of this.#unwritten) {
      // A clock that was set back keeps nothing from being written.
      if (Math.abs(nowMs - (this.#writtenMs.get(keyId) ?? 0)) < KEY_USE_WRITE_MS) continue;
      this.#sql.exec("INSERT OR REPLACE INTO key_use VALUES (?, ?)", keyId, this.#usedMs.get(keyId) ?? nowMs);
      this.#writtenMs.set(keyId, nowMs);
      this.#unwritten.delete(keyId);
    }
  }

  /** Key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return Object.fromEntries(this.#usedMs);
  }
}

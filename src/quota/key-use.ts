/**
 * When each key was last used, and when a call of it was last accepted. Written along with what is written anyway, at most once a minute for each key: an object
 * that ends in between loses no more than that of it.
 */
import { KEY_USE_WRITE_MS } from "../limits.ts";

interface Use {
  usedMs: number;
  /** 0: never. */
  acceptedMs: number;
  /** When this was last written, by this object. */
  writtenMs: number;
}

export class KeyUse {
  readonly #sql: SqlStorage;
  readonly #uses = new Map<string, Use>();
  readonly #unwritten = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`CREATE TABLE IF NOT EXISTS key_use (
      key_id TEXT PRIMARY KEY, used_ms INTEGER NOT NULL, accepted_ms INTEGER NOT NULL) WITHOUT ROWID`);
    const rows = sql.exec<{ key_id: string; used_ms: number; accepted_ms: number }>("SELECT * FROM key_use");
    for (const { key_id, used_ms, accepted_ms } of rows) {
      this.#uses.set(key_id, { usedMs: used_ms, acceptedMs: accepted_ms, writtenMs: 0 });
    }
  }

  used(keyId: string, nowMs: number): void {
    this.#of(keyId).usedMs = nowMs;
  }

  accepted(keyId: string, nowMs: number): void {
    this.#of(keyId).acceptedMs = nowMs;
  }

  /** A row for each key of which none was written within the last minute. */
  writeDue(nowMs: number): void {
    for (const keyId of this.#unwritten) {
      const use = this.#of(keyId);
      // A clock that was set back keeps nothing from being written.
      if (Math.abs(nowMs - use.writtenMs) < KEY_USE_WRITE_MS) continue;
      this.#sql.exec("INSERT OR REPLACE INTO key_use VALUES (?, ?, ?)", keyId, use.usedMs, use.acceptedMs);
      use.writtenMs = nowMs;
      this.#unwritten.delete(keyId);
    }
  }

  /** Key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return Object.fromEntries(Array.from(this.#uses, ([keyId, { usedMs }]) => [keyId, usedMs]));
  }

  /** Null: no call of it was accepted so far. */
  lastAccepted(keyId: string): number | null {
    return this.#uses.get(keyId)?.acceptedMs || null;
  }

  #of(keyId: string): Use {
    this.#unwritten.add(keyId);
    const known = this.#uses.get(keyId);
    if (known !== undefined) return known;
    const use = { usedMs: 0, acceptedMs: 0, writtenMs: 0 };
    this.#uses.set(keyId, use);
    return use;
  }
}

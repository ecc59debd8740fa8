/**
 * What an admin wants to know of refused and accepted calls, besides the count: last used per key, the latest
 * rejections. Kept in memory and written at most once a second, so that a 429 costs no row and no wait; a crash loses
 * no more than that second of it.
 */
import { NOTES_FLUSH_MS, REJECTIONS_KEPT } from "../limits.ts";
import type { Rejection } from "./protocol.ts";

export class Notes {
  readonly #sql: SqlStorage;
  readonly #lastUsed = new Map<string, number>();
  readonly #usedSince = new Set<string>();
  #rejections: Rejection[] = [];
  #rejectedSince = false;
  readonly #alsoWrite: () => void;
  #timer = false;

  /** @param alsoWrite is called with every write, for what is no more urgent. */
  constructor(sql: SqlStorage, alsoWrite: () => void) {
    this.#sql = sql;
    this.#alsoWrite = alsoWrite;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS key_use (key_id TEXT PRIMARY KEY, last_used_ms INTEGER NOT NULL);
      CREATE TABLE IF NOT EXISTS rejections (id INTEGER PRIMARY KEY CHECK (id = 1), latest TEXT NOT NULL);`);
    for (const row of sql.exec<{ key_id: string; last_used_ms: number }>("SELECT * FROM key_use")) {
      this.#lastUsed.set(row.key_id, row.last_used_ms);
    }
    const saved = sql.exec<{ latest: string }>("SELECT latest FROM rejections").toArray()[0];
    if (saved !== undefined) this.#rejections = JSON.parse(saved.latest) as Rejection[];
  }

  used(keyId: string, nowMs: number): void {
    this.#lastUsed.set(keyId, nowMs);
    this.#usedSince.add(keyId);
    this.#writeSoon();
  }

  rejected(rejection: Rejection): void {
    this.#rejections.push(rejection);
    if (this.#rejections.length > 2 * REJECTIONS_KEPT) this.#rejections = this.#rejections.slice(-REJECTIONS_KEPT);
    this.#rejectedSince = true;
    this.#writeSoon();
  }

  lastUsed(): Record<string, number> {
    return Object.fromEntries(this.#lastUsed);
  }

  /** Newest first. */
  rejections(limit: number): Rejection[] {
    return this.#rejections.slice(-Math.min(limit, REJECTIONS_KEPT)).toReversed();
  }

  #writeSoon(): void {
    if (this.#timer) return;
    this.#timer = true;
    setTimeout(() => {
      this.#timer = false;
      this.#write();
      this.#alsoWrite();
    }, NOTES_FLUSH_MS);
  }

  #write(): void {
    for (const keyId of this.#usedSince) {
      this.#sql.exec("INSERT OR REPLACE INTO key_use VALUES (?, ?)", keyId, this.#lastUsed.get(keyId) ?? 0);
    }
    this.#usedSince.clear();
    if (this.#rejectedSince) {
      const latest = JSON.stringify(this.#rejections.slice(-REJECTIONS_KEPT));
      this.#sql.exec("INSERT OR REPLACE INTO rejections VALUES (1, ?)", latest);
      this.#rejectedSince = false;
    }
  }
}

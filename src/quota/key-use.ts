/**
 * When each key was last used, when a call of it was last accepted, and how many were on each day. Written along with what
 * is written anyway, by calls and by the alarm behind them, at most once a minute for each key. An object that ends in
 * between loses no more than that minute; the next one notices, for the ledger knows of every signal: "at least" is said of
 * the days on which that has happened.
 */
import type { CallDays } from "../domain/keys/call-days.ts";
import { addToDays, dayOf } from "../domain/quota/day-counts.ts";
import type { DayCounts } from "../domain/quota/day-counts.ts";

/** How often a key's last use is written at most: with a commit, or with refused calls. */
export const KEY_USE_WRITE_MS = 60_000;

interface Use {
  usedMs: number;
  /** When a call was last accepted; 0: never. */
  acceptedMs: number;
  /** When the key's row was last written. */
  writtenMs: number;
  /** Whether this object has written it since it started. */
  isWritten: boolean;
  /** Signals ever admitted with the key. */
  admitted: number;
  /** Calls of which something was accepted, by day; those of `day` are partly counted here. */
  calls: DayCounts;
  day: number;
  callsOfDay: number;
  /** How often calls may have been lost, by day. */
  lost: DayCounts;
}

/** What was admitted of a call, or of a slice of one. */
export interface AcceptedCall {
  keyId: string;
  calls: 0 | 1;
  signals: number;
}

interface KeyUseRow {
  [column: string]: SqlStorageValue;
  key_id: string;
  used_ms: number;
  accepted_ms: number;
  written_ms: number;
  admitted: number;
  calls: string;
  lost: string;
}

export class KeyUse {
  readonly #sql: SqlStorage;
  readonly #uses = new Map<string, Use>();
  readonly #unwritten = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`CREATE TABLE IF NOT EXISTS key_use (
      key_id TEXT PRIMARY KEY, used_ms INTEGER NOT NULL, accepted_ms INTEGER NOT NULL, written_ms INTEGER NOT NULL,
      admitted INTEGER NOT NULL, calls TEXT NOT NULL, lost TEXT NOT NULL) WITHOUT ROWID`);
    for (const row of sql.exec<KeyUseRow>("SELECT * FROM key_use")) {
      const { key_id, used_ms: usedMs, accepted_ms: acceptedMs, written_ms: writtenMs, admitted, calls, lost } = row;
      this.#uses.set(key_id, { ...NEVER, usedMs, acceptedMs, writtenMs, isWritten: false, admitted, calls, lost });
    }
  }

  /**
   * Compares what is known of the keys with what the ledger has counted: what is missing was not written when the last
   * object ended, of keys that had been written less than a minute before.
   *
   * @param admitted signals that the ledger has ever counted.
   */
  noteLost(admitted: number): void {
    const uses = [...this.#uses.values()];
    const missing = admitted - uses.reduce((sum, use) => sum + use.admitted, 0);
    if (missing <= 0) return;
    const lastMs = Math.max(...uses.map(({ writtenMs }) => writtenMs));
    let unknown = missing;
    for (const [keyId, use] of this.#uses) {
      if (use.writtenMs <= lastMs - KEY_USE_WRITE_MS) continue;
      use.lost = addToDays(
        use.lost,
        new Map([use.writtenMs, use.writtenMs + KEY_USE_WRITE_MS].map((ms) => [dayOf(ms), 1])),
      );
      // Whose signals they were is not known. They are counted here, so that they are missed only once.
      use.admitted += unknown;
      unknown = 0;
      this.#unwritten.add(keyId);
    }
  }

  used(keyId: string, nowMs: number): void {
    this.#of(keyId).usedMs = nowMs;
  }

  accepted({ keyId, calls, signals }: AcceptedCall, nowMs: number): void {
    const use = this.#of(keyId);
    use.acceptedMs = nowMs;
    use.admitted += signals;
    const day = dayOf(nowMs);
    if (day !== use.day) {
      addUp(use);
      use.day = day;
    }
    use.callsOfDay += calls;
  }

  /** Writes a row for each key that was used and whose row was not written within the last minute. */
  writeDue(nowMs: number): void {
    for (const keyId of this.#unwritten) {
      const use = this.#of(keyId);
      // A clock that was set back keeps nothing from being written.
      if (use.isWritten && Math.abs(nowMs - use.writtenMs) < KEY_USE_WRITE_MS) continue;
      addUp(use);
      const { usedMs, acceptedMs, admitted, calls, lost } = use;
      const values = [keyId, usedMs, acceptedMs, nowMs, admitted, calls, lost];
      this.#sql.exec("INSERT OR REPLACE INTO key_use VALUES (?, ?, ?, ?, ?, ?, ?)", ...values);
      use.writtenMs = nowMs;
      use.isWritten = true;
      this.#unwritten.delete(keyId);
    }
  }

  /** When each key was last used: key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return Object.fromEntries(Array.from(this.#uses, ([keyId, { usedMs }]) => [keyId, usedMs]));
  }

  /** When a call of the key was last accepted, in milliseconds since 1970; null: none was so far. */
  lastAccepted(keyId: string): number | null {
    return this.#uses.get(keyId)?.acceptedMs || null;
  }

  callDays(keyId: string): CallDays {
    const use = this.#uses.get(keyId);
    if (use === undefined) return { calls: "", lost: "" };
    addUp(use);
    return { calls: use.calls, lost: use.lost };
  }

  #of(keyId: string): Use {
    this.#unwritten.add(keyId);
    const known = this.#uses.get(keyId);
    if (known !== undefined) return known;
    const use = { ...NEVER };
    this.#uses.set(keyId, use);
    return use;
  }
}

const NEVER: Use = {
  usedMs: 0,
  acceptedMs: 0,
  writtenMs: 0,
  isWritten: false,
  admitted: 0,
  calls: "",
  day: 0,
  callsOfDay: 0,
  lost: "",
};

/** Adds the day's own count to the days. It is a plain number until then, so that a call does no more than add one. */
function addUp(use: Use): void {
  if (use.callsOfDay === 0) return;
  use.calls = addToDays(use.calls, new Map([[use.day, use.callsOfDay]]));
  use.callsOfDay = 0;
}

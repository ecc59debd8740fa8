/** API keys: deactivated keys, request rates, calls by day. */
import { dayOf } from "../domain/duration.ts";
import {
  FULL_BUCKET,
  takeRequest,
  type RateBucket,
  type RateDecision,
  type RequestRate,
} from "../domain/quota/request-rate.ts";
import { DAYS_COUNTED } from "../limits.ts";
import type { KeyCalls } from "./protocol.ts";

/** Deactivated keys (design §5). A key is added before its deactivation returns, and never removed. */
export class RevokedKeys {
  readonly #sql: SqlStorage;
  readonly #ids = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS revoked_keys (key_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID");
    for (const row of sql.exec<{ key_id: string }>("SELECT key_id FROM revoked_keys")) this.#ids.add(row.key_id);
  }

  has(keyId: string): boolean {
    return this.#ids.has(keyId);
  }

  all(): { keyId: string; atMs: number }[] {
    return this.#sql
      .exec<{ keyId: string; atMs: number }>("SELECT key_id AS keyId, at_ms AS atMs FROM revoked_keys")
      .toArray();
  }

  /** @returns the number of keys that were not revoked before. */
  add(keyIds: readonly string[], atMs: number): number {
    const added = keyIds.filter((keyId) => !this.#ids.has(keyId));
    this.#sql.exec("INSERT OR IGNORE INTO revoked_keys SELECT value, ? FROM json_each(?)", atMs, JSON.stringify(added));
    for (const keyId of added) this.#ids.add(keyId);
    return added.length;
  }
}

/** In memory only: an object that was idle long enough to be evicted has full buckets anyway. */
export class RequestBuckets {
  readonly #rate: RequestRate;
  readonly #buckets = new Map<string, RateBucket>();

  constructor(rate: RequestRate) {
    this.#rate = rate;
  }

  take(keyId: string, nowMs: number, requests = 1): RateDecision {
    const decision = takeRequest(this.#buckets.get(keyId) ?? FULL_BUCKET, nowMs, this.#rate, requests);
    this.#buckets.set(keyId, decision.bucket);
    return decision;
  }
}

/** Keys with stored statistics, those with the latest calls: ten times as many as can be active. */
export const CALL_KEYS_KEPT = 1_000;

interface KeyDay {
  keyId: string;
  /** Days since 1970, UTC. */
  day: number;
  /** Calls with an accepted signal. A partly refused call also counts as refused. */
  accepted: number;
  refused: number;
  /** The last call with the right secret; 0: none. */
  usedMs: number;
  acceptedMs: number;
}

/** A row of a new day takes over the times of the days before. */
const ADD_TO_DAY = `ON CONFLICT (key_id, day) DO UPDATE SET
  accepted = accepted + excluded.accepted, refused = refused + excluded.refused,
  used_ms = max(used_ms, excluded.used_ms), accepted_ms = max(accepted_ms, excluded.accepted_ms)`;

/** New counts stay in memory until the alarm writes them, within a minute. A crash loses only these statistics. */
export class CallsByDay {
  readonly #storage: DurableObjectStorage;
  readonly #unwritten = new Map<string, KeyDay>();

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    storage.sql.exec(`CREATE TABLE IF NOT EXISTS calls (
      key_id TEXT NOT NULL, day INTEGER NOT NULL, accepted INTEGER NOT NULL, refused INTEGER NOT NULL,
      used_ms INTEGER NOT NULL, accepted_ms INTEGER NOT NULL, PRIMARY KEY (key_id, day)) WITHOUT ROWID`);
  }

  /** The call had the right secret. */
  used(keyId: string, nowMs: number): void {
    const day = this.#unwrittenOf(keyId, nowMs);
    day.usedMs = Math.max(day.usedMs, nowMs);
  }

  accepted(keyId: string, nowMs: number): void {
    const day = this.#unwrittenOf(keyId, nowMs);
    day.accepted++;
    day.acceptedMs = Math.max(day.acceptedMs, nowMs);
  }

  refused(keyId: string, calls: number, atMs: number): void {
    this.#unwrittenOf(keyId, atMs).refused += calls;
  }

  lastUsed(): Record<string, number> {
    const stored = this.#storage.sql.exec<{ keyId: string; usedMs: number }>(
      "SELECT key_id AS keyId, max(used_ms) AS usedMs FROM calls GROUP BY key_id",
    );
    const lastUsed: Record<string, number> = {};
    for (const { keyId, usedMs } of [...stored, ...this.#unwritten.values()]) {
      if (usedMs > (lastUsed[keyId] ?? 0)) lastUsed[keyId] = usedMs;
    }
    return lastUsed;
  }

  ofKey(keyId: string): Omit<KeyCalls, "rejections"> {
    const stored = this.#storage.sql.exec<Omit<KeyDay, "keyId">>(
      `SELECT day, accepted, refused, used_ms AS usedMs, accepted_ms AS acceptedMs FROM calls WHERE key_id = ?`,
      keyId,
    );
    const unwritten = [...this.#unwritten.values()].filter((day) => day.keyId === keyId);
    const calls: Omit<KeyCalls, "rejections"> = { usedMs: null, acceptedMs: null, days: {} };
    for (const { day, accepted, refused, usedMs, acceptedMs } of [...stored, ...unwritten]) {
      calls.usedMs = Math.max(calls.usedMs ?? 0, usedMs) || null;
      calls.acceptedMs = Math.max(calls.acceptedMs ?? 0, acceptedMs) || null;
      const sum = (calls.days[day] ??= { accepted: 0, refused: 0 });
      sum.accepted += accepted;
      sum.refused += refused;
    }
    return calls;
  }

  /** @throws if nothing could be written; the counts stay in memory. */
  write(): void {
    if (this.#unwritten.size === 0) return;
    this.#storage.transactionSync(() => this.#writeDays(this.#storage.sql));
    this.#unwritten.clear();
  }

  #writeDays(sql: SqlStorage): void {
    let hasNewKey = false;
    for (const { keyId, day, accepted, refused, usedMs, acceptedMs } of this.#unwritten.values()) {
      const before = sql
        .exec<{ days: number; usedMs: number; acceptedMs: number }>(
          `SELECT count(*) AS days, ifnull(max(used_ms), 0) AS usedMs, ifnull(max(accepted_ms), 0) AS acceptedMs
           FROM calls WHERE key_id = ?`,
          keyId,
        )
        .one();
      hasNewKey ||= before.days === 0;
      const times = [Math.max(before.usedMs, usedMs), Math.max(before.acceptedMs, acceptedMs)];
      sql.exec(`INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?) ${ADD_TO_DAY}`, keyId, day, accepted, refused, ...times);
      sql.exec("DELETE FROM calls WHERE key_id = ? AND day <= ?", keyId, day - DAYS_COUNTED);
    }
    if (!hasNewKey) return;
    sql.exec(
      `DELETE FROM calls WHERE key_id IN (
         SELECT key_id FROM calls GROUP BY key_id ORDER BY max(day) DESC, max(used_ms) DESC LIMIT -1 OFFSET ?)`,
      CALL_KEYS_KEPT,
    );
  }

  #unwrittenOf(keyId: string, atMs: number): KeyDay {
    const day = dayOf(atMs);
    const name = `${keyId} ${day}`;
    const known = this.#unwritten.get(name);
    if (known !== undefined) return known;
    const added = { keyId, day, accepted: 0, refused: 0, usedMs: 0, acceptedMs: 0 };
    this.#unwritten.set(name, added);
    return added;
  }
}

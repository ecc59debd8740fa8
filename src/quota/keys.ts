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
import { errorText, logEvent } from "../platform/log.ts";
import type { CounterNotifications } from "./ledger.ts";
import type { BrowserUse, KeyCalls } from "./protocol.ts";

/** Deactivated keys. A key is added before its deactivation returns, and never removed. */
export class DeactivatedKeys {
  readonly #sql: SqlStorage;
  readonly #ids = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    for (const row of sql.exec<{ key_id: string }>("SELECT key_id FROM deactivated_keys")) this.#ids.add(row.key_id);
  }

  has(keyId: string): boolean {
    return this.#ids.has(keyId);
  }

  all(): { keyId: string; atMs: number }[] {
    return this.#sql
      .exec<{ keyId: string; atMs: number }>("SELECT key_id AS keyId, at_ms AS atMs FROM deactivated_keys")
      .toArray();
  }

  /** @returns the number of keys that were not deactivated before. */
  add(keyIds: readonly string[], atMs: number): number {
    const added = keyIds.filter((keyId) => !this.#ids.has(keyId));
    this.#sql.exec(
      "INSERT OR IGNORE INTO deactivated_keys SELECT value, ? FROM json_each(?)",
      atMs,
      JSON.stringify(added),
    );
    for (const keyId of added) this.#ids.add(keyId);
    return added.length;
  }
}

/**
 * When a rotation ends a key. The edge knows it from D1; only while D1 is away, it has to ask here. Written before the rotation in D1, so
 * that no older copy of the key outlives it.
 */
export class KeyEnds {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  hasEnded(keyId: string, nowMs: number): boolean {
    return this.#sql.exec("SELECT 1 FROM key_ends WHERE key_id = ? AND end_ms <= ?", keyId, nowMs).toArray().length > 0;
  }

  /** An earlier end stays. @returns the end before; null: none. */
  add(keyId: string, endMs: number): number | null {
    const [before] = this.#sql.exec<{ end_ms: number }>("SELECT end_ms FROM key_ends WHERE key_id = ?", keyId);
    this.#sql.exec(
      "INSERT INTO key_ends VALUES (?, ?) ON CONFLICT (key_id) DO UPDATE SET end_ms = min(end_ms, excluded.end_ms)",
      keyId,
      endMs,
    );
    return before?.end_ms ?? null;
  }

  /** The rotation has failed: the key has its end `beforeMs` again. Another rotation may have moved the end. */
  takeBack(keyId: string, endMs: number, beforeMs: number | null): void {
    if (beforeMs === null) this.#sql.exec("DELETE FROM key_ends WHERE key_id = ? AND end_ms = ?", keyId, endMs);
    else this.#sql.exec("UPDATE key_ends SET end_ms = ? WHERE key_id = ? AND end_ms = ?", beforeMs, keyId, endMs);
  }
}

/** Keys that a browser has used: whoever opens the page can read them. The first call costs a row, later ones nothing. */
export class PublicKeys {
  readonly #storage: DurableObjectStorage;
  readonly #notifications: CounterNotifications;
  readonly #uses = new Map<string, BrowserUse>();

  constructor(storage: DurableObjectStorage, notifications: CounterNotifications) {
    this.#storage = storage;
    this.#notifications = notifications;
    const rows = storage.sql.exec<{ key_id: string; origin: string; at_ms: number }>("SELECT * FROM public_keys");
    for (const { key_id: keyId, origin, at_ms: atMs } of rows) this.#uses.set(keyId, { origin, atMs });
  }

  get(keyId: string): BrowserUse | null {
    return this.#uses.get(keyId) ?? null;
  }

  all(): Record<string, BrowserUse> {
    return Object.fromEntries(this.#uses);
  }

  /** Notifies once, with the first call. @param origin undefined: no browser made the call. */
  note(keyId: string, origin: string | undefined, atMs: number): void {
    if (origin === undefined || this.#uses.has(keyId)) return;
    try {
      this.#storage.transactionSync(() => {
        this.#storage.sql.exec("INSERT INTO public_keys (key_id, origin, at_ms) VALUES (?, ?, ?)", keyId, origin, atMs);
        this.#notifications.raisePublicKey(keyId, origin, atMs);
      });
    } catch (error) {
      // The next call of a browser tries again; this one is decided without it.
      this.#notifications.raised.reload();
      logEvent("public_key_not_noted", { key: keyId, error: errorText(error) });
      return;
    }
    this.#uses.set(keyId, { origin, atMs });
    this.#notifications.forwarding.start();
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
  /** Calls with an accepted signal. A partly rejected call also counts as rejected. */
  accepted: number;
  rejected: number;
  /** The last call with the right secret; 0: none. */
  usedMs: number;
  acceptedMs: number;
}

/** A row of a new day takes over the times of the days before. */
const ADD_TO_DAY = `ON CONFLICT (key_id, day) DO UPDATE SET
  accepted = accepted + excluded.accepted, rejected = rejected + excluded.rejected,
  used_ms = max(used_ms, excluded.used_ms), accepted_ms = max(accepted_ms, excluded.accepted_ms)`;

/** New counts stay in memory until the alarm writes them, within a minute. A crash loses only these statistics. */
export class CallsByDay {
  readonly #storage: DurableObjectStorage;
  readonly #unwritten = new Map<string, KeyDay>();

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
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

  rejected(keyId: string, calls: number, atMs: number): void {
    this.#unwrittenOf(keyId, atMs).rejected += calls;
  }

  lastUsed(): Record<string, number> {
    return this.#latest("used_ms", ({ usedMs }) => usedMs);
  }

  /** The last call with an accepted signal, by key. */
  lastAccepted(): Record<string, number> {
    return this.#latest("accepted_ms", ({ acceptedMs }) => acceptedMs);
  }

  #latest(column: "used_ms" | "accepted_ms", timeOf: (day: KeyDay) => number): Record<string, number> {
    const stored = this.#storage.sql.exec<{ keyId: string; atMs: number }>(
      `SELECT key_id AS keyId, max(${column}) AS atMs FROM calls GROUP BY key_id`,
    );
    const unwritten = [...this.#unwritten.values()].map((day) => ({ keyId: day.keyId, atMs: timeOf(day) }));
    const latest: Record<string, number> = {};
    for (const { keyId, atMs } of [...stored, ...unwritten]) {
      if (atMs > (latest[keyId] ?? 0)) latest[keyId] = atMs;
    }
    return latest;
  }

  ofKey(keyId: string): Omit<KeyCalls, "rejections" | "browser"> {
    const stored = this.#storage.sql.exec<Omit<KeyDay, "keyId">>(
      `SELECT day, accepted, rejected, used_ms AS usedMs, accepted_ms AS acceptedMs FROM calls WHERE key_id = ?`,
      keyId,
    );
    const unwritten = [...this.#unwritten.values()].filter((day) => day.keyId === keyId);
    const calls: Omit<KeyCalls, "rejections" | "browser"> = { usedMs: null, acceptedMs: null, days: {} };
    for (const { day, accepted, rejected, usedMs, acceptedMs } of [...stored, ...unwritten]) {
      calls.usedMs = Math.max(calls.usedMs ?? 0, usedMs) || null;
      calls.acceptedMs = Math.max(calls.acceptedMs ?? 0, acceptedMs) || null;
      const sum = (calls.days[day] ??= { accepted: 0, rejected: 0 });
      sum.accepted += accepted;
      sum.rejected += rejected;
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
    for (const { keyId, day, accepted, rejected, usedMs, acceptedMs } of this.#unwritten.values()) {
      const before = sql
        .exec<{ days: number; usedMs: number; acceptedMs: number }>(
          `SELECT count(*) AS days, ifnull(max(used_ms), 0) AS usedMs, ifnull(max(accepted_ms), 0) AS acceptedMs
           FROM calls WHERE key_id = ?`,
          keyId,
        )
        .one();
      hasNewKey ||= before.days === 0;
      const times = [Math.max(before.usedMs, usedMs), Math.max(before.acceptedMs, acceptedMs)];
      sql.exec(`INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?) ${ADD_TO_DAY}`, keyId, day, accepted, rejected, ...times);
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
    const added = { keyId, day, accepted: 0, rejected: 0, usedMs: 0, acceptedMs: 0 };
    this.#unwritten.set(name, added);
    return added;
  }
}

/**
 * Statistics of calls, besides the quota: calls of each key by day, and refused calls by reason. New counts stay in memory
 * until the alarm writes them, at most a minute later. A crash loses the statistics of that minute, but no signal and no
 * quota count.
 */
import { addRejection, forgetOld, type RefusedCalls, type Rejection } from "../domain/keys/refusal.ts";
import { dayOf } from "../domain/quota/day-counts.ts";
import { DAYS_COUNTED, REJECTIONS_KEPT } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import type { CounterNews } from "./counter-news.ts";
import type { KeyCalls } from "./protocol.ts";

/**
 * Number of keys with stored statistics; the keys with the oldest calls are dropped. Ten times as many as can be active. A
 * key has at most 31 rows.
 */
export const CALL_KEYS_KEPT = 1_000;
/** Number of remembered request ids. It exceeds the number of calls whose slices arrive at the same time. */
const CALLS_REMEMBERED = 1_000;

interface KeyDay {
  keyId: string;
  /** Days since 1970, UTC. */
  day: number;
  /** Calls with at least one accepted signal. A partly refused call also counts as refused. */
  accepted: number;
  refused: number;
  /** Time of the last call with the right secret, and of the last accepted call; 0: never. */
  usedMs: number;
  acceptedMs: number;
}

export interface AcceptedCall {
  keyId: string;
  /** 0 for a later slice of a call, so that the call counts once. */
  calls: 0 | 1;
}

interface CallCountsOptions {
  workspaceId: string;
  news: CounterNews;
  /** Called after refusals. The receiver schedules a write and sends raised notifications. */
  changed: (nowMs: number) => void;
}

/** A key's row of a new day takes over the last times of the days before. */
const ADD_TO_DAY = `ON CONFLICT (key_id, day) DO UPDATE SET
  accepted = accepted + excluded.accepted, refused = refused + excluded.refused,
  used_ms = max(used_ms, excluded.used_ms), accepted_ms = max(accepted_ms, excluded.accepted_ms)`;

export class CallCounts {
  readonly #storage: DurableObjectStorage;
  readonly #options: CallCountsOptions;
  /** Counts that the rows in `calls` do not contain yet, by key and day. */
  readonly #unwrittenDays = new Map<string, KeyDay>();
  /** All entries of `refusals`, ordered by their first call. */
  readonly #rejections: Rejection[];
  readonly #unwrittenRejections = new Set<Rejection>();
  /** Entries that have a row. */
  #storedRejections: ReadonlySet<Rejection>;
  /** Request ids of recently refused calls. A call that is refused for several reasons counts once. */
  readonly #refusedCalls = new Lru<string, true>(CALLS_REMEMBERED);

  constructor(storage: DurableObjectStorage, options: CallCountsOptions) {
    this.#storage = storage;
    this.#options = options;
    createTables(storage.sql);
    this.#rejections = readRejections(storage.sql);
    this.#storedRejections = new Set(this.#rejections);
  }

  /** Records that a call had the right secret. */
  used(keyId: string, nowMs: number): void {
    const day = this.#dayOf(keyId, nowMs);
    day.usedMs = Math.max(day.usedMs, nowMs);
  }

  /** Counts calls, accepted or refused, to find bursts of refusals. */
  called(keyId: string, calls: number, nowMs: number): void {
    this.#options.news.called(keyId, calls, nowMs);
  }

  accepted(accepted: readonly AcceptedCall[], nowMs: number): void {
    for (const { keyId, calls } of accepted) {
      const day = this.#dayOf(keyId, nowMs);
      day.accepted += calls;
      day.acceptedMs = Math.max(day.acceptedMs, nowMs);
    }
  }

  refused(refused: readonly RefusedCalls[], nowMs: number): void {
    if (refused.length === 0) return;
    for (const entry of refused) {
      const calls = this.#refusedCalls.has(entry.requestId) ? 0 : entry.calls;
      this.#refusedCalls.set(entry.requestId, true);
      this.#unwrittenRejections.add(addRejection(this.#rejections, entry));
      this.#dayOf(entry.keyId, entry.lastAtMs).refused += calls;
      this.#raiseBurst(entry, calls, nowMs);
    }
    this.#options.changed(nowMs);
  }

  /** Writes all new counts. @throws if nothing could be written; the counts stay in memory. */
  write(nowMs: number): void {
    forgetOld(this.#rejections, nowMs);
    const kept = new Set(this.#rejections);
    this.#storage.transactionSync(() => {
      this.#writeDays();
      for (const entry of this.#storedRejections) if (!kept.has(entry)) deleteRejection(this.#storage.sql, entry);
      for (const entry of this.#unwrittenRejections) if (kept.has(entry)) writeRejection(this.#storage.sql, entry);
    });
    this.#unwrittenDays.clear();
    this.#unwrittenRejections.clear();
    this.#storedRejections = kept;
  }

  /** Time of each key's last use: key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    const stored = this.#storage.sql.exec<{ keyId: string; usedMs: number }>(
      "SELECT key_id AS keyId, max(used_ms) AS usedMs FROM calls GROUP BY key_id",
    );
    const lastUsed: Record<string, number> = {};
    for (const { keyId, usedMs } of [...stored, ...this.#unwrittenDays.values()]) {
      if (usedMs > (lastUsed[keyId] ?? 0)) lastUsed[keyId] = usedMs;
    }
    return lastUsed;
  }

  keyCalls(keyId: string, nowMs: number): KeyCalls {
    const stored = this.#storage.sql.exec<Omit<KeyDay, "keyId">>(
      `SELECT day, accepted, refused, used_ms AS usedMs, accepted_ms AS acceptedMs FROM calls WHERE key_id = ?`,
      keyId,
    );
    const unwritten = [...this.#unwrittenDays.values()].filter((day) => day.keyId === keyId);
    const calls: KeyCalls = { usedMs: null, acceptedMs: null, rejections: [], days: {} };
    for (const { day, accepted, refused, usedMs, acceptedMs } of [...stored, ...unwritten]) {
      calls.usedMs = Math.max(calls.usedMs ?? 0, usedMs) || null;
      calls.acceptedMs = Math.max(calls.acceptedMs ?? 0, acceptedMs) || null;
      const sum = (calls.days[day] ??= { accepted: 0, refused: 0 });
      sum.accepted += accepted;
      sum.refused += refused;
    }
    calls.rejections = this.latestRejections(REJECTIONS_KEPT, nowMs).filter((entry) => entry.keyId === keyId);
    return calls;
  }

  /** Entries ordered by their last call, newest first. */
  latestRejections(limit: number, nowMs: number): Rejection[] {
    forgetOld(this.#rejections, nowMs);
    return this.#rejections
      .toReversed()
      .sort((a, b) => b.lastAtMs - a.lastAtMs)
      .slice(0, limit);
  }

  #dayOf(keyId: string, atMs: number): KeyDay {
    const day = dayOf(atMs);
    const name = `${keyId} ${day}`;
    const known = this.#unwrittenDays.get(name);
    if (known !== undefined) return known;
    const added = { keyId, day, accepted: 0, refused: 0, usedMs: 0, acceptedMs: 0 };
    this.#unwrittenDays.set(name, added);
    return added;
  }

  /** A notification that cannot be raised must not fail the call. */
  #raiseBurst(refused: RefusedCalls, calls: number, nowMs: number): void {
    const { workspaceId, news } = this.#options;
    try {
      news.refused(refused, calls, nowMs);
    } catch (error) {
      logEvent("refusals_burst_failed", { workspace: workspaceId, error: errorText(error) });
    }
  }

  #writeDays(): void {
    const { sql } = this.#storage;
    let hasNewKey = false;
    for (const { keyId, day, accepted, refused, usedMs, acceptedMs } of this.#unwrittenDays.values()) {
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
}

function readRejections(sql: SqlStorage): Rejection[] {
  const stored = sql.exec<Rejection & Record<string, SqlStorageValue>>(
    `SELECT key_id AS keyId, code, nullif(cause, '') AS cause, request_id AS requestId, detail, calls, signals,
       first_ms AS firstAtMs, last_ms AS lastAtMs
     FROM refusals`,
  );
  return stored.toArray().sort((a, b) => a.firstAtMs - b.firstAtMs);
}

function writeRejection(sql: SqlStorage, entry: Rejection): void {
  const { keyId, code, cause, requestId, detail, calls, signals, firstAtMs, lastAtMs } = entry;
  const values = [keyId, code, cause ?? "", requestId, detail, calls, signals, firstAtMs, lastAtMs];
  sql.exec("INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", ...values);
}

function deleteRejection(sql: SqlStorage, { keyId, code, cause, requestId }: Rejection): void {
  const name = [keyId, code, cause ?? "", requestId];
  sql.exec("DELETE FROM refusals WHERE key_id = ? AND code = ? AND cause = ? AND request_id = ?", ...name);
}

function createTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS calls (
      key_id TEXT NOT NULL, day INTEGER NOT NULL, accepted INTEGER NOT NULL, refused INTEGER NOT NULL,
      used_ms INTEGER NOT NULL, accepted_ms INTEGER NOT NULL, PRIMARY KEY (key_id, day)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS refusals (
      key_id TEXT NOT NULL, code TEXT NOT NULL, cause TEXT NOT NULL, request_id TEXT NOT NULL, detail TEXT NOT NULL,
      calls INTEGER NOT NULL, signals INTEGER NOT NULL, first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL,
      PRIMARY KEY (key_id, code, cause, request_id)) WITHOUT ROWID`);
}

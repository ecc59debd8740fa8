/** Rejected calls by reason, and bursts of them. New counts stay in memory until the alarm writes them. */
import type { NotificationData } from "../domain/notifications/notification-data.ts";
import { addRejection, forgetOld, type Rejection, type RejectionEntry } from "../domain/keys/rejection.ts";
import { storedDetail } from "../http/problem.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import type { PacedAlarm } from "../platform/alarm.ts";
import type { CounterNotifications } from "./ledger.ts";
import type { CallsByDay } from "./keys.ts";

/** More than the calls of a commit. Older request ids are forgotten. */
const CALLS_REMEMBERED = 1_000;

interface Parts {
  calls: CallsByDay;
  notifications: CounterNotifications;
  alarm: PacedAlarm;
}

export class Rejections {
  readonly #storage: DurableObjectStorage;
  readonly #parts: Parts;
  readonly #bursts = new RejectionBursts();
  readonly #entries: RejectionEntry[];
  readonly #unwritten = new Set<RejectionEntry>();
  /** Entries with a row in the table. */
  #stored: ReadonlySet<RejectionEntry>;
  /** Recent request ids: a call that is rejected for several reasons counts once. */
  readonly #rejectedCalls = new Lru<string, true>(CALLS_REMEMBERED);

  constructor(storage: DurableObjectStorage, parts: Parts) {
    this.#storage = storage;
    this.#parts = parts;
    this.#entries = readEntries(storage.sql);
    this.#stored = new Set(this.#entries);
  }

  countCalls(keyId: string, calls: number, nowMs: number): void {
    if (this.#parts.notifications.wants("rejections.burst")) this.#bursts.countCalls(keyId, calls, nowMs);
  }

  add(rejected: readonly RejectionEntry[], nowMs: number): void {
    if (rejected.length === 0) return;
    const { calls, notifications, alarm } = this.#parts;
    for (const entry of rejected) {
      const newCalls = this.#rejectedCalls.has(entry.requestId) ? 0 : entry.calls;
      this.#rejectedCalls.set(entry.requestId, true);
      this.#unwritten.add(addRejection(this.#entries, entry));
      calls.rejected(entry.keyId, newCalls, entry.lastAtMs);
      this.#notifyBurst(entry, newCalls, nowMs);
    }
    alarm.watch(nowMs);
    notifications.forwarding.start();
  }

  /** @throws if nothing could be written; the counts stay in memory. */
  write(nowMs: number): void {
    forgetOld(this.#entries, nowMs);
    const kept = new Set(this.#entries);
    this.#storage.transactionSync(() => {
      for (const entry of this.#stored) if (!kept.has(entry)) deleteEntry(this.#storage.sql, entry);
      for (const entry of this.#unwritten) if (kept.has(entry)) writeEntry(this.#storage.sql, entry);
    });
    this.#unwritten.clear();
    this.#stored = kept;
  }

  latest(limit: number, nowMs: number): RejectionEntry[] {
    forgetOld(this.#entries, nowMs);
    return this.#entries
      .toReversed()
      .sort((a, b) => b.lastAtMs - a.lastAtMs)
      .slice(0, limit);
  }

  /** A notification that cannot be raised must not fail the call. */
  #notifyBurst(entry: RejectionEntry, newCalls: number, nowMs: number): void {
    const { notifications } = this.#parts;
    if (!notifications.wants("rejections.burst")) return;
    try {
      const burst = this.#bursts.countRejected(entry, newCalls, nowMs);
      if (burst !== null) notifications.raiseBurst(burst, nowMs);
    } catch (error) {
      logEvent("rejections_burst_failed", { workspace: notifications.workspaceId, error: errorText(error) });
    }
  }
}

type Reason = Pick<RejectionEntry, "code" | "detail"> & Partial<Pick<RejectionEntry, "cause">>;

export function reasonOf(rejection: Rejection): Reason {
  return {
    code: rejection.code,
    cause: "cause" in rejection ? rejection.cause : null,
    detail: storedDetail(rejection),
  };
}

export function rejectedCall(
  { keyId, requestId }: { keyId: string; requestId: string },
  { code, cause = null, detail }: Reason,
  signals: number,
  atMs: number,
): RejectionEntry {
  return { keyId, requestId, code, cause, detail, calls: 1, signals, firstAtMs: atMs, lastAtMs: atMs };
}

function readEntries(sql: SqlStorage): RejectionEntry[] {
  const stored = sql.exec<RejectionEntry & Record<string, SqlStorageValue>>(
    `SELECT key_id AS keyId, code, nullif(cause, '') AS cause, request_id AS requestId, detail, calls, signals,
       first_ms AS firstAtMs, last_ms AS lastAtMs
     FROM rejections`,
  );
  return stored.toArray().sort((a, b) => a.firstAtMs - b.firstAtMs);
}

function writeEntry(sql: SqlStorage, entry: RejectionEntry): void {
  const { keyId, code, cause, requestId, detail, calls, signals, firstAtMs, lastAtMs } = entry;
  const values = [keyId, code, cause ?? "", requestId, detail, calls, signals, firstAtMs, lastAtMs];
  sql.exec("INSERT OR REPLACE INTO rejections VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", ...values);
}

function deleteEntry(sql: SqlStorage, { keyId, code, cause, requestId }: RejectionEntry): void {
  const name = [keyId, code, cause ?? "", requestId];
  sql.exec("DELETE FROM rejections WHERE key_id = ? AND code = ? AND cause = ? AND request_id = ?", ...name);
}

// Counts each key's calls of the last minutes, in memory. A restart loses the counts.

/** A burst: at least 20 rejected calls within 5 minutes, and more than a tenth of all calls. */
const REJECTION_BURST_MINUTES = 5;
export const REJECTION_BURST_CALLS = 20;
const REJECTION_BURST_SHARE = 10;
/** Minimum time between two notifications about the same key. */
export const REJECTION_BURST_QUIET_MS = 6 * 3_600_000;
/** Number of keys above which keys without recent calls are dropped. */
const REJECTION_BURST_KEYS = 1_000;

const MINUTE_MS = 60_000;

interface Minute {
  minute: number;
  calls: number;
  rejected: number;
  codes: Map<string, number>;
}

interface Key {
  /** The last minutes, as a ring buffer. */
  minutes: Minute[];
  quietUntilMs: number;
}

export class RejectionBursts {
  readonly #keys = new Map<string, Key>();

  countCalls(keyId: string, calls: number, nowMs: number): void {
    minuteOf(this.#keyOf(keyId, nowMs), nowMs).calls += calls;
  }

  /**
   * @returns the notification's data if the calls are a burst. @param newCalls those that no earlier entry has counted.
   */
  countRejected(
    { keyId, code, calls }: RejectionEntry,
    newCalls: number,
    nowMs: number,
  ): NotificationData["rejections.burst"] | null {
    const key = this.#keyOf(keyId, nowMs);
    const now = minuteOf(key, nowMs);
    now.codes.set(code, (now.codes.get(code) ?? 0) + calls);
    now.rejected += newCalls;
    if (nowMs < key.quietUntilMs) return null;
    const firstMinute = now.minute - REJECTION_BURST_MINUTES + 1;
    const latest = key.minutes.filter(({ minute }) => minute >= firstMinute);
    const sum = (count: "calls" | "rejected"): number => latest.reduce((total, minute) => total + minute[count], 0);
    const [allCalls, rejected] = [sum("calls"), sum("rejected")];
    if (rejected < REJECTION_BURST_CALLS || rejected * REJECTION_BURST_SHARE <= allCalls) return null;
    key.quietUntilMs = nowMs + REJECTION_BURST_QUIET_MS;
    const codes: Record<string, number> = {};
    for (const minute of latest) for (const [name, count] of minute.codes) codes[name] = (codes[name] ?? 0) + count;
    return {
      key_id: keyId,
      from: new Date(Math.min(...latest.map(({ minute }) => minute)) * MINUTE_MS).toISOString(),
      to: new Date(nowMs).toISOString(),
      calls: allCalls,
      rejected,
      codes,
    };
  }

  #keyOf(keyId: string, nowMs: number): Key {
    const known = this.#keys.get(keyId);
    if (known !== undefined) return known;
    if (this.#keys.size >= REJECTION_BURST_KEYS) this.#forgetSilent(nowMs);
    const key = { minutes: [], quietUntilMs: 0 };
    this.#keys.set(keyId, key);
    return key;
  }

  #forgetSilent(nowMs: number): void {
    const since = Math.floor(nowMs / MINUTE_MS) - REJECTION_BURST_MINUTES;
    for (const [keyId, { minutes, quietUntilMs }] of this.#keys) {
      const isSilent = minutes.every(({ minute }) => minute < since);
      if (isSilent && quietUntilMs <= nowMs) this.#keys.delete(keyId);
    }
  }
}

function minuteOf({ minutes }: Key, nowMs: number): Minute {
  const minute = Math.floor(nowMs / MINUTE_MS);
  const place = minute % REJECTION_BURST_MINUTES;
  const known = minutes[place];
  if (known?.minute === minute) return known;
  return (minutes[place] = { minute, calls: 0, rejected: 0, codes: new Map() });
}

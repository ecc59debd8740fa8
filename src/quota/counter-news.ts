/**
 * Notifications that the Quota Counter raises, if a destination subscribes to their type. Facts that are notified once (a
 * usage level, a delay) are part of the ledger row and saved with the notification.
 */
import type { EventData, EventType, WantedEvents, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import type { RefusedCalls } from "../domain/keys/refusal.ts";
import { ordinalsTaken } from "../domain/quota/quota.ts";
import { usageNews } from "../domain/quota/usage-news.ts";
import { newEvent, RaisedEvents } from "../notifications/raised-events.ts";
import type { EndedPeriod, Ledger } from "./ledger.ts";

const NONE: readonly WorkspaceEvent[] = [];
const NOTHING: WantedEvents = { types: [], thresholds: [] };

export class CounterNews {
  readonly #sql: SqlStorage;
  readonly raised: RaisedEvents;
  #wanted: ReadonlySet<EventType>;
  /** Whether the workspace has any destination, active or not. */
  hasDestinations: boolean;
  /** Null while no destination subscribes to bursts of refusals. */
  #bursts: RefusalBursts | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS raised_notifications (row INTEGER PRIMARY KEY, body TEXT NOT NULL);
      CREATE TABLE IF NOT EXISTS wanted_notifications (id INTEGER PRIMARY KEY CHECK (id = 1), wanted TEXT NOT NULL);`);
    this.raised = new RaisedEvents(sql);
    const [row] = sql.exec<{ wanted: string }>("SELECT wanted FROM wanted_notifications");
    const wanted = row === undefined ? NOTHING : (JSON.parse(row.wanted) as WantedEvents);
    this.#wanted = new Set(wanted.types);
    this.hasDestinations = hasDestinations(wanted);
    this.#countCalls();
  }

  wants(type: EventType): boolean {
    return this.#wanted.has(type);
  }

  want(wanted: WantedEvents): void {
    this.#sql.exec("INSERT OR REPLACE INTO wanted_notifications VALUES (1, ?)", JSON.stringify(wanted));
    this.#wanted = new Set(wanted.types);
    this.hasDestinations = hasDestinations(wanted);
    this.#countCalls();
  }

  /**
   * Returns the notifications that a change of the ledger causes, and marks them in the ledger. Runs in the transaction of
   * the change.
   */
  ofChange(before: Ledger, ledger: Ledger, closed: readonly EndedPeriod[], nowMs: number): readonly WorkspaceEvent[] {
    if (this.#wanted.size === 0) return NONE;
    const events: WorkspaceEvent[] = [];
    if (closed.length > 0 && this.wants("period.closed")) {
      for (const period of closed) events.push(newEvent("period.closed", closedPeriodData(period), nowMs));
    }
    if (this.wants("usage.level")) {
      const refusedBefore = closed.length > 0 ? 0 : before.rejected;
      const { notified, news } = usageNews({
        notified: ledger.notified,
        now: ledger,
        hasRefused: ledger.rejected > refusedBefore,
      });
      ledger.notified = notified;
      for (const level of news) events.push(newEvent("usage.level", usageLevelData(level, ledger), nowMs));
    }
    return events;
  }

  called(keyId: string, calls: number, nowMs: number): void {
    this.#bursts?.called(keyId, calls, nowMs);
  }

  /**
   * Counts refused calls, which `called` has also counted, and raises a notification for a burst.
   * @param newCalls calls that no earlier entry has counted.
   */
  refused(calls: RefusedCalls, newCalls: number, nowMs: number): void {
    const burst = this.#bursts?.refused(calls, newCalls, nowMs) ?? null;
    if (burst !== null) this.raised.raise([newEvent("refusals.burst", burst, nowMs)]);
  }

  #countCalls(): void {
    this.#bursts = this.wants("refusals.burst") ? (this.#bursts ?? new RefusalBursts()) : null;
  }
}

function hasDestinations({ destinations, types }: WantedEvents): boolean {
  return (destinations ?? types.length) > 0;
}

function usageLevelData(level: EventData["usage.level"]["level"], ledger: Ledger): EventData["usage.level"] {
  return {
    level,
    used: ordinalsTaken(ledger),
    signal_limit: ledger.signalLimit,
    overages: ledger.overages,
    ...span(ledger),
  };
}

function closedPeriodData(period: EndedPeriod): EventData["period.closed"] {
  return {
    ...span(period),
    signal_limit: period.signalLimit,
    overages: period.overages,
    accepted: period.accepted,
    held: period.held,
    rejected: period.rejected,
    overage: period.overage,
    streak: period.streak,
    extra_room_removed: period.extraRoomRemoved,
  };
}

function span({ periodStartMs, periodEndMs }: Pick<Ledger, "periodStartMs" | "periodEndMs">) {
  return { period_start: new Date(periodStartMs).toISOString(), period_end: new Date(periodEndMs).toISOString() };
}

// Finds bursts of refusals by counting each key's calls of the last minutes, in memory. A restart loses these counts.

/**
 * A burst: at least REFUSAL_BURST_CALLS refused calls within REFUSAL_BURST_MINUTES, and at least one in REFUSAL_BURST_SHARE
 * of all calls.
 */
const REFUSAL_BURST_MINUTES = 5;
export const REFUSAL_BURST_CALLS = 20;
const REFUSAL_BURST_SHARE = 10;
/** Minimum time between two notifications about the same key. */
export const REFUSAL_BURST_QUIET_MS = 6 * 3_600_000;
/** Maximum number of keys with counts; when it is reached, keys without recent calls are dropped. */
const REFUSAL_BURST_KEYS = 1_000;

const MINUTE_MS = 60_000;

interface Minute {
  /** Minutes since 1970. */
  minute: number;
  calls: number;
  refused: number;
  codes: Map<string, number>;
}

interface Key {
  /** The last minutes, as a ring. */
  minutes: Minute[];
  quietUntilMs: number;
}

export class RefusalBursts {
  readonly #keys = new Map<string, Key>();

  called(keyId: string, calls: number, nowMs: number): void {
    minuteOf(this.#of(keyId, nowMs), nowMs).calls += calls;
  }

  /**
   * Counts refused calls, which `called` has also counted. Returns the notification's data if they are a burst.
   * @param newCalls calls that no earlier entry has counted: one call may be listed for several reasons.
   */
  refused({ keyId, code, calls }: RefusedCalls, newCalls: number, nowMs: number): EventData["refusals.burst"] | null {
    const key = this.#of(keyId, nowMs);
    const now = minuteOf(key, nowMs);
    now.codes.set(code, (now.codes.get(code) ?? 0) + calls);
    now.refused += newCalls;
    if (nowMs < key.quietUntilMs) return null;
    const firstMinute = now.minute - REFUSAL_BURST_MINUTES + 1;
    const latest = key.minutes.filter(({ minute }) => minute >= firstMinute);
    const sum = (count: "calls" | "refused"): number => latest.reduce((total, minute) => total + minute[count], 0);
    const [allCalls, refused] = [sum("calls"), sum("refused")];
    if (refused < REFUSAL_BURST_CALLS || refused * REFUSAL_BURST_SHARE <= allCalls) return null;
    key.quietUntilMs = nowMs + REFUSAL_BURST_QUIET_MS;
    const codes: Record<string, number> = {};
    for (const minute of latest) for (const [name, count] of minute.codes) codes[name] = (codes[name] ?? 0) + count;
    return {
      key_id: keyId,
      from: new Date(Math.min(...latest.map(({ minute }) => minute)) * MINUTE_MS).toISOString(),
      to: new Date(nowMs).toISOString(),
      calls: allCalls,
      refused,
      codes,
    };
  }

  #of(keyId: string, nowMs: number): Key {
    const known = this.#keys.get(keyId);
    if (known !== undefined) return known;
    if (this.#keys.size >= REFUSAL_BURST_KEYS) this.#forgetSilent(nowMs);
    const key = { minutes: [], quietUntilMs: 0 };
    this.#keys.set(keyId, key);
    return key;
  }

  #forgetSilent(nowMs: number): void {
    const since = Math.floor(nowMs / MINUTE_MS) - REFUSAL_BURST_MINUTES;
    for (const [keyId, { minutes, quietUntilMs }] of this.#keys) {
      const isSilent = minutes.every(({ minute }) => minute < since);
      if (isSilent && quietUntilMs <= nowMs) this.#keys.delete(keyId);
    }
  }
}

function minuteOf({ minutes }: Key, nowMs: number): Minute {
  const minute = Math.floor(nowMs / MINUTE_MS);
  const place = minute % REFUSAL_BURST_MINUTES;
  const known = minutes[place];
  if (known?.minute === minute) return known;
  return (minutes[place] = { minute, calls: 0, refused: 0, codes: new Map() });
}

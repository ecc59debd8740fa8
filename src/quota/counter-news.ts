/**
 * What the Quota Counter raises, as far as somebody wants to be told. What is told once (a level of usage, a delay) stands
 * in the ledger, which is saved with the event: so a commit that raises nothing costs nothing more.
 */
import { ordinalsTaken } from "../domain/quota/quota.ts";
import type { EventData, EventType, WantedEvents, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { usageNews } from "../domain/quota/usage-news.ts";
import { RaisedEvents, newEvent } from "../events/raised-events.ts";
import type { RefusedCalls } from "../domain/keys/rejection.ts";
import type { EndedPeriod, Ledger } from "./ledger.ts";
import { RefusalBursts } from "./refusal-bursts.ts";

const NONE: readonly WorkspaceEvent[] = [];
const NOTHING: WantedEvents = { types: [], thresholds: [] };

export class CounterNews {
  readonly #sql: SqlStorage;
  readonly raised: RaisedEvents;
  #wanted: ReadonlySet<EventType>;
  /** Whether the workspace has destinations, in whatever state. */
  hasDestinations: boolean;
  /** The calls of each key, to find bursts of refusals; null while nobody wants to know of them. */
  #bursts: RefusalBursts | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS raised_events (row INTEGER PRIMARY KEY, body TEXT NOT NULL);
      CREATE TABLE IF NOT EXISTS wanted_events (id INTEGER PRIMARY KEY CHECK (id = 1), wanted TEXT NOT NULL);`);
    this.raised = new RaisedEvents(sql);
    const [row] = sql.exec<{ wanted: string }>("SELECT wanted FROM wanted_events");
    const wanted = row === undefined ? NOTHING : (JSON.parse(row.wanted) as WantedEvents);
    this.#wanted = new Set(wanted.types);
    this.hasDestinations = hasDestinations(wanted);
    this.#countCalls();
  }

  wants(type: EventType): boolean {
    return this.#wanted.has(type);
  }

  want(wanted: WantedEvents): void {
    this.#sql.exec("INSERT OR REPLACE INTO wanted_events VALUES (1, ?)", JSON.stringify(wanted));
    this.#wanted = new Set(wanted.types);
    this.hasDestinations = hasDestinations(wanted);
    this.#countCalls();
  }

  /** The events of a change of the ledger, in its transaction. What is told once is noted in the ledger. */
  ofChange(before: Ledger, ledger: Ledger, closed: readonly EndedPeriod[], nowMs: number): readonly WorkspaceEvent[] {
    if (this.#wanted.size === 0) return NONE;
    const events: WorkspaceEvent[] = [];
    if (closed.length > 0 && this.wants("period.closed")) {
      for (const period of closed) events.push(newEvent("period.closed", closedPeriodData(period), nowMs));
    }
    if (this.wants("usage.level")) {
      const refusedBefore = closed.length > 0 ? 0 : before.rejected;
      const { told, news } = usageNews({ told: ledger.told, now: ledger, hasRefused: ledger.rejected > refusedBefore });
      ledger.told = told;
      for (const level of news) events.push(newEvent("usage.level", usageLevelData(level, ledger), nowMs));
    }
    return events;
  }

  called(keyId: string, calls: number, nowMs: number): void {
    this.#bursts?.called(keyId, calls, nowMs);
  }

  /**
   * Counts refused calls, of which `called` was told too, and raises a burst where they make one.
   *
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

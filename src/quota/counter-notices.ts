/**
 * Notifications that the Quota Counter raises, if a destination subscribes to their type. Facts that are notified once (a
 * usage level, a delay) are part of the ledger row and saved with the notification.
 */
import type { EventData, EventType, WantedEvents, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { ordinalsTaken } from "../domain/quota/quota.ts";
import { usageNews } from "../domain/quota/usage-news.ts";
import { HandOn, type HandOnOptions, newEvent, RaisedEvents } from "../notifications/raised-events.ts";
import type { EndedPeriod, Ledger } from "./ledger.ts";

const NOTHING: WantedEvents = { types: [], thresholds: [] };

export class CounterNotices {
  readonly workspaceId: string;
  readonly raised: RaisedEvents;
  readonly handOn: HandOn;
  readonly #sql: SqlStorage;
  #wanted: WantedEvents;

  constructor(sql: SqlStorage, options: HandOnOptions) {
    this.#sql = sql;
    this.workspaceId = options.workspaceId;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS raised_notifications (row INTEGER PRIMARY KEY, body TEXT NOT NULL);
      CREATE TABLE IF NOT EXISTS wanted_notifications (id INTEGER PRIMARY KEY CHECK (id = 1), wanted TEXT NOT NULL);`);
    this.raised = new RaisedEvents(sql);
    this.handOn = new HandOn(this.raised, options);
    const [row] = sql.exec<{ wanted: string }>("SELECT wanted FROM wanted_notifications");
    this.#wanted = row === undefined ? NOTHING : (JSON.parse(row.wanted) as WantedEvents);
  }

  wants(type: EventType): boolean {
    return this.#wanted.types.includes(type);
  }

  /** Whether the workspace has any destination, active or not. */
  get hasDestinations(): boolean {
    const { destinations, types } = this.#wanted;
    return (destinations ?? types.length) > 0;
  }

  want(wanted: WantedEvents): void {
    this.#sql.exec("INSERT OR REPLACE INTO wanted_notifications VALUES (1, ?)", JSON.stringify(wanted));
    this.#wanted = wanted;
  }

  raiseBurst(burst: EventData["refusals.burst"], nowMs: number): void {
    this.raised.raise([newEvent("refusals.burst", burst, nowMs)]);
  }

  /**
   * Raises the notifications that a change of the ledger causes, and marks them in the ledger. Runs in the transaction of
   * the change.
   * @param closed the periods that the change has closed.
   * @param more further notifications of the change.
   */
  raiseForChange(
    before: Ledger,
    ledger: Ledger,
    closed: readonly EndedPeriod[],
    more: readonly WorkspaceEvent[],
    nowMs: number,
  ): void {
    if (this.#wanted.types.length === 0) return;
    const events: WorkspaceEvent[] = [];
    if (this.wants("period.closed")) {
      for (const period of closed) events.push(newEvent("period.closed", closedPeriodData(period), nowMs));
    }
    if (this.wants("usage.level")) {
      const refusedBefore = closed.length > 0 ? 0 : before.rejected;
      const { notified } = ledger;
      const usage = usageNews({ notified, now: ledger, hasRefused: ledger.rejected > refusedBefore });
      ledger.notified = usage.notified;
      for (const level of usage.news) events.push(newEvent("usage.level", usageLevelData(level, ledger), nowMs));
    }
    this.raised.raise([...events, ...more]);
  }
}

function usageLevelData(level: EventData["usage.level"]["level"], ledger: Ledger): EventData["usage.level"] {
  const { signalLimit, overages } = ledger;
  return { level, used: ordinalsTaken(ledger), signal_limit: signalLimit, overages, ...span(ledger) };
}

function closedPeriodData(period: EndedPeriod): EventData["period.closed"] {
  const { signalLimit, overages, accepted, held, rejected, overage, streak, extraRoomRemoved } = period;
  const counts = { accepted, held, rejected, overage, streak };
  return { ...span(period), signal_limit: signalLimit, overages, ...counts, extra_room_removed: extraRoomRemoved };
}

function span({ periodStartMs, periodEndMs }: Pick<Ledger, "periodStartMs" | "periodEndMs">) {
  return { period_start: new Date(periodStartMs).toISOString(), period_end: new Date(periodEndMs).toISOString() };
}

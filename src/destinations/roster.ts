/** The destinations themselves. They are ten at most, and read whenever they are needed. */
import type { Failing } from "../domain/events/attempts.ts";
import { maskedTarget, type Destination, type DisabledReason } from "../domain/events/destination.ts";
import type { DestinationState, DestinationType } from "../domain/events/destination.ts";
import type { EventType } from "../domain/events/workspace-event.ts";
import type { FailingDestination } from "../domain/health/alarm.ts";
import type { NewDestination } from "./destination-calls.ts";

/** A destination with what only this object knows of it. */
export interface StoredDestination {
  id: string;
  name: string;
  type: DestinationType;
  target: string;
  events: EventType[];
  pagesUrl: string;
  state: DestinationState;
  disabledReason: DisabledReason | null;
  createdMs: number;
  secret: string | null;
  failing: Failing | null;
  /** When a delivery last arrived, to within a minute. */
  deliveredMs: number | null;
  /** Events that were given up because too many waited. */
  dropped: number;
  /** Up to which row of `scored` the destination has had everything, and when the last of it was gathered. */
  gatheredTo: number;
  gatheredMs: number;
}

export class Roster {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** All destinations, the oldest first. */
  all(): StoredDestination[] {
    return [...this.#sql.exec<Row>("SELECT * FROM destinations ORDER BY id")].map(toDestination);
  }

  active(): StoredDestination[] {
    return this.all().filter(({ state }) => state === "active");
  }

  find(id: string): StoredDestination | null {
    const [row] = this.#sql.exec<Row>("SELECT * FROM destinations WHERE id = ?", id).toArray();
    return row === undefined ? null : toDestination(row);
  }

  add(destination: NewDestination, secret: string | null, gatheredTo: number, nowMs: number): void {
    this.put({
      ...destination,
      state: "active",
      disabledReason: null,
      createdMs: nowMs,
      secret,
      failing: null,
      deliveredMs: null,
      dropped: 0,
      gatheredTo,
      gatheredMs: 0,
    });
  }

  put(one: StoredDestination): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO destinations (id, name, type, target, events, pages_url, state, disabled_reason, created_ms,
        secret, failing_since_ms, failing_last_ms, delivered_ms, dropped, gathered_to, gathered_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      one.id,
      one.name,
      one.type,
      one.target,
      JSON.stringify(one.events),
      one.pagesUrl,
      one.state,
      one.disabledReason,
      one.createdMs,
      one.secret,
      one.failing?.sinceMs ?? null,
      one.failing?.lastMs ?? null,
      one.deliveredMs,
      one.dropped,
      one.gatheredTo,
      one.gatheredMs,
    );
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM destinations WHERE id = ?", id);
  }
}

/** What health says of a destination; nothing where nothing is wrong, and nothing of one that somebody has paused. */
export function failingDestination({
  id,
  name,
  state,
  disabledReason,
  failing,
}: StoredDestination): FailingDestination[] {
  if (failing === null || state === "paused") return [];
  // Its last failure has switched it off.
  const off = disabledReason === null ? null : { reason: disabledReason, sinceMs: failing.lastMs };
  return [{ id, name, sinceMs: failing.sinceMs, off }];
}

/** A destination as callers see it. */
export function shownDestination(
  one: StoredDestination,
  { waiting, oldSecretEndsAtMs }: Pick<Destination, "waiting" | "oldSecretEndsAtMs">,
): Destination {
  const { id, name, type, events, state, disabledReason, dropped } = one;
  return {
    id,
    name,
    type,
    events,
    state,
    disabledReason,
    waiting,
    dropped,
    oldSecretEndsAtMs,
    maskedTarget: maskedTarget(type, one.target),
    createdAtMs: one.createdMs,
    failingSinceMs: one.failing?.sinceMs ?? null,
    lastDeliveredAtMs: one.deliveredMs,
  };
}

type Row = {
  id: string;
  name: string;
  type: DestinationType;
  target: string;
  events: string;
  pages_url: string;
  state: DestinationState;
  disabled_reason: DisabledReason | null;
  created_ms: number;
  secret: string | null;
  failing_since_ms: number | null;
  failing_last_ms: number | null;
  delivered_ms: number | null;
  dropped: number;
  gathered_to: number;
  gathered_ms: number;
};

function toDestination(row: Row): StoredDestination {
  const { id, name, type, target, state, secret, dropped } = row;
  const { failing_since_ms: since, failing_last_ms: last } = row;
  return {
    id,
    name,
    type,
    target,
    state,
    secret,
    dropped,
    events: JSON.parse(row.events) as EventType[],
    pagesUrl: row.pages_url,
    disabledReason: row.disabled_reason,
    createdMs: row.created_ms,
    failing: since === null || last === null ? null : { sinceMs: since, lastMs: last },
    deliveredMs: row.delivered_ms,
    gatheredTo: row.gathered_to,
    gatheredMs: row.gathered_ms,
  };
}

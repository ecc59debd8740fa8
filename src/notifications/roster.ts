/** The destinations, their old secrets, and what holds for all of them. They are ten at most, and read whenever they are needed. */
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
  /** Attempts that have failed since one succeeded. */
  failures: number;
  /** Nothing is sent before, in milliseconds since 1970: the receiver is left alone while it fails. 0: at any time. */
  notBeforeMs: number;
  /** Events that were given up because too much waited. */
  dropped: number;
}

/** What a destination begins with, and again once somebody has changed where it leads to or resumed it. */
export const NO_FAILURES = { failing: null, failures: 0, notBeforeMs: 0 } as const;

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

  add(destination: NewDestination, secret: string | null, nowMs: number): void {
    this.put({
      ...destination,
      state: "active",
      disabledReason: null,
      createdMs: nowMs,
      secret,
      deliveredMs: null,
      dropped: 0,
      ...NO_FAILURES,
    });
  }

  put(one: StoredDestination): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO destinations (id, name, type, target, events, pages_url, state, disabled_reason, created_ms,
        secret, failing_since_ms, failing_last_ms, failures, not_before_ms, delivered_ms, dropped)
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
      one.failures,
      one.notBeforeMs,
      one.deliveredMs,
      one.dropped,
    );
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM destinations WHERE id = ?", id);
  }
}

/** What health says of a destination: nothing while nothing waits that could not be delivered, nor of one that is paused. */
export function failingDestination(one: StoredDestination, waiting: number): FailingDestination[] {
  const { id, name, state, disabledReason, failing } = one;
  if (failing === null || state === "paused" || (state === "active" && waiting === 0)) return [];
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
  const isFailing = state !== "active" || waiting > 0;
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
    failingSinceMs: isFailing ? (one.failing?.sinceMs ?? null) : null,
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
  failures: number;
  not_before_ms: number;
  delivered_ms: number | null;
  dropped: number;
};

function toDestination(row: Row): StoredDestination {
  const { id, name, type, target, state, secret, failures, dropped } = row;
  const { failing_since_ms: since, failing_last_ms: last } = row;
  return {
    id,
    name,
    type,
    target,
    state,
    secret,
    failures,
    dropped,
    events: JSON.parse(row.events) as EventType[],
    pagesUrl: row.pages_url,
    disabledReason: row.disabled_reason,
    createdMs: row.created_ms,
    failing: since === null || last === null ? null : { sinceMs: since, lastMs: last },
    notBeforeMs: row.not_before_ms,
    deliveredMs: row.delivered_ms,
  };
}

// Secrets from before a rotation sign too until they end. There may be several: a rotation within the overlap of the one
// before it ends no secret that a receiver still verifies with.

/** Old secrets of one destination that are kept: of more, those that end first are dropped. Each makes deliveries longer. */
export const OLD_SECRETS_MAX = 5;

export class OldSecrets {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Those that still sign, the one that ends last first. */
  of(destinationId: string, nowMs: number): { secret: string; endsMs: number }[] {
    return this.#sql
      .exec<{ secret: string; endsMs: number }>(
        "SELECT secret, ends_ms AS endsMs FROM old_secrets WHERE destination_id = ? AND ends_ms > ? ORDER BY ends_ms DESC",
        destinationId,
        nowMs,
      )
      .toArray();
  }

  /** Lets `secret` sign until `endsMs`, and none before it any longer. @param endsMs not after `nowMs`: all of them end. */
  add(destinationId: string, secret: string, endsMs: number, nowMs: number): void {
    const before = this.of(destinationId, nowMs).map((one) => ({ ...one, endsMs: Math.min(one.endsMs, endsMs) }));
    this.remove(destinationId);
    if (endsMs <= nowMs) return;
    for (const one of [{ secret, endsMs }, ...before].slice(0, OLD_SECRETS_MAX)) {
      this.#sql.exec(
        "INSERT INTO old_secrets (destination_id, secret, ends_ms) VALUES (?, ?, ?)",
        destinationId,
        one.secret,
        one.endsMs,
      );
    }
  }

  remove(destinationId: string): void {
    this.#sql.exec("DELETE FROM old_secrets WHERE destination_id = ?", destinationId);
  }
}

/** What holds for all destinations of the workspace: the thresholds, and whether its sources have yet to be told of a change. */
export class Settings {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  get thresholds(): number[] {
    return JSON.parse(this.#read("thresholds") ?? "[]") as number[];
  }

  set thresholds(thresholds: number[]) {
    this.#write("thresholds", JSON.stringify(thresholds));
  }

  /** Id of the latest change that the sources have not been told; null: they know all. */
  get untold(): string | null {
    return this.#read("untold");
  }

  /** Notes that what the sources are to raise may have changed. */
  changed(): void {
    this.#write("untold", crypto.randomUUID());
  }

  /** Notes that the sources know of a change, unless there was another one meanwhile. */
  told(change: string): void {
    this.#sql.exec("DELETE FROM settings WHERE name = 'untold' AND value = ?", change);
  }

  /** When the keys were last looked at, and deliveries that are over were cleared away, in milliseconds since 1970. */
  get choreMs(): number {
    return Number(this.#read("chore_ms") ?? 0);
  }

  set choreMs(atMs: number) {
    this.#write("chore_ms", String(atMs));
  }

  #read(name: string): string | null {
    const [row] = this.#sql.exec<{ value: string }>("SELECT value FROM settings WHERE name = ?", name).toArray();
    return row?.value ?? null;
  }

  #write(name: string, value: string): void {
    this.#sql.exec("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", name, value);
  }
}

/**
 * The ledger: plan and counts of the current billing period, closed periods, usage by day; and the counter's
 * notifications.
 *
 * The counts change with each commit and are stored in its outbox row, so they cost no row of their own. If the last
 * outbox row has number `next_row` or higher, it is newer than the ledger row and its counts are used.
 */
import { DAY_MS } from "../domain/duration.ts";
import { billingPeriodAt, closePeriod, type Streak, type QuotaConfig } from "../domain/quota/billing.ts";
import { eachVerdict, NO_VERDICTS, ordinalsTaken, verdictCounts, VERDICTS } from "../domain/quota/quota.ts";
import { entryOf, utcDay, type UsageDay } from "../domain/quota/usage-day.ts";
import { OVERAGE_STREAK_LIMIT } from "../limits.ts";
import type { ClosedPeriod, Counts, Usage, UsageByDay } from "./protocol.ts";
import type { EventData } from "../domain/events/event-data.ts";
import type { EventType, WantedEvents, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { newUsageLevels } from "../domain/quota/usage-levels.ts";
import { HandOn, type HandOnOptions, newEvent, RaisedEvents } from "../notifications/raised-events.ts";
import type { CounterAlarm } from "./counter-alarm.ts";
import type { Drain } from "./drain.ts";
import type { Outbox, PackedRow } from "./outbox.ts";

export interface Ledger extends QuotaConfig, Counts {
  periodStartMs: number;
  periodEndMs: number;
  streak: number;
  extraRoomRemoved: boolean;
  nextRow: number;
  /** Start of the UTC day of the last count. Part of the ledger, so that a commit writes no row for it. */
  dayMs: number;
  /** Notified usage levels (domain/quota/usage-levels.ts); 0 without a subscriber. */
  notified: number;
  /** Whether a delay was notified and continues. */
  late: boolean;
}

interface EndedPeriod extends ClosedPeriod {
  extraRoomRemoved: boolean;
}

interface LedgerChange {
  /** These rows carry the counts. */
  rows?: PackedRow[];
  /** Whether other facts than the counts changed. */
  save?: boolean;
  events?: WorkspaceEvent[];
}

interface Parts {
  outbox: Outbox;
  drain: Drain;
  notifications: CounterNotifications;
  alarm: CounterAlarm;
}

export class LedgerState {
  readonly #storage: DurableObjectStorage;
  readonly #parts: Parts;
  #ledger: Ledger | null;
  /** The count of refused signals is newer than the stored ledger. */
  #unsaved = false;

  constructor(storage: DurableObjectStorage, parts: Parts) {
    this.#storage = storage;
    this.#parts = parts;
    createLedgerTables(storage.sql);
    this.#ledger = loadLedger(storage.sql, parts.outbox.lastCounts());
  }

  get current(): Readonly<Ledger> | null {
    return this.#ledger;
  }

  /** Closes the period and day that ended by `nowMs`. */
  upToDate(nowMs: number): Readonly<Ledger> | null {
    this.update(nowMs, () => ({}));
    return this.#ledger;
  }

  /** Ignores a version that is not newer. */
  configure(config: QuotaConfig, nowMs: number): void {
    const ledger = this.#ledger;
    const save = () => ({ save: true });
    if (ledger === null) this.#change(openLedger(config, nowMs), nowMs, save);
    else if (config.configVersion > ledger.configVersion) {
      this.#change(ledger, nowMs, save, (sql, changed) => applyConfig(sql, changed, config, nowMs));
    }
  }

  /** Levels that were reached before the subscription are not notified. */
  subscribe(wanted: WantedEvents, nowMs: number): void {
    const isNew = (type: EventType): boolean => wanted.types.includes(type) && !this.#parts.notifications.wants(type);
    const [levels, lateness] = [isNew("usage.level"), isNew("processing.late")];
    this.update(nowMs, (ledger) => {
      if (levels)
        ledger.notified = newUsageLevels({ notified: 0, now: ledger, hasRefused: ledger.rejected > 0 }).notified;
      if (lateness) ledger.late = false;
      return { save: levels || lateness };
    });
    this.#parts.notifications.subscribe(wanted);
  }

  /**
   * Closes ended periods and days, changes the ledger and writes its outbox rows in one transaction; memory follows
   * only if that succeeds. Does nothing before `configure`.
   */
  update(nowMs: number, change: (ledger: Ledger) => LedgerChange): void {
    if (this.#ledger !== null) this.#change(this.#ledger, nowMs, change);
  }

  save(): void {
    if (this.#unsaved && this.#ledger !== null) saveLedger(this.#storage.sql, this.#ledger);
    this.#unsaved = false;
  }

  #change(before: Ledger, nowMs: number, change: (ledger: Ledger) => LedgerChange, close = closeEndedPeriods): void {
    const { outbox, drain, notifications, alarm } = this.#parts;
    const ledger = { ...before };
    let rows: PackedRow[] = [];
    let save = false;
    try {
      this.#storage.transactionSync(() => {
        const closed = close(this.#storage.sql, ledger, nowMs);
        const isNewDay = endDay(this.#storage.sql, ledger, nowMs);
        const changed = change(ledger);
        rows = changed.rows ?? [];
        ledger.nextRow = (rows.at(-1)?.row ?? ledger.nextRow - 1) + 1;
        outbox.write(rows, ledger);
        notifications.raiseForChange(before, ledger, closed, changed.events ?? [], nowMs);
        save = closed.length > 0 || isNewDay || changed.save === true || ledger.notified !== before.notified;
        if (save) saveLedger(this.#storage.sql, ledger);
      });
    } catch (error) {
      outbox.rolledBack();
      notifications.raised.reload();
      throw error;
    }
    this.#ledger = ledger;
    this.#unsaved = !save && rows.length === 0 && (this.#unsaved || ledger.rejected !== before.rejected);
    notifications.handOn.start();
    if (rows.length === 0) return;
    alarm.watch(nowMs);
    drain.committed(rows);
  }
}

const COLUMNS: Record<keyof Ledger, string> = {
  signalLimit: "signal_limit",
  anchorMs: "anchor_ms",
  periodStartMs: "period_start_ms",
  periodEndMs: "period_end_ms",
  ...eachVerdict((verdict) => verdict),
  overage: "overage",
  streak: "streak",
  admitted: "admitted",
  nextRow: "next_row",
  dayMs: "day_ms",
  notified: "notified",
  late: "late",
  paid: "paid",
  overages: "overages",
  extraRoomRemoved: "extra_room_removed",
  configVersion: "config_version",
};
const LEDGER_FIELDS = Object.keys(COLUMNS) as (keyof Ledger)[];
const PERIOD_FIELDS = [
  ...(["periodStartMs", "periodEndMs", "signalLimit", "overages"] as const),
  ...VERDICTS,
  ...(["overage", "streak"] as const),
] satisfies (keyof ClosedPeriod)[];
const DAY_FIELDS = ["periodStartMs", "dayMs", ...VERDICTS] as const satisfies (keyof UsageDay)[];

function createLedgerTables(sql: SqlStorage): void {
  const verdicts = VERDICTS.map((verdict) => `${verdict} INTEGER NOT NULL`).join(", ");
  sql.exec(`
    CREATE TABLE IF NOT EXISTS ledger (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      signal_limit INTEGER NOT NULL, anchor_ms INTEGER NOT NULL, period_start_ms INTEGER NOT NULL,
      period_end_ms INTEGER NOT NULL, ${verdicts}, overage INTEGER NOT NULL, streak INTEGER NOT NULL, admitted INTEGER NOT NULL, next_row INTEGER NOT NULL,
      day_ms INTEGER NOT NULL, notified INTEGER NOT NULL, late INTEGER NOT NULL, paid INTEGER NOT NULL,
      overages INTEGER NOT NULL, extra_room_removed INTEGER NOT NULL, config_version INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS closed_periods (
      period_start_ms INTEGER PRIMARY KEY, period_end_ms INTEGER NOT NULL, signal_limit INTEGER NOT NULL,
      overages INTEGER NOT NULL, ${verdicts}, overage INTEGER NOT NULL, streak INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS usage_days (
      period_start_ms INTEGER NOT NULL, day_ms INTEGER NOT NULL, ${verdicts}, PRIMARY KEY (period_start_ms, day_ms)
    ) WITHOUT ROWID;`);
}

function insert<Field extends keyof Ledger>(
  sql: SqlStorage,
  table: "closed_periods" | "usage_days",
  fields: readonly Field[],
  row: Pick<Ledger, Field>,
): void {
  const columns = fields.map((field) => COLUMNS[field]).join(", ");
  const values = fields.map((field) => Number(row[field]));
  sql.exec(`INSERT OR REPLACE INTO ${table} (${columns}) VALUES (?${", ?".repeat(values.length - 1)})`, ...values);
}

function selected(fields: readonly (keyof Ledger)[]): string {
  return fields.map((field) => `${COLUMNS[field]} AS ${field}`).join(", ");
}

function loadLedger(sql: SqlStorage, last: (Counts & { row: number }) | null): Ledger | null {
  const [row] = sql.exec<Record<keyof Ledger, number>>(`SELECT ${selected(LEDGER_FIELDS)} FROM ledger`).toArray();
  if (row === undefined) return null;
  const { late, paid, overages, extraRoomRemoved, ...numbers } = row;
  const flags = {
    late: late === 1,
    paid: paid === 1,
    overages: overages === 1,
    extraRoomRemoved: extraRoomRemoved === 1,
  };
  const ledger = { ...numbers, ...flags };
  if (last === null || last.row < ledger.nextRow) return ledger;
  const { row: number, ...counts } = last;
  return { ...ledger, ...counts, nextRow: number + 1 };
}

function saveLedger(sql: SqlStorage, ledger: Ledger): void {
  const values = LEDGER_FIELDS.map((field) => Number(ledger[field]));
  sql.exec(
    `INSERT OR REPLACE INTO ledger (id, ${Object.values(COLUMNS).join(", ")}) VALUES (1${", ?".repeat(values.length)})`,
    ...values,
  );
}

function openLedger(config: QuotaConfig, nowMs: number): Ledger {
  const period = billingPeriodAt(config.anchorMs, nowMs);
  return {
    ...config,
    periodStartMs: period.startMs,
    periodEndMs: period.endMs,
    ...NO_VERDICTS,
    overage: 0,
    streak: 0,
    extraRoomRemoved: false,
    admitted: 0,
    // Rows are written more slowly than one a millisecond. So a counter that lost everything repeats no number that the
    // store has recorded.
    nextRow: nowMs,
    dayMs: utcDay(nowMs),
    notified: 0,
    late: false,
  };
}

/** An idle period counts as within the allowance. @returns the closed periods, in order. */
function closeEndedPeriods(sql: SqlStorage, ledger: Ledger, nowMs: number): readonly EndedPeriod[] {
  const closed: EndedPeriod[] = [];
  while (ledger.periodEndMs <= nowMs) {
    const day = entryOf(ledger);
    if (day !== null) insert(sql, "usage_days", DAY_FIELDS, day);
    const after = closePeriod(ledger, { ...ledger, count: ordinalsTaken(ledger) });
    const ended = { ...ledger, ...after };
    insert(sql, "closed_periods", PERIOD_FIELDS, ended);
    closed.push(ended);
    const next = billingPeriodAt(ledger.anchorMs, ledger.periodEndMs);
    Object.assign(ledger, after, {
      periodStartMs: next.startMs,
      periodEndMs: next.endMs,
      ...NO_VERDICTS,
      overage: 0,
      notified: 0,
    });
  }
  return closed;
}

/** Effective since `configVersion`: periods that ended before close with the old configuration. */
function applyConfig(
  sql: SqlStorage,
  ledger: Ledger,
  { signalLimit, paid, overages, configVersion }: QuotaConfig,
  nowMs: number,
): readonly EndedPeriod[] {
  const closedBefore = closeEndedPeriods(sql, ledger, Math.min(configVersion, nowMs));
  Object.assign(ledger, { signalLimit, paid, overages, configVersion });
  recomputeStreaks(sql, ledger, configVersion);
  return [...closedBefore, ...closeEndedPeriods(sql, ledger, nowMs)];
}

/**
 * Judges periods that ended after `sinceMs` again. Counts stay the same; the extra room ends if the new streaks require
 * it.
 */
function recomputeStreaks(sql: SqlStorage, ledger: Ledger, sinceMs: number): void {
  const periods = closedPeriods(sql).toReversed();
  if (!periods.some(({ periodEndMs }) => periodEndMs > sinceMs)) return;
  const { signalLimit, paid, overages } = ledger;
  let judged: Streak = { streak: 0, extraRoomRemoved: false };
  for (const period of periods) {
    if (period.periodEndMs <= sinceMs) {
      const { streak } = period;
      judged = { streak, extraRoomRemoved: judged.extraRoomRemoved || streak >= OVERAGE_STREAK_LIMIT };
      continue;
    }
    judged = closePeriod(judged, { count: ordinalsTaken(period), signalLimit, paid, overages });
    sql.exec(
      "UPDATE closed_periods SET signal_limit = ?, overages = ?, streak = ? WHERE period_start_ms = ?",
      signalLimit,
      Number(overages),
      judged.streak,
      period.periodStartMs,
    );
  }
  Object.assign(ledger, judged);
}

export function readUsage(sql: SqlStorage, ledger: Ledger): Usage {
  const {
    anchorMs: _anchor,
    admitted: _admitted,
    nextRow: _next,
    dayMs: _day,
    notified: _notified,
    late: _late,
    ...usage
  } = ledger;
  return { ...usage, history: closedPeriods(sql) };
}

function closedPeriods(sql: SqlStorage): ClosedPeriod[] {
  const rows = sql.exec<Record<keyof ClosedPeriod, number>>(
    `SELECT ${selected(PERIOD_FIELDS)} FROM closed_periods ORDER BY period_start_ms DESC`,
  );
  return rows.toArray().map((row) => ({ ...row, overages: row.overages === 1 }));
}

/** Thirteen months, for a comparison with last year. */
const USAGE_DAYS_KEPT = 400;

/** A clock that went back changes nothing. @returns whether the day changed. */
function endDay(sql: SqlStorage, ledger: UsageDay, nowMs: number): boolean {
  const dayMs = utcDay(nowMs);
  if (dayMs <= ledger.dayMs) return false;
  const ended = entryOf(ledger);
  ledger.dayMs = dayMs;
  if (ended === null) return true;
  insert(sql, "usage_days", DAY_FIELDS, ended);
  // Whole periods, because the primary key begins with the period.
  sql.exec("DELETE FROM usage_days WHERE period_start_ms < ?", nowMs - USAGE_DAYS_KEPT * DAY_MS);
  return true;
}

export function readUsageByDay(sql: SqlStorage, usage: Usage): UsageByDay {
  const days = sql.exec<Record<keyof UsageDay, number>>(
    `SELECT ${selected(DAY_FIELDS)} FROM usage_days WHERE period_start_ms >= ? ORDER BY period_start_ms, day_ms`,
    usage.history[0]?.periodStartMs ?? usage.periodStartMs,
  );
  const [first] = sql
    .exec<{ day_ms: number }>("SELECT day_ms FROM usage_days ORDER BY period_start_ms, day_ms LIMIT 1")
    .toArray();
  return { usage, days: days.toArray(), firstDayMs: first?.day_ms ?? null };
}

// Notifications, for subscribed types only. The ledger row records usage levels and a delay, which are notified once.

const NOTHING: WantedEvents = { types: [], thresholds: [], accountThresholds: [], destinations: 0 };

export class CounterNotifications {
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

  /** Counts destinations in any state. */
  get hasDestinations(): boolean {
    return this.#wanted.destinations > 0;
  }

  subscribe(wanted: WantedEvents): void {
    this.#sql.exec("INSERT OR REPLACE INTO wanted_notifications VALUES (1, ?)", JSON.stringify(wanted));
    this.#wanted = wanted;
  }

  raiseBurst(burst: EventData["refusals.burst"], nowMs: number): void {
    this.raised.raise([newEvent("refusals.burst", burst, nowMs)]);
  }

  /**
   * Runs in the transaction of the change, and marks usage levels in the ledger. @param more other events of the
   * change.
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
      const usage = newUsageLevels({ notified, now: ledger, hasRefused: ledger.rejected > refusedBefore });
      ledger.notified = usage.notified;
      for (const level of usage.levels) events.push(newEvent("usage.level", usageLevelData(level, ledger), nowMs));
    }
    this.raised.raise([...events, ...more]);
  }
}

function usageLevelData(level: EventData["usage.level"]["level"], ledger: Ledger): EventData["usage.level"] {
  const { signalLimit, overages } = ledger;
  return { level, used: ordinalsTaken(ledger), signal_limit: signalLimit, overages, ...span(ledger) };
}

function closedPeriodData(period: EndedPeriod): EventData["period.closed"] {
  const { signalLimit, overages, overage, streak, extraRoomRemoved } = period;
  return {
    ...span(period),
    signal_limit: signalLimit,
    overages,
    ...verdictCounts(period),
    overage,
    streak,
    extra_room_removed: extraRoomRemoved,
  };
}

function span({ periodStartMs, periodEndMs }: Pick<Ledger, "periodStartMs" | "periodEndMs">) {
  return { period_start: new Date(periodStartMs).toISOString(), period_end: new Date(periodEndMs).toISOString() };
}

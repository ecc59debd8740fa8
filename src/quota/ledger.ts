/**
 * The ledger: plan and counts of the current billing period, closed periods, usage by day; and the counter's
 * notifications.
 *
 * The counts change with each commit and are stored in its outbox row, so they cost no row of their own. If the last
 * outbox row has number `next_row` or higher, it is newer than the ledger row and its counts are used.
 */
import { DAY_MS, utcDay } from "../domain/duration.ts";
import {
  billingPeriodAt,
  closePeriod,
  type QuotaConfig,
  type QuotaTerms,
  type Streak,
} from "../domain/quota/billing.ts";
import {
  newKeyLevels,
  NO_BUDGETS,
  useWithin,
  type ByFirstKey,
  type KeyBudgets,
  type KeyLevelReached,
} from "../domain/quota/key-budget.ts";
import { eachVerdict, NO_VERDICTS, ordinalsTaken, verdictCounts, VERDICTS } from "../domain/quota/quota.ts";
import { entryOf, type UsageDay } from "../domain/quota/usage-day.ts";
import type { ClosedPeriod, Counts, RowCounts, Usage, UsageByDay } from "./protocol.ts";
import type { NotificationData } from "../domain/notifications/notification-data.ts";
import type { NotificationType, WantedNotifications, Notification } from "../domain/notifications/notification.ts";
import { newUsageLevels } from "../domain/quota/usage-levels.ts";
import {
  Forwarding,
  type ForwardingOptions,
  newNotification,
  RaisedNotifications,
} from "../notifications/raised-notifications.ts";
import type { PacedAlarm } from "../platform/alarm.ts";
import type { Drain } from "./drain.ts";
import type { Outbox, PackedRow } from "./outbox.ts";
import type { LedgerRow } from "./schema.ts";

export interface Ledger extends QuotaConfig, Counts, KeyBudgets {
  periodStartMs: number;
  periodEndMs: number;
  streak: number;
  extraRoomRemoved: boolean;
  nextRow: number;
  /** Start of the UTC day of the last count. Part of the ledger, so that a commit writes no row for it. */
  dayMs: number;
  /** Usage levels that raised a notification (domain/quota/usage-levels.ts); 0 without a subscriber. */
  notified: number;
  /** Whether a delay has raised a notification and continues. */
  late: boolean;
}

interface EndedPeriod extends ClosedPeriod {
  extraRoomRemoved: boolean;
}

interface LedgerChange {
  /** These rows carry the counts. */
  rows?: PackedRow[];
  /** Whether something other than the counts has changed. */
  save?: boolean;
  notifications?: Notification[];
  /** The key that counted last against each budget that counted, by first key. */
  countedKeys?: Readonly<Record<string, string>>;
}

interface Parts {
  outbox: Outbox;
  drain: Drain;
  notifications: CounterNotifications;
  alarm: PacedAlarm;
}

export class LedgerState {
  readonly #storage: DurableObjectStorage;
  readonly #parts: Parts;
  #ledger: Ledger | null;
  /** The count of rejected signals is newer than the stored ledger. */
  #unsaved = false;

  constructor(storage: DurableObjectStorage, parts: Parts) {
    this.#storage = storage;
    this.#parts = parts;
    this.#ledger = loadLedger(storage.sql, parts.outbox.lastCounts());
  }

  get current(): Readonly<Ledger> | null {
    return this.#ledger;
  }

  /** The workspace has ended: nothing is counted or saved any more. */
  forget(): void {
    this.#ledger = null;
  }

  /** Closes the period and day that ended by `nowMs`. */
  upToDate(nowMs: number): Readonly<Ledger> | null {
    this.update(nowMs, () => ({}));
    return this.#ledger;
  }

  /** Ignores versions that it has. @param budgets of the newest of these versions; undefined: they stay. */
  configure(versions: readonly QuotaConfig[], nowMs: number, budgets?: ByFirstKey): void {
    const [first] = versions;
    if (first === undefined) return;
    const before = this.#ledger ?? openLedger(first, nowMs);
    const isMissing = ({ configVersion }: QuotaConfig) => !hasConfig(this.#storage.sql, configVersion);
    const missing = this.#ledger === null ? versions : versions.filter(isMissing);
    if (missing.length === 0) return;
    const newest = Math.max(...versions.map(({ configVersion }) => configVersion));
    const hasNewest = this.#ledger === null || newest > this.#ledger.configVersion;
    const save = (ledger: Ledger) => {
      // Calls may arrive in any order, so an earlier version brings no budgets.
      if (budgets !== undefined && hasNewest)
        Object.assign(ledger, { budgets, budgetUse: useWithin(ledger.budgetUse, budgets) });
      return { save: true };
    };
    this.#change(before, nowMs, save, (sql, ledger) => addConfigs(sql, ledger, missing, nowMs));
  }

  /** Levels that were reached before the subscription raise nothing. */
  subscribe(wanted: WantedNotifications, nowMs: number): void {
    const isNew = (type: NotificationType): boolean =>
      wanted.types.includes(type) && !this.#parts.notifications.wants(type);
    const [levels, lateness] = [isNew("usage.level"), isNew("processing.late")];
    this.update(nowMs, (ledger) => {
      if (levels)
        ledger.notified = newUsageLevels({ notified: 0, now: ledger, hasRejected: ledger.rejected > 0 }).notified;
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
        notifications.raiseForChange(before, ledger, closed, changed, nowMs);
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
    notifications.forwarding.start();
    if (rows.length === 0) return;
    alarm.watch(nowMs);
    drain.committed(rows);
  }
}

/** The fields of the ledger that are numbers or flags. */
type LedgerNumbers = Omit<Ledger, keyof KeyBudgets>;

const COLUMNS: Record<keyof LedgerNumbers, keyof LedgerRow> = {
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
const TERM_FIELDS = ["configVersion", "signalLimit", "paid", "overages"] as const satisfies (keyof QuotaTerms)[];
const LEDGER_FIELDS = (Object.keys(COLUMNS) as (keyof LedgerNumbers)[]).filter(
  (field) => !TERM_FIELDS.some((term) => term === field),
);
const PERIOD_FIELDS = [
  ...(["periodStartMs", "periodEndMs", "signalLimit", "overages"] as const),
  ...VERDICTS,
  ...(["overage", "streak"] as const),
] satisfies (keyof ClosedPeriod)[];
const DAY_FIELDS = ["periodStartMs", "dayMs", ...VERDICTS] as const satisfies (keyof UsageDay)[];

function insert<Field extends keyof LedgerNumbers>(
  sql: SqlStorage,
  table: "closed_periods" | "configurations" | "usage_days",
  fields: readonly Field[],
  row: Pick<LedgerNumbers, Field>,
): void {
  const columns = fields.map((field) => COLUMNS[field]).join(", ");
  const values = fields.map((field) => Number(row[field]));
  sql.exec(`INSERT OR REPLACE INTO ${table} (${columns}) VALUES (?${", ?".repeat(values.length - 1)})`, ...values);
}

function selected(fields: readonly (keyof LedgerNumbers)[]): string {
  return fields.map((field) => `${COLUMNS[field]} AS ${field}`).join(", ");
}

function loadLedger(sql: SqlStorage, last: (RowCounts & { row: number }) | null): Ledger | null {
  type Stored = Omit<Record<keyof LedgerNumbers, number>, keyof QuotaTerms> & Record<keyof KeyBudgets, string>;
  const [row] = sql
    .exec<Stored>(`SELECT ${selected(LEDGER_FIELDS)}, budgets, budget_use AS budgetUse FROM ledger`)
    .toArray();
  const terms = newestTerms(sql);
  if (row === undefined || terms === null) return null;
  const { late, extraRoomRemoved, budgets, budgetUse, ...numbers } = row;
  const flags = { late: late === 1, extraRoomRemoved: extraRoomRemoved === 1 };
  const ofKeys: KeyBudgets = {
    budgets: JSON.parse(budgets) as ByFirstKey,
    budgetUse: JSON.parse(budgetUse) as ByFirstKey,
  };
  const ledger = { ...numbers, ...flags, ...ofKeys, ...terms };
  if (last === null || last.row < ledger.nextRow) return ledger;
  const { row: number, ...counts } = last;
  return { ...ledger, ...counts, nextRow: number + 1 };
}

function saveLedger(sql: SqlStorage, ledger: Ledger): void {
  const values = LEDGER_FIELDS.map((field) => Number(ledger[field]));
  sql.exec(
    `INSERT OR REPLACE INTO ledger (id, ${LEDGER_FIELDS.map((field) => COLUMNS[field]).join(", ")}, budgets, budget_use)
     VALUES (1${", ?".repeat(values.length + 2)})`,
    ...values,
    JSON.stringify(ledger.budgets),
    JSON.stringify(ledger.budgetUse),
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
    ...NO_BUDGETS,
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
    const terms = termsAtEnd(sql, ledger.periodEndMs);
    const after = closePeriod(ledger, { ...terms, count: ordinalsTaken(ledger) });
    const ended = { ...ledger, ...terms, ...after };
    insert(sql, "closed_periods", PERIOD_FIELDS, ended);
    closed.push(ended);
    const next = billingPeriodAt(ledger.anchorMs, ledger.periodEndMs);
    Object.assign(ledger, after, {
      periodStartMs: next.startMs,
      periodEndMs: next.endMs,
      ...NO_VERDICTS,
      overage: 0,
      notified: 0,
      budgetUse: {},
    });
  }
  return closed;
}

function hasConfig(sql: SqlStorage, version: number): boolean {
  return sql.exec("SELECT 1 FROM configurations WHERE config_version = ?", version).toArray().length > 0;
}

/** Null: there is none. */
function firstTerms(sql: SqlStorage, condition: string, ...bound: number[]): QuotaTerms | null {
  const [row] = sql
    .exec<Record<keyof QuotaTerms, number>>(
      `SELECT ${selected(TERM_FIELDS)} FROM configurations ${condition} LIMIT 1`,
      ...bound,
    )
    .toArray();
  return row === undefined ? null : { ...row, paid: row.paid === 1, overages: row.overages === 1 };
}

function newestTerms(sql: SqlStorage): QuotaTerms | null {
  return firstTerms(sql, "ORDER BY config_version DESC");
}

/** The terms in force when a period ended. The counter's first terms also apply to the time before them. */
function termsAtEnd(sql: SqlStorage, periodEndMs: number): QuotaTerms {
  const terms =
    firstTerms(sql, "WHERE config_version < ? ORDER BY config_version DESC", periodEndMs) ??
    firstTerms(sql, "ORDER BY config_version");
  if (terms === null) throw new Error("A counter with a ledger has a configuration.");
  return terms;
}

/** Also judges the closed periods again, because a version may arrive after the end of a period that it belongs to. */
function addConfigs(
  sql: SqlStorage,
  ledger: Ledger,
  versions: readonly QuotaConfig[],
  nowMs: number,
): readonly EndedPeriod[] {
  for (const version of versions) insert(sql, "configurations", TERM_FIELDS, version);
  Object.assign(ledger, newestTerms(sql), judgeClosedPeriods(sql));
  return closeEndedPeriods(sql, ledger, nowMs);
}

/** Judges every closed period by the terms at its end. Counts stay the same. @returns the streak and the extra room now. */
function judgeClosedPeriods(sql: SqlStorage): Streak {
  let closed: Streak = { streak: 0, extraRoomRemoved: false };
  for (const period of closedPeriods(sql).toReversed()) {
    const terms = termsAtEnd(sql, period.periodEndMs);
    closed = closePeriod(closed, { ...terms, count: ordinalsTaken(period) });
    const { signalLimit, overages } = terms;
    const { streak } = closed;
    if (signalLimit === period.signalLimit && overages === period.overages && streak === period.streak) continue;
    insert(sql, "closed_periods", PERIOD_FIELDS, { ...period, signalLimit, overages, streak });
  }
  return closed;
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

// Notifications, for subscribed types only. The ledger row records usage levels and a delay, which raise a notification once.

const NOTHING: WantedNotifications = { types: [], thresholds: [], accountThresholds: [], destinations: 0 };

export class CounterNotifications {
  readonly workspaceId: string;
  readonly raised: RaisedNotifications;
  readonly forwarding: Forwarding;
  readonly #sql: SqlStorage;
  #wanted: WantedNotifications;

  constructor(sql: SqlStorage, options: ForwardingOptions) {
    this.#sql = sql;
    this.workspaceId = options.workspaceId;
    this.raised = new RaisedNotifications(sql);
    this.forwarding = new Forwarding(this.raised, options);
    const [row] = sql.exec<{ wanted: string }>("SELECT wanted FROM wanted_notifications");
    this.#wanted = row === undefined ? NOTHING : (JSON.parse(row.wanted) as WantedNotifications);
  }

  wants(type: NotificationType): boolean {
    return this.#wanted.types.includes(type);
  }

  /** Counts destinations in any state. */
  get hasDestinations(): boolean {
    return this.#wanted.destinations > 0;
  }

  subscribe(wanted: WantedNotifications): void {
    this.#sql.exec("INSERT OR REPLACE INTO wanted_notifications VALUES (1, ?)", JSON.stringify(wanted));
    this.#wanted = wanted;
  }

  raisePublicKey(keyId: string, origin: string, nowMs: number): void {
    if (!this.wants("key.public")) return;
    this.raised.raise([newNotification("key.public", { key_id: keyId, origin }, nowMs)]);
  }

  raiseBurst(burst: NotificationData["rejections.burst"], nowMs: number): void {
    this.raised.raise([newNotification("rejections.burst", burst, nowMs)]);
  }

  /**
   * Runs in the transaction of the change, and marks usage levels in the ledger. @param change its other notifications, and the keys that
   * counted.
   */
  raiseForChange(
    before: Ledger,
    ledger: Ledger,
    closed: readonly EndedPeriod[],
    change: Pick<LedgerChange, "notifications" | "countedKeys">,
    nowMs: number,
  ): void {
    if (this.#wanted.types.length === 0) return;
    const raised: Notification[] = [];
    if (this.wants("period.closed")) {
      for (const period of closed) raised.push(newNotification("period.closed", closedPeriodData(period), nowMs));
    }
    if (this.wants("usage.level")) {
      const rejectedBefore = closed.length > 0 ? 0 : before.rejected;
      const { notified } = ledger;
      const usage = newUsageLevels({ notified, now: ledger, hasRejected: ledger.rejected > rejectedBefore });
      ledger.notified = usage.notified;
      for (const level of usage.levels)
        raised.push(newNotification("usage.level", usageLevelData(level, ledger), nowMs));
    }
    if (this.wants("key.usage_level")) {
      const { countedKeys = {} } = change;
      // A new period began at zero.
      const unused = closed.length > 0 ? { ...before, budgetUse: {} } : before;
      for (const reached of newKeyLevels(unused, ledger)) {
        const keyId = countedKeys[reached.firstKeyId] ?? reached.firstKeyId;
        raised.push(newNotification("key.usage_level", keyLevelData(reached, keyId, ledger), nowMs));
      }
    }
    this.raised.raise([...raised, ...(change.notifications ?? [])]);
  }
}

function usageLevelData(
  level: NotificationData["usage.level"]["level"],
  ledger: Ledger,
): NotificationData["usage.level"] {
  const { signalLimit, overages } = ledger;
  return { level, used: ordinalsTaken(ledger), signal_limit: signalLimit, overages, ...span(ledger) };
}

function keyLevelData(
  { level, used, signalLimit }: KeyLevelReached,
  keyId: string,
  ledger: Ledger,
): NotificationData["key.usage_level"] {
  return { key_id: keyId, level: `${level}`, used, signal_limit: signalLimit, ...span(ledger) };
}

function closedPeriodData(period: EndedPeriod): NotificationData["period.closed"] {
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

/** State of a workspace's Signal Store: its database, both signal logs, and the data in the head. */
import { dayOf } from "../../domain/duration.ts";
import type { Crossings, WantedNotifications } from "../../domain/notifications/notification.ts";
import { RaisedNotifications } from "../../notifications/raised-notifications.ts";
import type { SignalLogName, SignalLog } from "../log/signal-log.ts";
import { NextDue } from "./due.ts";
import { updateKeyDays, type PendingKeyDays } from "./key-days.ts";
import { SingleScores, RuleOutcomes, updateRuleDays, type PendingRuleDays } from "./rule-outcomes.ts";
import { updateGroups, type Books } from "./status-change.ts";

/** Dead letters that no notification has reported yet. */
interface DeadLetterNotification {
  notifiedAtMs: number;
  waiting: [reason: string, signals: number][];
}

/** The run that removes the points that lapse on a UTC day, while people are left to visit. */
interface LapseRun {
  day: number;
  /** Whether one summary reports the run, because there were too many crossings for `lapse_crossings`. */
  isSummary: boolean;
  points: number;
  thresholds: Crossings[];
}

/** The misfits that wait for a template that fits. Counted, so that no query is needed to know whether there are too many. */
export interface MisfitCounts {
  waiting: number;
  bytes: number;
  /** A notice of the purge has named those recorded until then. */
  noticedUntilMs: number;
}

/** Every batch writes the head anyway, so these values cost no row of their own. */
interface Head extends Books, RecordedRows, PendingRuleDays, PendingKeyDays {
  /** When the store was last full, noted once per FULL_NOTED_MS. */
  fullAtMs: number;
  nextPersonId: number;
  /** Until which UTC day lapsed points were removed. Without it, a clock that goes back would restore points. */
  lapsedUntil: number;
  lapseRun: LapseRun | null;
  /** The newest rules that have evaluated signals; null: none have. From line `sinceSeq` on, they have evaluated all anonymous signals. */
  evaluated: { rulesVersion: number | null; sinceSeq: number };
  wanted: WantedNotifications | null;
  deadLetterNotification: DeadLetterNotification | null;
  misfits: MisfitCounts;
}

const EMPTY_HEAD: Head = {
  totals: {},
  dropped: {},
  lowestUnsettledRow: 0,
  rows: [],
  fullAtMs: 0,
  nextPersonId: 1,
  lapsedUntil: 0,
  lapseRun: null,
  groups: {},
  rules: {},
  keys: {},
  evaluated: { rulesVersion: null, sinceSeq: 0 },
  wanted: null,
  deadLetterNotification: null,
  misfits: { waiting: 0, bytes: 0, noticedUntilMs: 0 },
};

/** `makeRoom` moves meta data to its own rows. `announce` hears when the log's `work` is due, in milliseconds since 1970. */
export type OpenSignalLog = (options: {
  name: SignalLogName;
  emptyMeta: object;
  makeRoom: () => void;
  announce: (atMs: number) => void;
}) => SignalLog;

export class StoreState {
  readonly sql: SqlStorage;
  readonly due: NextDue;
  /** All recorded signals but held signals and dead letters. */
  readonly signals: SignalLog;
  readonly held: SignalLog;
  readonly outcomes: RuleOutcomes;
  readonly singleScores: SingleScores;
  readonly raised: RaisedNotifications;
  /** The stored retention in days, null for ever; undefined: not read yet. */
  retentionDays: number | null | undefined;

  constructor(sql: SqlStorage, openSignalLog: OpenSignalLog, due = new NextDue()) {
    this.sql = sql;
    this.due = due;
    const makeRoom = (): void => {
      updateGroups(this);
      updateRuleDays(this);
      updateKeyDays(this);
    };
    const announce = (atMs: number): void => due.by("cold", atMs);
    this.signals = openSignalLog({ name: "signals", emptyMeta: EMPTY_HEAD, makeRoom, announce });
    this.held = openSignalLog({ name: "held", emptyMeta: {}, makeRoom: () => {}, announce: () => {} });
    this.outcomes = new RuleOutcomes(sql);
    this.singleScores = new SingleScores(sql);
    this.raised = new RaisedNotifications(sql);
  }

  /** `signals.flush` writes changes. */
  get head(): Head {
    return this.signals.meta as Head;
  }

  reload(): void {
    this.signals.reload();
    this.held.reload();
    this.outcomes.forget();
    this.raised.reload();
    this.retentionDays = undefined;
  }
}

/** The UTC day by which points have lapsed. Not earlier than a day whose lapses are removed already, even if the clock is. */
export function todayOf({ head }: { head: Pick<Head, "lapsedUntil"> }, nowMs = Date.now()): number {
  return Math.max(dayOf(nowMs), head.lapsedUntil);
}

/** When the latest signal that retention dropped was received, in milliseconds since 1970; 0: none was dropped. */
export function deletedUntilMs(sql: SqlStorage): number {
  return sql.exec<{ at: number }>("SELECT deleted_until AS at FROM retention WHERE id = 1").toArray()[0]?.at ?? 0;
}

export function transact<T>(storage: DurableObjectStorage, state: StoreState, act: () => T): T {
  try {
    return storage.transactionSync(act);
  } catch (error) {
    state.reload();
    throw error;
  }
}

// The outbox rows that the store has recorded. They make recording idempotent.

/**
 * Maximum stored ranges of row numbers: 18 KB of the head. Parallel consumers leave some ten gaps. Hundreds of gaps come from
 * messages that fail again and again while others succeed.
 */
export const RECORDED_RANGES_MAX = 500;

export interface RecordedRows {
  /** All rows with a lower number are settled. Never decreases. */
  lowestUnsettledRow: number;
  /** Recorded rows from `lowestUnsettledRow` on, as ascending ranges. */
  rows: [first: number, last: number][];
}

export function hasRow({ lowestUnsettledRow, rows }: RecordedRows, row: number): boolean {
  const [first = Number.POSITIVE_INFINITY] = rows[firstFrom(rows, row)] ?? [];
  return row < lowestUnsettledRow || first <= row;
}

function addRows({ rows }: RecordedRows, first: number, last: number): void {
  if (last < first) return;
  const from = firstFrom(rows, first - 1);
  let until = from;
  let [low, high] = [first, last];
  for (let range = rows[until]; range !== undefined && range[0] <= last + 1; range = rows[++until]) {
    low = Math.min(low, range[0]);
    high = Math.max(high, range[1]);
  }
  rows.splice(from, until - from, [low, high]);
}

/** Index of the first range that does not end before the row. */
function firstFrom(rows: RecordedRows["rows"], row: number): number {
  const index = rows.findIndex(([, last]) => last >= row);
  return index === -1 ? rows.length : index;
}

export function forgetRowsBelow(recorded: RecordedRows, lowestUnsettledRow: number): void {
  if (lowestUnsettledRow <= recorded.lowestUnsettledRow) return;
  recorded.lowestUnsettledRow = lowestUnsettledRow;
  recorded.rows.splice(0, firstFrom(recorded.rows, lowestUnsettledRow));
}

/** With too many ranges only rows next to a range fit. The lowest unsettled row always does, so all rows are recorded in the end. */
export function canTrackRows(recorded: RecordedRows, rows: readonly { row: number }[]): boolean {
  if (recorded.rows.length < RECORDED_RANGES_MAX) return true;
  return rows.every(({ row }) => hasRow(recorded, row - 1) || hasRow(recorded, row) || hasRow(recorded, row + 1));
}

/** Returns the rows that are not recorded yet, without repeats, and marks them as recorded. */
export function takeFreshRows<Row extends { row: number }>(recorded: RecordedRows, rows: readonly Row[]): Row[] {
  return rows.filter(({ row }) => {
    if (hasRow(recorded, row)) return false;
    addRows(recorded, row, row);
    return true;
  });
}

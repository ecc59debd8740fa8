/** State of a workspace's Signal Store: its database, both logs, and the data in the head of the log. */
import type { Crossings, WantedEvents } from "../../domain/events/workspace-event.ts";
import { RaisedEvents } from "../../notifications/raised-events.ts";
import { HeldLog, Log, type LogMeta } from "../log/log.ts";
import { Originals } from "../log/originals.ts";
import { Once, RuleOutcomes, updateRuleDays, type PendingRuleDays } from "./rule-outcomes.ts";
import { updateGroups, type Books } from "./status-change.ts";

/** Dead letters that no notification has reported yet. */
interface DeadLetterNews {
  toldAtMs: number;
  waiting: [reason: string, signals: number][];
}

/** The daily run that removes lapsed points, while people are left to visit. */
interface LapseRun {
  /** Whether one summary reports the run instead of an event for each person: too many people fall below a threshold. */
  isSummary: boolean;
  points: number;
  thresholds: Crossings[];
}

/** Every batch writes the head anyway, so these values cost no row of their own. */
interface BooksMeta extends LogMeta, Books, RecordedRows, PendingRuleDays {
  /** When the store was last full, noted once per FULL_NOTED_MS. */
  fullAtMs: number;
  nextPersonId: number;
  /** Until which UTC day lapsed points were removed. Without it, a clock that goes back would restore points. */
  lapsedUntil: number;
  lapseRun: LapseRun | null;
  /** From line `sinceSeq` on, rules of this version have evaluated all anonymous signals; null: no version has. */
  judged: { rulesVersion: number | null; sinceSeq: number };
  wanted: WantedEvents | null;
  deadLetterNews: DeadLetterNews | null;
}

const EMPTY_BOOKS: BooksMeta = {
  maxSpanMs: 0,
  totals: {},
  dropped: {},
  low: 0,
  rows: [],
  fullAtMs: 0,
  nextPersonId: 1,
  lapsedUntil: 0,
  lapseRun: null,
  groups: {},
  rules: {},
  judged: { rulesVersion: null, sinceSeq: 0 },
  wanted: null,
  deadLetterNews: null,
};

export class StoreState {
  readonly sql: SqlStorage;
  /** All recorded signals but held signals and dead letters. */
  readonly signals: Log;
  readonly held: HeldLog;
  readonly originals: Originals;
  readonly outcomes: RuleOutcomes;
  readonly once: Once;
  readonly raised: RaisedEvents;

  constructor(sql: SqlStorage) {
    this.sql = sql;
    this.signals = new Log(sql, "signals", EMPTY_BOOKS, () => {
      updateGroups(this);
      updateRuleDays(this);
    });
    this.held = new HeldLog(sql);
    this.originals = new Originals(this.signals);
    this.outcomes = new RuleOutcomes(sql);
    this.once = new Once(sql);
    this.raised = new RaisedEvents(sql);
  }

  /** `signals.flush` writes changes. */
  get books(): BooksMeta {
    return this.signals.meta as BooksMeta;
  }

  reload(): void {
    this.signals.reload();
    this.held.reload();
    this.outcomes.forget();
    this.raised.reload();
  }
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
  low: number;
  /** Recorded rows from `low` on, as ascending ranges. */
  rows: [first: number, last: number][];
}

export function hasRow({ low, rows }: RecordedRows, row: number): boolean {
  const [first = Number.POSITIVE_INFINITY] = rows[firstFrom(rows, row)] ?? [];
  return row < low || first <= row;
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

export function forgetRowsBelow(recorded: RecordedRows, low: number): void {
  if (low <= recorded.low) return;
  recorded.low = low;
  recorded.rows.splice(0, firstFrom(recorded.rows, low));
}

/** With too many ranges only rows next to a range fit. The lowest unsettled row always does, so all rows are recorded in the end. */
export function hasRoomFor(recorded: RecordedRows, rows: readonly { row: number }[]): boolean {
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

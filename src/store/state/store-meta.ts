/**
 * What the head of the log has besides lines: the books, and what else is to be remembered of what was recorded. It stands
 * there so that a batch writes no row for it.
 */
import type { WantedEvents } from "../../domain/events/workspace-event.ts";
import type { LogMeta } from "../log/log-meta.ts";
import type { Books } from "./books.ts";
import type { PendingGroups } from "./event-group-changes.ts";
import type { RecordedRows } from "./recorded-rows.ts";
import type { PendingRuleDays } from "./rule-days.ts";

/** What is remembered of dead letters that are to be told, as the head has it. */
export interface DeadLetterNews {
  /** When dead letters were last told. */
  toldAtMs: number;
  /** How many dead letters wait to be told, by reason. */
  waiting: [reason: string, signals: number][];
}

export interface BooksMeta extends LogMeta, Books, RecordedRows, PendingGroups, PendingRuleDays {
  /** When the store last had no room, as often as that is noted: see FULL_NOTED_MS. */
  fullAtMs: number;
  nextPersonId: number;
  /** From which line on all anonymous signals have been run through the mapping rules of a version; null: of none. */
  judged: { rulesVersion: number | null; sinceSeq: number };
  /** What is to be told of what happens here; null: nobody wants to know anything. */
  wanted: WantedEvents | null;
  /** What is remembered of dead letters to be told; null while nobody wants to know of any, or none has come. */
  deadLetterNews: DeadLetterNews | null;
}

export const EMPTY_BOOKS: BooksMeta = {
  maxSpanMs: 0,
  totals: {},
  dropped: {},
  low: 0,
  rows: [],
  lostUpTo: 0,
  fullAtMs: 0,
  nextPersonId: 1,
  groups: {},
  rules: {},
  judged: { rulesVersion: null, sinceSeq: 0 },
  wanted: null,
  deadLetterNews: null,
};

/**
 * Visits the people whose points lapse at the start of a UTC day, in bounded steps of the alarm. If a batch changes a person
 * first, the batch removes the lapsed points, and the run skips the person. Writes at most three rows a person: their row and two indexes.
 */
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { fallenBelow } from "../../domain/events/workspace-event.ts";
import { SCORE_FALLS_MAX } from "../../limits.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import { addCrossings, wants } from "../state/raise-events.ts";
import type { StoreState } from "../state/store-state.ts";
import { scoreAt, type LapsingScore } from "./scoring.ts";
import { People } from "./people.ts";

/** A step of this size takes about 20 ms. */
export const LAPSE_STEP_PEOPLE = 500;
/** Reading this number of due people takes about 40 ms. If more are due, the run sends a summary. */
const COUNTED_PEOPLE = 20_000;

/** Milliseconds since 1970; null: no points will lapse. */
export function nextLapseMs(sql: SqlStorage): number | null {
  return sql
    .exec<{ at: number | null }>("SELECT min(next_lapse_at) AS at FROM people WHERE next_lapse_at IS NOT NULL")
    .one().at;
}

/** Whether stored scores include points that have lapsed. */
export function areLapsesDue(sql: SqlStorage, nowMs: number): boolean {
  return (nextLapseMs(sql) ?? Number.POSITIVE_INFINITY) <= nowMs;
}

export function stepLapses(state: StoreState, nowMs: number): void {
  const { sql, books, raised } = state;
  const today = Math.max(dayOf(nowMs), books.lapsedUntil);
  const run = (books.lapseRun ??= { isSummary: isSummaryNeeded(state, today), points: 0, thresholds: [] });
  const due = sql.exec<{ id: number }>(
    "SELECT id FROM people WHERE next_lapse_at <= ? ORDER BY next_lapse_at LIMIT ?",
    today * DAY_MS,
    LAPSE_STEP_PEOPLE,
  );
  const people = new People(state, nowMs);
  people.lapse(due.toArray().map(({ id }) => id));
  people.write();
  if (people.news !== null) {
    run.points += people.news.points;
    addCrossings(run.thresholds, people.news.crossings);
    raised.raise(people.news.accountEvents(nowMs));
    if (!run.isSummary) raised.raise(people.news.personEvents(nowMs));
  }
  if (!areLapsesDue(sql, today * DAY_MS)) {
    if (run.isSummary && wants(state, "people.rescored")) {
      const { points, thresholds } = run;
      const none = { rule_id: null, email: null, added: 0, changed: 0, removed: 0 };
      raised.raise([newEvent("people.rescored", { cause: "points_lapsed", ...none, points, thresholds }, nowMs)]);
    }
    books.lapseRun = null;
  }
  state.signals.flush();
}

/** Whether more than SCORE_FALLS_MAX due people will fall below a threshold. */
function isSummaryNeeded({ sql, books }: StoreState, today: number): boolean {
  const thresholds = books.wanted?.thresholds ?? [];
  if (thresholds.length === 0) return false;
  const falls = new Map<number, number>();
  let people = 0;
  const due = sql.exec<LapsingScore & Record<string, SqlStorageValue>>(
    "SELECT score, lapses, next_lapse_at FROM people WHERE next_lapse_at <= ?",
    today * DAY_MS,
  );
  for (const person of due) {
    if (++people > COUNTED_PEOPLE) return true;
    for (const threshold of fallenBelow(person.score, scoreAt(person, today).score, thresholds)) {
      const count = (falls.get(threshold) ?? 0) + 1;
      if (count > SCORE_FALLS_MAX) return true;
      falls.set(threshold, count);
    }
  }
  return false;
}

/**
 * Visits the people whose points lapse at the start of a UTC day, in bounded steps of the alarm. If a batch changes a person
 * first, the batch removes the lapsed points, and the run skips the person. Writes at most three rows a person: their row and two indexes.
 *
 * `lapse_crossings` keeps the thresholds that people passed, until the end of the run raises a notification for each. If there are more
 * than LAPSE_CROSSINGS_MAX, the table is emptied, and the run ends with one summary.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { LAPSE_CROSSINGS_MAX } from "../../limits.ts";
import { newNotification } from "../../notifications/raised-notifications.ts";
import { insertRow } from "../../platform/sql-row.ts";
import { addCrossings, crossingNotifications, wants, type Crossing } from "../state/raise-notifications.ts";
import { todayOf, type StoreState } from "../state/store-state.ts";
import { People } from "./people.ts";
import { nextLapsingMs } from "../state/due.ts";
import { STEPS } from "../steps.ts";

/** Whether stored scores include points that have lapsed. */
export function areLapsesDue(state: Pick<StoreState, "sql" | "head">, nowMs = Date.now()): boolean {
  return (nextLapsingMs(state.sql) ?? Number.POSITIVE_INFINITY) <= todayOf(state, nowMs) * DAY_MS;
}

export function stepLapses(state: StoreState, nowMs: number): void {
  const { sql, head } = state;
  const day = todayOf(state, nowMs);
  // This run also visits the people that the run of an earlier day did not reach.
  if (head.lapseRun !== null && head.lapseRun.day < day) endRun(state, nowMs);
  const run = (head.lapseRun ??= { day, isSummary: false, points: 0, thresholds: [] });
  const due = sql.exec<{ id: number }>(
    "SELECT id FROM people WHERE next_lapse_at <= ? ORDER BY next_lapse_at LIMIT ?",
    day * DAY_MS,
    STEPS.lapsePeople,
  );
  const people = new People(state, nowMs);
  people.lapse(due.toArray().map(({ id }) => id));
  const { points, crossings } = people.flush({ summed: "lapses" });
  run.points += points;
  addCrossings(run.thresholds, crossings);
  if (!run.isSummary) keepCrossings(state, crossings, nowMs);
  if (areLapsesDue(state, nowMs)) state.due.atOnce("lapse");
  else endRun(state, nowMs);
  state.signals.flush();
}

function keepCrossings({ sql, head: { lapseRun } }: StoreState, crossings: readonly Crossing[], nowMs: number): void {
  if (lapseRun === null || crossings.length === 0) return;
  const kept = lapseRun.thresholds.reduce((sum, { risen, fallen }) => sum + risen + fallen, 0);
  lapseRun.isSummary = kept > LAPSE_CROSSINGS_MAX;
  if (lapseRun.isSummary) sql.exec("DELETE FROM lapse_crossings");
  for (const { person, threshold, score, scoreBefore } of lapseRun.isSummary ? [] : crossings)
    insertRow(sql, "lapse_crossings", { person_id: person.id, threshold, score, score_before: scoreBefore, at: nowMs });
}

function endRun(state: StoreState, nowMs: number): void {
  const { head, raised } = state;
  if (head.lapseRun === null) return;
  const { isSummary, points, thresholds } = head.lapseRun;
  head.lapseRun = null;
  if (!isSummary && thresholds.length > 0) raised.raise(takeCrossings(state));
  else if (isSummary && wants(state, "people.rescored")) {
    const none = { rule_id: null, email: null, added: 0, changed: 0, removed: 0 };
    raised.raise([newNotification("people.rescored", { cause: "points_lapsed", ...none, points, thresholds }, nowMs)]);
  }
}

/** The notifications of the run, without people who are deleted meanwhile. Empties the table. */
function takeCrossings(state: StoreState): ReturnType<typeof crossingNotifications> {
  const { sql } = state;
  type Row = { id: number; email: string; threshold: number; score: number; score_before: number; at: number };
  const rows = sql.exec<Row>(
    `SELECT people.id, email, threshold, crossed.score, crossed.score_before, "at" FROM lapse_crossings AS crossed
       CROSS JOIN people ON people.id = crossed.person_id ORDER BY crossed.person_id, threshold`,
  );
  const events = rows.toArray().flatMap(({ id, email, threshold, score, score_before: scoreBefore, at }) => {
    return crossingNotifications(state, [{ person: { id, email }, threshold, score, scoreBefore, signalId: null }], at);
  });
  sql.exec("DELETE FROM lapse_crossings");
  return events;
}

/** Notification of a rule's job: one when the job has ended. Until then its row holds the counts. */
import { newEvent } from "../../notifications/raised-events.ts";
import type { Crossings, ScoreNews } from "../events/score-news.ts";
import { wants } from "../events/wanted.ts";
import type { StoreState } from "../state/store-state.ts";

/** Changes of scores by a rule's job, as stored in its row. */
export interface Rescoring {
  rule_id: string;
  added: number;
  changed: number;
  removed: number;
  points: number;
  /** JSON of an array of Crossings. */
  crossings: string;
}

/** Adds the changes of one step to a job's row. */
export function countScores(job: Rescoring, news: ScoreNews | null): void {
  if (news === null) return;
  job.points += news.points;
  const crossings = [...news.crossings];
  if (crossings.length === 0) return;
  const sums = JSON.parse(job.crossings) as Crossings[];
  for (const { threshold, risen, fallen } of crossings) {
    const known = sums.find((one) => one.threshold === threshold);
    if (known === undefined) sums.push({ threshold, risen, fallen });
    else Object.assign(known, { risen: known.risen + risen, fallen: known.fallen + fallen });
  }
  job.crossings = JSON.stringify(sums.sort((one, other) => one.threshold - other.threshold));
}

/** Notifies the changes of a rule's job when it has ended or another replaces it. */
export function raiseRuleApplied(state: StoreState, job: Rescoring, nowMs: number): void {
  const { rule_id, added, changed, removed, points } = job;
  const thresholds = JSON.parse(job.crossings) as Crossings[];
  // Unchanged scores by a newer version of the rule are not notified.
  const isNews = added + removed > 0 || points !== 0 || thresholds.length > 0;
  if (!isNews || !wants(state, "people.rescored")) return;
  const data = { cause: "rule_applied" as const, rule_id, email: null, added, changed, removed, points, thresholds };
  state.raised.raise([newEvent("people.rescored", data, nowMs)]);
}

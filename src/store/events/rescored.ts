/**
 * Jobs that change many scores, as they are told: one event when a job has ended, in place of one for each signal. Until
 * then the job's row counts.
 */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { newEvent } from "../../events/raised-events.ts";
import { countInLinkJob, linkCounts } from "../people/link-jobs.ts";
import type { People } from "../people/people.ts";
import { hasEntries } from "../people/timelines.ts";
import { visitorList } from "../people/visitor-keys.ts";
import type { VisitorId } from "../people/visitor-keys.ts";
import type { StoreState } from "../state.ts";
import type { Crossings, ScoreNews } from "./score-news.ts";
import { wants } from "./wanted.ts";

/** What a rule's job has done to scores, as its row says it. */
export interface Rescoring {
  rule_id: string;
  added: number;
  changed: number;
  removed: number;
  points: number;
  /** JSON of an array of Crossings. */
  crossings: string;
}

/** Adds to a job's row what one of its steps has done to scores. */
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

/** Tells what a rule's job has done: it has ended, or another one takes its place. */
export function raiseRuleApplied(state: StoreState, job: Rescoring, nowMs: number): void {
  const { rule_id, added, changed, removed, points } = job;
  const thresholds = JSON.parse(job.crossings) as Crossings[];
  // That signals score by a newer version of the rule what they did before is nobody's news.
  const isNews = added + removed > 0 || points !== 0 || thresholds.length > 0;
  if (!isNews || !wants(state, "people.rescored")) return;
  const data = { cause: "rule_applied" as const, rule_id, email: null, added, changed, removed, points, thresholds };
  state.raised.raise([newEvent("people.rescored", data, nowMs)]);
}

/**
 * Tells what a step of linking has done: where a person has come to a threshold, and, of a visitor of whom nothing is left to
 * be linked, what all steps have made of their signals. To be called before such jobs are ended.
 *
 * @param due visitors, the first of them with the lines that the step was about.
 */
export function raiseLinked(
  state: StoreState,
  people: People,
  due: readonly { visitor: VisitorId; seqs: readonly number[] }[],
  nowMs: number,
): void {
  const { news } = people;
  if (news === null) return;
  const events = news.crossedEvents(nowMs);
  if (wants(state, "people.rescored")) events.push(...linkedEvents(state, people, news, due, nowMs));
  state.raised.raise(events);
}

function linkedEvents(
  { sql }: StoreState,
  people: People,
  news: ScoreNews,
  due: readonly { visitor: VisitorId; seqs: readonly number[] }[],
  nowMs: number,
): WorkspaceEvent[] {
  const made = news.bySeq();
  return due.flatMap(({ visitor, seqs }) => {
    let [added, points] = [0, 0];
    for (const seq of seqs) {
      const scored = made.get(seq);
      added += scored?.added ?? 0;
      points += scored?.points ?? 0;
      // A line may be listed under two of a visitor's ids, and is told once.
      made.delete(seq);
    }
    if (hasEntries(sql, visitorList(visitor))) {
      countInLinkJob(sql, visitor, { added, points });
      return [];
    }
    const before = linkCounts(sql, visitor);
    added += before.added;
    points += before.points;
    const owner = people.identities.claimsOf(visitor).at(-1);
    const email = owner === undefined ? null : people.emailOf(owner.personId);
    if (added === 0 || email === null) return [];
    const counts = { added, changed: 0, removed: 0, points, thresholds: [] };
    return newEvent("people.rescored", { cause: "signals_linked", rule_id: null, email, ...counts }, nowMs);
  });
}

/** What linking has done to scores, as it is told: one event when nothing of a visitor is left to be linked. */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { newEvent } from "../../events/raised-events.ts";
import type { ScoreNews } from "../events/score-news.ts";
import { wants } from "../events/wanted.ts";
import type { StoreState } from "../state/store-state.ts";
import { countInLinkJob, linkCounts } from "./link-jobs.ts";
import type { People } from "./people.ts";
import { hasEntries } from "./timelines.ts";
import { visitorList } from "./visitor-keys.ts";
import type { VisitorId } from "./visitor-keys.ts";
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

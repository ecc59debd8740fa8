/** Notifications of scores changed by linking: one per person after a visitor is linked completely. */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import { wants } from "../events/wanted.ts";
import type { StoreState } from "../state/store-state.ts";
import { type LinkCounts, linkCounts, saveLinkCounts } from "./link-jobs.ts";
import type { ListedLines } from "./linked-lines.ts";
import type { People } from "./people.ts";
import { hasEntries } from "./timelines.ts";
import { visitorList } from "./visitor-keys.ts";

/**
 * Raises notifications for a link step: thresholds that people have reached, and the sum of all steps for each
 * completely linked visitor. Call it before those jobs end.
 *
 * @param due visitors; the step was about the first of them. @param done result of the step for each line.
 */
export function raiseLinked(
  state: StoreState,
  people: People,
  due: readonly ListedLines[],
  done: Map<number, LinkCounts>,
  nowMs: number,
): void {
  if (people.news === null) return;
  const events = people.news.crossedEvents(nowMs);
  if (wants(state, "people.rescored")) events.push(...linkedEvents(state, people, due, done, nowMs));
  state.raised.raise(events);
}

function linkedEvents(
  { sql }: StoreState,
  people: People,
  due: readonly ListedLines[],
  done: Map<number, LinkCounts>,
  nowMs: number,
): WorkspaceEvent[] {
  return due.flatMap(({ visitor, seqs }) => {
    const here = seqs.flatMap((seq) => done.get(seq) ?? []);
    // A line on lists of two ids is notified once.
    for (const seq of seqs) done.delete(seq);
    const before = linkCounts(sql, visitor);
    const counts = here.length === 0 ? before : sumsOf([...before, ...here]);
    if (hasEntries(sql, visitorList(visitor))) {
      if (here.length > 0) saveLinkCounts(sql, visitor, counts);
      return [];
    }
    return counts.flatMap(({ personId, ...sums }) => {
      const email = people.emailOf(personId);
      if (email === null || (sums.added + sums.removed === 0 && sums.points === 0)) return [];
      const data = { cause: "signals_linked" as const, rule_id: null, email, ...sums, thresholds: [] };
      return newEvent("people.rescored", data, nowMs);
    });
  });
}

/** Counts with those of each person added up. */
function sumsOf(counts: readonly LinkCounts[]): LinkCounts[] {
  const sums = new Map<number, LinkCounts>();
  for (const one of counts) {
    const sum = sums.get(one.personId) ?? { personId: one.personId, added: 0, changed: 0, removed: 0, points: 0 };
    sum.added += one.added;
    sum.changed += one.changed;
    sum.removed += one.removed;
    sum.points += one.points;
    sums.set(one.personId, sum);
  }
  return [...sums.values()];
}

/**
 * Signals whose visitor has become known (spec §6.1): those that wait as anonymous, and those that an anonymous id gave to
 * a person before their user id, which counts for more, was somebody's. The batch that makes visitors known links them
 * itself, as far as it takes nothing but what the store has: signals that have been run through the rules as they are now,
 * and few enough. The others are a job for each visitor (link-jobs.ts), written in the transaction that made them known,
 * and there until their list is empty. Jobs go in steps of many visitors, each of which may break off anywhere: payloads
 * are fetched, run through the rules as they are now, and given to the persons in one transaction that takes them off the
 * lists.
 */
import type { WorkspaceRules } from "../../control/rules-cache.ts";
import { isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import { COLD_RETRY_MS, RULE_STEP_SEGMENTS } from "../../limits.ts";
import { raiseLinked } from "./link-news.ts";
import type { ColdObjects } from "../log/cold.ts";
import { readPayloads } from "../log/payloads.ts";
import type { Segment } from "../log/segment.ts";
import { EventGroupChanges } from "../state/event-group-changes.ts";
import { isStale } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import {
  dueLinkJobs,
  endLinkJob,
  hasFreshLinkJob,
  hasLinkJob,
  isLinkJobDue,
  putOffLinkJob,
  startLinkJob,
  LINK_ALARM_MS,
} from "./link-jobs.ts";
import { Linking, isJudged } from "./linked-lines.ts";
import type { ListedLines } from "./linked-lines.ts";
import { People } from "./people.ts";
import { writeAndRecount } from "./recount.ts";
import { firstEntries, hasEntries } from "./timelines.ts";
import { visitorList } from "./visitor-keys.ts";
import type { VisitorId } from "./visitor-keys.ts";

/** Anonymous signals that are linked to their person in one step. */
export const LINK_PAGE_SIGNALS = 500;

/** Anonymous signals linked to their person in one step. */
export interface LinkWork {
  state: StoreState;
  storage: DurableObjectStorage;
  objects: ColdObjects;
  /** The workspace's rules, as they are now. */
  rules: () => Promise<WorkspaceRules>;
  /** Whether a step of this run failed because the rules were older than ones already applied. */
  isStale?: boolean;
}

/** A segment that was read, with its listed lines. */
interface Part {
  segment: Segment;
  seqs: readonly number[];
}

/** Links signals of visitors whom the batch identifies, while it is recorded. Jobs do the rest. */
export function linkAtOnce(
  state: StoreState,
  { people, groups }: { people: People; groups: EventGroupChanges },
  visitors: readonly VisitorId[],
  { rulesVersion, nowMs }: { rulesVersion: number | null; nowMs: number },
): void {
  const { sql } = state;
  const listed = listedOf(state, visitors);
  const waiting = listed.filter(({ seqs }) => seqs.length > 0);
  if (rulesVersion !== null && waiting.length > 0) {
    const fresh = waiting.filter(({ visitor }) => !hasLinkJob(sql, visitor));
    const linking = new Linking(state, { people, groups }, { version: rulesVersion, rules: null }, new Map(), nowMs);
    for (const { segment, seqs } of partsOf(state, fresh)) linking.link(segment, seqs);
    linking.takeOff(fresh);
  }
  for (const visitor of [...waiting.map((one) => one.visitor), ...visitors.slice(listed.length)])
    if (hasEntries(sql, visitorList(visitor))) startLinkJob(sql, visitor, nowMs);
}

/**
 * Runs one step of linking. A job without its payloads waits for a while.
 *
 * @returns whether the next step can follow at once; false also without further jobs. @throws if the rules cannot be
 * read.
 */
export async function stepLinkJobs(work: LinkWork): Promise<boolean> {
  const { state, objects } = work;
  const { sql, signals } = state;
  const visitors = dueLinkJobs(sql, Date.now() + LINK_ALARM_MS, LINK_PAGE_SIGNALS);
  if (visitors.length === 0) return false;
  const current = await work.rules();
  const parts = partsOf(state, listedOf(state, visitors));
  const payloads = await readPayloads(signals, objects, wantedOf(state, parts, current));
  return inTransaction(work, () => {
    // If newer rules were applied in the meantime, the step is repeated once, and later after that.
    if (isStale(sql, current.version)) {
      if (work.isStale === true) throw new Error("the mapping rules are older than some that have been applied");
      return (work.isStale = true);
    }
    const nowMs = Date.now();
    // Another job may own a visitor's list by now, for example the deletion of its person.
    const changing = { people: new People(state), groups: new EventGroupChanges() };
    const due = visitors.filter((visitor) => isLinkJobDue(sql, visitor, nowMs + LINK_ALARM_MS));
    // Lines of an id without an owner wait for the next person named by it.
    const isKnown = (visitor: VisitorId): boolean => changing.people.identities.claimsOf(visitor).length > 0;
    const listed = listedOf(state, due.filter(isKnown));
    const here = new Set(listed.flatMap(({ seqs }) => seqs));
    const linking = new Linking(state, changing, current, payloads, nowMs);
    for (const { segment, seqs } of parts) {
      // Lines that have changed meanwhile are left for the next step.
      const left = seqs.filter((seq) => here.has(seq));
      if (signals.isCurrent(segment)) linking.link(segment, left);
    }
    for (const visitor of linking.takeOff(listed)) putOffLinkJob(sql, visitor, nowMs + COLD_RETRY_MS);
    writeAndRecount(state, changing.people);
    const looked = new Set(listed.map(({ visitor }) => visitor));
    const others = due.filter((visitor) => !looked.has(visitor)).map((visitor) => ({ visitor, seqs: [] }));
    const took = [...listed, ...others];
    raiseLinked(state, changing.people, took, linking.done, nowMs);
    for (const visitor of due)
      if (!isKnown(visitor) || !hasEntries(sql, visitorList(visitor))) endLinkJob(sql, visitor);
    changing.groups.write(state);
    signals.flush();
    return hasFreshLinkJob(sql, nowMs);
  });
}

/** Runs one transaction and keeps memory consistent with storage after a rollback. */
function inTransaction<T>({ state, storage }: LinkWork, act: () => T): T {
  try {
    return storage.transactionSync(act);
  } catch (error) {
    state.reload();
    throw error;
  }
}

/** The oldest lines of the visitors' lists, LINK_PAGE_SIGNALS at most. */
function listedOf({ sql }: StoreState, visitors: readonly VisitorId[]): ListedLines[] {
  const listed: ListedLines[] = [];
  let left = LINK_PAGE_SIGNALS;
  for (const visitor of visitors) {
    if (left === 0) break;
    const seqs = firstEntries(sql, visitorList(visitor))
      .slice(0, left)
      .map(({ seq }) => seq);
    left -= seqs.length;
    listed.push({ visitor, seqs });
  }
  return listed;
}

/** Segments of the lines, RULE_STEP_SEGMENTS at most: they are in memory as a whole, however few of their lines are listed. */
function partsOf({ signals }: StoreState, listed: readonly ListedLines[]): Part[] {
  const parts: Part[] = [];
  for (const part of signals.segmentsOf(listed.flatMap(({ seqs }) => seqs))) {
    if (parts.length === RULE_STEP_SEGMENTS) break;
    parts.push(part);
  }
  return parts;
}

/** The lines whose payloads it takes to say what they score. */
function wantedOf(state: StoreState, parts: readonly Part[], { version, rules }: WorkspaceRules): Part[] {
  return parts
    .map(({ segment, seqs }) => ({
      segment,
      seqs: seqs.filter((seq) => {
        const facts = segment.facts(seq);
        return !isJudged(state, seq, facts, version) && isAboutEvent(rules, facts.event ?? "");
      }),
    }))
    .filter(({ seqs }) => seqs.length > 0);
}

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
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import type { JsonObject } from "../../domain/json/json-value.ts";
import { evaluate, pointsOf } from "../../domain/rules/evaluate-rules.ts";
import { isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import type { CompiledRules, RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import { COLD_RETRY_MS, RULE_STEP_SEGMENTS } from "../../limits.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import { wants } from "../state/raise-events.ts";
import { readPayloads, type ColdObjects, type Payloads } from "../log/cold.ts";
import type { Facts, Owner } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import { isStale } from "../state/rule-outcomes.ts";
import { changeStatus, countedSignal } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import {
  dueLinkJobs,
  endLinkJob,
  hasFreshLinkJob,
  hasLinkJob,
  isLinkJobDue,
  LINK_ALARM_MS,
  linkCounts,
  putOffLinkJob,
  saveLinkCounts,
  startLinkJob,
} from "./link-jobs.ts";
import type { LinkCounts } from "./link-jobs.ts";
import { People } from "./people.ts";
import { writeAndRecount } from "./recount.ts";
import { firstEntries, hasEntries, scoredBy, VisitorLists } from "./timelines.ts";
import { namesOnLine, visitorList } from "./visitors.ts";
import type { VisitorId } from "./visitors.ts";

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
  people: People,
  visitors: readonly VisitorId[],
  { rulesVersion, nowMs }: { rulesVersion: number | null; nowMs: number },
): void {
  const { sql } = state;
  const listed = listedOf(state, visitors);
  const waiting = listed.filter(({ seqs }) => seqs.length > 0);
  if (rulesVersion !== null && waiting.length > 0) {
    const fresh = waiting.filter(({ visitor }) => !hasLinkJob(sql, visitor));
    const linking = new Linking(state, people, { version: rulesVersion, rules: null }, new Map(), nowMs);
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
    const people = new People(state);
    const due = visitors.filter((visitor) => isLinkJobDue(sql, visitor, nowMs + LINK_ALARM_MS));
    // Lines of an id without an owner wait for the next person named by it.
    const isKnown = (visitor: VisitorId): boolean => people.identities.claimsOf(visitor).length > 0;
    const listed = listedOf(state, due.filter(isKnown));
    const here = new Set(listed.flatMap(({ seqs }) => seqs));
    const linking = new Linking(state, people, current, payloads, nowMs);
    for (const { segment, seqs } of parts) {
      // Lines that have changed meanwhile are left for the next step.
      const left = seqs.filter((seq) => here.has(seq));
      if (signals.isCurrent(segment)) linking.link(segment, left);
    }
    for (const visitor of linking.takeOff(listed)) putOffLinkJob(sql, visitor, nowMs + COLD_RETRY_MS);
    writeAndRecount(state, people);
    const looked = new Set(listed.map(({ visitor }) => visitor));
    const others = due.filter((visitor) => !looked.has(visitor)).map((visitor) => ({ visitor, seqs: [] }));
    const took = [...listed, ...others];
    raiseLinked(state, people, took, linking.done, nowMs);
    for (const visitor of due)
      if (!isKnown(visitor) || !hasEntries(sql, visitorList(visitor))) endLinkJob(sql, visitor);
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

/** The oldest lines on a visitor's list. */
export interface ListedLines {
  visitor: VisitorId;
  seqs: readonly number[];
}

/** Whether the line has the outcomes of that rules version, or its event has no rules. */
export function isJudged({ books: { judged } }: StoreState, seq: number, facts: Facts, rulesVersion: number): boolean {
  if (facts.kind !== "signal") return true;
  return facts.status === "anonymous" && judged.rulesVersion === rulesVersion && seq >= judged.sinceSeq;
}

/** Gives lines to the persons their visitors are, with what they scored. */
export class Linking {
  readonly #state: StoreState;
  readonly #people: People;
  readonly #rules: { version: number; rules: CompiledRules | null };
  readonly #payloads: Payloads;
  readonly #nowMs: number;
  readonly #lists = new VisitorLists();
  /** Lines that have left their lists, and those that lack their payloads. */
  readonly #done = new Set<number>();
  readonly #lacking = new Set<number>();
  /** Changes of scores by linking a line, by line number. */
  readonly done = new Map<number, LinkCounts>();

  /** Prepares to link. @param rules null: only what can be said without them is done, and what takes a bounded time. */
  constructor(
    state: StoreState,
    people: People,
    rules: { version: number; rules: CompiledRules | null },
    payloads: Payloads,
    nowMs: number,
  ) {
    this.#state = state;
    this.#people = people;
    this.#rules = rules;
    this.#payloads = payloads;
    this.#nowMs = nowMs;
  }

  link(segment: Segment, seqs: readonly number[]): void {
    const changes = new Map<number, Facts>();
    for (const seq of seqs) {
      const before = segment.facts(seq);
      const linked = this.#linked(seq, before);
      if (linked === null) continue;
      this.#done.add(seq);
      this.#lists.remove(seq, before, linked.listedBy);
      changes.set(seq, linked);
    }
    this.#state.signals.rewrite(segment, changes);
  }

  /** Removes linked lines from the lists. Returns the visitors for whom nothing could be done without payloads. */
  takeOff(listed: readonly ListedLines[]): VisitorId[] {
    const { sql, signals } = this.#state;
    const left = listed.flatMap(({ seqs }) => seqs).filter((seq) => !this.#done.has(seq));
    // Of lines that no segment has any more nothing is left to be linked.
    const gone = new Set(left.filter((seq) => signals.isGone(seq)));
    const lacking = listed.flatMap(({ visitor, seqs }) => {
      for (const seq of seqs) if (gone.has(seq)) this.#lists.removeFrom(visitorList(visitor), seq);
      const isIdle = seqs.every((seq) => !this.#done.has(seq) && !gone.has(seq));
      return isIdle && seqs.some((seq) => this.#lacking.has(seq)) ? [visitor] : [];
    });
    this.#lists.write(sql);
    return lacking;
  }

  /** Facts of a line after linking, or with its old person; null: linking needs the rules or a payload. */
  #linked(seq: number, facts: Facts): Facts | null {
    const { admission, owner: before } = facts;
    const receipt = { receivedAtMs: admission.receivedAtMs, ordinal: admission.ordinal };
    const isOpen = facts.deletedAtMs === null && (facts.status === "anonymous" || facts.status === "processed");
    const owner = isOpen ? this.#people.ownerOf(namesOnLine(facts), receipt) : null;
    const email = owner && this.#people.emailOf(owner.personId);
    if (owner === null || email === null || (before !== null && !this.#canBeTaken(before))) {
      return { ...facts, listedBy: [] };
    }
    // The owner of its user id takes over a line that only an anonymous id had assigned.
    const listedBy = owner.by === "anonymous_id" ? facts.listedBy.filter((kind) => kind === "user_id") : [];
    if (before?.personId === owner.personId) return { ...facts, owner, listedBy };
    // A line is taken from a person only with the rules at hand, for all of that person's signals have to be counted again.
    if (before !== null && this.#rules.rules === null) return null;
    const judged = this.#judge(seq, facts, email);
    if (judged === null) {
      this.#lacking.add(seq);
      return null;
    }
    const lost = before === null ? [] : this.#people.disown(before.personId, seq, facts);
    changeStatus(this.#state.books, countedSignal(facts), facts.status, "processed");
    const linked: Facts = { ...facts, ...judged, status: "processed", owner, listedBy, linkedAtMs: this.#nowMs };
    this.#people.enrich(owner.personId, facts.traits, receipt);
    this.#people.seen(owner.personId, receipt.receivedAtMs);
    const won = this.#people.own(owner.personId, { seq, scored: scoredBy(linked) }, facts.event);
    this.done.set(seq, countsOf(owner.personId, lost, won));
    return linked;
  }

  /** Whether a line may change its person. A line of a person being deleted stays with them. */
  #canBeTaken({ by, personId }: Owner): boolean {
    return by === "anonymous_id" && this.#people.emailOf(personId) !== null;
  }

  /** Rule outcomes of the line; null: its payload is missing here. */
  #judge(seq: number, facts: Facts, email: string): Pick<Facts, "rulesTried" | "outcomes"> | null {
    const { version, rules } = this.#rules;
    if (isJudged(this.#state, seq, facts, version)) return facts;
    if (rules === null) return null;
    if (!isAboutEvent(rules, facts.event ?? "")) return NOTHING;
    const payload = this.#payloads.get(seq);
    if (payload === undefined) return null;
    if (payload === null) return NOTHING;
    const signal = normalise(JSON.parse(payload) as JsonObject, facts.source ?? undefined);
    const evaluation = evaluate(rules, signal, email);
    if (evaluation === null) return NOTHING;
    return { rulesTried: evaluation.rulesTried, outcomes: this.#state.outcomes.idsOf(evaluation.matches) };
  }
}

/** Moving a scoring line from one person to another changes no total. */
function countsOf(personId: number, lost: readonly RuleMatch[], won: readonly RuleMatch[]): LinkCounts {
  const points = pointsOf(won) - pointsOf(lost);
  return {
    personId,
    added: Number(lost.length === 0 && won.length > 0),
    changed: Number(lost.length > 0 && won.length > 0 && points !== 0),
    removed: Number(lost.length > 0 && won.length === 0),
    points,
  };
}

const NOTHING = { rulesTried: 0, outcomes: [] };

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

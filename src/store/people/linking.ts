/**
 * Signals whose visitor has become known (spec §6.1): those that wait as anonymous, and those that an anonymous id gave to
 * a person before their user id, which counts for more, was somebody's. A job for each visitor (link-jobs.ts), written in
 * the transaction that made them known, and there until their list is empty. It goes in steps, each of which may break off
 * anywhere: payloads are fetched, run through the rules as they are now, and given to the person in one transaction that
 * takes them off the list.
 */
import type { WorkspaceRules } from "../../control/rules-cache.ts";
import { normalise } from "../../domain/normalise.ts";
import type { JsonObject } from "../../domain/signal.ts";
import {
  COLD_RETRY_MS,
  LINK_ALARM_MS,
  LINK_PAGE_SIGNALS,
  RULE_STEP_MAX_CHARACTERS,
  RULE_STEP_SEGMENTS,
} from "../../limits.ts";
import { deletedUntilMs } from "../deletion/retention.ts";
import type { ColdObjects } from "../log/cold-objects.ts";
import { isEmptied } from "../log/line.ts";
import type { Facts } from "../log/line.ts";
import { readPayloads } from "../log/payloads.ts";
import type { Payloads } from "../log/payloads.ts";
import type { Segment } from "../log/segment.ts";
import type { RuleMatch } from "../protocol.ts";
import { EventGroupChanges } from "../record/event-groups.ts";
import { isStale } from "../rules/rule-jobs.ts";
import { evaluateSignal } from "../rules/rule-signals.ts";
import type { StoreState } from "../state.ts";
import { dueLinkJob, endLinkJob, hasFreshLinkJob, isLinkJobDue, putOffLinkJob } from "./link-jobs.ts";
import type { VisitorId } from "./identities.ts";
import { People, visitorOf } from "./people.ts";
import { allEntries, changeEntries, firstEntries, hasEntries, personList, visitorList } from "./timelines.ts";
import type { Scored } from "./timelines.ts";

/** What a step works with. */
export interface LinkWork {
  state: StoreState;
  storage: DurableObjectStorage;
  objects: ColdObjects;
  /** The workspace's, as they are now. */
  rules: () => Promise<WorkspaceRules>;
  /** A step of this turn was in vain, since the rules were older than some that have been applied. */
  isStale?: boolean;
}

/** A segment as it was read, and the lines of it that are on the visitor's list. */
interface Part {
  segment: Segment;
  seqs: readonly number[];
}

/**
 * One step. A job whose payloads cannot be had waits for a while.
 *
 * @returns whether the next step can follow at once; false also when there are no more jobs.
 * @throws when the rules cannot be asked for.
 */
export async function stepLinkJob(work: LinkWork): Promise<boolean> {
  const { state, objects, rules } = work;
  const visitor = dueLinkJob(state.sql, Date.now() + LINK_ALARM_MS);
  if (visitor === null) return false;
  const current = await rules();
  const parts = nextParts(state, visitor);
  const payloads = await readPayloads(state.signals, objects, parts);
  return inTransaction(work, () => {
    // Run through rules that are older than some that have been applied meanwhile: once more, and then later.
    if (isStale(state.sql, current.version)) {
      if (work.isStale === true) throw new Error("the mapping rules are older than some that have been applied");
      return (work.isStale = true);
    }
    const nowMs = Date.now();
    // Its person is being deleted, for instance: the list is not this step's any more.
    if (!isLinkJobDue(state.sql, visitor, nowMs + LINK_ALARM_MS)) return hasFreshLinkJob(state.sql, nowMs);
    const step = new LinkStep(state, current, payloads, nowMs);
    const listed = new Set(firstEntries(state.sql, visitorList(visitor)).map(({ seq }) => seq));
    for (const part of parts) {
      // What has changed meanwhile is left for the next step.
      if (state.signals.isCurrent(part.segment))
        step.link(
          part.segment,
          part.seqs.filter((seq) => listed.has(seq)),
        );
    }
    step.write(visitor);
    const list = visitorList(visitor);
    if (!hasEntries(state.sql, list)) endLinkJob(state.sql, visitor);
    else if (step.done.size === 0 && parts.every(({ segment }) => state.signals.isCurrent(segment))) {
      // Payloads that cannot be had, most likely: not again at once.
      putOffLinkJob(state.sql, visitor, nowMs + COLD_RETRY_MS);
    }
    return hasFreshLinkJob(state.sql, nowMs);
  });
}

/** Memory follows what is stored, also where a transaction is taken back. */
function inTransaction<T>({ state, storage }: LinkWork, act: () => T): T {
  try {
    return storage.transactionSync(act);
  } catch (error) {
    state.reload();
    throw error;
  }
}

/** The oldest lines on the list, at most LINK_PAGE_SIGNALS, and fewer where they are large or lie far apart. */
function nextParts(state: StoreState, visitor: VisitorId): Part[] {
  const seqs = firstEntries(state.sql, visitorList(visitor))
    .slice(0, LINK_PAGE_SIGNALS)
    .map(({ seq }) => seq);
  const parts: Part[] = [];
  let characters = 0;
  for (const part of state.signals.segmentsOf(seqs)) {
    // What is in memory at a time are whole segments, however few of their lines are the visitor's.
    if (characters >= RULE_STEP_MAX_CHARACTERS || parts.length >= RULE_STEP_SEGMENTS) break;
    parts.push(part);
    const payloads = state.signals.payloadsOf(part.segment);
    for (const seq of part.seqs) characters += payloads?.[seq - part.segment.firstSeq]?.length ?? 0;
  }
  return parts;
}

/** Gives lines to the persons their visitors are, with what they scored. */
class LinkStep {
  readonly #state: StoreState;
  readonly #rules: WorkspaceRules;
  readonly #payloads: Payloads;
  readonly #nowMs: number;
  readonly #people: People;
  readonly #groups = new EventGroupChanges();
  /** Persons that a line was taken from. */
  readonly #left = new Set<number>();
  /** Lines that need not be on the list any more. */
  readonly done = new Set<number>();

  constructor(state: StoreState, rules: WorkspaceRules, payloads: Payloads, nowMs: number) {
    this.#state = state;
    this.#rules = rules;
    this.#payloads = payloads;
    this.#nowMs = nowMs;
    this.#people = new People(state);
  }

  link(segment: Segment, seqs: readonly number[]): void {
    const changes = new Map<number, Facts>();
    for (const seq of seqs) {
      const facts = this.#linked(seq, segment.facts(seq));
      if (facts !== null) changes.set(seq, facts);
    }
    this.#state.signals.rewrite(segment, changes);
  }

  write(visitor: VisitorId): void {
    const { sql, signals } = this.#state;
    // Those that no segment has any more are gone: nothing is left to be linked of them.
    const gone = firstEntries(sql, visitorList(visitor)).filter(({ seq }) => seq < signals.firstSeq);
    for (const { seq } of gone) this.done.add(seq);
    changeEntries(sql, visitorList(visitor), "", new Map([...this.done].map((seq) => [seq, "gone"] as const)));
    this.#people.write();
    for (const personId of this.#left) this.#recount(personId);
    this.#people.write();
    this.#groups.write(this.#state);
    signals.flush();
  }

  /** Null: nothing changes. */
  #linked(seq: number, facts: Facts): Facts | null {
    const { admission, owner: before, kind } = facts;
    const receipt = { receivedAtMs: admission.receivedAtMs, ordinal: admission.ordinal };
    const isOpen = facts.erasedAtMs === null && (facts.status === "anonymous" || facts.status === "processed");
    const owner = isOpen ? this.#people.ownerOf(visitorOf(facts), receipt) : null;
    const email = owner && this.#people.emailOf(owner.personId);
    if (owner === null || email === null || (before !== null && before.by !== "anonymous_id")) {
      this.done.add(seq);
      return null;
    }
    if (before?.personId === owner.personId) {
      this.done.add(seq);
      return { ...facts, owner };
    }
    const payload = this.#payloads.get(seq);
    if (payload === undefined) return null;
    this.done.add(seq);
    const { rulesTried, matches } = kind === "signal" ? this.#evaluate(payload, facts.source, email) : NOTHING;
    const verdicts = this.#state.verdicts.idsOf(matches);
    if (before !== null) {
      this.#people.disown(before.personId, [{ seq, scored: scoredBy(facts, facts.verdicts) }]);
      this.#left.add(before.personId);
    } else if (kind === "signal" && facts.event !== null) {
      this.#groups.count(facts.event, facts.source ?? "", { count: 0, held: 0, anonymous: -1 }, receipt.receivedAtMs);
    }
    this.#people.enrich(owner.personId, facts.traits, receipt);
    this.#people.seen(owner.personId, receipt.receivedAtMs);
    this.#people.own(owner.personId, { seq, scored: scoredBy(facts, verdicts) });
    return { ...facts, status: "processed", owner, linkedAtMs: this.#nowMs, rulesTried, verdicts };
  }

  #evaluate(
    payload: string | null,
    source: string | null,
    email: string,
  ): { rulesTried: number; matches: readonly RuleMatch[] } {
    if (payload === null) return NOTHING;
    const normalised = normalise(JSON.parse(payload) as JsonObject, source ?? undefined);
    const evaluation = evaluateSignal(this.#rules.rules, normalised, email);
    return typeof evaluation === "string" ? NOTHING : evaluation;
  }

  /** Times and traits of a person that a line was taken from, as the lines that are left make them. */
  #recount(personId: number): void {
    const { sql, signals } = this.#state;
    const entries = allEntries(sql, personList(personId), this.#people.recentOf(personId));
    const oldest = signals.firstSeq;
    const seqs = entries.map(({ seq }) => seq).filter((seq) => seq >= oldest);
    // One after the other: somebody may have a hundred thousand.
    function* lines() {
      for (const { segment, seqs: here } of signals.segmentsOf(seqs)) {
        for (const seq of here) {
          const facts = segment.facts(seq);
          if (!isEmptied(facts)) yield { receipt: facts.admission, traits: facts.traits };
        }
      }
    }
    this.#people.recount(personId, lines(), deletedUntilMs(sql));
  }
}

const NOTHING = { rulesTried: 0, matches: [] };

function scoredBy({ admission }: Facts, verdicts: readonly number[]): Scored | null {
  return verdicts.length === 0 ? null : { signalId: admission.id, atMs: admission.receivedAtMs, verdicts };
}

/** Gives lines of visitors who are known by now to the persons that they are, in a transaction of linking.ts. */
import { isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import type { CompiledRules, RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { JsonObject } from "../../domain/json/json-value.ts";
import type { Facts, Owner } from "../log/line.ts";
import type { Payloads } from "../log/payloads.ts";
import type { Segment } from "../log/segment.ts";
import type { EventGroupChanges } from "../state/event-group-changes.ts";
import { changeStatus, countedSignal } from "../state/status-change.ts";
import { evaluateSignal, pointsOf } from "../../domain/rules/evaluate-rules.ts";
import type { StoreState } from "../state/store-state.ts";
import type { LinkCounts } from "./link-jobs.ts";
import { namesOnLine } from "./visitor-names.ts";
import type { People } from "./people.ts";
import { scoredBy } from "./timeline-text.ts";
import { visitorList } from "./visitor-keys.ts";
import { VisitorLists } from "./visitor-lists.ts";
import type { VisitorId } from "./visitor-keys.ts";

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
  readonly #groups: EventGroupChanges;
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
    changing: { people: People; groups: EventGroupChanges },
    rules: { version: number; rules: CompiledRules | null },
    payloads: Payloads,
    nowMs: number,
  ) {
    this.#state = state;
    this.#people = changing.people;
    this.#groups = changing.groups;
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
    const gone = signals.goneOf(left);
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
    const counts = { books: this.#state.books, groups: this.#groups };
    changeStatus(counts, countedSignal(facts), facts.status, "processed");
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
    const evaluation = evaluateSignal(rules, signal, email);
    if (typeof evaluation === "string") return NOTHING;
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

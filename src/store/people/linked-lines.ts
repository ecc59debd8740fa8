/** Gives lines of visitors who are known by now to the persons that they are, in a transaction of linking.ts. */
import { isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import type { CompiledRules } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { JsonObject } from "../../domain/json/json-object.ts";
import type { Facts, Owner } from "../log/line.ts";
import type { Payloads } from "../log/payloads.ts";
import type { Segment } from "../log/segment.ts";
import type { EventGroupChanges } from "../state/event-group-changes.ts";
import { changeStatus, countedSignal } from "../state/status-change.ts";
import { evaluateSignal } from "../../domain/rules/evaluation.ts";
import type { StoreState } from "../state/store-state.ts";
import { namesOnLine } from "./visitor-names.ts";
import type { People } from "./people.ts";
import { scoredBy } from "./timeline-text.ts";
import { changeEntries } from "./timelines.ts";
import { visitorList } from "./visitor-keys.ts";
import type { VisitorId } from "./visitor-keys.ts";

/** The oldest lines on a visitor's list. */
export interface ListedLines {
  visitor: VisitorId;
  seqs: readonly number[];
}

/** Whether the line says what rules of that version make of it, or they make nothing of any such line. */
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
  /** Lines that need not be listed any more, and those that lack their payloads. */
  readonly #done = new Set<number>();
  readonly #lacking = new Set<number>();

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
      const facts = this.#linked(seq, segment.facts(seq));
      if (facts !== null) changes.set(seq, facts);
    }
    this.#state.signals.rewrite(segment, changes);
  }

  /** Takes what is done off the lists. Returns the visitors of whom nothing could be done for lack of payloads. */
  takeOff(listed: readonly ListedLines[]): VisitorId[] {
    const { sql, signals } = this.#state;
    const oldest = signals.firstSeq;
    return listed.flatMap(({ visitor, seqs }) => {
      // Lines that no segment has any more are gone: nothing is left to be linked of them.
      const done = seqs.filter((seq) => this.#done.has(seq) || seq < oldest);
      changeEntries(sql, visitorList(visitor), "", new Map(done.map((seq) => [seq, "gone"] as const)));
      return done.length === 0 && seqs.some((seq) => this.#lacking.has(seq)) ? [visitor] : [];
    });
  }

  /** A line's facts once it is linked; null: nothing changes. */
  #linked(seq: number, facts: Facts): Facts | null {
    const { admission, owner: before } = facts;
    const receipt = { receivedAtMs: admission.receivedAtMs, ordinal: admission.ordinal };
    const isOpen = facts.deletedAtMs === null && (facts.status === "anonymous" || facts.status === "processed");
    const owner = isOpen ? this.#people.ownerOf(namesOnLine(facts), receipt) : null;
    const email = owner && this.#people.emailOf(owner.personId);
    if (owner === null || email === null || (before !== null && !this.#canBeTaken(before))) {
      this.#done.add(seq);
      return null;
    }
    if (before?.personId === owner.personId) {
      this.#done.add(seq);
      return { ...facts, owner };
    }
    // A line is taken from a person only with the rules at hand, for all of that person's signals have to be counted again.
    if (before !== null && this.#rules.rules === null) return null;
    const judged = this.#judge(seq, facts, email);
    if (judged === null) {
      this.#lacking.add(seq);
      return null;
    }
    this.#done.add(seq);
    if (before !== null) this.#people.disown(before.personId, seq, facts);
    const counts = { books: this.#state.books, groups: this.#groups };
    changeStatus(counts, countedSignal(facts), facts.status, "processed");
    const linked: Facts = { ...facts, ...judged, status: "processed", owner, linkedAtMs: this.#nowMs };
    this.#people.enrich(owner.personId, facts.traits, receipt);
    this.#people.seen(owner.personId, receipt.receivedAtMs);
    this.#people.own(owner.personId, { seq, scored: scoredBy(linked) }, facts.event);
    return linked;
  }

  /** Whether a line may become somebody else's. One whose person is being deleted goes with them. */
  #canBeTaken({ by, personId }: Owner): boolean {
    return by === "anonymous_id" && this.#people.emailOf(personId) !== null;
  }

  /** What the rules make of a line; null where that takes a payload that is not here. */
  #judge(seq: number, facts: Facts, email: string): Pick<Facts, "rulesTried" | "verdicts"> | null {
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
    return { rulesTried: evaluation.rulesTried, verdicts: this.#state.verdicts.idsOf(evaluation.matches) };
  }
}

const NOTHING = { rulesTried: 0, verdicts: [] };

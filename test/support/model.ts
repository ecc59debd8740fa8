/**
 * A plain model of a workspace, as the specification says it and not as the service does it: one list of signals, no rows,
 * no segments, no messages. It predicts every answer and every count.
 */
import { DAY_MS } from "../../src/domain/duration.ts";
import { isTheirs, knownIds, scoresOf, scoring } from "./model-people.ts";
import type { Effective, Frozen, Name, Rule, Draft } from "./model-people.ts";

export interface Plan {
  signalLimit: number;
  paid: boolean;
  overages: boolean;
}

/** What was said, by a number of its own: it may be said again. */
export interface Content extends Draft {
  n: number;
}

/**
 * `accepted` is on its way, or has taken its effect; `deleted` has, and belongs to a person who was deleted since; `dropped`
 * has too, and retention has deleted it since. `dead` could not be processed; `lost` neither, and retention has deleted it.
 */
export type Place =
  | "accepted"
  | "duplicate"
  | "held"
  | "purged"
  | "deleted"
  | "dropped"
  | "dead"
  | "lost"
  | "held, deleted"
  | "dead, deleted";

export interface ModelSignal extends Content {
  id: string;
  key: string;
  period: number;
  /** Of its receipt. */
  atMs: number;
  day: number;
  /** Its place in the period. */
  ordinal: number;
  verdict: "accepted" | "held";
  place: Place;
  /** Whether retention has deleted what was left of it. */
  isGone: boolean;
  /** The ids whose pairs it has said, and which have left with the last signal of the id. */
  pairsLeft: Set<Name>;
}

export interface ModelPeriod {
  accepted: number;
  held: number;
  rejected: number;
  overage: number;
  streak: number;
}

export type ModelAnswer = { accepted: number; held: number; rejected: number; code: string | null } | "key_deactivated";

/** The first billing period begins here, and each with a month. */
export const MODEL_ANCHOR = Date.UTC(2026, 0, 1);

export function startOfPeriod(period: number): number {
  return Date.UTC(2026, period, 1);
}

export class Model {
  plan: Plan = { signalLimit: 5, paid: true, overages: false };
  /** By the event that each is about. */
  readonly rules = new Map<string, Rule>([
    ["opened", { points: 1, frequency: "every_time", enabled: true, of: null }],
    ["clicked", { points: 10, frequency: "once_per_day", enabled: true, of: null }],
  ]);
  readonly revoked = new Set<string>();
  readonly contents: Content[] = [];
  readonly signals: ModelSignal[] = [];
  readonly closed: (ModelPeriod & { signalLimit: number; overages: boolean })[] = [];
  extraRoomRemoved = false;
  streak = 0;
  /** Months since the anchor. */
  period = 0;
  current = { accepted: 0, held: 0, rejected: 0, overage: 0 };
  /** Whether retention has deleted anything. */
  hasDropped = false;
  #frozen: Frozen[] = [];

  /** Something new; or, with a number, something of its endpoint that was said before, the latest with 0. */
  contentOf(draft: Draft, again: number | null): Content {
    const such = this.contents.filter(({ kind }) => (kind === "account") === (draft.kind === "account"));
    const before = again === null ? undefined : such.at(-1 - again);
    if (before !== undefined) return before;
    const content = { ...draft, n: this.contents.length };
    this.contents.push(content);
    return content;
  }

  /** Spec §8, signal by signal. @param dies whether none of them can be processed. */
  admit(key: string, ids: readonly string[], contents: readonly Content[], nowMs: number, dies = false): ModelAnswer {
    if (this.revoked.has(key)) return "key_deactivated";
    const answer = { accepted: 0, held: 0, rejected: 0, code: null as string | null };
    contents.forEach((content, index) => {
      const verdict = this.#verdict();
      if (verdict === "accepted" || verdict === "held") {
        answer[verdict]++;
        this.current[verdict]++;
        const ordinal = this.current.accepted + this.current.held;
        const signal: ModelSignal = {
          ...content,
          id: ids[index] ?? "",
          key,
          period: this.period,
          atMs: nowMs,
          day: Math.floor(nowMs / DAY_MS),
          ordinal,
          verdict,
          place: "dead",
          isGone: false,
          pairsLeft: new Set(),
        };
        this.signals.push(signal);
        if (!dies) this.#arrive(signal);
        if (verdict === "accepted" && ordinal > this.plan.signalLimit) this.current.overage++;
      } else {
        answer.rejected++;
        this.current.rejected++;
        answer.code = verdict;
      }
    });
    return answer;
  }

  #verdict(): ModelSignal["verdict"] | "allowance_exceeded" | "extra_room_exceeded" {
    const n = this.current.accepted + this.current.held + 1;
    if (this.plan.overages || n <= this.plan.signalLimit) return "accepted";
    if (this.extraRoomRemoved) return "allowance_exceeded";
    return n <= 2 * this.plan.signalLimit ? "held" : "extra_room_exceeded";
  }

  #arrive(signal: ModelSignal): void {
    if (signal.verdict === "accepted") this.#accept(signal);
    else signal.place = signal.period === this.period ? "held" : "purged";
  }

  /** What came before with the same content, and is still there, has taken the effect already: a life is short, a period long. */
  #accept(signal: ModelSignal): void {
    const { n, period, kind, hasId } = signal;
    const hasTwin = this.signals.some(
      (earlier) => earlier.n === n && earlier.period === period && earlier.place === "accepted",
    );
    const isKnownById = kind === "identify" || kind === "account";
    signal.place = hasTwin && (hasId || !isKnownById) ? "duplicate" : "accepted";
  }

  /** §8.5: three paid periods in a row beyond the allowance, with overages off, end the extra room. */
  endPeriod(): void {
    const { paid, overages, signalLimit } = this.plan;
    const beyond = this.current.accepted + this.current.held > signalLimit;
    this.streak = beyond && paid && !overages ? this.streak + 1 : 0;
    if (this.streak === 3) this.extraRoomRemoved = true;
    this.closed.unshift({ ...this.current, streak: this.streak, signalLimit, overages });
    this.current = { accepted: 0, held: 0, rejected: 0, overage: 0 };
    this.period++;
    for (const signal of this.signals) if (signal.place === "held") signal.place = "purged";
  }

  /** The oldest held signals that now fit are accepted. */
  release(): { released: number; still_held: number } {
    const held = this.signals.filter(({ place }) => place === "held");
    let released = 0;
    for (const signal of held) {
      if (!this.plan.overages && this.current.accepted >= this.plan.signalLimit) break;
      this.#accept(signal);
      signal.verdict = "accepted";
      this.current.held--;
      this.current.accepted++;
      if (this.plan.overages && this.current.accepted > this.plan.signalLimit + this.current.overage) {
        this.current.overage++;
      }
      released++;
    }
    return { released, still_held: held.length - released };
  }

  /** Those that could not be processed. */
  get dead(): readonly ModelSignal[] {
    return this.signals.filter(({ place }) => place === "dead");
  }

  /** What could not be processed is sent again, and now can be. @param ids of those that are; null: all are. */
  replay(ids: readonly string[] | null): { replayed: number } {
    const dead = this.dead.filter(({ id }) => ids === null || ids.includes(id));
    for (const signal of dead) this.#arrive(signal);
    return { replayed: dead.length };
  }

  /** Deletes a person with all that is theirs: what took its effect is deleted, what is held or dead is purged. */
  deletePerson(person: number): void {
    const known = knownIds(person, this.effective());
    const theirs = this.signals.filter((signal) => signal.person === person && isTheirs(signal, known));
    const gone = theirs.filter(({ place }) => place === "accepted");
    for (const signal of theirs) {
      if (signal.place === "accepted" || signal.place === "dropped") signal.place = "deleted";
      if (signal.place === "held" || signal.place === "dead") signal.place = `${signal.place}, deleted`;
    }
    this.#frozen = this.#frozen.filter((signals) => signals.person !== person);
    if (known.size === 0) this.#leavePairs(person, gone);
  }

  /** Retention deletes what periods before this one have brought. Scores stay; the rules have just been applied to everything. */
  dropEarlier(): void {
    const signals = this.effective();
    this.#frozen.push(...scoring(signals, this.rules, this.#frozen));
    this.hasDropped = true;
    const gone = Map.groupBy(
      this.signals.filter(({ place }) => place === "accepted"),
      ({ person }) => person,
    );
    const unknown = [...gone.keys()].filter((person) => knownIds(person, signals).size === 0);
    for (const signal of this.signals) {
      signal.isGone = true;
      if (signal.place === "accepted") signal.place = "dropped";
      if (signal.place === "dead") signal.place = "lost";
    }
    for (const person of unknown) this.#leavePairs(person, gone.get(person) ?? []);
  }

  /** With the last signal of an id that names no known person its pairs leave. */
  #leavePairs(person: number, gone: readonly ModelSignal[]): void {
    const personSignals = this.effective().filter((signal) => signal.person === person);
    const left = personSignals.filter(({ isDropped, names }) => !isDropped && !names.includes("email"));
    for (const name of ["anonymous", "user"] as const) {
      const names = (frozen: Draft): boolean => frozen.names.includes(name);
      if (gone.some(names) && !left.some(names)) for (const { pairsLeft } of personSignals) pairsLeft.add(name);
    }
  }

  /** A rule that is switched off takes with it what it has scored on signals that are there no more. */
  applyRule(event: string): void {
    if (this.rules.get(event)?.enabled !== true) this.#frozen = this.#frozen.filter((signal) => signal.event !== event);
  }

  /** People by number with their scores, once everything has arrived and the rules have been applied to all of it. */
  scores(): Map<number, number> {
    return scoresOf(this.effective(), this.rules, this.#frozen);
  }

  /** What makes the scores. */
  scored(): Frozen[] {
    return [...this.#frozen, ...scoring(this.effective(), this.rules, this.#frozen)];
  }

  count(...places: Place[]): number {
    return this.signals.filter(({ place }) => places.includes(place)).length;
  }

  /** What has taken its effect, on its way included. */
  effective(): (Omit<ModelSignal, "place"> & Effective)[] {
    return this.signals.flatMap(({ place, ...signal }) =>
      place === "accepted" || place === "dropped" ? [{ ...signal, isDropped: place === "dropped" }] : [],
    );
  }
}

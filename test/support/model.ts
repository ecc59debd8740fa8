/**
 * A plain model of a workspace that follows the specification, not the implementation: one list of signals, without
 * rows, segments and messages. It predicts every answer and every count.
 */
import { DAY_MS } from "../../src/domain/duration.ts";
import { MISFIT_KEPT_DAYS } from "../../src/limits.ts";

export interface Plan {
  signalLimit: number;
  paid: boolean;
  overages: boolean;
}

/** A content with a unique number; it may be sent again. */
export interface Content extends Draft {
  n: number;
}

/**
 * `accepted` is in transit or has taken effect. `deleted` had taken effect, and its person was deleted. `dropped` had
 * taken effect, and retention deleted it. `dead` could not be processed. `lost` could not be processed, and retention
 * deleted it.
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
  /** The payload template of its key had not fit it for MISFIT_KEPT_DAYS. */
  | "misfit, purged"
  | "held, deleted"
  | "dead, deleted";

export interface ModelSignal extends Content {
  id: string;
  key: string;
  period: number;
  /** Time of receipt. */
  atMs: number;
  day: number;
  /** Its ordinal in the period. */
  ordinal: number;
  verdict: "accepted" | "held";
  place: Place;
  /** Version of the payload template with which it was admitted; null: none. */
  template: number | null;
  /** Period in which it became a dead letter, the latest time. */
  deadSince: number;
  /** Whether it is one because its template does not fit it. */
  isMisfit: boolean;
  /** Whether retention has deleted the rest of it. */
  isGone: boolean;
  /** Whether the pair that it says is gone: retention has deleted it while nobody had its ids. */
  isPairGone: boolean;
}

interface ModelPeriod {
  accepted: number;
  held: number;
  rejected: number;
  overage: number;
  streak: number;
}

type ModelAnswer = { accepted: number; held: number; rejected: number; code: string | null } | "key_deactivated";

/** The first billing period begins here; each lasts a month. */
export const MODEL_ANCHOR = Date.UTC(2026, 0, 1);

/** `key_c` is the successor of `key_a`. */
export function firstKeyOf(key: string): string {
  return key === "key_c" ? "key_a" : key;
}

export function startOfPeriod(period: number): number {
  return Date.UTC(2026, period, 1);
}

export class Model {
  plan: Plan = { signalLimit: 5, paid: true, overages: false };
  /** What does not score. */
  exclusions: readonly Exclusion[] = [];
  /** Where each version of the payload template reads the event. */
  readonly templates = new Map<number, Shape>();
  /** Rules by event. */
  readonly rules = new Map<string, Rule>([
    ["opened", { points: 1, frequency: "every_time", enabled: true, of: null }],
    ["clicked", { points: 10, frequency: "once_per_day", enabled: true, of: null }],
  ]);
  readonly deactivated = new Set<string>();
  /** Signal limits, and the signals of the period that count against them, by first key. */
  readonly budgets = new Map<string, { signalLimit: number; used: number }>();
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

  /** A new content; or, with a number, an earlier content of the same kind of key, where 0 is the latest. */
  contentOf(draft: Draft, again: number | null): Content {
    const keyOf = ({ kind, shape }: Draft): string => (shape === undefined ? String(kind === "account") : "template");
    const such = this.contents.filter((content) => keyOf(content) === keyOf(draft));
    const before = again === null ? undefined : such.at(-1 - again);
    if (before !== undefined) return before;
    const content = { ...draft, n: this.contents.length };
    this.contents.push(content);
    return content;
  }

  /** Spec §8, signal by signal. @param dies whether processing fails for all of them. @param template the version that the edge knows. */
  admit(
    key: string,
    ids: readonly string[],
    contents: readonly Content[],
    nowMs: number,
    { dies = false, template = null }: { dies?: boolean; template?: number | null } = {},
  ): ModelAnswer {
    if (this.deactivated.has(key)) return "key_deactivated";
    const answer = { accepted: 0, held: 0, rejected: 0, code: null as string | null };
    contents.forEach((content, index) => {
      const verdict = this.#verdict(key);
      const budget = this.budgets.get(firstKeyOf(key));
      if (verdict === "accepted" || verdict === "held") {
        answer[verdict]++;
        this.current[verdict]++;
        if (budget !== undefined) budget.used++;
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
          template,
          deadSince: this.period,
          isMisfit: false,
          isGone: false,
          isPairGone: false,
        };
        this.signals.push(signal);
        if (!dies) this.#arrive(signal);
        if (verdict === "accepted" && ordinal > this.plan.signalLimit) this.current.overage++;
      } else {
        answer.rejected++;
        this.current.rejected++;
        answer.code ??= verdict;
      }
    });
    return answer;
  }

  #verdict(key: string): ModelSignal["verdict"] | "allowance_exceeded" | "extra_room_exceeded" | "key_limit_exceeded" {
    const verdict = this.#planVerdict();
    const budget = this.budgets.get(firstKeyOf(key));
    const isKept = verdict === "accepted" || verdict === "held";
    return isKept && budget !== undefined && budget.used >= budget.signalLimit ? "key_limit_exceeded" : verdict;
  }

  #planVerdict(): ModelSignal["verdict"] | "allowance_exceeded" | "extra_room_exceeded" {
    const n = this.current.accepted + this.current.held + 1;
    if (this.plan.overages || n <= this.plan.signalLimit) return "accepted";
    if (this.extraRoomRemoved) return "allowance_exceeded";
    return n <= 2 * this.plan.signalLimit ? "held" : "extra_room_exceeded";
  }

  /** A changed limit keeps the count, a removed one does not. */
  limitKeys(limits: Readonly<Record<string, number>>): void {
    const before = new Map(this.budgets);
    this.budgets.clear();
    for (const [key, signalLimit] of Object.entries(limits))
      this.budgets.set(key, { signalLimit, used: before.get(key)?.used ?? 0 });
  }

  #arrive(signal: ModelSignal): void {
    if (signal.verdict === "held") signal.place = signal.period === this.period ? "held" : "purged";
    else if (this.fits(signal, signal.template)) this.#accept(signal);
    else {
      Object.assign(signal, { place: "dead", deadSince: this.period, isMisfit: true });
    }
  }

  /** Whether the template of its key finds the event of a signal. A signal without a template has it where it belongs. */
  fits({ shape }: Draft, template: number | null): boolean {
    return shape === undefined || (template !== null && this.templates.get(template) === shape);
  }

  get newestTemplate(): number {
    return Math.max(...this.templates.keys());
  }

  /**
   * An earlier signal with the same content that still exists has taken effect already: a run is short and a period
   * long.
   */
  #accept(signal: ModelSignal): void {
    const { n, period, kind, hasId } = signal;
    const hasTwin = this.signals.some(
      (earlier) => earlier.n === n && earlier.period === period && earlier.place === "accepted",
    );
    const isKnownById = kind === "identify" || kind === "account";
    signal.place = hasTwin && (hasId || !isKnownById) ? "duplicate" : "accepted";
  }

  /** §8.5: three consecutive paid periods beyond the allowance, with overages off, end the extra room. */
  endPeriod(): void {
    const { paid, overages, signalLimit } = this.plan;
    const beyond = this.current.accepted + this.current.held > signalLimit;
    this.streak = beyond && paid && !overages ? this.streak + 1 : 0;
    if (this.streak === 3) this.extraRoomRemoved = true;
    this.closed.unshift({ ...this.current, streak: this.streak, signalLimit, overages });
    this.current = { accepted: 0, held: 0, rejected: 0, overage: 0 };
    this.period++;
    for (const budget of this.budgets.values()) budget.used = 0;
    for (const signal of this.signals) if (signal.place === "held") signal.place = "purged";
    this.#purgeMisfits();
  }

  /** A period begins later in the day than the ones before, so that whole days decide. */
  #purgeMisfits(): void {
    for (const signal of this.signals) {
      if (signal.place !== "dead" || !signal.isMisfit) continue;
      const keptMs = startOfPeriod(this.period) - startOfPeriod(signal.deadSince);
      if (keptMs >= MISFIT_KEPT_DAYS * DAY_MS) signal.place = "misfit, purged";
    }
  }

  /** The oldest held signals that now fit are accepted. */
  release(): { released: number; still_held: number } {
    const held = this.signals.filter(({ place }) => place === "held");
    let released = 0;
    for (const signal of held) {
      if (!this.plan.overages && this.current.accepted >= this.plan.signalLimit) break;
      signal.verdict = "accepted";
      this.#arrive(signal);
      this.current.held--;
      this.current.accepted++;
      if (this.plan.overages && this.current.accepted > this.plan.signalLimit + this.current.overage) {
        this.current.overage++;
      }
      released++;
    }
    return { released, still_held: held.length - released };
  }

  /** Records the signals as dead letters. */
  get dead(): readonly ModelSignal[] {
    return this.signals.filter(({ place }) => place === "dead");
  }

  /** Replays dead letters, which now can be processed. @param ids of those to replay; null: all. */
  replay(ids: readonly string[] | null): { replayed: number } {
    const dead = this.dead.filter(({ id }) => ids === null || ids.includes(id));
    for (const signal of dead) {
      const template = signal.template === null ? null : this.newestTemplate;
      // What does not fit stays a dead letter, also if it had been held.
      const isMisfit = !this.fits(signal, template);
      if (isMisfit && !signal.isMisfit) signal.deadSince = this.period;
      signal.isMisfit = isMisfit;
      if (isMisfit) continue;
      // One that is held again keeps the version that fits it.
      signal.template = template;
      this.#arrive(signal);
    }
    return { replayed: dead.length };
  }

  /** Deletes a person with all their data: signals that took effect are deleted, held and dead ones are purged. */
  deletePerson(person: number): void {
    // A call that is held or dead gives its ids to the deletion.
    const waiting = this.signals.filter(({ place }) => place === "held" || place === "dead");
    const found = waiting.map((signal) => ({ ...signal, isDropped: false }));
    const known = knownIds(person, [...this.effective(), ...found]);
    const theirs = this.signals.filter((signal) => signal.person === person && isTheirs(signal, known));
    for (const signal of theirs) {
      if (signal.place === "accepted" || signal.place === "dropped") signal.place = "deleted";
      if (signal.place === "held" || signal.place === "dead") signal.place = `${signal.place}, deleted`;
    }
    this.#frozen = this.#frozen.filter((signals) => signals.person !== person);
  }

  /** Retention deletes the data of earlier periods. Scores stay. The rules have just been applied to all signals. */
  dropEarlier(): void {
    const signals = this.effective();
    this.#frozen.push(...this.#scoring(signals));
    this.hasDropped = true;
    for (const signal of this.signals) {
      signal.isGone = true;
      if (signal.place === "accepted" && knownIds(signal.person, signals).size === 0) signal.isPairGone = true;
      if (signal.place === "accepted") signal.place = "dropped";
      if (signal.place === "dead") signal.place = "lost";
    }
  }

  /** A disabled rule loses its scores, including those of deleted signals. */
  applyRule(event: string): void {
    if (this.rules.get(event)?.enabled !== true) this.#frozen = this.#frozen.filter((signal) => signal.event !== event);
  }

  /**
   * People by number with their scores, once every message has arrived and the rules and exclusions have been applied to all
   * signals.
   */
  scores(): Map<number, number> {
    const signals = this.effective();
    return scoresOf(signals, [...this.#frozen, ...this.#scoring(signals)]);
  }

  /** The origins of the scores. */
  scored(): Frozen[] {
    return [...this.#frozen, ...this.#scoring(this.effective())];
  }

  /** Whether an exclusion covers a signal that is known to belong to its person. */
  isExcluded({ person, event }: Pick<Draft, "person" | "event">): boolean {
    return this.exclusions.some((one) => ("of" in one ? one.of === person : one.event === event));
  }

  /** An excluded signal never scores, as if it had never come. */
  #scoring(signals: readonly Effective[]): Frozen[] {
    const isExcluded = (signal: Effective): boolean => this.isExcluded(signal);
    return scoring(signals, this.rules, this.#frozen, isExcluded);
  }

  count(...places: Place[]): number {
    return this.signals.filter(({ place }) => places.includes(place)).length;
  }

  /** Signals that have taken effect, or are in transit. */
  effective(): (Omit<ModelSignal, "place"> & Effective)[] {
    return this.signals.flatMap(({ place, ...signal }) =>
      place === "accepted" || place === "dropped" ? [{ ...signal, isDropped: place === "dropped" }] : [],
    );
  }
}

/** The identifiers in a signal: the email, the anonymous id, the user id of its person. */
export type Name = "email" | "anonymous" | "user";

/**
 * The content that a sender sends. Each person has one email, one anonymous id and one user id, all with the person's
 * number.
 */
export interface Draft {
  /**
   * An identify names at least two of them. An alias names the user id and links it to the anonymous id. An account
   * update names no person: its person is the account number and its event the plan, or empty.
   */
  kind: "signal" | "identify" | "alias" | "account";
  person: number;
  names: readonly Name[];
  event: string;
  /** Whether a repetition is recognized by an id. */
  hasId: boolean;
  /** Of a sender with a body of its own: where the event stands. */
  shape?: Shape;
}

export type Shape = "what" | "deed";

/** The signals of a person, by a condition on the email, or of an event. */
export type Exclusion = { of: number } | { event: string };

export interface Rule {
  points: number;
  frequency: "every_time" | "once_per_day" | "once_ever";
  enabled: boolean;
  /** The only person that the rule scores, by a condition on the email; null: every person. */
  of: number | null;
}

/** A signal that has taken effect. */
interface Effective extends Draft {
  /** UTC day of receipt. */
  day: number;
  /** Whether retention has deleted it. Its claims about its person stay, and it cannot score any more. */
  isDropped: boolean;
  /** Whether the pair that it says is gone. */
  isPairGone: boolean;
}

/** A score whose signal retention has deleted. */
interface Frozen {
  person: number;
  event: string;
  day: number;
  points: number;
  /** Whether the score holds the person's place for a rule that scores once a day or once ever. */
  isHolder: boolean;
}

/** The ids known to belong to the person: an identify named the id, or an id that is paired with it. */
export function knownIds(person: number, signals: readonly Effective[]): ReadonlySet<Name> {
  const personSignals = signals.filter((signal) => signal.person === person);
  const identifies = personSignals.filter(({ kind, names }) => kind === "identify" && names.includes("email"));
  const known = new Set<Name>(identifies.flatMap(({ names }) => names));
  known.delete("email");
  const arePaired = personSignals.some((signal) => saysPair(signal) && !signal.isPairGone);
  return known.size > 0 && arePaired ? new Set(["anonymous", "user"]) : known;
}

/** Whether the signal links the anonymous id and the user id as one visitor. */
function saysPair({ kind, names }: Draft): boolean {
  return kind === "alias" || (kind === "identify" && names.length > 1 && !names.includes("email"));
}

/** Whether the signal is known to belong to its person. */
export function isTheirs({ names }: Draft, known: ReadonlySet<Name>): boolean {
  return names.some((name) => name === "email" || known.has(name));
}

/** The scores of existing signals by the current rules, with the frozen scores. */
export function scoring(
  signals: readonly Effective[],
  rules: ReadonlyMap<string, Rule>,
  frozen: readonly Frozen[],
  isExcluded: (signal: Effective) => boolean,
): Frozen[] {
  const counted: Frozen[] = [];
  const persons = Map.groupBy(signals, ({ person }) => person);
  for (const [person, own] of persons) {
    const known = knownIds(person, own);
    for (const signal of own) {
      const rule = rules.get(signal.event);
      if (signal.isDropped || signal.kind !== "signal" || rule?.enabled !== true || !isTheirs(signal, known)) continue;
      if (rule.of !== null && rule.of !== person) continue;
      if (isExcluded(signal)) continue;
      const { event, day } = signal;
      const isTaken = [...frozen, ...counted].some(
        (earlier) =>
          earlier.isHolder &&
          earlier.person === person &&
          earlier.event === event &&
          (rule.frequency === "once_ever" || earlier.day === day),
      );
      const isHolder = rule.frequency !== "every_time";
      if (!isHolder || !isTaken) counted.push({ person, event, day, points: rule.points, isHolder });
    }
  }
  return counted;
}

/** People by number, with their scores. */
function scoresOf(signals: readonly Effective[], scored: readonly Frozen[]): Map<number, number> {
  const scores = new Map<number, number>();
  for (const { person, names } of signals) if (names.includes("email")) scores.set(person, 0);
  for (const { person, points } of scored) {
    scores.set(person, (scores.get(person) ?? 0) + points);
  }
  return scores;
}

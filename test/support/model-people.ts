/**
 * Who a model's signals are of, and what they score: the specification read as a whole, once everything has arrived and the
 * rules have been applied to all of it.
 */

/** What a signal names: the email, the anonymous id, the user id of its person. */
export type Name = "email" | "anonymous" | "user";

/** What a sender says. Each person has one email, one anonymous id and one user id, all of their number. */
export interface Draft {
  /**
   * An identify names at least two; an alias names the user id, and says that the anonymous id is the same visitor's. An
   * account update names nobody: its person is the number of the account, its event the plan, or nothing.
   */
  kind: "signal" | "identify" | "alias" | "account";
  person: number;
  names: readonly Name[];
  event: string;
  /** Whether it is known by an id when it comes again. */
  hasId: boolean;
}

export interface Rule {
  points: number;
  frequency: "every_time" | "once_per_day" | "once_ever";
  enabled: boolean;
  /** Whom it scores, by a condition on their email; null: everybody. */
  of: number | null;
}

/** A signal that has taken its effect. */
export interface Effective extends Draft {
  /** UTC day of its receipt. */
  day: number;
  /** Whether retention has deleted it: what it has said of its person stays, and it cannot score any more. */
  isDropped: boolean;
  /** The ids whose pairs it has said, and which have left with the last signal of the id. */
  pairsLeft: ReadonlySet<Name>;
}

/** What a signal has scored that retention has deleted since. */
export interface Frozen {
  person: number;
  event: string;
  day: number;
  points: number;
  /** Whether the rule scored the person once a day, or once ever: others do not score in its place. */
  isHolder: boolean;
}

/** The ids of a person that are known to be theirs: an identify call said so, of the id itself or of one it is paired with. */
export function knownIds(person: number, signals: readonly Effective[]): ReadonlySet<Name> {
  const personSignals = signals.filter((signal) => signal.person === person);
  const identifies = personSignals.filter(({ kind, names }) => kind === "identify" && names.includes("email"));
  const known = new Set<Name>(identifies.flatMap(({ names }) => names));
  known.delete("email");
  const arePaired = personSignals.some((signal) => saysPair(signal) && signal.pairsLeft.size === 0);
  return known.size > 0 && arePaired ? new Set(["anonymous", "user"]) : known;
}

/** Whether the signal says that the anonymous id and the user id are one visitor's. */
function saysPair({ kind, names }: Draft): boolean {
  return kind === "alias" || (kind === "identify" && names.length > 1 && !names.includes("email"));
}

/** Whether it is known that a signal is its person's. */
export function isTheirs({ names }: Draft, known: ReadonlySet<Name>): boolean {
  return names.some((name) => name === "email" || known.has(name));
}

/** What signals score that are there, as the rules are, beside what is frozen. */
export function scoring(
  signals: readonly Effective[],
  rules: ReadonlyMap<string, Rule>,
  frozen: readonly Frozen[],
): Frozen[] {
  const counted: Frozen[] = [];
  const persons = Map.groupBy(signals, ({ person }) => person);
  for (const [person, own] of persons) {
    const known = knownIds(person, own);
    for (const signal of own) {
      const rule = rules.get(signal.event);
      if (signal.isDropped || signal.kind !== "signal" || rule?.enabled !== true || !isTheirs(signal, known)) continue;
      if (rule.of !== null && rule.of !== person) continue;
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
export function scoresOf(
  signals: readonly Effective[],
  rules: ReadonlyMap<string, Rule>,
  frozen: readonly Frozen[],
): Map<number, number> {
  const scores = new Map<number, number>();
  for (const { person, names } of signals) if (names.includes("email")) scores.set(person, 0);
  for (const { person, points } of [...frozen, ...scoring(signals, rules, frozen)]) {
    scores.set(person, (scores.get(person) ?? 0) + points);
  }
  return scores;
}

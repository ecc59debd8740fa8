/**
 * The person and score of each signal in the model: the specification read as a whole, once every message has arrived
 * and the rules have been applied to all signals.
 */

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
}

export interface Rule {
  points: number;
  frequency: "every_time" | "once_per_day" | "once_ever";
  enabled: boolean;
  /** The person whom the rule scores, by a condition on the email; null: everybody. */
  of: number | null;
}

/** A signal that has taken effect. */
export interface Effective extends Draft {
  /** UTC day of receipt. */
  day: number;
  /** Whether retention has deleted it. Its claims about its person stay, and it cannot score any more. */
  isDropped: boolean;
  /** The ids whose pairs are gone, because retention removed the id's last signal. */
  pairsLeft: ReadonlySet<Name>;
}

/** A score whose signal retention has deleted. */
export interface Frozen {
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
  const arePaired = personSignals.some((signal) => saysPair(signal) && signal.pairsLeft.size === 0);
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

/**
 * What rules have scored that score a person once a day, or once ever (design §8.5): for each person, rule and UTC day of
 * receipt the signal that counts. Lines and lists say what rules made of a signal, whether it counts or not; only here it
 * stands which does. A row outlives its signal, and goes with the person.
 */
import { dayOf } from "../../domain/quota/day-counts.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";

/** A signal that a rule has matched, as far as it says whether that counts. */
export interface Occasion {
  signalId: string;
  /** Receipt of the signal. */
  atMs: number;
}

export class Once {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Whether the signal has scored what the rule made of it. */
  counts(personId: number, occasion: Occasion, match: RuleMatch): boolean {
    return match.frequency === undefined || this.#isHeldBy(personId, occasion, match.ruleId);
  }

  /** The signal that has scored in place of this one; null where none has, or it is this one. */
  instead(personId: number, occasion: Occasion, match: RuleMatch): string | null {
    const holder = this.#holderFor(personId, occasion.atMs, match);
    return this.counts(personId, occasion, match) ? null : holder;
  }

  /** Whether the signal could score in place of one that does no longer: no signal of the person does, this one included. */
  isOpen(personId: number, { atMs }: Occasion, match: RuleMatch): boolean {
    return match.frequency !== undefined && this.#holderFor(personId, atMs, match) === null;
  }

  /** Notes that the rule has matched a signal of the person. Returns whether that counts: the first one does. */
  take(personId: number, occasion: Occasion, match: RuleMatch): boolean {
    const { ruleId, frequency } = match;
    if (frequency === undefined) return true;
    if (!this.isOpen(personId, occasion, match)) return false;
    this.#sql.exec(
      "INSERT INTO once (person_id, rule_id, day, signal_id) VALUES (?, ?, ?, ?)",
      personId,
      ruleId,
      dayOf(occasion.atMs),
      occasion.signalId,
    );
    return true;
  }

  /** Takes a match back: the signal is the person's no more, or the rule does not match it. Returns whether it had counted. */
  release(personId: number, occasion: Occasion, match: RuleMatch): boolean {
    if (match.frequency === undefined) return true;
    if (!this.#isHeldBy(personId, occasion, match.ruleId)) return false;
    this.#sql.exec(
      "DELETE FROM once WHERE person_id = ? AND rule_id = ? AND day = ?",
      personId,
      match.ruleId,
      dayOf(occasion.atMs),
    );
    return true;
  }

  #isHeldBy(personId: number, { signalId, atMs }: Occasion, ruleId: string): boolean {
    return this.#holderOfDay(personId, ruleId, dayOf(atMs)) === signalId;
  }

  #holderFor(personId: number, atMs: number, { ruleId, frequency }: RuleMatch): string | null {
    if (frequency === undefined) return null;
    if (frequency === "once_per_day") return this.#holderOfDay(personId, ruleId, dayOf(atMs));
    const [first] = this.#sql.exec<{ signal_id: string }>(
      "SELECT signal_id FROM once WHERE person_id = ? AND rule_id = ? ORDER BY day LIMIT 1",
      personId,
      ruleId,
    );
    return first?.signal_id ?? null;
  }

  #holderOfDay(personId: number, ruleId: string, day: number): string | null {
    const [row] = this.#sql.exec<{ signal_id: string }>(
      "SELECT signal_id FROM once WHERE person_id = ? AND rule_id = ? AND day = ?",
      personId,
      ruleId,
      day,
    );
    return row?.signal_id ?? null;
  }
}

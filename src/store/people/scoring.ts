/**
 * What lines score their persons. What rules made of a line counts, unless a rule that scores a person once a day, or once
 * ever, has scored them before (state/once.ts); then it counts as soon as that does no longer.
 */
import { dayOf } from "../../domain/quota/day-counts.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { RuleDayChanges } from "../state/rule-days.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Entry, Scored } from "./timeline-text.ts";

/** The person whose score it is. */
interface Owner {
  id: number;
  score: number;
}

export class Scoring {
  readonly #state: StoreState;
  readonly #ruleDays: RuleDayChanges;
  /** Rules, by person, that score them once a day, or once ever, and of which something counts no longer. */
  readonly #released = new Map<number, Set<string>>();

  constructor(state: StoreState, ruleDays: RuleDayChanges) {
    this.#state = state;
    this.#ruleDays = ruleDays;
  }

  /** Adds what a line scores to its person. Returns the matches that count. */
  add(owner: Owner, scored: Scored): readonly RuleMatch[] {
    return this.#score(owner, scored, 1, (match) => this.#state.once.take(owner.id, scored, match));
  }

  /** Takes what a line scores from its person. Returns the matches that had counted. */
  remove(owner: Owner, scored: Scored): readonly RuleMatch[] {
    return this.#score(owner, scored, -1, (match) => {
      if (!this.#state.once.release(owner.id, scored, match)) return false;
      if (match.frequency !== undefined) this.#releasedOf(owner.id).add(match.ruleId);
      return true;
    });
  }

  /** Changes what rules made of a line; null: nothing. */
  change(owner: Owner, before: Scored | null, after: Scored | null): "added" | "changed" | "removed" | null {
    const [gone, come] = [without(before, after), without(after, before)];
    const lost = gone !== null && this.remove(owner, gone).length > 0;
    const won = come !== null && this.add(owner, come).length > 0;
    if (won) return lost ? "changed" : "added";
    return lost ? "removed" : null;
  }

  /**
   * Where a line counts no longer, another line of the person counts in its place: the first one that is kept, and that the
   * rule matches in its current version. What older versions made of lines stays as it is until the rule is applied to the
   * past; and what retention has dropped scores what it had scored.
   *
   * @param entries gives all of the person's, those of this batch too; asked only where there is something to replace.
   * @returns how many lines have come to count.
   */
  replaceReleased(owner: Owner, entries: () => readonly Entry[]): number {
    const released = this.#released.get(owner.id);
    if (released === undefined) return 0;
    this.#released.delete(owner.id);
    const { once, signals, verdicts } = this.#state;
    const replacing = [...released].flatMap((ruleId) => verdicts.currentOf(ruleId) ?? []);
    if (replacing.length === 0) return 0;
    // What something counts for already is asked once: a person may have a hundred thousand lines.
    const taken = new Set<string>();
    const isOpen = (scored: Scored, match: RuleMatch): boolean => {
      const { ruleId, frequency } = match;
      if (frequency === undefined) return false;
      const occasion = frequency === "once_ever" ? ruleId : `${ruleId} ${dayOf(scored.atMs)}`;
      if (taken.has(occasion)) return false;
      if (once.isOpen(owner.id, scored, match)) return true;
      taken.add(occasion);
      return false;
    };
    let replaced = 0;
    for (const { seq, scored } of entries().toSorted((one, other) => one.seq - other.seq)) {
      if (scored === null) continue;
      const waiting = scored.verdicts.filter((id) => replacing.includes(id) && isOpen(scored, verdicts.get(id)));
      if (waiting.length === 0 || signals.read(seq) === null) continue;
      if (this.add(owner, { ...scored, verdicts: waiting }).length > 0) replaced++;
    }
    return replaced;
  }

  #score(
    owner: Owner,
    { verdicts, atMs }: Scored,
    times: 1 | -1,
    counts: (match: RuleMatch) => boolean,
  ): readonly RuleMatch[] {
    const counted: RuleMatch[] = [];
    for (const id of verdicts) {
      const match = this.#state.verdicts.get(id);
      if (!counts(match)) continue;
      counted.push(match);
      owner.score += times * match.points;
      this.#ruleDays.add(match.ruleId, atMs, times);
    }
    return counted;
  }

  #releasedOf(personId: number): Set<string> {
    let released = this.#released.get(personId);
    if (released === undefined) this.#released.set(personId, (released = new Set()));
    return released;
  }
}

/** What rules made of a line, without what the other says as well; null: nothing. */
function without(scored: Scored | null, other: Scored | null): Scored | null {
  const verdicts = scored?.verdicts.filter((id) => other?.verdicts.includes(id) !== true) ?? [];
  return scored === null || verdicts.length === 0 ? null : { ...scored, verdicts };
}

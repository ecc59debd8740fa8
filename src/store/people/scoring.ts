/**
 * What lines score their persons. What rules made of a line counts, unless a rule that scores a person once a day, or once
 * ever, has scored them before (state/once.ts); then it counts as soon as that does no longer.
 */
import { dayOf } from "../../domain/quota/day-counts.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { RuleDayChanges } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Entry, Scored } from "./timeline-text.ts";

/**
 * Entries that one transaction looks at for matches that count in place of others: some 20 ms. The rest is a job, see
 * replacements.ts.
 */
export const REPLACE_STEP_ENTRIES = 5_000;
/** Behind which line all lines are. */
const BEFORE_ALL = -1;

/** The person whose score it is. */
interface Owner {
  id: number;
  score: number;
}

export class Scoring {
  readonly #state: StoreState;
  readonly #ruleDays: RuleDayChanges;
  /**
   * Rules, by person, that score them once a day, or once ever, and of which something counts no longer; and behind which line
   * others are looked for that count in its place.
   */
  readonly #released = new Map<number, Map<string, number>>();
  /** How many entries may still be looked at. */
  #left = REPLACE_STEP_ENTRIES;

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
      if (match.frequency !== undefined) this.replaceBehind(owner.id, match.ruleId, BEFORE_ALL);
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

  /** Has `replaceReleased` look behind a line of the person for matches of a rule that count in place of others. */
  replaceBehind(personId: number, ruleId: string, seq: number): void {
    const released = this.#released.get(personId);
    if (released === undefined) this.#released.set(personId, new Map([[ruleId, seq]]));
    else released.set(ruleId, seq);
  }

  /**
   * Where a line counts no longer, another line of the person counts in its place: the first one that is kept, and that the
   * rule matches in its current version. What older versions made of lines stays as it is until the rule is applied to the
   * past; and what retention has dropped scores what it had scored. Where too many lines are to be looked at, a job goes on.
   *
   * @param entriesBehind gives the person's behind a line in ascending order, those of this batch too.
   * @returns how many lines have come to count.
   */
  replaceReleased(owner: Owner, entriesBehind: (seq: number) => Iterable<Entry>): number {
    const released = this.#released.get(owner.id);
    if (released === undefined) return 0;
    this.#released.delete(owner.id);
    const { sql, outcomes } = this.#state;
    const replacing = [...released.keys()].flatMap((ruleId) => outcomes.currentOf(ruleId) ?? []);
    let [replaced, behind] = [0, Math.min(...released.values())];
    const replace = this.#replacer(owner, replacing);
    for (const entry of replacing.length === 0 ? [] : entriesBehind(behind)) {
      if (this.#left-- <= 0) {
        for (const ruleId of released.keys()) noteReplacement(sql, { personId: owner.id, ruleId, behind });
        return replaced;
      }
      if (replace(entry)) replaced++;
      behind = entry.seq;
    }
    for (const ruleId of released.keys()) endReplacement(sql, owner.id, ruleId);
    return replaced;
  }

  /** Makes what an entry's line scores count, as far as it can. The function returns whether anything of it does. */
  #replacer(owner: Owner, replacing: readonly number[]): (entry: Entry) => boolean {
    const { once, signals, outcomes } = this.#state;
    // What something counts for already is asked once: a person may have thousands of lines.
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
    return ({ seq, scored }) => {
      if (scored === null) return false;
      const waiting = scored.outcomes.filter((id) => replacing.includes(id) && isOpen(scored, outcomes.get(id)));
      if (waiting.length === 0 || signals.read(seq) === null) return false;
      return this.add(owner, { ...scored, outcomes: waiting }).length > 0;
    };
  }

  #score(
    owner: Owner,
    { outcomes, atMs }: Scored,
    times: 1 | -1,
    counts: (match: RuleMatch) => boolean,
  ): readonly RuleMatch[] {
    const counted: RuleMatch[] = [];
    for (const id of outcomes) {
      const match = this.#state.outcomes.get(id);
      if (!counts(match)) continue;
      counted.push(match);
      owner.score += times * match.points;
      this.#ruleDays.add(match.ruleId, atMs, times);
    }
    return counted;
  }
}

/** What rules made of a line, without what the other says as well; null: nothing. */
function without(scored: Scored | null, other: Scored | null): Scored | null {
  const outcomes = scored?.outcomes.filter((id) => other?.outcomes.includes(id) !== true) ?? [];
  return scored === null || outcomes.length === 0 ? null : { ...scored, outcomes };
}

// Which rules have matches of a person that are still to be replaced, as the rows of `replacements` say it.

/** Matches of a rule that count in place of others are still to be looked for, behind a line of the person. */
export interface Replacement {
  personId: number;
  ruleId: string;
  behind: number;
}

function noteReplacement(sql: SqlStorage, { personId, ruleId, behind }: Replacement): void {
  sql.exec(
    "INSERT OR REPLACE INTO replacements (person_id, rule_id, behind_seq) VALUES (?, ?, ?)",
    personId,
    ruleId,
    behind,
  );
}

export function endReplacement(sql: SqlStorage, personId: number, ruleId: string): void {
  sql.exec("DELETE FROM replacements WHERE person_id = ? AND rule_id = ?", personId, ruleId);
}

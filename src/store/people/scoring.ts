/**
 * Scores of lines. A line's matches count, unless a rule that scores once a day, or once ever, has scored the person
 * before (state/once.ts). Such a match counts as soon as the earlier one is removed.
 */
import { dayOf } from "../../domain/quota/day-counts.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { countScore } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Entry, Scored } from "./timelines.ts";

/**
 * Entries that one transaction reads to find replacing matches: some 20 ms. A job does the rest, see replacements.ts.
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
  /**
   * By person: rules that score once a day, or once ever, with a removed match, and the line after which a replacing
   * match is searched.
   */
  readonly #released = new Map<number, Map<string, number>>();
  /** Remaining budget of entries to read. */
  #left = REPLACE_STEP_ENTRIES;

  constructor(state: StoreState) {
    this.#state = state;
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

  /** Lets `replaceReleased` search for replacing matches after a line of the person. */
  replaceBehind(personId: number, ruleId: string, seq: number): void {
    const released = this.#released.get(personId);
    if (released === undefined) this.#released.set(personId, new Map([[ruleId, seq]]));
    else released.set(ruleId, seq);
  }

  /**
   * Finds the line that scores in place of a removed one: the first kept line of the person that the rule's current
   * version matches. Outcomes of older versions stay until the rule is applied to the past, and dropped signals keep
   * their scores. If too many lines must be read, a job continues.
   *
   * @param entriesBehind the person's entries after a line, in order. @returns the number of lines that now score.
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
    // Read once which lines already count: a person may have thousands of lines.
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
      countScore(this.#state.books, match.ruleId, atMs, times);
    }
    return counted;
  }
}

/** Outcomes of a line without those that another line already has; null: none. */
function without(scored: Scored | null, other: Scored | null): Scored | null {
  const outcomes = scored?.outcomes.filter((id) => other?.outcomes.includes(id) !== true) ?? [];
  return scored === null || outcomes.length === 0 ? null : { ...scored, outcomes };
}

// Which rules have matches of a person that are still to be replaced, as the rows of `replacements` say it.

/** Records that replacing matches of a rule must be searched after a line of the person. */
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

/**
 * Outcomes of mapping rules. `RuleOutcomes`: the scores of each rule version. `SingleScores`: the signal that counts if a rule scores a
 * person once. `countScore`: the number of scores of each rule, by day.
 */
import { addToDays, type DayCounts, dayOf } from "../../domain/duration.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { Lru } from "../../platform/lru.ts";
import { scoringOutcomes, type SignalFacts } from "../log/line.ts";
import type { RuleOutcomeRow } from "../schema.ts";

const OUTCOMES_CACHED = 2_000;

/** Gives rule outcomes small ids, so that lines and timelines name them in a few digits. */
export class RuleOutcomes {
  readonly #sql: SqlStorage;
  readonly #byId = new Lru<number, RuleMatch>(OUTCOMES_CACHED);
  readonly #ids = new Lru<string, number>(OUTCOMES_CACHED);
  readonly #takers = new Lru<string, readonly RuleMatch[]>(OUTCOMES_CACHED);

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Ids of a signal's outcomes, without repeats, ascending. */
  idsOf(matches: readonly RuleMatch[]): number[] {
    return [...new Set(matches.map((match) => this.idOf(match)))].sort((a, b) => a - b);
  }

  idOf(match: RuleMatch): number {
    const { ruleId, ruleVersion, scoringSignal, points, frequency = null, lastDays = null } = match;
    const key = `${ruleId} ${ruleVersion}`;
    const cached = this.#ids.get(key);
    if (cached !== undefined) return cached;
    const [stored] = this.#sql.exec<RuleOutcomeRow>(
      "SELECT * FROM rule_outcomes WHERE rule_id = ? AND rule_version = ?",
      ruleId,
      ruleVersion,
    );
    const { id } =
      stored ??
      this.#sql
        .exec<{ id: number }>(
          `INSERT INTO rule_outcomes (rule_id, rule_version, scoring_signal, points, frequency, last_days)
           VALUES (?, ?, ?, ?, ?, ?) RETURNING id`,
          ruleId,
          ruleVersion,
          scoringSignal,
          points,
          frequency,
          lastDays,
        )
        .one();
    this.#ids.set(key, id);
    if (stored === undefined) this.noteVersion(ruleId);
    return id;
  }

  get(id: number): RuleMatch {
    const cached = this.#byId.get(id);
    if (cached !== undefined) return cached;
    const row = this.#sql.exec<RuleOutcomeRow>("SELECT * FROM rule_outcomes WHERE id = ?", id).one();
    const match: RuleMatch = {
      ruleId: row.rule_id,
      ruleVersion: row.rule_version,
      scoringSignal: row.scoring_signal,
      points: row.points,
      ...(row.frequency === null ? {} : { frequency: row.frequency }),
      ...(row.last_days === null ? {} : { lastDays: row.last_days }),
    };
    this.#byId.set(id, match);
    return match;
  }

  /**
   * The versions of a rule that have matched, by the ids of their outcomes. `mayTake`: whether their matches may take an empty place, because
   * no newer version was applied to stored signals.
   */
  versionsOf(ruleId: string): ReadonlyMap<number, RuleMatch & { mayTake: boolean }> {
    const rows = this.#sql.exec<{ id: number; may_take: number }>(
      `SELECT id, NOT EXISTS (SELECT 1 FROM rule_jobs AS job WHERE job.rule_id = ?1 AND (job.rule_version IS NULL
         OR job.rule_version > rule_outcomes.rule_version OR (job.rule_version = rule_outcomes.rule_version AND job.rule IS NULL)))
         AS may_take
       FROM rule_outcomes WHERE rule_id = ?1`,
      ruleId,
    );
    return new Map([...rows].map(({ id, may_take }) => [id, { ...this.get(id), mayTake: may_take === 1 }]));
  }

  /** The versions whose matches may take an empty place. */
  takersOf(ruleId: string): readonly RuleMatch[] {
    const known = this.#takers.get(ruleId);
    const takers = known ?? [...this.versionsOf(ruleId).values()].filter(({ mayTake }) => mayTake);
    if (known === undefined) this.#takers.set(ruleId, takers);
    return takers;
  }

  /** Whether matches of several versions of a rule may take a place. */
  isMixed(ruleId: string): boolean {
    return this.takersOf(ruleId).length > 1;
  }

  /** Whether it matters which match takes a place: of several versions, or of a version that scores once ever, whose day keeps others out. */
  isOrdered(ruleId: string): boolean {
    const takers = this.takersOf(ruleId);
    return takers.length > 1 || takers.some(({ frequency }) => frequency === "once_ever");
  }

  /** A version has matched, or is applied to stored signals. */
  noteVersion(ruleId: string): void {
    this.#takers.delete(ruleId);
  }

  /** The outcomes of a line, whether they count (see `SingleScores`) or not. An anonymous line scores when it is linked, an excluded one never. */
  of(facts: SignalFacts): RuleMatch[] {
    return facts.person === null ? [] : scoringOutcomes(facts).map((id) => this.get(id));
  }

  forget(): void {
    this.#byId.clear();
    this.#ids.clear();
    this.#takers.clear();
  }
}

/** Whether rules of this version are older than rules that were applied to stored signals. */
export function isStale(sql: SqlStorage, rulesVersion: number): boolean {
  return sql.exec("SELECT 1 FROM rule_jobs WHERE rules_version > ? LIMIT 1", rulesVersion).toArray().length > 0;
}

/** Whether the points count from the earliest of several matches. */
export function hasFirstDay({ frequency, lastDays }: RuleMatch): boolean {
  return frequency === "once_ever" && lastDays !== undefined;
}

/** A match as a line names it. */
interface LineMatch {
  seq: number;
  /** Id of the outcome. */
  outcome: number;
}

interface FirstDay {
  day: number;
  outcome: number;
  fromDay: number;
}

export interface Occasion {
  signalId: string;
  occurredMs: number;
}

export function occasionOf({ admission, occurred }: SignalFacts): Occasion {
  return { signalId: admission.id, occurredMs: occurred.ms };
}

/**
 * The signal that counts, for rules that score a person once a day or once ever: a row for each person, rule and UTC day. It is the first
 * recorded match that finds its place empty; of one version and day, any match may be.
 * Lines and timelines name every match. A row outlives its signal and is deleted with the person.
 */
export class SingleScores {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  counts(personId: number, { signalId, occurredMs }: Occasion, { ruleId, frequency }: RuleMatch): boolean {
    const day = dayOf(occurredMs);
    return frequency === undefined || this.#countedOn(personId, ruleId, day, day) === signalId;
  }

  /** `counts` for many matches of a person: reads each day of a rule once. */
  countsOf(personId: number): (occasion: Occasion, match: RuleMatch) => boolean {
    const counted = new Map<string, string | null>();
    return ({ signalId, occurredMs }, { ruleId, frequency }) => {
      if (frequency === undefined) return true;
      const day = dayOf(occurredMs);
      const key = `${ruleId} ${day}`;
      if (!counted.has(key)) counted.set(key, this.#countedOn(personId, ruleId, day, day));
      return counted.get(key) === signalId;
    };
  }

  /** The signal that scored instead of this signal; null: none has, or this signal counts. */
  scoredBy(personId: number, occasion: Occasion, match: RuleMatch): string | null {
    return this.counts(personId, occasion, match) ? null : this.#countedFor(personId, occasion, match);
  }

  /** Whether no match of the rule that counts was recorded earlier. */
  isFirst(personId: number, { signalId }: Occasion, { ruleId }: RuleMatch): boolean {
    const query = "SELECT signal_id FROM single_scores WHERE person_id = ? AND rule_id = ? ORDER BY seq LIMIT 1";
    const [first] = this.#sql.exec<{ signal_id: string }>(query, personId, ruleId);
    return first?.signal_id === signalId;
  }

  /** Returns whether the match counts: the first match does. @param seq its line. @param outcome id of the match. */
  noteMatch(personId: number, occasion: Occasion, match: RuleMatch, { seq, outcome }: LineMatch): boolean {
    if (match.frequency === undefined) return true;
    if (this.#countedFor(personId, occasion, match) !== null) return false;
    const day = dayOf(occasion.occurredMs);
    this.#sql.exec(
      "INSERT INTO single_scores (person_id, rule_id, day, signal_id, seq, outcome, from_day) VALUES (?, ?, ?, ?, ?, ?, ?)",
      personId,
      match.ruleId,
      day,
      occasion.signalId,
      seq,
      ...(hasFirstDay(match) ? [outcome, day] : [null, null]),
    );
    return true;
  }

  /** The day from which the points of a match count: its own, or, for a once-ever rule, the earliest day of the matches of the same outcome. */
  fromDay(personId: number, { occurredMs }: Occasion, match: RuleMatch): number {
    const day = dayOf(occurredMs);
    return hasFirstDay(match) ? (this.firstDay(personId, match.ruleId)?.fromDay ?? day) : day;
  }

  /** Null: the rule is not once-ever, its points never lapse, or it has not matched. */
  firstDay(personId: number, ruleId: string): FirstDay | null {
    const [row] = this.#sql.exec<{ day: number; outcome: number; from_day: number }>(
      "SELECT day, outcome, from_day FROM single_scores WHERE person_id = ? AND rule_id = ? AND outcome IS NOT NULL",
      personId,
      ruleId,
    );
    return row === undefined ? null : { day: row.day, outcome: row.outcome, fromDay: row.from_day };
  }

  /** The lines of a rule's matches that count, by day. */
  linesOf(personId: number, ruleId: string): Map<number, number> {
    const query = "SELECT day, seq FROM single_scores WHERE person_id = ? AND rule_id = ?";
    return new Map(this.#sql.exec(query, personId, ruleId).raw<[day: number, seq: number]>());
  }

  /** Whether a later line counts for a rule. */
  isBeforeOther(personId: number, ruleId: string, seq: number): boolean {
    const query = "SELECT 1 FROM single_scores WHERE person_id = ? AND rule_id = ? AND seq > ? LIMIT 1";
    return this.#sql.exec(query, personId, ruleId, seq).toArray().length > 0;
  }

  setFromDay(personId: number, ruleId: string, fromDay: number): void {
    this.#sql.exec(
      "UPDATE single_scores SET from_day = ? WHERE person_id = ? AND rule_id = ?",
      fromDay,
      personId,
      ruleId,
    );
  }

  /** Returns whether the match had counted. */
  removeMatch(personId: number, occasion: Occasion, match: RuleMatch): boolean {
    if (!this.counts(personId, occasion, match)) return false;
    if (match.frequency === undefined) return true;
    this.#sql.exec(
      "DELETE FROM single_scores WHERE person_id = ? AND rule_id = ? AND day = ?",
      personId,
      match.ruleId,
      dayOf(occasion.occurredMs),
    );
    return true;
  }

  /** The span is the rule's frequency: the day of the signal, or ever. */
  #countedFor(personId: number, { occurredMs }: Occasion, { ruleId, frequency }: RuleMatch): string | null {
    if (frequency === "once_ever") return this.#countedOn(personId, ruleId, 0, Number.MAX_SAFE_INTEGER);
    return this.#countedOn(personId, ruleId, dayOf(occurredMs), dayOf(occurredMs));
  }

  #countedOn(personId: number, ruleId: string, firstDay: number, lastDay: number): string | null {
    const [row] = this.#sql.exec<{ signal_id: string }>(
      "SELECT signal_id FROM single_scores WHERE person_id = ? AND rule_id = ? AND day BETWEEN ? AND ? ORDER BY day LIMIT 1",
      personId,
      ruleId,
      firstDay,
      lastDay,
    );
    return row?.signal_id ?? null;
  }
}

/** Changes that wait in the head of the log, because every batch writes the head anyway. */
export interface PendingRuleDays {
  rules: Record<string, { count: number; days: Record<string, number> }>;
}

interface RuleDays {
  count: number;
  days: DayCounts;
}

interface StoredRuleDays {
  sql: SqlStorage;
  head: PendingRuleDays;
}

/** Counts a score, or its removal. The caller flushes the log. */
export function countScore({ rules }: PendingRuleDays, ruleId: string, atMs: number, by: 1 | -1): void {
  const change = (rules[ruleId] ??= { count: 0, days: {} });
  const day = dayOf(atMs);
  change.count += by;
  change.days[day] = (change.days[day] ?? 0) + by;
}

/** Moves the changes from the head to the rules' rows. The caller flushes the log. */
export function updateRuleDays(stored: StoredRuleDays): void {
  const { sql, head } = stored;
  for (const ruleId of Object.keys(head.rules)) {
    const now = readRuleDays(stored, ruleId);
    if (now === null) sql.exec("DELETE FROM rule_days WHERE rule_id = ?", ruleId);
    else {
      sql.exec(
        `INSERT INTO rule_days (rule_id, count, days) VALUES (?, ?, ?)
         ON CONFLICT (rule_id) DO UPDATE SET count = excluded.count, days = excluded.days`,
        ruleId,
        now.count,
        now.days,
      );
    }
  }
  head.rules = {};
}

/** The counts of a rule; null: no scoring signal is left. */
export function readRuleDays({ sql, head }: StoredRuleDays, ruleId: string): RuleDays | null {
  const [row] = sql.exec<{ count: number; days: DayCounts }>(
    "SELECT count, days FROM rule_days WHERE rule_id = ?",
    ruleId,
  );
  // The id comes from a URL and may be anything, `constructor` too.
  const change = Object.hasOwn(head.rules, ruleId) ? head.rules[ruleId] : undefined;
  if (change === undefined) return row ?? null;
  const count = (row?.count ?? 0) + change.count;
  const days = new Map(Object.entries(change.days).map(([day, by]) => [Number(day), by] as const));
  return count <= 0 ? null : { count, days: addToDays(row?.days ?? "", days) };
}

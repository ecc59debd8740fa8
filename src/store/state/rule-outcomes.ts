/** RuleOutcomes of mapping rules by small numbers, so that a line, and an entry of a list, can name what it scored in a few digits. */
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { Lru } from "../../platform/lru.ts";
import type { Facts } from "../log/line.ts";

/** RuleOutcomes of mapping rules that an object keeps in memory: all of most workspaces. */
const VERDICTS_REMEMBERED = 2_000;

interface Row {
  [column: string]: SqlStorageValue;
  id: number;
  rule_id: string;
  rule_version: number;
  scoring_signal: string;
  points: number;
  frequency: NonNullable<RuleMatch["frequency"]> | null;
}

export class RuleOutcomes {
  readonly #sql: SqlStorage;
  readonly #byId = new Lru<number, RuleMatch>(VERDICTS_REMEMBERED);
  readonly #ids = new Lru<string, number>(VERDICTS_REMEMBERED);

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Numbers of a signal's outcomes, each once, in ascending order. */
  idsOf(matches: readonly RuleMatch[]): number[] {
    return [...new Set(matches.map((match) => this.idOf(match)))].sort((one, other) => one - other);
  }

  idOf(match: RuleMatch): number {
    const { ruleId, ruleVersion, scoringSignal, points, frequency = null } = match;
    const key = `${ruleId} ${ruleVersion}`;
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    const [stored] = this.#sql.exec<Row>(
      "SELECT * FROM rule_outcomes WHERE rule_id = ? AND rule_version = ?",
      ruleId,
      ruleVersion,
    );
    const { id } =
      stored ??
      this.#sql
        .exec<{ id: number }>(
          "INSERT INTO rule_outcomes (rule_id, rule_version, scoring_signal, points, frequency) VALUES (?, ?, ?, ?, ?) RETURNING id",
          ruleId,
          ruleVersion,
          scoringSignal,
          points,
          frequency,
        )
        .one();
    this.#ids.set(key, id);
    return id;
  }

  get(id: number): RuleMatch {
    const known = this.#byId.get(id);
    if (known !== undefined) return known;
    const row = this.#sql.exec<Row>("SELECT * FROM rule_outcomes WHERE id = ?", id).one();
    const match: RuleMatch = {
      ruleId: row.rule_id,
      ruleVersion: row.rule_version,
      scoringSignal: row.scoring_signal,
      points: row.points,
      ...(row.frequency === null ? {} : { frequency: row.frequency }),
    };
    this.#byId.set(id, match);
    return match;
  }

  /**
   * The number of a rule's verdict in its current version, which is the latest that has matched or was applied to the past.
   * Null: that version has matched nothing, or the rule is switched off and what it scored is removed.
   */
  currentOf(ruleId: string): number | null {
    const [row] = this.#sql.exec<{ id: number }>(
      `SELECT id FROM rule_outcomes WHERE rule_id = ?1
         AND rule_version = (SELECT max(rule_version) FROM rule_outcomes WHERE rule_id = ?1)
         AND NOT EXISTS (SELECT 1 FROM rule_jobs AS job WHERE job.rule_id = ?1 AND (job.rule_version IS NULL
           OR job.rule_version > rule_outcomes.rule_version OR (job.rule_version = rule_outcomes.rule_version AND job.rule IS NULL)))`,
      ruleId,
    );
    return row?.id ?? null;
  }

  /** What rules made of a line, whether that counts or not (once.ts). */
  of(facts: Facts): RuleMatch[] {
    // The outcomes of an anonymous line say what it will score once it is somebody's.
    return facts.owner === null ? [] : facts.outcomes.map((id) => this.get(id));
  }

  points(ids: readonly number[]): number {
    return ids.reduce((sum, id) => sum + this.get(id).points, 0);
  }

  /** Forgets what is in memory, which may have been taken back. */
  forget(): void {
    this.#byId.clear();
    this.#ids.clear();
  }
}

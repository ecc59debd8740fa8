/** Adds up what a batch changes in counts per day, so that each row is written once. */
import { addToDays, dayOf } from "../domain/day-counts.ts";
import type { DayCounts } from "../domain/day-counts.ts";
import { rowsByBlock, SCORES_BY_RULE } from "./blocks.ts";

export class DayChanges {
  readonly #changes = new Map<number, number>();

  add(atMs: number, by: number): void {
    const day = dayOf(atMs);
    this.#changes.set(day, (this.#changes.get(day) ?? 0) + by);
  }

  /** Whether the changes cancel each other out, or there are none. */
  get isNothing(): boolean {
    return [...this.#changes.values()].every((by) => by === 0);
  }

  /** @param stored null or undefined: none yet. */
  applyTo(stored: DayCounts | null | undefined): DayCounts {
    return addToDays(stored ?? "", this.#changes);
  }
}

/** The scoring signals that mapping rules have made, by day of receipt: one row read and written per rule and batch. */
export class RuleDayChanges {
  readonly #rules = new Map<string, DayChanges>();

  add(ruleId: string, atMs: number, by: number): void {
    let days = this.#rules.get(ruleId);
    if (days === undefined) this.#rules.set(ruleId, (days = new DayChanges()));
    days.add(atMs, by);
  }

  write(sql: SqlStorage): void {
    for (const [ruleId, changes] of this.#rules) {
      if (changes.isNothing) continue;
      const [row] = sql.exec<{ days: DayCounts }>("SELECT days FROM rule_days WHERE rule_id = ?", ruleId);
      const days = changes.applyTo(row?.days);
      if (days === "" && !isInScoringSignals(sql, ruleId)) sql.exec("DELETE FROM rule_days WHERE rule_id = ?", ruleId);
      else {
        sql.exec(
          `INSERT INTO rule_days (rule_id, days) VALUES (?, ?) ON CONFLICT (rule_id) DO UPDATE SET days = excluded.days`,
          ruleId,
          days,
        );
      }
    }
  }
}

/** Whether a rule has scoring signals, of whatever day. */
export function hasScoringSignals(sql: SqlStorage, ruleId: string): boolean {
  return sql.exec("SELECT 1 FROM rule_days WHERE rule_id = ?", ruleId).toArray().length > 0;
}

function isInScoringSignals(sql: SqlStorage, ruleId: string): boolean {
  const sought = { value: ruleId, from: 0, to: "later" } as const;
  return rowsByBlock(sql, SCORES_BY_RULE, sought).next().done !== true;
}

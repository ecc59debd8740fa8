/** How often each mapping rule has scored, and on which days of receipt: one row read and written per rule and batch. */
import { DayChanges } from "../record/day-changes.ts";
import type { DayCounts } from "../../domain/day-counts.ts";

interface Change {
  count: number;
  days: DayChanges;
}

export class RuleDayChanges {
  readonly #rules = new Map<string, Change>();

  add(ruleId: string, atMs: number, by: number): void {
    let change = this.#rules.get(ruleId);
    if (change === undefined) this.#rules.set(ruleId, (change = { count: 0, days: new DayChanges() }));
    change.count += by;
    change.days.add(atMs, by);
  }

  write(sql: SqlStorage): void {
    for (const [ruleId, { count, days }] of this.#rules) {
      if (count === 0 && days.isNothing) continue;
      const row = readRuleDays(sql, ruleId);
      const sum = (row?.count ?? 0) + count;
      if (sum <= 0) sql.exec("DELETE FROM rule_days WHERE rule_id = ?", ruleId);
      else if (row === null)
        sql.exec("INSERT INTO rule_days (rule_id, count, days) VALUES (?, ?, ?)", ruleId, sum, days.applyTo(""));
      else sql.exec("UPDATE rule_days SET count = ?, days = ? WHERE rule_id = ?", sum, days.applyTo(row.days), ruleId);
    }
    this.#rules.clear();
  }
}

/** Null: the rule has scored nothing that is still there. */
export function readRuleDays(sql: SqlStorage, ruleId: string): { count: number; days: DayCounts } | null {
  const [row] = sql.exec<{ count: number; days: DayCounts }>(
    "SELECT count, days FROM rule_days WHERE rule_id = ?",
    ruleId,
  );
  return row ?? null;
}

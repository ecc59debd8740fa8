/**
 * How often each mapping rule has scored, and on which days of receipt. What a batch changes stands in the head of the log,
 * which it writes in any case, and goes to the rules' rows when the head has no room for it.
 */
import { addToDays, dayOf } from "../../domain/quota/day-counts.ts";
import type { DayCounts } from "../../domain/quota/day-counts.ts";

/** What is to be added to a rule's row; plain data, as the head keeps it. */
export interface RuleDayChange {
  count: number;
  /** Counts by the numbers of the days. */
  days: Record<string, number>;
}

/** The part of the head that has changes which are still to be added to the rules' rows. */
export interface PendingRuleDays {
  rules: Record<string, RuleDayChange>;
}

interface StoredRuleDays {
  sql: SqlStorage;
  books: PendingRuleDays;
}

export class RuleDayChanges {
  readonly #rules = new Map<string, RuleDayChange>();

  add(ruleId: string, atMs: number, by: number): void {
    let change = this.#rules.get(ruleId);
    if (change === undefined) this.#rules.set(ruleId, (change = { count: 0, days: {} }));
    addTo(change, { count: by, days: { [dayOf(atMs)]: by } });
  }

  /** Adds the changes to those in the head. The caller flushes the log. */
  write({ books }: Pick<StoredRuleDays, "books">): void {
    for (const [ruleId, change] of this.#rules) addTo((books.rules[ruleId] ??= { count: 0, days: {} }), change);
    this.#rules.clear();
  }
}

/** Adds what waits in the head to the rules' rows. The caller flushes the log. */
export function updateRuleDays({ sql, books }: StoredRuleDays): void {
  for (const [ruleId, change] of Object.entries(books.rules)) writeRow(sql, ruleId, change);
  books.rules = {};
}

/** How often a rule has scored. Null: it has scored nothing that is still there. */
export function readRuleDays(
  { sql, books }: StoredRuleDays,
  ruleId: string,
): { count: number; days: DayCounts } | null {
  // The id may be anything that stands in an address, `constructor` too.
  return sumOf(readRow(sql, ruleId), Object.hasOwn(books.rules, ruleId) ? books.rules[ruleId] : undefined);
}

function writeRow(sql: SqlStorage, ruleId: string, change: RuleDayChange): void {
  const row = readRow(sql, ruleId);
  const now = sumOf(row, change);
  if (now === null) sql.exec("DELETE FROM rule_days WHERE rule_id = ?", ruleId);
  else if (row === null)
    sql.exec("INSERT INTO rule_days (rule_id, count, days) VALUES (?, ?, ?)", ruleId, now.count, now.days);
  else sql.exec("UPDATE rule_days SET count = ?, days = ? WHERE rule_id = ?", now.count, now.days, ruleId);
}

function readRow(sql: SqlStorage, ruleId: string): { count: number; days: DayCounts } | null {
  const [row] = sql.exec<{ count: number; days: DayCounts }>(
    "SELECT count, days FROM rule_days WHERE rule_id = ?",
    ruleId,
  );
  return row ?? null;
}

function sumOf(row: { count: number; days: DayCounts } | null, change: RuleDayChange | undefined) {
  if (change === undefined) return row;
  const count = (row?.count ?? 0) + change.count;
  const days = new Map(Object.entries(change.days).map(([day, by]) => [Number(day), by] as const));
  return count <= 0 ? null : { count, days: addToDays(row?.days ?? "", days) };
}

function addTo(into: RuleDayChange, { count, days }: RuleDayChange): void {
  into.count += count;
  for (const [day, by] of Object.entries(days)) into.days[day] = (into.days[day] ?? 0) + by;
}

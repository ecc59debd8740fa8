/**
 * Matches that count in place of others (scoring.ts), of persons of so many lines that they are not looked through in one
 * transaction: the alarm goes on, from the oldest line to the latest. A new signal that takes the place meanwhile keeps it.
 */
import type { StoreState } from "../state/store-state.ts";
import { People } from "./people.ts";
import { endReplacement } from "./scoring.ts";
import type { Replacement } from "./scoring.ts";

/** Replacements that a step goes on with; all of them share REPLACE_STEP_ENTRIES. */
const REPLACEMENTS_AT_ONCE = 50;

export function hasReplacements(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM replacements LIMIT 1").toArray().length > 0;
}

/** Takes the next step. */
export function stepReplacements(state: StoreState, nowMs: number): void {
  const { sql } = state;
  const replacements = sql.exec<{ person_id: number; rule_id: string; behind_seq: number }>(
    "SELECT person_id, rule_id, behind_seq FROM replacements LIMIT ?",
    REPLACEMENTS_AT_ONCE,
  );
  const people = new People(state);
  for (const { person_id: personId, rule_id: ruleId, behind_seq: behind } of replacements.toArray()) {
    const replacement: Replacement = { personId, ruleId, behind };
    if (!people.goOnReplacing(replacement)) endReplacement(sql, personId, ruleId);
  }
  people.write();
  state.raised.raise(people.news?.crossedEvents(nowMs) ?? []);
  state.signals.flush();
}

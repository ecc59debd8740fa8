/** Results of mapping rules, for their pages. */
import type { RuleFacts } from "../protocol/store-operations.ts";
import { readRuleDays } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import { findRuleJob } from "./rule-jobs.ts";

/** Results of rules, in the order of the ids. */
export function ruleFacts(state: StoreState, ruleIds: readonly string[]): RuleFacts[] {
  return ruleIds.map((ruleId) => {
    const row = readRuleDays(state, ruleId);
    return { days: row?.days ?? "", job: findRuleJob(state.sql, ruleId), hasScoringSignals: row !== null };
  });
}

/** Whether the rule has scored anything that still counts. */
export function hasScoringSignals(state: StoreState, ruleId: string): boolean {
  return readRuleDays(state, ruleId) !== null;
}

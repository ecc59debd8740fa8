/** What a workspace's mapping rules have done, as their pages show it. */
import type { DayCounts } from "../../domain/quota/day-counts.ts";
import type { RuleJob } from "../rule-protocol.ts";
import type { StoreState } from "../state/store-state.ts";
import { readRuleDays } from "../state/rule-days.ts";
import { findRuleJob } from "./rule-jobs.ts";

export interface RuleFacts {
  /** How many scoring signals the rule has made, by day of receipt. */
  days: DayCounts;
  /** The rule's latest application to what is stored; null: there was none. */
  job: RuleJob | null;
  hasScoringSignals: boolean;
}

/** What rules have done, in the order of the ids. */
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

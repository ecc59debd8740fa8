/** What a workspace's mapping rules have done, as their pages show it. */
import type { DayCounts } from "../domain/day-counts.ts";
import type { RuleJob } from "./rule-protocol.ts";
import { findRuleJob } from "./rule-jobs.ts";

export interface RuleFacts {
  /** Scoring signals that the rule has made, by day of receipt. */
  days: DayCounts;
  /** The latest application to what is stored. */
  job: RuleJob | null;
  hasScoringSignals: boolean;
}

/** In the order of the ids, by primary key. */
export function ruleFacts(sql: SqlStorage, ruleIds: readonly string[]): RuleFacts[] {
  return ruleIds.map((ruleId) => {
    const [row] = sql.exec<{ days: DayCounts }>("SELECT days FROM rule_days WHERE rule_id = ?", ruleId);
    return {
      days: row?.days ?? "",
      job: findRuleJob(sql, ruleId),
      hasScoringSignals: row !== undefined,
    };
  });
}

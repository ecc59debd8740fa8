/** One point for each visit: what is scored is what was sent. */
import type { BenchRule } from "../../bench/rules.ts";

export const VISIT_RULE = {
  name: "Visits",
  event: "Visit",
  match: "all",
  conditions: [],
  scoring_signal: "visit",
  points: 1,
} satisfies BenchRule;

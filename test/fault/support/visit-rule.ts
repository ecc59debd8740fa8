/** One point for each visit, so that the score is the number of signals sent. */
import type { BenchRule } from "../../bench/rules.ts";

export const VISIT_RULE = {
  name: "Visits",
  event: "Visit",
  match: "all",
  conditions: [],
  scoring_signal: "visit",
  points: 1,
} satisfies BenchRule;

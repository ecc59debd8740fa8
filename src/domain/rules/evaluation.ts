/** What all of a workspace's mapping rules say of a signal. */
import type { NormalisedSignal } from "../signal/signal.ts";
import { evaluate } from "./evaluate-rules.ts";
import type { CompiledRules, RuleMatch } from "./mapping-rule.ts";

/** What the mapping rules said of a signal. */
export interface Evaluation {
  rulesTried: number;
  matches: RuleMatch[];
}

/** The rules' verdict on a signal; or that they ask for an email that only its owner has, or take too many steps. */
export function evaluateSignal(
  rules: CompiledRules,
  signal: NormalisedSignal,
  ownerEmail?: string,
): Evaluation | "needs_email" | "exceeded" {
  const { tried, matches, exceeded } = evaluate(rules, signal, ownerEmail);
  if (exceeded) return "exceeded";
  if (rules.asksForEmail && signal.email === undefined && ownerEmail === undefined) return "needs_email";
  return { rulesTried: tried, matches };
}

export function pointsOf(matches: readonly RuleMatch[]): number {
  return matches.reduce((sum, { points }) => sum + points, 0);
}

/** What people say of a mapping rule: all of it but its id, its version and its times. */
import type { MappingRule, RuleFrequency } from "./mapping-rule.ts";

export interface RuleContent extends Pick<MappingRule, "event" | "match" | "conditions" | "scoringSignal" | "points"> {
  name: string;
  frequency: RuleFrequency;
  enabled: boolean;
}

/** The fields of a rule, in the order in which it is read. */
export const RULE_FIELDS = [
  "name",
  "event",
  "match",
  "conditions",
  "scoringSignal",
  "points",
  "frequency",
  "enabled",
] as const satisfies (keyof RuleContent)[];

export function contentOf({
  name,
  event,
  match,
  conditions,
  scoringSignal,
  points,
  ...rest
}: RuleContent): RuleContent {
  const { frequency, enabled } = rest;
  return { name, event, match, conditions, scoringSignal, points, frequency, enabled };
}

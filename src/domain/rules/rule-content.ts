/** The editable content of a mapping rule (everything except id, version and times), its differences and its size. */
import type { MappingCondition } from "./comparators.ts";
import type { MappingRule, PointsLastDays, RuleFrequency } from "./mapping-rule.ts";

export interface RuleContent extends Pick<MappingRule, "event" | "match" | "conditions" | "scoringSignal" | "points"> {
  name: string;
  frequency: RuleFrequency;
  /** Null: the points always count. */
  pointsLastDays: PointsLastDays | null;
  enabled: boolean;
}

export const RULE_FIELDS = [
  "name",
  "event",
  "match",
  "conditions",
  "scoringSignal",
  "points",
  "frequency",
  "pointsLastDays",
  "enabled",
] as const satisfies (keyof RuleContent)[];

export function contentOf(rule: RuleContent): RuleContent {
  const { name, event, match, conditions, scoringSignal, points, frequency, pointsLastDays, enabled } = rule;
  return { name, event, match, conditions, scoringSignal, points, frequency, pointsLastDays, enabled };
}

type PlainField = Exclude<keyof RuleContent, "conditions">;

/** For conditions: those removed and those added; both empty if only their order changed. */
type RuleDifference =
  | { field: PlainField; from: RuleContent[PlainField]; to: RuleContent[PlainField] }
  | { field: "conditions"; removed: MappingCondition[]; added: MappingCondition[] };

export function ruleDifferences(before: RuleContent, after: RuleContent): RuleDifference[] {
  return RULE_FIELDS.flatMap((field): RuleDifference[] => {
    if (field !== "conditions") {
      return before[field] === after[field] ? [] : [{ field, from: before[field], to: after[field] }];
    }
    const [from, to] = [before.conditions, after.conditions];
    if (jsonOf(from) === jsonOf(to)) return [];
    const [jsonBefore, jsonAfter] = [new Set(from.map(jsonOf)), new Set(to.map(jsonOf))];
    return [
      {
        field,
        removed: from.filter((condition) => !jsonAfter.has(jsonOf(condition))),
        added: to.filter((condition) => !jsonBefore.has(jsonOf(condition))),
      },
    ];
  });
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value);
}

const CHARACTERS_COUNTED_AS_ONE = 50;

/**
 * The size of a rule: one for each path and each value of its conditions, and for each `*` of the event pattern.
 * Limits the memory of compiled rules, and the time that they take for a signal without arrays.
 */
export function ruleSize({ event, conditions }: Pick<MappingRule, "event" | "conditions">): number {
  let size = event.split("*").length - 1;
  for (const { path, value } of conditions) {
    size += sizeOf(path);
    const operands = Array.isArray(value) ? value : [value];
    for (const operand of operands) if (operand !== undefined) size += sizeOf(String(operand));
  }
  return size;
}

/** The size of all exclusions of a workspace, as that of rules. */
export function exclusionsSize(exclusions: readonly Pick<MappingRule, "conditions">[]): number {
  return exclusions.reduce((size, { conditions }) => size + ruleSize({ event: "", conditions }), 0);
}

function sizeOf(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARACTERS_COUNTED_AS_ONE));
}

export interface RuleVersions {
  /** The version of all the workspace's rules together; 0: no rules were applied. */
  workspace: number;
  rules: [ruleId: string, version: number][];
}

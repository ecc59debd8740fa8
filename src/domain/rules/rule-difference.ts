/** What of a mapping rule is something else than it was: as the audit log notes it, versions and imports show it. */
import type { MappingCondition } from "./mapping-rule.ts";
import { RULE_FIELDS, type RuleContent } from "./rule-content.ts";

type PlainField = Exclude<keyof RuleContent, "conditions">;

/** What a field was and is; of conditions, which ones went and came: none where only their order is another one. */
export type RuleDifference =
  | { field: PlainField; from: RuleContent[PlainField]; to: RuleContent[PlainField] }
  | { field: "conditions"; removed: MappingCondition[]; added: MappingCondition[] };

export function ruleDifferences(before: RuleContent, after: RuleContent): RuleDifference[] {
  return RULE_FIELDS.flatMap((field): RuleDifference[] => {
    if (field !== "conditions") {
      return before[field] === after[field] ? [] : [{ field, from: before[field], to: after[field] }];
    }
    const [from, to] = [before.conditions, after.conditions];
    if (jsonOf(from) === jsonOf(to)) return [];
    const [had, has] = [new Set(from.map(jsonOf)), new Set(to.map(jsonOf))];
    return [
      {
        field,
        removed: from.filter((one) => !has.has(jsonOf(one))),
        added: to.filter((one) => !had.has(jsonOf(one))),
      },
    ];
  });
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value);
}

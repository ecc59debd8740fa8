/** How two versions of a mapping rule differ, in words; of very many differences the first ones. */
import type { Child } from "hono/jsx";
import type { MappingCondition } from "../../domain/rules/mapping-condition.ts";
import type { RuleContent } from "../../domain/rules/rule-content.ts";
import { ruleDifferences } from "../../domain/rules/rule-content.ts";
import { FREQUENCY_LABEL, MATCH_LABEL, RULE_FIELD_LABEL } from "../copy.ts";
import { counted, grouped, signed } from "../views/format.ts";
import { ConditionSays } from "./rule-says.tsx";

/** Conditions, and values of each, that are shown of what one version of a rule has changed. */
const DIFFERENCE_CONDITIONS = 10;
export const DIFFERENCE_VALUES = 10;

export function RuleDifferences({ before, after }: { before: RuleContent; after: RuleContent }) {
  return (
    <ul class="says">
      {ruleDifferences(before, after).map((difference) => {
        const { field } = difference;
        if (field === "conditions") return <ConditionDifferences {...difference} />;
        return (
          <li>
            {RULE_FIELD_LABEL[field]}: <FieldSaid field={field} rule={before} /> →{" "}
            <FieldSaid field={field} rule={after} />
          </li>
        );
      })}
    </ul>
  );
}

function ConditionDifferences({
  removed,
  added,
}: {
  removed: readonly MappingCondition[];
  added: readonly MappingCondition[];
}) {
  if (removed.length + added.length === 0) return <li>{RULE_FIELD_LABEL.conditions}: in another order</li>;
  return (
    <>
      <Some what="Condition removed" conditions={removed} />
      <Some what="Condition added" conditions={added} />
    </>
  );
}

function Some({ what, conditions }: { what: string; conditions: readonly MappingCondition[] }) {
  const more = conditions.length - DIFFERENCE_CONDITIONS;
  return (
    <>
      {conditions.slice(0, DIFFERENCE_CONDITIONS).map((condition) => (
        <li>
          {what}: <ConditionSays condition={condition} mostValues={DIFFERENCE_VALUES} />
        </li>
      ))}
      {more > 0 && (
        <li>
          {what}: {grouped(more)} more
        </li>
      )}
    </>
  );
}

function FieldSaid({ field, rule }: { field: keyof RuleContent; rule: RuleContent }): Child {
  switch (field) {
    case "match":
      return <>{MATCH_LABEL[rule.match]}</>;
    case "points":
      return <>{signed(rule.points)}</>;
    case "frequency":
      return <>{FREQUENCY_LABEL[rule.frequency].option}</>;
    case "enabled":
      return <>{rule.enabled ? "yes" : "no"}</>;
    case "conditions":
      return <>{counted(rule.conditions.length, "condition")}</>;
    default:
      return <code>{rule[field]}</code>;
  }
}

/** A mapping rule in words, and how two versions of a rule differ. */
import type { Child } from "hono/jsx";
import type { MappingCondition } from "../../domain/rules/comparators.ts";
import { movedConditions, RULE_FIELDS, ruleDifferences, type RuleContent } from "../../domain/rules/rule-content.ts";
import { pointsDurationText, FREQUENCY_LABEL, MATCH_LABEL, COMPARATOR_LABEL, RULE_FIELD_LABEL } from "../copy.ts";
import { grouped, signed } from "../kit/format.ts";
import { Badge, ValueList } from "../kit/parts.tsx";

/** Conditions, and values of each, that a list of differences shows. */
const CONDITIONS_SHOWN = 10;
export const VALUES_SHOWN = 10;

export function EnabledBadge({ enabled }: { enabled: boolean }) {
  return enabled ? <>Enabled</> : <Badge>Disabled</Badge>;
}

/** @param props.maxValues values shown of each list; undefined: all. */
export function RuleSummary({ rule, maxValues }: { rule: RuleContent; maxValues?: number }) {
  const fields = RULE_FIELDS.filter((field) => field !== "name" && field !== "enabled");
  return (
    <ValueList
      of={fields.map((field) => [
        RULE_FIELD_LABEL[field],
        <FieldText field={field} rule={rule} maxValues={maxValues} />,
      ])}
    />
  );
}

interface FieldProps {
  field: keyof RuleContent;
  rule: RuleContent;
  maxValues?: number | undefined;
}

function FieldText({ field, rule, maxValues }: FieldProps): Child {
  switch (field) {
    case "match":
      return MATCH_LABEL[rule.match];
    case "points":
      return signed(rule.points);
    case "frequency":
      return FREQUENCY_LABEL[rule.frequency].option;
    case "pointsLastDays":
      return pointsDurationText(rule.pointsLastDays);
    case "enabled":
      return rule.enabled ? "yes" : "no";
    case "conditions":
      if (rule.conditions.length === 0) return "none";
      return (
        <ul class="plain">
          {rule.conditions.map((condition) => (
            <li>
              <ConditionText condition={condition} maxValues={maxValues} />
            </li>
          ))}
        </ul>
      );
    default:
      return <code>{rule[field]}</code>;
  }
}

export function ConditionText({
  condition,
  maxValues,
}: {
  condition: MappingCondition;
  maxValues?: number | undefined;
}) {
  const { path, operator, value, same_element = false } = condition;
  const values = value === undefined ? [] : Array.isArray(value) ? value : [value];
  const shown = values.slice(0, maxValues);
  return (
    <>
      <code>{path}</code> {COMPARATOR_LABEL[operator]}{" "}
      {shown.map((text, index) => (
        <>
          {index > 0 && ", "}
          <code>{String(text)}</code>
        </>
      ))}
      {shown.length < values.length && ` and ${grouped(values.length - shown.length)} more`}
      {same_element && " (same element as the condition before)"}
    </>
  );
}

export function RuleDifferences({ before, after }: { before: RuleContent; after: RuleContent }) {
  return (
    <ul class="plain">
      {ruleDifferences(before, after).map((difference) => {
        if (difference.field !== "conditions") {
          const { field } = difference;
          return (
            <li>
              {RULE_FIELD_LABEL[field]}: <FieldText field={field} rule={before} /> →{" "}
              <FieldText field={field} rule={after} />
            </li>
          );
        }
        const moved = movedConditions(before.conditions, after.conditions);
        return (
          <>
            <SomeConditions label="Condition removed" conditions={difference.removed} />
            <SomeConditions label="Condition added" conditions={difference.added} />
            {moved.slice(0, CONDITIONS_SHOWN).map(({ condition, from, to }) => (
              <li>
                {`Condition moved from place ${from} to ${to}: `}
                <ConditionText condition={condition} maxValues={VALUES_SHOWN} />
              </li>
            ))}
            {moved.length > CONDITIONS_SHOWN && (
              <li>{`Condition moved: ${grouped(moved.length - CONDITIONS_SHOWN)} more`}</li>
            )}
          </>
        );
      })}
    </ul>
  );
}

function SomeConditions({ label, conditions }: { label: string; conditions: readonly MappingCondition[] }) {
  const more = conditions.length - CONDITIONS_SHOWN;
  return (
    <>
      {conditions.slice(0, CONDITIONS_SHOWN).map((condition) => (
        <li>
          {label}: <ConditionText condition={condition} maxValues={VALUES_SHOWN} />
        </li>
      ))}
      {more > 0 && <li>{`${label}: ${grouped(more)} more`}</li>}
    </>
  );
}

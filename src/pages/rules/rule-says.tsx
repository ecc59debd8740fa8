/** A mapping rule in words, for those who only read it. */
import type { RuleContent } from "../../domain/rules/rule-content.ts";
import type { MappingCondition } from "../../domain/rules/mapping-condition.ts";
import { FREQUENCY_LABEL, OPERATOR_LABEL } from "../copy.ts";
import { grouped, signed } from "../views/format.ts";

/** @param props.mostValues how many values of a condition's list are named; undefined: all of them. */
export function RuleSays({ rule, mostValues }: { rule: RuleContent; mostValues?: number }) {
  const { event, match, conditions, scoringSignal, points, frequency } = rule;
  return (
    <div class="stack">
      <p>
        When <code>{event}</code> comes
        {conditions.length > 0 && `, and ${match === "all" ? "all of this holds" : "any of this holds"}`}:
      </p>
      {conditions.length > 0 && (
        <ul class="says">
          {conditions.map((condition) => (
            <li>
              <ConditionSays condition={condition} mostValues={mostValues} />
            </li>
          ))}
        </ul>
      )}
      <p>
        the person gets <strong>{signed(points)}</strong> for <strong>{scoringSignal}</strong>,{" "}
        {FREQUENCY_LABEL[frequency].said}.
      </p>
    </div>
  );
}

/** A condition in words. @param props.mostValues how many values of a list are named; undefined: all of them. */
export function ConditionSays({
  condition,
  mostValues,
}: {
  condition: MappingCondition;
  mostValues?: number | undefined;
}) {
  const { path, operator, value } = condition;
  const values = value === undefined ? [] : Array.isArray(value) ? value : [value];
  const named = values.slice(0, mostValues);
  return (
    <>
      <code>{path}</code> {OPERATOR_LABEL[operator]}{" "}
      {named.map((one, index) => (
        <>
          {index > 0 && ", "}
          <code>{String(one)}</code>
        </>
      ))}
      {named.length < values.length && ` and ${grouped(values.length - named.length)} more`}
    </>
  );
}

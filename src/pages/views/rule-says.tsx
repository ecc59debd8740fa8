/** A mapping rule in words, for those who only read it. */
import type { NewRule } from "../../control/rule-changes.ts";
import type { MappingCondition } from "../../domain/rules/mapping-rule.ts";
import { FREQUENCY_LABEL, OPERATOR_LABEL } from "../copy.ts";
import { signed } from "./format.ts";

export function RuleSays({ rule }: { rule: NewRule }) {
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
              <code>{condition.path}</code> {OPERATOR_LABEL[condition.operator]} <Value value={condition.value} />
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

function Value({ value }: { value: MappingCondition["value"] }) {
  if (value === undefined) return <></>;
  const values = Array.isArray(value) ? value : [value];
  return (
    <>
      {values.map((one, index) => (
        <>
          {index > 0 && ", "}
          <code>{String(one)}</code>
        </>
      ))}
    </>
  );
}

/** The conditions of a mapping rule in its form, a row each. */
import { MAPPING_OPERATORS, OPERATORS_WITHOUT_VALUE } from "../../domain/rules/mapping-condition.ts";
import { RULE_MAX_CONDITIONS, RULE_PATH_MAX_ELEMENTS } from "../../limits.ts";
import { OPERATOR_LABEL } from "../copy.ts";
import { textareaText } from "../views/fields.tsx";
import { grouped } from "../views/format.ts";
import type { ConditionRow, FieldErrors } from "./rule-form.ts";

interface ConditionsProps {
  rows: readonly ConditionRow[];
  errors: FieldErrors;
  /** The last condition has the focus where nothing is wrong. */
  focusLast: boolean;
}

export function ConditionFields({ rows, errors, focusLast }: ConditionsProps) {
  return (
    <fieldset class="conditions" id="conditions">
      <legend>Conditions</legend>
      <p class="hint" id="conditions-hint">
        On <code>event</code>, <code>source</code>, <code>email</code> or <code>properties.</code> and a path, such as{" "}
        <code>properties.form_name</code>, <code>properties.items[0].sku</code>, or <code>properties.items[].sku</code>{" "}
        for any of the first {grouped(RULE_PATH_MAX_ELEMENTS)}. Text is not case-sensitive; numbers are compared as
        numbers.
      </p>
      {rows.length === 0 && <p class="quiet">None: every signal of this event matches.</p>}
      {rows.map((row, index) => (
        <Condition row={row} index={index} errors={errors} focused={focusLast && index === rows.length - 1} />
      ))}
      {rows.length < RULE_MAX_CONDITIONS && (
        <div class="row">
          <button class="small" id="add-condition" name="do" value="add" data-swap="#conditions">
            Add condition
          </button>
        </div>
      )}
    </fieldset>
  );
}

interface ConditionProps {
  row: ConditionRow;
  index: number;
  errors: FieldErrors;
  focused: boolean;
}

function Condition({ row, index, errors, focused }: ConditionProps) {
  const nth = `Condition ${index + 1}`;
  const wrong = ["path", "operator", "value"].flatMap((field) => errors[`conditions.${index}.${field}`] ?? []);
  const invalid = (field: string) =>
    errors[`conditions.${index}.${field}`] === undefined
      ? {}
      : { "aria-invalid": "true" as const, "aria-describedby": `condition-${index}-error`, autofocus: true };
  return (
    <div class="condition">
      <input
        type="text"
        name="path"
        id={`path-${index}`}
        aria-label={`${nth}: what it looks at`}
        value={row.path}
        placeholder="properties.form_name"
        list="paths"
        autocomplete="off"
        spellcheck={false}
        autofocus={focused}
        {...invalid("path")}
      />
      <select name="operator" id={`operator-${index}`} aria-label={`${nth}: comparison`} {...invalid("operator")}>
        {MAPPING_OPERATORS.map((operator) => (
          <option
            value={operator}
            selected={operator === row.operator}
            class={OPERATORS_WITHOUT_VALUE.includes(operator) ? "no-value" : undefined}
          >
            {OPERATOR_LABEL[operator]}
          </option>
        ))}
      </select>
      <textarea
        name="value"
        id={`value-${index}`}
        rows={1}
        aria-label={`${nth}: value; for a list one to a line, or between commas`}
        placeholder="value"
        spellcheck={false}
        {...invalid("value")}
      >
        {textareaText(row.value)}
      </textarea>
      <button
        class="small"
        id={`remove-${index}`}
        name="do"
        value={`remove-${index}`}
        data-swap="#conditions"
        aria-label={`Remove condition ${index + 1}`}
      >
        Remove
      </button>
      {wrong.length > 0 && (
        <span class="error" id={`condition-${index}-error`}>
          {wrong.join(" ")}
        </span>
      )}
    </div>
  );
}

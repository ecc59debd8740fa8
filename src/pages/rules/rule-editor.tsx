/**
 * The form of a mapping rule. Its buttons say what they do in `do`: rows are added and removed by the server, so that
 * this works without a script; with one, only the conditions are exchanged, and the preview follows what is typed.
 */
import { MAPPING_OPERATORS, OPERATORS_WITHOUT_VALUE, RULE_FREQUENCIES } from "../../domain/rules/mapping-rule.ts";
import { RULE_MAX_CONDITIONS, RULE_PATH_MAX_ELEMENTS } from "../../limits.ts";
import { FREQUENCY_LABEL, OPERATOR_LABEL } from "../copy.ts";
import type { ConditionRow, FieldErrors, RuleForm } from "./rule-form.ts";
import type { RuleSuggestions } from "../../store/rule-protocol.ts";
import { grouped } from "../views/format.ts";
import { CheckField, FormErrors, SelectField, TextField } from "../views/fields.tsx";
import { Panel } from "../views/parts.tsx";
import { Preview, type Previewed } from "./rule-preview.tsx";

export interface EditorProps {
  base: string;
  form: RuleForm;
  errors: FieldErrors;
  preview: Previewed;
  suggestions: RuleSuggestions;
  /** The field that has the focus where nothing is wrong; the first wrong field takes it otherwise. */
  focus: "name" | "last_condition" | null;
}

const PREVIEW_DAYS = [
  ["7", "the last 7 days"],
  ["30", "the last 30 days"],
  ["90", "the last 90 days"],
  ["365", "the last year"],
] as const;

/** @param version the version that is edited; undefined for a new rule. */
export function Editor({
  base,
  action,
  submit,
  version,
  form,
  errors,
  preview,
  suggestions,
  focus,
}: EditorProps & { action: string; submit: string; version?: number }) {
  const wrong = Object.entries(errors);
  return (
    <div class="editor">
      <form
        method="post"
        action={action}
        class="stack"
        id="rule"
        data-preview="#preview"
        data-preview-url={`${base}/rules/preview`}
        data-preview-first
      >
        {/* The Enter key presses the first submit button of a form: this one, which saves. */}
        <button class="default-submit" name="do" value="save" tabindex={-1} aria-hidden="true">
          {submit}
        </button>
        {version !== undefined && <input type="hidden" name="version" value={String(version)} />}
        <FormErrors errors={wrong.map(([field, error]) => describe(field, error))} />
        <Panel title="The rule">
          <TextField name="name" label="Name" error={errors["name"]} value={form.name} autofocus={focus === "name"} />
          <CheckField
            name="enabled"
            label="Enabled"
            hint="It applies from the next signal on. What is stored already is left alone until you apply the rule to it."
            checked={form.enabled}
          />
        </Panel>
        <Panel title="When this comes">
          <TextField
            name="event"
            label="Event"
            hint="The event's name, case-sensitive; * stands for anything, as in Filled Out *."
            error={errors["event"]}
            value={form.event}
            list="events"
            autocomplete="off"
            spellcheck={false}
          />
          <datalist id="events">
            {suggestions.events.map((event) => (
              <option value={event} />
            ))}
          </datalist>
          <SelectField
            name="match"
            label="Match"
            error={errors["match"]}
            value={form.match}
            options={[
              ["all", "all conditions"],
              ["any", "any condition"],
            ]}
          />
          <Conditions rows={form.conditions} errors={errors} focus={focus} />
        </Panel>
        <Panel title="The person gets">
          <div class="pair">
            <TextField
              name="scoring_signal"
              label="Scoring signal"
              error={errors["scoring_signal"]}
              value={form.scoringSignal}
            />
            <TextField
              name="points"
              label="Points"
              hint="Negative ones are taken away."
              error={errors["points"]}
              value={form.points}
              inputmode="numeric"
            />
          </div>
          <SelectField
            name="frequency"
            label="How often"
            hint="A person's first signal of the day, or of all, scores; the others match and score nothing."
            error={errors["frequency"]}
            value={form.frequency}
            options={RULE_FREQUENCIES.map((frequency) => [frequency, FREQUENCY_LABEL[frequency].option] as const)}
          />
        </Panel>
        <div class="filters">
          <SelectField name="days" label="Preview on" value={form.days} options={PREVIEW_DAYS} />
          <button name="do" value="preview" data-swap="#preview">
            Preview
          </button>
          <button class="primary" name="do" value="save">
            {submit}
          </button>
        </div>
      </form>
      <Preview base={base} preview={preview} paths={suggestions.paths} />
    </div>
  );
}

interface ConditionsProps {
  rows: readonly ConditionRow[];
  errors: FieldErrors;
  focus: EditorProps["focus"];
}

function Conditions({ rows, errors, focus }: ConditionsProps) {
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
        <Condition
          row={row}
          index={index}
          errors={errors}
          focused={focus === "last_condition" && index === rows.length - 1}
        />
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
      {/* HTML takes away a line's end at the beginning of a textarea: a text that begins with one gets another. */}
      <textarea
        name="value"
        id={`value-${index}`}
        rows={1}
        aria-label={`${nth}: value; for a list one to a line, or between commas`}
        placeholder="value"
        spellcheck={false}
        {...invalid("value")}
      >
        {row.value.startsWith("\n") ? `\n${row.value}` : row.value}
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

const FIELD_LABEL: Record<string, string> = {
  name: "Name",
  event: "Event",
  scoring_signal: "Scoring signal",
  points: "Points",
  frequency: "How often",
  match: "Match",
  conditions: "Conditions",
};

function describe(field: string, error: string): string {
  const condition = /^conditions\.(\d+)/.exec(field)?.[1];
  if (condition !== undefined) return `Condition ${Number(condition) + 1}: ${error}`;
  return field === "" ? error : `${FIELD_LABEL[field] ?? field}: ${error}`;
}

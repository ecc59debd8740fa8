/**
 * The form of a mapping rule. The server adds and removes conditions, so the form works without a script. With a script, only
 * the conditions are replaced, and the preview follows the typed text.
 */
import type { Context } from "hono";
import { findRule, type StoredRule } from "../../control/stored-rules.ts";
import { MAPPING_OPERATORS, OPERATORS_WITHOUT_VALUE } from "../../domain/rules/mapping-condition.ts";
import { RULE_FREQUENCIES } from "../../domain/rules/mapping-rule.ts";
import { RULE_MAX_CONDITIONS, RULE_PATH_MAX_ELEMENTS } from "../../limits.ts";
import type { RuleSuggestions } from "../../store/protocol/store-operations.ts";
import { signalStore } from "../../workspace/objects.ts";
import { FREQUENCY_LABEL, MATCH_LABEL, OPERATOR_LABEL, RULE_FIELD_LABEL } from "../copy.ts";
import { formText } from "../form-text.ts";
import { grouped } from "../kit/format.ts";
import { CheckField, FormErrors, SelectField, textareaText, TextField } from "../kit/forms.tsx";
import { Panel } from "../kit/parts.tsx";
import type { PagesEnv } from "../pages-env.ts";
import {
  changeRows,
  readRuleForm,
  withoutBlankRows,
  type ConditionRow,
  type FieldErrors,
  type RuleForm,
} from "./rule-form.ts";
import { RulePreviewPanel, tryOut, type Previewed } from "./rule-preview.tsx";

export const RULE_ID = /^rule_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A submit of the editor. */
export interface Submitted {
  /** The pressed button: `save`, `preview`, `add`, or such as `remove-2`. */
  button: string;
  form: RuleForm;
  /** The rule that the form was filled from: the edited or the duplicated rule. */
  source: StoredRule | null;
  preview: Previewed;
}

export async function readSubmitted(c: Context<PagesEnv>): Promise<Submitted> {
  const data = c.get("form");
  const button = formText(data, "do") || "save";
  const typed = readRuleForm(data);
  const form = button === "save" || button === "preview" ? withoutBlankRows(typed) : changeRows(typed, button);
  const source = await sourceOf(c);
  return { button, form, source, preview: button === "preview" ? await tryOut(c, form, source) : null };
}

export async function sourceOf(c: Context<PagesEnv>): Promise<StoredRule | null> {
  const id = formText(c.get("form"), "source");
  return RULE_ID.test(id) ? findRule(c.get("db"), c.get("workspace").id, id) : null;
}

export interface EditorState {
  form: RuleForm;
  errors?: FieldErrors;
  preview?: Previewed;
  /** The field with the focus if the form has no errors. */
  focus?: "name" | "last_condition" | null;
}

/** The editor after a button that does not save. */
export function editorAfter({ button, form, preview }: Submitted): EditorState {
  return { form, preview, focus: button === "add" ? "last_condition" : null };
}

export function suggestionsFor(c: Context<PagesEnv>, form: RuleForm): Promise<RuleSuggestions> {
  return signalStore(c.env, c.get("workspace").id).suggestForRule(form.event);
}

interface EditorProps extends EditorState {
  base: string;
  action: string;
  submit: string;
  suggestions: RuleSuggestions;
  /** Hidden fields: `id` of the rule to create, `version` of the rule to change, `source` (see Submitted). */
  hidden: Record<string, string>;
}

const PREVIEW_DAYS = [
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
  ["90", "Last 90 days"],
  ["365", "Last year"],
] as const;

export function RuleEditor(props: EditorProps) {
  const { base, action, submit, hidden, form, errors = {}, preview = null, suggestions, focus = null } = props;
  return (
    <div class="columns main-first">
      <form
        method="post"
        action={action}
        class="stack"
        id="rule"
        data-preview="#preview"
        data-preview-url={`${base}/rules/preview`}
        data-preview-first
        data-once
      >
        {/* The Enter key presses the first submit button of a form: this one, which saves. */}
        <button class="default-submit" name="do" value="save" tabindex={-1} aria-hidden="true">
          {submit}
        </button>
        {Object.entries(hidden).map(([name, value]) => (
          <input type="hidden" name={name} value={value} />
        ))}
        <FormErrors errors={Object.entries(errors).map(([field, error]) => describe(field, error))} />
        <Fields form={form} errors={errors} events={suggestions.events} focus={focus} />
        <div class="row">
          <button class="primary" name="do" value="save">
            {submit}
          </button>
          <select name="days" aria-label="Days of the preview">
            {PREVIEW_DAYS.map(([days, text]) => (
              <option value={days} selected={days === form.days}>
                {text}
              </option>
            ))}
          </select>
          <button name="do" value="preview" data-swap="#preview">
            Preview
          </button>
        </div>
      </form>
      <RulePreviewPanel base={base} preview={preview} paths={suggestions.paths} />
    </div>
  );
}

interface FieldsProps {
  form: RuleForm;
  errors: FieldErrors;
  events: readonly string[];
  focus: EditorState["focus"];
}

function Fields({ form, errors, events, focus }: FieldsProps) {
  const text = (name: "name" | "event" | "scoringSignal" | "points", parameter: string = name) => ({
    name: parameter,
    label: RULE_FIELD_LABEL[name],
    error: errors[parameter],
    value: form[name],
  });
  return (
    <>
      <Panel>
        <TextField {...text("name")} autofocus={focus === "name"} />
        <CheckField
          name="enabled"
          label={RULE_FIELD_LABEL.enabled}
          hint="An enabled rule applies from the next signal on. Past signals change only when you apply the rule."
          checked={form.enabled}
        />
      </Panel>
      <Panel title="If a signal has">
        <TextField
          {...text("event")}
          hint="Case-sensitive. Use * for any text, such as Filled Out *."
          list="events"
          autocomplete="off"
          spellcheck={false}
        />
        <datalist id="events">
          {events.map((event) => (
            <option value={event} />
          ))}
        </datalist>
        <SelectField
          name="match"
          label={RULE_FIELD_LABEL.match}
          error={errors["match"]}
          value={form.match}
          options={Object.entries(MATCH_LABEL)}
        />
        <Conditions rows={form.conditions} errors={errors} focusLast={focus === "last_condition"} />
      </Panel>
      <Panel title="Then the person gets">
        <div class="pair">
          <TextField {...text("scoringSignal", "scoring_signal")} />
          <TextField {...text("points")} hint="Use a negative number to subtract." inputmode="numeric" />
        </div>
        <SelectField
          name="frequency"
          label={RULE_FIELD_LABEL.frequency}
          hint="Only the first match per day (or ever) adds points."
          error={errors["frequency"]}
          value={form.frequency}
          options={RULE_FREQUENCIES.map((frequency) => [frequency, FREQUENCY_LABEL[frequency].option] as const)}
        />
      </Panel>
    </>
  );
}

function Conditions({
  rows,
  errors,
  focusLast,
}: {
  rows: readonly ConditionRow[];
  errors: FieldErrors;
  focusLast: boolean;
}) {
  return (
    <fieldset class="field" id="conditions">
      <legend>Conditions</legend>
      <p class="hint">
        A path is <code>event</code>, <code>source</code>, <code>email</code>, or such as{" "}
        <code>properties.form_name</code>. <code>properties.items[].sku</code> looks at the first{" "}
        {grouped(RULE_PATH_MAX_ELEMENTS)} items. Text is not case-sensitive.
      </p>
      {rows.length === 0 && <p class="quiet">No conditions: every signal of this event matches.</p>}
      {rows.map((row, index) => (
        <Condition row={row} index={index} errors={errors} focused={focusLast && index === rows.length - 1} />
      ))}
      {rows.length < RULE_MAX_CONDITIONS && (
        <div>
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
  const label = `Condition ${index + 1}`;
  const wrong = ["path", "operator", "value"].flatMap((field) => errors[`conditions.${index}.${field}`] ?? []);
  const control = (name: "path" | "operator" | "value", text: string) => ({
    name,
    id: `${name}-${index}`,
    "aria-label": `${label}: ${text}`,
    ...(errors[`conditions.${index}.${name}`] === undefined
      ? {}
      : { "aria-invalid": "true" as const, "aria-describedby": `condition-${index}-error`, autofocus: true }),
  });
  return (
    <div class="condition">
      <input
        type="text"
        value={row.path}
        placeholder="properties.form_name"
        list="paths"
        autocomplete="off"
        spellcheck={false}
        autofocus={focused}
        {...control("path", "path")}
      />
      <select {...control("operator", "comparison")}>
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
        rows={1}
        placeholder="Value"
        spellcheck={false}
        {...control("value", "value. Lists: one per line, or separated by commas")}
      >
        {textareaText(row.value)}
      </textarea>
      <button
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

/** Labels by the field names of the schema. */
const LABEL_OF: Readonly<Record<string, string>> = {
  ...RULE_FIELD_LABEL,
  scoring_signal: RULE_FIELD_LABEL.scoringSignal,
};

function describe(field: string, error: string): string {
  const condition = /^conditions\.(\d+)/.exec(field)?.[1];
  if (condition !== undefined) return `Condition ${Number(condition) + 1}: ${error}`;
  return field === "" ? error : `${LABEL_OF[field] ?? field}: ${error}`;
}

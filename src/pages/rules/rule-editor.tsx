/**
 * The form of a mapping rule. Its buttons say what they do in `do`: rows are added and removed by the server, so that
 * this works without a script; with one, only the conditions are exchanged, and the preview follows what is typed.
 */
import { RULE_FREQUENCIES } from "../../domain/rules/mapping-rule.ts";
import { FREQUENCY_LABEL, MATCH_LABEL, RULE_FIELD_LABEL } from "../copy.ts";
import type { FieldErrors, RuleForm } from "./rule-form.ts";
import type { RuleSuggestions } from "../../store/protocol/store-operations.ts";
import { CheckField, FormErrors, SelectField, TextField } from "../kit/forms.tsx";
import { Panel } from "../views/parts.tsx";
import { ConditionFields } from "./condition-fields.tsx";
import { RulePreviewPanel, type Previewed } from "./rule-preview.tsx";

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

/**
 * @param version the version that is edited; undefined for a new rule.
 * @param drawnFrom id of the rule that the form shows: the one that is edited or copied.
 * @param newId the id that a new rule gets: a form that is sent twice makes one.
 */
export function RuleEditor({
  base,
  action,
  submit,
  version,
  newId,
  drawnFrom,
  form,
  errors,
  preview,
  suggestions,
  focus,
}: EditorProps & {
  action: string;
  submit: string;
  version?: number;
  newId?: string;
  drawnFrom?: string | undefined;
}) {
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
        data-once
      >
        {/* The Enter key presses the first submit button of a form: this one, which saves. */}
        <button class="default-submit" name="do" value="save" tabindex={-1} aria-hidden="true">
          {submit}
        </button>
        {newId !== undefined && <input type="hidden" name="id" value={newId} />}
        {version !== undefined && <input type="hidden" name="version" value={String(version)} />}
        {drawnFrom !== undefined && <input type="hidden" name="drawn_from" value={drawnFrom} />}
        <FormErrors errors={wrong.map(([field, error]) => describe(field, error))} />
        <Panel title="The rule">
          <TextField
            name="name"
            label={RULE_FIELD_LABEL.name}
            error={errors["name"]}
            value={form.name}
            autofocus={focus === "name"}
          />
          <CheckField
            name="enabled"
            label={RULE_FIELD_LABEL.enabled}
            hint="It applies from the next signal on. What is stored already is left alone until you apply the rule to it."
            checked={form.enabled}
          />
        </Panel>
        <Panel title="When this comes">
          <TextField
            name="event"
            label={RULE_FIELD_LABEL.event}
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
            label={RULE_FIELD_LABEL.match}
            error={errors["match"]}
            value={form.match}
            options={Object.entries(MATCH_LABEL)}
          />
          <ConditionFields rows={form.conditions} errors={errors} focusLast={focus === "last_condition"} />
        </Panel>
        <Panel title="The person gets">
          <div class="pair">
            <TextField
              name="scoring_signal"
              label={RULE_FIELD_LABEL.scoringSignal}
              error={errors["scoring_signal"]}
              value={form.scoringSignal}
            />
            <TextField
              name="points"
              label={RULE_FIELD_LABEL.points}
              hint="Negative ones are taken away."
              error={errors["points"]}
              value={form.points}
              inputmode="numeric"
            />
          </div>
          <SelectField
            name="frequency"
            label={RULE_FIELD_LABEL.frequency}
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
      <RulePreviewPanel base={base} preview={preview} paths={suggestions.paths} />
    </div>
  );
}

/** Errors name a field as the operator API does. */
const LABEL_OF: Readonly<Record<string, string>> = {
  ...RULE_FIELD_LABEL,
  scoring_signal: RULE_FIELD_LABEL.scoringSignal,
};

function describe(field: string, error: string): string {
  const condition = /^conditions\.(\d+)/.exec(field)?.[1];
  if (condition !== undefined) return `Condition ${Number(condition) + 1}: ${error}`;
  return field === "" ? error : `${LABEL_OF[field] ?? field}: ${error}`;
}

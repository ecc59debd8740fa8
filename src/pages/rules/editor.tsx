/**
 * The form of a mapping rule. The server adds and removes conditions, so the form works without a script. With a script, only
 * the conditions are replaced, and the preview follows the typed text.
 */
import { findRule, type StoredRule } from "../../control/stored-rules.ts";
import { MAPPING_OPERATORS, OPERATORS_WITHOUT_VALUE } from "../../domain/rules/mapping-condition.ts";
import { POINTS_LAST_DAYS, RULE_FREQUENCIES } from "../../domain/rules/mapping-rule.ts";
import { fitsName } from "../../domain/signal/validate-signal.ts";
import { RULE_MAX_CONDITIONS, RULE_PATH_MAX_ELEMENTS } from "../../limits.ts";
import type { RuleSuggestions } from "../../store/protocol/store-operations.ts";
import { previewRule, type RulePreview } from "../../workspace/rules-on-history.ts";
import { pointsDurationText, FREQUENCY_LABEL, MATCH_LABEL, OPERATOR_LABEL, RULE_FIELD_LABEL } from "../copy.ts";
import { counted, grouped, signed } from "../kit/format.ts";
import { Check, DataList, Form, FormErrors, SelectField, textareaText, TextField } from "../kit/forms.tsx";
import { type Ctx, formText, storeOf } from "../pages-env.ts";
import { signalPath } from "../paths.ts";
import { Json, JSON_SAMPLE_CHARACTERS, Notice, Panel, Stat, Stats, Time } from "../kit/parts.tsx";
import {
  changeRows,
  readRuleForm,
  ruleForPreview,
  lastDaysInput,
  previewDays,
  withoutBlankRows,
  type ConditionRow,
  type FieldErrors,
  type RuleForm,
} from "./rule-form.ts";

export const RULE_ID = /^rule_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export interface EditorState {
  form: RuleForm;
  /** The rule that the form was filled from: the edited or the duplicated rule. Unchanged fields keep its values. */
  source: StoredRule | null;
  errors?: FieldErrors;
  preview?: PreviewResult;
  /** The pressed button: `save`, `preview`, `add`, or such as `remove-2`. Undefined: the page was opened. */
  button?: string;
}

/** @param typingSignals signals that the preview while typing reads; undefined: a button was pressed. */
export async function readEditor(c: Ctx, typingSignals?: number): Promise<EditorState> {
  const data = c.get("form");
  const button = typingSignals === undefined ? formText(data, "do") || "save" : "preview";
  const typed = readRuleForm(data);
  const form = button === "save" || button === "preview" ? withoutBlankRows(typed) : changeRows(typed, button);
  const sourceId = formText(data, "source");
  const source = RULE_ID.test(sourceId) ? await findRule(c.get("db"), c.get("workspace").id, sourceId) : null;
  return {
    button,
    form,
    source,
    preview: button === "preview" ? await previewForm(c, form, source, typingSignals) : null,
  };
}

export function suggestionsFor(c: Ctx, form: RuleForm): Promise<RuleSuggestions> {
  // A text that no event and no pattern may have is not looked for.
  return storeOf(c).suggestForRule(fitsName(form.event) ? form.event : "");
}

interface EditorProps extends EditorState {
  base: string;
  action: string;
  submit: string;
  suggestions: RuleSuggestions;
  /** A form that is sent twice creates one rule. */
  newId?: string;
  version?: number;
}

const PREVIEW_DAYS = [7, 30, 90, 365];

export function RuleEditor(props: EditorProps) {
  const { base, action, submit, newId, version, form, source, errors = {}, preview = null, suggestions } = props;
  const hidden = {
    ...(newId !== undefined && { id: newId }),
    ...(version !== undefined && { version: String(version) }),
    ...(source !== null && { source: source.id }),
  };
  const previewing = (
    <div class="row at-end">
      <select name="days" aria-label="Days of the preview">
        {PREVIEW_DAYS.map((days) => (
          <option value={String(days)} selected={String(days) === form.days}>
            Last {days} days
          </option>
        ))}
      </select>
      <button name="do" value="preview" data-swap="#preview">
        Preview
      </button>
    </div>
  );
  return (
    <div class="columns main-first">
      <Form
        action={action}
        submit={submit}
        hidden={hidden}
        hasInnerButtons
        beside={previewing}
        class="stack"
        id="rule"
        data-preview="#preview"
        data-preview-url={`${base}/rules/preview`}
        data-preview-first
      >
        {Object.keys(errors).length > 0 && <FormErrors errors={[errors[""] ?? "Fix the fields marked below."]} />}
        <Fields {...props} errors={errors} />
      </Form>
      <PreviewPanel base={base} preview={preview} paths={suggestions.paths} />
    </div>
  );
}

type FieldsProps = EditorProps & { errors: FieldErrors };

function Fields(props: FieldsProps) {
  const { form, errors, suggestions, button, newId } = props;
  const text = (name: "name" | "event" | "scoringSignal" | "points", parameter: string = name) => ({
    name: parameter,
    label: RULE_FIELD_LABEL[name],
    error: errors[parameter],
    value: form[name],
  });
  return (
    <>
      <Panel>
        <TextField {...text("name")} autofocus={button === undefined && newId !== undefined} />
        <Check
          id="enabled"
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
          spellcheck={false}
        />
        <DataList id="events" values={suggestions.events} />
        <SelectField
          name="match"
          label={RULE_FIELD_LABEL.match}
          error={errors["match"]}
          value={form.match}
          options={Object.entries(MATCH_LABEL)}
        />
        <Conditions {...props} />
      </Panel>
      <Panel title="Then the person gets">
        <div class="pair">
          <TextField {...text("scoringSignal", "scoring_signal")} />
          <TextField {...text("points")} hint="Use a negative number to subtract." inputmode="numeric" />
        </div>
        <SelectField
          name="frequency"
          label={RULE_FIELD_LABEL.frequency}
          hint="Once a day or once ever: only the first match adds points."
          error={errors["frequency"]}
          value={form.frequency}
          options={RULE_FREQUENCIES.map((frequency) => [frequency, FREQUENCY_LABEL[frequency].option] as const)}
        />
        <SelectField
          name="points_last_days"
          label={RULE_FIELD_LABEL.pointsLastDays}
          hint="Points lapse after this many days, counted from the UTC day on which the signal occurred."
          error={errors["points_last_days"]}
          value={form.pointsLastDays}
          options={[null, ...POINTS_LAST_DAYS].map((days) => [lastDaysInput(days), pointsDurationText(days)] as const)}
        />
      </Panel>
    </>
  );
}

function Conditions({ form: { conditions: rows }, errors, button }: FieldsProps) {
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
        <Condition row={row} index={index} errors={errors} focused={button === "add" && index === rows.length - 1} />
      ))}
      {errors["conditions"] !== undefined && <span class="error">{errors["conditions"]}</span>}
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

/** Signals that a preview while typing reads: a tenth of a second. The Preview button reads more. */
export const TYPING_SIGNALS = 2_000;

/** `busy`: too many previews of the workspace are under way. */
type PreviewResult = Found | "incomplete" | "busy" | null;

interface Found {
  days: number;
  found: RulePreview;
  /** If nothing matches: known events whose names differ from the rule's in letter case only. */
  similar: string[];
}

async function previewForm(
  c: Ctx,
  form: RuleForm,
  source: StoredRule | null,
  maxSignals?: number,
): Promise<PreviewResult> {
  const draft = ruleForPreview(form, source);
  if (!draft.ok) return "incomplete";
  const days = previewDays(form);
  const found = await previewRule(c.env, c.get("workspace").id, draft.value, days, maxSignals);
  if (found === null) return "busy";
  return { days, found, similar: found.matches === 0 ? await eventsLike(c, draft.value.event) : [] };
}

async function eventsLike(c: Ctx, event: string): Promise<string[]> {
  const { events } = await storeOf(c).recentNames();
  return events.filter((known) => known !== event && known.toLowerCase() === event.toLowerCase());
}

interface PreviewProps {
  base: string;
  preview: PreviewResult;
  paths: readonly string[];
}

export function PreviewPanel({ base, preview, paths }: PreviewProps) {
  return (
    <div id="preview" aria-live="polite">
      <DataList id="paths" values={["event", "source", "email", ...paths]} />
      <Panel title="Preview">
        {preview === null && (
          <p class="quiet">
            Shows the stored signals that the rule matches. <span class="no-script">Press Preview.</span>
          </p>
        )}
        {preview === "incomplete" && <p class="quiet">Complete the event and the conditions to see matches.</p>}
        {preview === "busy" && (
          <p class="quiet">Other previews of this workspace are running. Wait a moment, then press Preview.</p>
        )}
        {typeof preview === "object" && preview !== null && <Matches base={base} {...preview} />}
      </Panel>
    </div>
  );
}

function Matches({ base, days, found, similar }: Found & { base: string }) {
  const { matches, lapsed, people, scoringSignals, points, samples, scanned, complete } = found;
  return (
    <>
      <Stats>
        <Stat label="Matches" value={matches} />
        <Stat label="Scored" value={scoringSignals} />
        <Stat label="People" value={people} />
        <Stat label="Points" value={signed(points)} />
      </Stats>
      {lapsed > 0 && (
        <p>
          {`The points of ${grouped(lapsed)} of the ${counted(matches, "match", "matches")} have lapsed by today and are not counted.`}
        </p>
      )}
      <p class="quiet small">
        {complete
          ? `All ${counted(scanned, "signal")} of the last ${counted(days, "day")} read.`
          : `Only the latest ${counted(scanned, "signal")} read. Press Preview to read more.`}
      </p>
      {matches === 0 && (
        <Notice
          tone="warn"
          title="No stored signals match"
          text={
            similar.length > 0
              ? `Event names are case-sensitive. Did you mean ${similar.map((name) => `“${name}”`).join(" or ")}?`
              : "Only processed signals of known people are read, not anonymous, held or duplicate ones."
          }
        />
      )}
      {samples.map(({ id, email, event, source, receivedAtMs, payload }) => (
        <details>
          <summary>
            {email}{" "}
            <span class="quiet">
              · <Time ms={receivedAtMs} />
            </span>
          </summary>
          <p class="quiet small">
            {event} from {source} · <a href={signalPath(base, id)}>View signal</a>
          </p>
          <Json value={payload} label={`Payload of ${id}`} characters={JSON_SAMPLE_CHARACTERS} />
        </details>
      ))}
    </>
  );
}

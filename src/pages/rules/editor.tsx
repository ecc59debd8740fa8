/**
 * The form of a mapping rule. The server adds and removes conditions, so the form works without a script. With a script, only
 * the conditions are replaced, and the preview follows the typed text.
 */
import { asSent } from "../../domain/json/json-value.ts";
import { findRule, type StoredRule } from "../../d1/stored-rules.ts";
import { COMPARATOR_NAMES, conditionValue } from "../../domain/rules/comparators.ts";
import { POINTS_LAST_DAYS, RULE_FREQUENCIES } from "../../domain/rules/mapping-rule.ts";
import { fitsName } from "../../domain/signal/validate-signal.ts";
import { RULE_MAX_CONDITIONS, RULE_PATH_MAX_ELEMENTS } from "../../limits.ts";
import type { RuleSuggestions } from "../../store/protocol/store-operations.ts";
import { type PersonEffect, previewRule, type RulePreview } from "../../use-cases/rules-on-history.ts";
import { pointsDurationText, FREQUENCY_LABEL, MATCH_LABEL, COMPARATOR_LABEL, RULE_FIELD_LABEL } from "../copy.ts";
import { counted, grouped, signed, theLast } from "../kit/format.ts";
import {
  livePreview,
  Check,
  DataList,
  ErrorText,
  Form,
  FormErrors,
  SelectField,
  summaryOf,
  textareaText,
  TextField,
} from "../kit/forms.tsx";
import { type Ctx, formText, storeOf, personPath, signalPath } from "../pages-env.ts";
import { type Column, Json, JSON_SAMPLE_CHARACTERS, Notice, Panel, Stat, Stats, Table, Time } from "../kit/parts.tsx";
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
  // Only the form of a saved rule has its version.
  const id = data.has("version") ? source?.id : undefined;
  return {
    button,
    form,
    source,
    preview: button === "preview" ? await previewForm(c, form, { source, id }, typingSignals) : null,
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
  return (
    <div class="columns main-first">
      <Form
        action={action}
        submit={submit}
        hidden={hidden}
        hasInnerButtons
        class="stack"
        id="rule"
        {...livePreview(`${base}/rules/preview`)}
      >
        <RuleErrors errors={errors} />
        <Fields {...props} errors={errors} />
      </Form>
      <PreviewPanel
        base={base}
        preview={preview}
        paths={suggestions.paths}
        days={form.days}
        isSaved={version !== undefined}
      />
    </div>
  );
}

/** Above the fields, which show their own. */
export function RuleErrors({ errors: { "": ofForm, ...atFields } }: { errors: FieldErrors }) {
  return <FormErrors errors={summaryOf({ ...atFields, form: ofForm })} />;
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

interface ConditionsProps extends Pick<FieldsProps, "errors" | "button"> {
  form: Pick<RuleForm, "conditions">;
  /** What a form without conditions means. */
  without?: string;
}

export function Conditions(props: ConditionsProps) {
  const {
    form: { conditions: rows },
    errors,
    button,
    without = "No conditions: every signal of this event matches.",
  } = props;
  return (
    <fieldset class="field" id="conditions">
      <legend>Conditions</legend>
      <p class="hint">
        A path is <code>event</code>, <code>source</code>, <code>email</code>, or such as{" "}
        <code>properties.form_name</code> or <code>payload.context.page</code>. <code>properties.items[].sku</code>{" "}
        looks at the first {grouped(RULE_PATH_MAX_ELEMENTS)} items, of which one must fit. Text is not case-sensitive.
      </p>
      {rows.length === 0 && <p class="quiet">{without}</p>}
      {rows.map((row, index) => (
        <Condition row={row} index={index} errors={errors} focused={button === "add" && index === rows.length - 1} />
      ))}
      {errors["conditions"] !== undefined && <ErrorText text={errors["conditions"]} />}
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

/** A longer path would be cut off beside the operator and the value, so it gets the whole line. */
const ROW_PATH_CHARACTERS = 22;

interface ConditionProps {
  row: ConditionRow;
  index: number;
  errors: FieldErrors;
  focused: boolean;
}

function Condition({ row, index, errors, focused }: ConditionProps) {
  const label = `Condition ${index + 1}`;
  const wrong = ["path", "operator", "value", "same_element"].flatMap(
    (field) => errors[`conditions.${index}.${field}`] ?? [],
  );
  const control = (name: "path" | "operator" | "value", text: string) => ({
    name,
    id: `${name}-${index}`,
    "aria-label": `${label}: ${text}`,
    ...(errors[`conditions.${index}.${name}`] === undefined
      ? {}
      : { "aria-invalid": "true" as const, "aria-describedby": `condition-${index}-error`, autofocus: true }),
  });
  return (
    <div class={row.path.length > ROW_PATH_CHARACTERS ? "condition long" : "condition"}>
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
        {COMPARATOR_NAMES.map((operator) => (
          <option
            value={operator}
            selected={operator === row.operator}
            class={conditionValue(operator) === "none" ? "no-value" : undefined}
          >
            {COMPARATOR_LABEL[operator]}
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
      {index > 0 && (
        <label class="same-element">
          <input
            type="checkbox"
            name="same_element"
            value={String(index)}
            checked={row.sameElement === true}
            aria-label={`${label}: about the same element as the condition above`}
          />
          About the same element as the condition above
        </label>
      )}
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
  { source, id }: Pick<EditorState, "source"> & { id: string | undefined },
  maxSignals?: number,
): Promise<PreviewResult> {
  const draft = ruleForPreview(form, source);
  if (!draft.ok) return "incomplete";
  const days = previewDays(form);
  const rule = { ...draft.value, ...(id !== undefined && { id }) };
  const found = await previewRule(c.env, c.get("workspace").id, rule, days, maxSignals);
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
  /** The chosen number of days. */
  days: string;
  /** The scores contain points of the saved rule already. */
  isSaved: boolean;
}

/** The range of a preview, and its button. @param days the chosen number. */
export function PreviewRange({ days }: { days: string }) {
  return (
    <div class="row">
      <select name="days" form="rule" aria-label="Days of the preview">
        {PREVIEW_DAYS.map((number) => (
          <option value={String(number)} selected={String(number) === days}>
            Last {number} days
          </option>
        ))}
      </select>
      <button name="do" value="preview" form="rule" data-swap="#preview">
        Preview
      </button>
    </div>
  );
}

export function PreviewsBusy() {
  return <p class="quiet">Other previews of this workspace are running. Wait a moment, then press Preview.</p>;
}

export function PreviewPanel({ base, preview, paths, days, isSaved }: PreviewProps) {
  return (
    <div id="preview" aria-live="polite">
      <DataList id="paths" values={["event", "source", "email", ...paths]} />
      <Panel title="Preview" actions={<PreviewRange days={days} />}>
        {preview === null && (
          <p class="quiet">
            Shows the stored signals that the rule matches. <span class="no-script">Press Preview.</span>
          </p>
        )}
        {preview === "incomplete" && <p class="quiet">Complete the event and the conditions to see matches.</p>}
        {preview === "busy" && <PreviewsBusy />}
        {typeof preview === "object" && preview !== null && <Matches base={base} isSaved={isSaved} {...preview} />}
      </Panel>
    </div>
  );
}

const SCORE: Column<PersonEffect> = {
  head: "Score",
  kind: "number",
  cell: ({ before, after }) => `${grouped(before)} → ${grouped(after)}`,
};

type EffectsFound = Pick<RulePreview, "byPerson" | "crossing" | "people">;

/** What happens to people. @param props.isSaved the scores contain points of the saved rule already. */
export function Effects({
  base,
  found: { byPerson, crossing, people },
  isSaved,
}: {
  base: string;
  found: EffectsFound;
  isSaved: boolean;
}) {
  if (byPerson.length === 0) return <></>;
  return (
    <>
      {!isSaved &&
        crossing.map(({ threshold, risen, fallen }) => (
          <p>
            {risen > 0 && `${counted(risen, "person crosses", "people cross")} ${grouped(threshold)}. `}
            {fallen > 0 && `${counted(fallen, "person falls", "people fall")} below ${grouped(threshold)}.`}
          </p>
        ))}
      <Table
        caption="People by points"
        rows={byPerson}
        href={({ email }) => personPath(base, email)}
        columns={[
          { head: "Person", cell: ({ name, email }) => name ?? email },
          { head: "Points", kind: "number", cell: ({ points }) => signed(points), drop: isSaved ? "phone" : "narrow" },
          ...(isSaved ? [] : [SCORE]),
        ]}
      />
      {people > byPerson.length && (
        <p class="quiet small">And {counted(people - byPerson.length, "more person", "more people")}.</p>
      )}
      {isSaved && <p class="quiet small">Scores may contain points of the saved version already.</p>}
    </>
  );
}

function Matches({ base, days, found, similar, isSaved }: Found & { base: string; isSaved: boolean }) {
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
        <p>{`The points of ${counted(lapsed, "match", "matches")} have lapsed by today and are not counted.`}</p>
      )}
      <p class="quiet small">
        {complete
          ? `All signals of the event by known people in ${theLast(days, "day")} have been read.`
          : `${counted(scanned, "signal")} read so far, the latest first. Press Preview to read more.`}
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
      <Effects base={base} found={found} isSaved={isSaved} />
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
          <Json value={asSent(payload)} label={`Payload of ${id}`} characters={JSON_SAMPLE_CHARACTERS} />
        </details>
      ))}
    </>
  );
}

/**
 * The payload template of a key for signals, in a form: the sender by name, the mappings, a sample (spec §2.2). The server adds and
 * removes mappings, so the form works without a script. With a script only the mappings are replaced.
 */
import type { Child } from "hono/jsx";
import { ok, reject, type Result } from "../../domain/result.ts";
import {
  MISFIT_HANDLINGS,
  SUCCESS_STATUSES,
  type KeyTemplate,
  type MisfitHandling,
  type SuccessStatus,
} from "../../domain/template/key-template.ts";
import type { PreviewSample } from "../../domain/template/preview-template.ts";
import { readSampleBody, readSampleHeaders } from "../../domain/template/sample-text.ts";
import { SIGNAL_TARGETS, type SignalMapping, type SignalTarget } from "../../domain/template/signal-template.ts";
import { MISFIT_KEPT_DAYS, TEMPLATE_MAX_MAPPINGS } from "../../limits.ts";
import type { Preset } from "../../presets/preset.ts";
import { PRESETS, presetNamed } from "../../presets/presets.ts";
import { completeTemplate, type Samples } from "../../use-cases/preview-template.ts";
import { signalTemplate } from "../../use-cases/signal-template-schema.ts";
import { SIGNAL_TARGET_LABEL } from "../copy.ts";
import { Check, ErrorText, SelectField, TextArea, textareaText } from "../kit/forms.tsx";
import { counted, sentence } from "../kit/format.ts";
import { Panel, WithCode } from "../kit/parts.tsx";
import { contextOf, type Ctx, formText, typedText } from "../pages-env.ts";

interface MappingRow {
  target: string;
  /** `text`: a text with `{path}` for values. */
  from: "path" | "text";
  /** Paths, one a line, or the text. Blank: the row is not used. */
  value: string;
  required: boolean;
}

export interface TypedTemplate {
  /** Id of a preset; `OTHER_SENDER`: its own template; empty: signals are read as they are sent. */
  sender: string;
  mappings: readonly MappingRow[];
  misfits: MisfitHandling;
  answer: SuccessStatus;
  /** A body, JSON or a form. */
  sample: string;
  /** Headers of the sample, one a line. */
  headers: string;
  /** A stored signal that is a sample too; empty: none. */
  signalId: string;
  /** Whether the latest signals of the key are samples too. */
  latest: boolean;
}

export const OTHER_SENDER = "other";

/** Sentences by field, such as `map.0.value`; `template` is about all mappings. */
type Errors = Record<string, string>;

export const NO_TEMPLATE: TypedTemplate = {
  sender: "",
  mappings: [],
  misfits: "reject",
  answer: 202,
  sample: "",
  headers: "",
  signalId: "",
  latest: true,
};

/** The targets of a new template of one's own. */
const FIRST_TARGETS = ["event", "email", "occurred_at"] as const satisfies SignalTarget[];

/** The form of a stored template. Null: the key has none. */
export function typedTemplate(
  template: KeyTemplate | null,
  { misfits, answer }: Pick<TypedTemplate, "misfits" | "answer">,
): TypedTemplate {
  if (template === null) return NO_TEMPLATE;
  const mappings = template as SignalMapping[];
  const preset = presetOfTemplate(template);
  const start = { ...NO_TEMPLATE, sender: preset?.id ?? OTHER_SENDER, mappings: mappings.map(rowOf), misfits, answer };
  return preset === undefined ? start : { ...start, ...sampleOf(preset) };
}

/**
 * The preset from which a key's template was made. It may have been edited, or be of an older preset: at least half of the preset's
 * mappings are there, and one of them is in no other preset, unlike `event` or `email`.
 */
export function presetOfTemplate(template: KeyTemplate | readonly SignalMapping[] | null): Preset | undefined {
  if (template === null) return undefined;
  const mappings = new Set(textsOf(template));
  const presets = PRESETS.map((preset) => ({ preset, texts: textsOf(preset.template) }));
  const isOwn = (text: string): boolean => presets.filter(({ texts }) => texts.includes(text)).length === 1;
  const found = presets.find(({ texts }) => {
    const shared = texts.filter((text) => mappings.has(text));
    return shared.length * 2 >= texts.length && shared.some(isOwn);
  });
  return found?.preset;
}

/** Whether a key has the template of a preset, unchanged. */
export function isUnchanged({ template }: Preset, ofKey: KeyTemplate | readonly SignalMapping[]): boolean {
  return textsOf(template).join() === textsOf(ofKey).join();
}

/** Each mapping as text, to compare. */
function textsOf(template: KeyTemplate | readonly SignalMapping[]): string[] {
  return (template as readonly SignalMapping[]).map(({ target, path, paths, text, required = false }) =>
    JSON.stringify([target, path ?? null, paths ?? null, text ?? null, required]),
  );
}

function rowOf({ target, path, paths, text, required = false }: SignalMapping): MappingRow {
  if (text !== undefined) return { target, from: "text", value: text, required };
  return { target, from: "path", value: (paths ?? [path ?? ""]).join("\n"), required };
}

/** The sample of a preset, as the form shows it. */
function sampleOf({ sample }: Preset): Pick<TypedTemplate, "sample" | "headers"> {
  const headers = Object.entries(sample.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  const body = "form" in sample ? sample.form : JSON.stringify(sample.body, null, 2);
  return { sample: body, headers: headers.join("\n") };
}

export function readTemplateForm(form: FormData): TypedTemplate {
  const mappings: MappingRow[] = [];
  for (let at = 0; at <= TEMPLATE_MAX_MAPPINGS && form.has(`map.${at}.target`); at++) {
    mappings.push({
      target: formText(form, `map.${at}.target`),
      from: formText(form, `map.${at}.from`) === "text" ? "text" : "path",
      value: typedText(form, `map.${at}.value`),
      required: form.has(`map.${at}.required`),
    });
  }
  const sender = formText(form, "sender");
  return {
    sender: sender === "" ? sender : (presetNamed(sender)?.id ?? OTHER_SENDER),
    mappings,
    misfits: MISFIT_HANDLINGS.find((handling) => handling === formText(form, "misfits")) ?? "keep",
    answer: SUCCESS_STATUSES.find((status) => String(status) === formText(form, "answer")) ?? 202,
    sample: typedText(form, "body"),
    headers: typedText(form, "headers"),
    signalId: formText(form, "signal"),
    latest: form.has("latest"),
  };
}

/** Whether a button belongs to this part of a form. */
export function isTemplateEdit(edit: string): boolean {
  return /^(?:sender|map|unmap\.\d+|propose)$/.test(edit);
}

/** The form after one of its buttons. @param keyId undefined: the key is new. */
export async function editTemplate(
  c: Ctx,
  typed: TypedTemplate,
  edit: string,
  keyId: string | undefined,
): Promise<TypedTemplate> {
  const [action, at] = edit.split(".");
  const own = { ...typed, sender: typed.sender === "" ? OTHER_SENDER : typed.sender };
  switch (action) {
    case "sender":
      return withSender(typed, typed.sender);
    case "map":
      return { ...own, mappings: [...typed.mappings, blankRow("event")] };
    case "unmap":
      return { ...own, mappings: typed.mappings.filter((_, index) => index !== Number(at)) };
    case "propose":
      return proposed(c, own, keyId);
    default:
      return typed;
  }
}

function blankRow(target: SignalTarget): MappingRow {
  return { target, from: "path", value: "", required: false };
}

/** The form with another sender. What was typed as a sample stays; a preset's sample goes with its preset. */
export function withSender(typed: TypedTemplate, sender: string): TypedTemplate {
  const isOwnSample = typed.sample.trim() !== "" && !PRESETS.some((preset) => isSampleOf(preset, typed));
  const preset = presetNamed(sender);
  if (preset !== undefined) {
    const { id, template, misfits, answer } = preset;
    const sample = isOwnSample || typed.signalId !== "" ? {} : sampleOf(preset);
    return { ...typed, sender: id, mappings: template.map(rowOf), misfits, answer, ...sample };
  }
  const none = isOwnSample ? {} : { sample: "", headers: "" };
  if (sender !== OTHER_SENDER) return { ...typed, ...none, sender: "", mappings: [] };
  return {
    ...typed,
    ...none,
    sender,
    misfits: "keep",
    mappings: typed.mappings.length > 0 ? typed.mappings : FIRST_TARGETS.map(blankRow),
  };
}

function isSampleOf(preset: Preset, { sample }: TypedTemplate): boolean {
  return sampleOf(preset).sample === sample.replaceAll("\r\n", "\n");
}

/** The template with proposals for what it does not find. It stays as it is while it, or the sample, cannot be read. */
export async function proposed(c: Ctx, typed: TypedTemplate, keyId: string | undefined): Promise<TypedTemplate> {
  const [{ template }, samples] = [templateIn(typed), samplesIn(typed, keyId)];
  const isReadable = template.length === 0 || signalTemplate.safeParse(template).success;
  if (!samples.ok || !isReadable) return typed;
  const complete = await completeTemplate(contextOf(c), template, samples.value, Date.now());
  return { ...typed, mappings: complete.map(rowOf) };
}

/** The samples of the form. Rejection: a sentence about the typed one. */
export function samplesIn(
  { sender, sample, headers, signalId, latest }: TypedTemplate,
  keyId: string | undefined,
): Result<Samples, string> {
  const samples: PreviewSample[] = [];
  if (sample.trim() !== "") {
    const body = readSampleBody(sample);
    if (!body.ok) return body;
    const source = presetNamed(sender)?.address.split("/")[2];
    samples.push({ body: body.value, headers: readSampleHeaders(headers), source });
  }
  const stored = { keyId: latest ? keyId : undefined, ...(signalId !== "" && { signalId }) };
  return ok({ samples, ...stored });
}

/** Whether the form has no mapping yet. */
export function isEmptyTemplate(typed: TypedTemplate): boolean {
  return typed.sender !== "" && templateIn(typed).template.length === 0;
}

/** The mappings without blank rows. `rows`: the place of each in the form. */
function templateIn({ mappings }: TypedTemplate): { template: SignalMapping[]; rows: number[] } {
  const template: SignalMapping[] = [];
  const rows: number[] = [];
  for (const [at, { target, from, value, required }] of mappings.entries()) {
    const lines = value.split("\n").flatMap((line) => line.trim() || []);
    const [path] = lines;
    if (path === undefined) continue;
    const source = from === "text" ? { text: value.trim() } : lines.length === 1 ? { path } : { paths: lines };
    template.push({ target: target as SignalTarget, ...source, required });
    rows.push(at);
  }
  return { template, rows };
}

/** Null: the key has no template. */
export function checkTemplate(typed: TypedTemplate): Result<(SignalMapping & { required: boolean })[] | null, Errors> {
  if (typed.sender === "") return ok(null);
  const { template, rows } = templateIn(typed);
  const checked = signalTemplate.safeParse(template);
  if (checked.success) return ok(checked.data);
  const errors: Errors = {};
  for (const { path, message } of checked.error.issues) {
    const [at, field] = path;
    const row = typeof at === "number" ? rows[at] : undefined;
    if (row === undefined) errors["template"] = sentence(`the template ${message}`);
    else errors[`map.${row}.${field === "target" ? "target" : "value"}`] = sentence(message);
  }
  return reject(errors);
}

const SENDER_OPTIONS: readonly (readonly [string, string])[] = [
  ["", "Any that sends event and email: a CDP, your own code"],
  ...PRESETS.map(({ id, name }) => [id, name] as const),
  [OTHER_SENDER, "Another sender, with a template of its own"],
];

interface FieldsProps {
  typed: TypedTemplate;
  errors: Errors;
  /** Whether the key may have stored signals. */
  isStored: boolean;
  /** The sample of `signalId`. */
  signal?: Child;
}

/** The fields; buttons replace `#sender-fields`. */
export function TemplateFields({ typed, errors, isStored, signal }: FieldsProps) {
  const preset = presetNamed(typed.sender);
  return (
    <div class="stack" id="sender-fields">
      <Panel title="Sender">
        <div class="form">
          <SelectField
            name="sender"
            label="Who sends?"
            hint="A sender by name comes with a payload template, which says where its webhooks hold the event and the person."
            value={typed.sender}
            error={errors["sender"]}
            options={SENDER_OPTIONS}
            press="#use-sender"
          />
          <div class="row no-script">
            <button id="use-sender" name="do" value="sender" data-swap="#sender-fields">
              Use this sender
            </button>
          </div>
          {preset !== undefined && <AboutPreset preset={preset} />}
        </div>
      </Panel>
      {typed.sender !== "" && <Sample typed={typed} isStored={isStored} signal={signal} />}
      {typed.sender !== "" && <Mappings typed={typed} errors={errors} preset={preset} />}
    </div>
  );
}

/** What a sender's webhooks hold, in words. */
export function AboutPreset({ preset: { name, events, person, note, documentation } }: { preset: Preset }) {
  return (
    <p class="quiet small">
      Event: <WithCode text={events} />. Person: <WithCode text={person} />.{" "}
      {note !== undefined && <WithCode text={`${note} `} />}
      <a href={documentation} rel="noreferrer">
        {name} about its webhooks
      </a>
    </p>
  );
}

interface MappingsProps extends Pick<FieldsProps, "typed" | "errors"> {
  preset: Preset | undefined;
}

/** Those of a preset are folded, because most admins need not read them. */
function Mappings({ typed, errors, preset }: MappingsProps) {
  const { mappings } = typed;
  const isPreset = preset !== undefined && isSame(mappings, preset.template.map(rowOf));
  const hasErrors = Object.keys(errors).some((field) => field === "template" || field.startsWith("map."));
  return (
    <Panel title="Payload template">
      {errors["template"] !== undefined && <ErrorText text={errors["template"]} />}
      <details open={!isPreset || hasErrors}>
        <summary>
          {counted(mappings.length, "mapping")}
          {preset !== undefined && ` for ${preset.name}${isPreset ? "" : ", edited"}`}
        </summary>
        <MappingList mappings={mappings} errors={errors} />
      </details>
      <Handling typed={typed} />
    </Panel>
  );
}

function isSame(one: readonly MappingRow[], other: readonly MappingRow[]): boolean {
  const textOf = (rows: readonly MappingRow[]) =>
    JSON.stringify(
      rows.map(({ target, from, value, required }) => [target, from, value.replaceAll("\r\n", "\n"), required]),
    );
  return textOf(one) === textOf(other);
}

function MappingList({ mappings, errors }: { mappings: readonly MappingRow[]; errors: Errors }) {
  return (
    <div class="stack">
      <p class="quiet">
        Each mapping fills a field of the signal from a path such as <code>contact.email</code>,{" "}
        <code>items[0].name</code> or <code>fields[name=email].value</code>. Of several paths, one a line, the first
        with a value counts. A text has paths in braces: <code>{"{list.name} joined"}</code>.
      </p>
      <ol class="plain stack">
        {mappings.map((row, at) => (
          <Mapping row={row} at={at} errors={errors} />
        ))}
      </ol>
      {mappings.length < TEMPLATE_MAX_MAPPINGS && (
        <div>
          <button id="add-map" name="do" value="map" data-swap="#sender-fields">
            Add mapping
          </button>
        </div>
      )}
    </div>
  );
}

function Handling({ typed: { misfits, answer } }: Pick<FieldsProps, "typed">) {
  return (
    <div class="pair">
      <SelectField
        name="misfits"
        label="A payload that does not fit"
        hint="It waits for a template that fits. Most senders never send again after an error."
        value={misfits}
        options={[
          ["keep", `Keep it for ${MISFIT_KEPT_DAYS} days`],
          ["reject", "Reject it with 422"],
        ]}
      />
      <SelectField
        name="answer"
        label="Answer for success"
        hint="Some senders take only 200."
        value={String(answer)}
        options={[
          ["202", "202 Accepted"],
          ["200", "200 OK"],
        ]}
      />
    </div>
  );
}

function Mapping({ row, at, errors }: { row: MappingRow; at: number; errors: Errors }) {
  const name = `Mapping ${at + 1}`;
  const wrong = ["target", "value"].flatMap((field) => errors[`map.${at}.${field}`] ?? []);
  const control = (field: "target" | "from" | "value", label: string) => ({
    name: `map.${at}.${field}`,
    id: `map.${at}.${field}`,
    "aria-label": `${name}: ${label}`,
    ...(errors[`map.${at}.${field}`] === undefined
      ? {}
      : { "aria-invalid": "true" as const, "aria-describedby": `map-${at}-error`, autofocus: true }),
  });
  return (
    <li class="mapping" aria-label={name}>
      <select {...control("target", "field")}>
        {SIGNAL_TARGETS.map((target) => (
          <option value={target} selected={target === row.target}>
            {SIGNAL_TARGET_LABEL[target]}
          </option>
        ))}
      </select>
      <select {...control("from", "comes from")}>
        <option value="path" selected={row.from === "path"}>
          Path
        </option>
        <option value="text" selected={row.from === "text"}>
          Text
        </option>
      </select>
      <Check id={`map.${at}.required`} name={`map.${at}.required`} label="Required" checked={row.required} />
      <button
        id={`unmap-${at}`}
        name="do"
        value={`unmap.${at}`}
        data-swap="#sender-fields"
        aria-label={`Remove mapping ${at + 1}`}
      >
        Remove
      </button>
      <textarea
        rows={1}
        class="mono"
        placeholder="contact.email"
        spellcheck={false}
        autocapitalize="off"
        {...control("value", "paths, one a line, or a text")}
      >
        {textareaText(row.value)}
      </textarea>
      {wrong.length > 0 && (
        <span class="error" id={`map-${at}-error`}>
          <WithCode text={wrong.join(" ")} />
        </span>
      )}
    </li>
  );
}

function Sample({ typed, isStored, signal }: Omit<FieldsProps, "errors">) {
  return (
    <Panel title="Try it with a sample">
      {signal}
      <TextArea
        name="body"
        label={signal === undefined ? "Sample webhook" : "Another sample webhook"}
        hint="A body as the sender posts it: JSON, or a form. It is not stored."
        value={typed.sample}
        rows={signal === undefined ? 10 : 4}
      />
      <details open={typed.headers !== ""}>
        <summary class="small">Headers of the sample</summary>
        <TextArea
          name="headers"
          label="Headers"
          hint="One a line, such as X-Shopify-Topic: orders/create."
          value={typed.headers}
          rows={2}
        />
      </details>
      {isStored && (
        <Check
          id="latest"
          name="latest"
          label="Also try the latest signals of this key"
          hint="Those that no template fits included."
          checked={typed.latest}
        />
      )}
      <div class="row">
        <button id="propose" name="do" value="propose" data-swap="#sender-fields">
          Propose mappings
        </button>
        <span class="quiet small">Adds what the template does not find in the samples.</span>
      </div>
    </Panel>
  );
}

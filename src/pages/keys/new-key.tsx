/**
 * A new API key (spec §2.1): its form with the editor of the payload template, and the one page that shows a full key and its
 * secret (spec §2.1, §3.1).
 */
import type { ApiKey } from "../../d1/api-keys.ts";
import type { CreatedKey, NewKey } from "../../d1/new-keys.ts";
import {
  ACCOUNT_TARGETS,
  compileTemplate,
  mapAccount,
  PAYLOAD_TYPES,
  type PayloadMapping,
} from "../../domain/accounts/payload-template.ts";
import { proposeTemplate, readSample } from "../../domain/accounts/template-sample.ts";
import { detailForSender } from "../../domain/keys/rejection.ts";
import { ok, reject, type Result } from "../../domain/result.ts";
import { ENDPOINT_TYPES, type EndpointType } from "../../domain/signal/signal.ts";
import { TEMPLATE_MAX_MAPPINGS } from "../../limits.ts";
import { createApiKey, payloadTemplate as templateSchema } from "../../use-cases/manage-keys.ts";
import { LIMIT_COPY } from "../../use-cases/rejection-copy.ts";
import { CodeTabs, TestCall } from "./connect.tsx";
import { ENDPOINT_LABEL } from "../copy.ts";
import {
  Check,
  Choices,
  DataList,
  errorList,
  ErrorText,
  Form,
  LinkButton,
  livePreview,
  SelectField,
  TextArea,
  TextField,
} from "../kit/forms.tsx";
import { sentence } from "../kit/format.ts";
import { sectionPath } from "../kit/layout.tsx";
import { CopyText, Json, JSON_SAMPLE_CHARACTERS, Notice, Panel } from "../kit/parts.tsx";
import { alreadyCreatedPage, fragment, page } from "../page.tsx";
import { contextOf, type Ctx, formText, pages, typedText, workspacePath } from "../pages-env.ts";
import { allFields, checkName, readForm } from "../read-form.tsx";
import {
  checkSignalLimit,
  expirationOf,
  formTokenOf,
  LifetimeFields,
  readLifetime,
  SignalLimitField,
  type TypedLifetime,
} from "./key-form-parts.tsx";
import { isActive, keyText, LocalTime } from "./key-parts.tsx";
import {
  checkTemplate,
  editTemplate,
  isTemplateEdit,
  NO_TEMPLATE,
  readTemplateForm,
  TemplateFields,
  withSender,
  type TypedTemplate,
} from "./template-form.tsx";
import { previewTyped, TemplatePreviewPanel } from "./template-preview.tsx";

interface MappingRow {
  target: string;
  path: string;
  type: string;
  required: boolean;
}

interface TypedKey extends TypedLifetime {
  /** Template of a key for signals. */
  template: TypedTemplate;
  formToken: string;
  name: string;
  endpointType: EndpointType;
  secret: boolean;
  signalLimit: string;
  rows: readonly MappingRow[];
  /** JSON text, for the payload template of accounts. */
  sample: string;
}

/** Sentences by field: `name`, `expiresAt`, `template`, or such as `rows.0.path`; `form` is about the form as a whole. */
type Errors = Record<string, string>;

export const newKeyPages = pages
  .createApp()
  .get("/new", (c) => {
    const rows = [emptyRow("external_id"), emptyRow("name")];
    const endpointType = endpointTypeNamed(c.req.query("endpoint_type"));
    const lifetime = { lifetime: "never", expires: "" } as const;
    const formToken = crypto.randomUUID();
    return formPage(c, {
      formToken,
      name: "",
      endpointType,
      ...lifetime,
      secret: false,
      signalLimit: "",
      rows,
      sample: "",
      template: withSender(NO_TEMPLATE, c.req.query("sender") ?? ""),
    });
  })
  .post("/new", readForm(), async (c) => {
    const form = c.get("form");
    const typed = readKeyForm(form);
    if (form.has("do")) return formPage(c, await applyEdit(c, typed, formText(form, "do")));
    const checked = checkKeyForm(typed);
    if (!checked.ok) return formPage(c, typed, checked.rejection);
    const result = await createApiKey(contextOf(c), checked.value, typed.formToken);
    if (result.ok) return createdPage(c, result.value, null);
    if (result.rejection.reason === "made_before") return keyAlreadyCreatedPage(c, result.rejection.key);
    return formPage(c, typed, { form: LIMIT_COPY[result.rejection.reason] });
  })
  .post("/new/preview", readForm(), async (c) => fragment(c, await previewPanel(c, readKeyForm(c.get("form")))));

function emptyRow(target = ""): MappingRow {
  return { target, path: "", type: "string", required: false };
}

function endpointTypeNamed(text: string | undefined): EndpointType {
  return ENDPOINT_TYPES.find((type) => type === text) ?? "signal_staging";
}

function readKeyForm(form: FormData): TypedKey {
  const rows: MappingRow[] = [];
  for (let at = 0; at <= TEMPLATE_MAX_MAPPINGS && form.has(`rows.${at}.target`); at++) {
    rows.push({
      target: typedText(form, `rows.${at}.target`).trim(),
      path: typedText(form, `rows.${at}.path`).trim(),
      type: formText(form, `rows.${at}.type`),
      required: form.has(`rows.${at}.required`),
    });
  }
  return {
    formToken: formTokenOf(form),
    name: typedText(form, "name"),
    endpointType: endpointTypeNamed(formText(form, "endpoint_type")),
    ...readLifetime(form),
    secret: form.has("secret"),
    signalLimit: typedText(form, "signal_limit").trim(),
    rows,
    sample: typedText(form, "sample"),
    template: readTemplateForm(form),
  };
}

/** The form after a button of a template: `preview`, or of the template of accounts `add`, `remove.2` or `fill`. */
async function applyEdit(c: Ctx, typed: TypedKey, edit: string): Promise<TypedKey> {
  if (isTemplateEdit(edit)) {
    const template = await editTemplate(c, typed.template, edit, undefined);
    return { ...typed, endpointType: "signal_staging", template };
  }
  if (edit === "preview") return typed;
  const [action, at] = edit.split(".");
  const product: TypedKey = { ...typed, endpointType: "product_org" };
  if (action === "add") return { ...product, rows: [...typed.rows, emptyRow()] };
  if (action === "remove") return { ...product, rows: typed.rows.filter((_, index) => index !== Number(at)) };
  const sample = readSample(typed.sample);
  return sample.ok ? { ...product, rows: proposeTemplate(sample.value) } : product;
}

function checkKeyForm(typed: TypedKey): Result<NewKey, Errors> {
  const { endpointType, secret } = typed;
  const fields = allFields({
    name: checkName(typed.name),
    expiresAt: expirationOf(typed, Date.now()),
    signal_limit: checkSignalLimit(typed.signalLimit),
  });
  const template = endpointType === "product_org" ? checkRows(typed.rows) : checkTemplate(typed.template);
  if (fields.ok && template.ok) {
    const { signal_limit: signalLimit, ...named } = fields.value;
    const hasSender = endpointType === "signal_staging" && template.value !== null;
    const { misfits, answer } = hasSender ? typed.template : NO_TEMPLATE;
    return ok({ ...named, signalLimit, endpointType, secret, payloadTemplate: template.value, misfits, answer });
  }
  return reject({ ...(!fields.ok && fields.rejection), ...(!template.ok && template.rejection) });
}

function checkRows(rows: readonly MappingRow[]): Result<PayloadMapping[], Errors> {
  const template = templateSchema.safeParse(rows);
  if (template.success) return ok(template.data);
  const errors: Errors = {};
  for (const { path, message } of template.error.issues) {
    const [at, field] = path;
    if (typeof at === "number" && at < rows.length) {
      errors[`rows.${at}.${field === "path" || field === "target" ? field : "type"}`] = sentence(message);
    } else {
      errors["template"] =
        rows.length > TEMPLATE_MAX_MAPPINGS ? `At most ${TEMPLATE_MAX_MAPPINGS} mappings.` : sentence(message);
    }
  }
  return reject(errors);
}

const TYPE_HINT = {
  signal_staging: "Signals of people, for the signal queue.",
  product_org: "Account data, mapped by a payload template.",
} as const satisfies Record<EndpointType, string>;

const ENDPOINT_OPTIONS = ENDPOINT_TYPES.map((value) => ({
  value,
  label: ENDPOINT_LABEL[value],
  hint: TYPE_HINT[value],
}));

async function formPage(c: Ctx, typed: TypedKey, errors: Errors = {}) {
  const path = sectionPath(c, "keys");
  return page(
    c,
    {
      section: "keys",
      title: "Create API key",
      crumbs: [],
      intro: "The next page shows the full key once.",
      fieldErrors: errors,
      errorTitle: "Nothing was created",
    },
    <div class="columns main-first">
      <Form
        action={`${path}/new`}
        submit="Create API key"
        cancel={path}
        hidden={{ form_token: typed.formToken }}
        class="stack"
        id="key"
        {...livePreview(`${path}/new/preview`)}
        hasInnerButtons
      >
        <Panel>
          <div class="form">
            <TextField
              name="name"
              label="Name"
              hint="Such as the system that sends with it."
              value={typed.name}
              error={errors["name"]}
              autofocus={typed.name === "" && Object.keys(errors).length === 0}
              required
            />
            <Choices
              legend="Endpoint type"
              name="endpoint_type"
              options={ENDPOINT_OPTIONS}
              value={typed.endpointType}
            />
            <LifetimeFields label="Expiration" typed={typed} error={errors["expiresAt"]} />
            <Check
              id="secret"
              name="secret"
              label="Shared secret"
              hint="Calls must carry it in the header X-Api-Secret."
              checked={typed.secret}
            />
            <SignalLimitField value={typed.signalLimit} error={errors["signal_limit"]} />
          </div>
        </Panel>
        <TemplateEditor typed={typed} errors={errors} />
        <div class="for-signals">
          <TemplateFields typed={typed.template} errors={errors} isStored={false} />
        </div>
      </Form>
      {await previewPanel(c, typed)}
    </div>,
  );
}

/** What the key would make of the sample. */
async function previewPanel(c: Ctx, typed: TypedKey) {
  if (typed.endpointType === "signal_staging") {
    const preview = await previewTyped(c, typed.template, undefined);
    return <TemplatePreviewPanel base={workspacePath(c)} preview={preview} form="key" />;
  }
  return (
    <div id="preview" aria-live="polite">
      <Panel title="Preview">
        {typed.sample.trim() === "" ? <p class="quiet">The mapped account appears here.</p> : mapSample(typed)}
      </Panel>
    </div>
  );
}

type EditorProps = { typed: TypedKey; errors: Errors };

/** Shown for the endpoint type product_org only (style.css). */
function TemplateEditor({ typed, errors }: EditorProps) {
  return (
    <div class="for-product-org stack" id="template">
      <Panel title="Payload template">
        <p class="quiet">
          Each mapping fills a field of the account from a path such as <code>company.id</code> or{" "}
          <code>items[0].sku</code>. The target <code>external_id</code> identifies the account.
        </p>
        {errors["template"] !== undefined && <ErrorText text={errors["template"]} />}
        <DataList id="targets" values={ACCOUNT_TARGETS} />
        <ol class="plain stack">
          {typed.rows.map((row, at) => (
            <Mapping row={row} at={at} errors={errors} />
          ))}
        </ol>
        {typed.rows.length < TEMPLATE_MAX_MAPPINGS && (
          <button id="add-mapping" name="do" value="add" data-swap="#template">
            Add mapping
          </button>
        )}
      </Panel>
      <Panel title="Test with a sample">
        <TextArea
          name="sample"
          label="Sample payload"
          hint="JSON, as the sender posts it. It is not stored."
          value={typed.sample}
          rows={10}
        />
        <div class="row">
          <button class="no-script" name="do" value="preview">
            Preview account
          </button>
          <button id="fill-template" name="do" value="fill" data-swap="#template">
            Propose mappings
          </button>
        </div>
      </Panel>
    </div>
  );
}

function Mapping({ row, at, errors }: { row: MappingRow; at: number; errors: Errors }) {
  const field = (name: "target" | "path" | "type") => ({
    name: `rows.${at}.${name}`,
    value: row[name],
    error: errors[`rows.${at}.${name}`],
  });
  return (
    <li class="pair" aria-label={`Mapping ${at + 1}`}>
      <TextField {...field("target")} label="Target" list="targets" placeholder="attributes.region" code />
      <TextField {...field("path")} label="Path" placeholder="company.region" code />
      <SelectField {...field("type")} label="Type" options={PAYLOAD_TYPES.map((type) => [type, type] as const)} />
      <div class="row">
        <Check
          id={`rows.${at}.required`}
          name={`rows.${at}.required`}
          label="Required"
          checked={row.required || row.target === "external_id"}
        />
        <button
          class="small"
          id={`remove-mapping-${at}`}
          name="do"
          value={`remove.${at}`}
          data-swap="#template"
          aria-label={`Remove mapping ${at + 1}`}
        >
          Remove
        </button>
      </div>
    </li>
  );
}

function mapSample({ rows, sample }: TypedKey) {
  const payload = readSample(sample);
  if (!payload.ok) return <SampleProblem tone="bad" title="The sample cannot be read" details={[payload.rejection]} />;
  const template = checkRows(rows);
  if (!template.ok) {
    return <SampleProblem tone="warn" title="The template is not complete" details={errorList(template.rejection)} />;
  }
  const mapped = mapAccount(compileTemplate(template.value), payload.value);
  if (!mapped.ok) {
    const title = "A call with this payload would be rejected with 422";
    return <SampleProblem tone="bad" title={title} details={mapped.rejection.map(detailForSender)} />;
  }
  const { externalId, fields, attributes } = mapped.value;
  const account = { external_id: externalId, ...fields, attributes };
  return (
    <>
      <h3>Mapped account</h3>
      <Json label="Mapped account" value={account} characters={JSON_SAMPLE_CHARACTERS} />
    </>
  );
}

function SampleProblem({ tone, title, details }: { tone: "warn" | "bad"; title: string; details: readonly string[] }) {
  return (
    <Notice tone={tone} title={title}>
      <ul>
        {details.map((detail) => (
          <li>{detail}</li>
        ))}
      </ul>
    </Notice>
  );
}

/** Answers the post itself, because a redirect would have to store the key. @param replaced the rotated key. */
export function createdPage(c: Ctx, { record, value: key, secret }: CreatedKey, replaced: ApiKey | null) {
  const { id, name, endpointType, payloadTemplate } = record;
  const setup = { origin: new URL(c.req.url).origin, key, secret, endpointType, payloadTemplate };
  const home = workspacePath(c);
  const what = secret === null ? "it" : "both";
  const actions = [
    <LinkButton href={sectionPath(c, "keys")} text="View all keys" />,
    <a class="button primary" href={`${sectionPath(c, "keys")}/${id}`} data-copied>
      I have copied {what}
    </a>,
  ];
  return page(
    c,
    {
      section: "keys",
      title: replaced === null ? "API key created" : "API key rotated",
      crumbs: [],
      intro: `${name} · ${ENDPOINT_LABEL[endpointType]}`,
      actions,
      showsKey: true,
    },
    <Notice
      tone="warn"
      title={`Copy the ${secret === null ? "key" : "key and the secret"} now`}
      text={`This page shows ${secret === null ? "it" : "them"} once, and only a hash is stored. A lost key has to be rotated.`}
    />,
    replaced !== null && <ReplacedKeyNotice apiKey={replaced} />,
    <section class="panel" data-unsaved={secret === null ? "1" : "2"}>
      <h2>API key</h2>
      <CopyText id="new-key" label="API key" text={key} />
      {secret !== null && (
        <>
          <h2>Shared secret</h2>
          <CopyText id="new-secret" label="shared secret" text={secret} />
          <p class="quiet small">
            Every call must carry it in the header <code>X-Api-Secret</code>.
          </p>
        </>
      )}
    </section>,
    <div class="columns main-first">
      <Panel title="Connect a sender">
        <CodeTabs setup={setup} />
      </Panel>
      <TestCall home={home} setup={setup} />
    </div>,
  );
}

function ReplacedKeyNotice({ apiKey }: { apiKey: ApiKey }) {
  const works = apiKey.endsAt !== null && isActive(apiKey) && (
    <>
      The old key works until <LocalTime iso={apiKey.endsAt} />. The list shows which of the two is in use.
    </>
  );
  const text = works || "The old key has ended. Calls with it are rejected.";
  return <Notice title={`Replaces ${apiKey.maskedKey}`} text={text} />;
}

export function keyAlreadyCreatedPage(c: Ctx, apiKey: ApiKey) {
  const path = sectionPath(c, "keys");
  return alreadyCreatedPage(c, {
    section: "keys",
    noun: "key",
    intro: keyText(apiKey, apiKey.id),
    secret: { name: "full key", remedy: "rotate it without an overlap. The new key has the same settings" },
    actions: [
      <LinkButton href={path} text="View all keys" />,
      <LinkButton href={`${path}/${apiKey.id}/rotate?overlap=none`} text="Rotate key" />,
    ],
  });
}

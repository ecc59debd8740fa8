/** The form of a new API key (spec §2.1), with the editor of the payload template. */
import { createKey } from "../../control/new-keys.ts";
import { ACCOUNT_TARGETS, PAYLOAD_TYPES } from "../../domain/accounts/payload-template.ts";
import { proposeTemplate, readSample } from "../../domain/accounts/template-sample.ts";
import { ENDPOINT_TYPES, type EndpointType } from "../../domain/signal/signal.ts";
import { TEMPLATE_MAX_MAPPINGS } from "../../limits.ts";
import { LIMIT_COPY } from "../../workspace/refusal-copy.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import { CheckField, Choice, FormEnd, FormErrors, SelectField, TextArea, TextField } from "../kit/forms.tsx";
import { Json, JSON_SAMPLE_CHARACTERS, Notice, PageHead, Panel } from "../kit/parts.tsx";
import { fragment, page } from "../page.tsx";
import { contextOf, pages } from "../pages-env.ts";
import { readForm } from "../read-form.tsx";
import { createdPage, madeBeforePage } from "./created-key.tsx";
import {
  checkKeyForm,
  emptyKey,
  emptyRow,
  formTokenOf,
  mapSample,
  NO_ERRORS,
  readKeyForm,
  type KeyFormErrors,
  type Mapped,
  type MappingRow,
  type RowErrors,
  type TypedKey,
} from "./key-form.ts";
import { keyCrumbs, type KeyContext, KEYS_PAGE, keysPath, LifetimeFields } from "./key-parts.tsx";

export const newKeyPages = pages
  .createApp()
  .get("/new", (c) => formPage(c, emptyKey(crypto.randomUUID(), c.req.query("endpoint_type")), NO_ERRORS, 200))
  .post("/new", readForm(), async (c) => {
    const form = c.get("form");
    const typed = readKeyForm(form, crypto.randomUUID());
    const edit = form.get("do");
    if (typeof edit === "string") return formPage(c, edited(typed, edit), NO_ERRORS, 200);
    const { key, errors } = checkKeyForm(typed, Date.now());
    if (formTokenOf(form) === null) errors.form = "The form was incomplete. Check it and send it again.";
    if (key === null || errors.form !== undefined) return formPage(c, typed, errors, 422);
    const result = await createKey(contextOf(c), key, typed.formToken);
    if (result.ok) return createdPage(c, result.value, null);
    if (result.refusal.reason === "made_before") return madeBeforePage(c, result.refusal.key);
    return formPage(c, typed, { ...NO_ERRORS, form: LIMIT_COPY[result.refusal.reason] }, 422);
  })
  .post("/new/preview", readForm(), (c) => {
    const typed = readKeyForm(c.get("form"), "");
    return fragment(c, <MappedRecord mapped={mapSample(typed)} />);
  });

function formPage(c: KeyContext, typed: TypedKey, errors: KeyFormErrors, status: 200 | 422) {
  const view = <NewKeyView path={keysPath(c)} typed={typed} errors={errors} mapped={mapSample(typed)} />;
  return page(c, { ...KEYS_PAGE, title: "Create API key", status }, view);
}

/** The form after a button of the template editor: `add`, `remove.2`, `fill` or `preview`. */
function edited(typed: TypedKey, edit: string): TypedKey {
  const [action, at] = edit.split(".");
  const product: TypedKey = { ...typed, endpointType: "product_org" };
  if (action === "add") return { ...product, rows: [...typed.rows, emptyRow()] };
  if (action === "remove") return { ...product, rows: typed.rows.filter((_, index) => index !== Number(at)) };
  if (action !== "fill") return product;
  const sample = readSample(typed.sample);
  return sample.ok ? { ...product, rows: proposeTemplate(sample.value) } : product;
}

interface Props {
  /** Path of the list. */
  path: string;
  typed: TypedKey;
  errors: KeyFormErrors;
  mapped: Mapped;
}

const TYPE_HINT = {
  signal_staging: "Signals of people, for the signal queue.",
  product_org: "Account data, mapped by a payload template.",
} as const satisfies Record<EndpointType, string>;

function NewKeyView(props: Props) {
  const { path, typed, errors } = props;
  const messages = summary(errors);
  return (
    <>
      <PageHead title="Create API key" crumbs={keyCrumbs(path)}>
        The next page shows the full key once.
      </PageHead>
      <form
        method="post"
        action={`${path}/new`}
        class="stack"
        data-once
        data-preview="#mapped"
        data-preview-url={`${path}/new/preview`}
        novalidate
      >
        {/* Enter in a field presses the first button of a form. */}
        <button class="visually-hidden" tabindex={-1} aria-hidden="true">
          Create API key
        </button>
        <input type="hidden" name="form_token" value={typed.formToken} />
        <FormErrors title="The key was not created" errors={messages} />
        <Panel>
          <div class="form">
            <TextField
              name="name"
              label="Name"
              hint="Such as the system that sends with it."
              value={typed.name}
              error={errors.name}
              autocomplete="off"
              autofocus={typed.name === "" && messages.length === 0}
              required
            />
            <fieldset class="field">
              <legend>Endpoint type</legend>
              {ENDPOINT_TYPES.map((type) => (
                <Choice
                  group="type"
                  name="endpoint_type"
                  value={type}
                  label={ENDPOINT_LABEL[type]}
                  hint={TYPE_HINT[type]}
                  checked={typed.endpointType === type}
                />
              ))}
            </fieldset>
            <LifetimeFields label="Expiration" typed={typed} error={errors.expires} />
            <CheckField
              name="secret"
              label="Shared secret"
              hint="Calls must carry it in the header X-Api-Secret."
              checked={typed.secret}
            />
          </div>
        </Panel>
        <TemplateEditor {...props} />
        <FormEnd submit="Create API key" cancel={path} />
      </form>
    </>
  );
}

function summary({ form, name, expires, template, rows }: KeyFormErrors): string[] {
  const wrongRows = rows.filter((row) => Object.keys(row).length > 0).length;
  return [
    form ?? [],
    name === undefined ? [] : `Name: ${name}`,
    expires === undefined ? [] : `Expiration: ${expires}`,
    template === undefined ? [] : `Payload template: ${template}`,
    wrongRows === 0
      ? []
      : `Payload template: ${wrongRows === 1 ? "1 mapping has" : `${wrongRows} mappings have`} an error.`,
  ].flat();
}

/** Shown for the endpoint type product_org only (style.css). */
function TemplateEditor({ typed, errors, mapped }: Props) {
  return (
    <div class="for-product-org stack" id="template">
      <Panel title="Payload template">
        <p class="quiet">
          Each mapping fills a field of the account from a path such as <code>company.id</code> or{" "}
          <code>items[0].sku</code>. The target <code>external_id</code> identifies the account.
        </p>
        {errors.template !== undefined && <p class="error">{errors.template}</p>}
        <datalist id="targets">
          {ACCOUNT_TARGETS.map((target) => (
            <option value={target} />
          ))}
        </datalist>
        <ol class="plain stack">
          {typed.rows.map((row, at) => (
            <Mapping row={row} at={at} errors={errors.rows[at] ?? {}} />
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
          class="mono"
          spellcheck={false}
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
        <MappedRecord mapped={mapped} />
      </Panel>
    </div>
  );
}

function Mapping({ row, at, errors }: { row: MappingRow; at: number; errors: RowErrors }) {
  const field = (name: keyof MappingRow): string => `rows.${at}.${name}`;
  const text = { class: "mono", autocomplete: "off", spellcheck: false };
  return (
    <li class="pair" aria-label={`Mapping ${at + 1}`}>
      <TextField
        name={field("target")}
        label="Target"
        value={row.target}
        list="targets"
        placeholder="attributes.region"
        error={errors.target}
        {...text}
      />
      <TextField
        name={field("path")}
        label="Path"
        value={row.path}
        placeholder="company.region"
        error={errors.path}
        {...text}
      />
      <SelectField
        name={field("type")}
        label="Type"
        value={row.type}
        options={PAYLOAD_TYPES.map((type) => [type, type] as const)}
        error={errors.type}
      />
      <div class="row">
        <CheckField name={field("required")} label="Required" checked={row.required || row.target === "external_id"} />
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

const ERROR_TITLE = {
  sample: "The sample cannot be read",
  template: "The template is not complete",
  payload: "A call with this payload would be rejected with 422",
} as const satisfies Record<Extract<Mapped, { kind: "errors" }>["where"], string>;

function MappedRecord({ mapped }: { mapped: Mapped }) {
  return (
    <div id="mapped" class="stack" aria-live="polite">
      {mapped.kind === "no_sample" && <p class="quiet">The mapped account appears here.</p>}
      {mapped.kind === "errors" && (
        <Notice tone={mapped.where === "template" ? "warn" : "bad"} title={ERROR_TITLE[mapped.where]}>
          <ul>
            {mapped.details.map((detail) => (
              <li>{detail}</li>
            ))}
          </ul>
        </Notice>
      )}
      {mapped.kind === "record" && (
        <>
          <h3>Mapped account</h3>
          <Json label="Mapped account" value={recordOf(mapped)} characters={JSON_SAMPLE_CHARACTERS} />
        </>
      )}
    </div>
  );
}

function recordOf({ record: { externalId, fields, attributes } }: Extract<Mapped, { kind: "record" }>) {
  return { external_id: externalId, ...fields, attributes };
}

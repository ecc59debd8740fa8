/** Settings › API Keys: the form of a new key (spec §2.1). Works without a script; with one, the mapped record is live. */
import { ENDPOINT_TYPES, type EndpointType } from "../../domain/signal/signal.ts";
import { ENDPOINT_LABEL } from "../copy.ts";
import type { KeyFormErrors, Mapped, TypedKey } from "./key-form.ts";
import { CheckField, Choice, FormErrors, TextField } from "../kit/forms.tsx";
import { LifetimeFields } from "./key-lifetime-fields.tsx";
import { KeyCrumbs } from "./key-parts.tsx";
import { TemplateEditor } from "./template-editor.tsx";
import { PageHead, Panel } from "../views/parts.tsx";

interface KeyForm {
  /** Path of the API keys, `/w/{slug}/settings/api-keys`. */
  path: string;
  typed: TypedKey;
  errors: KeyFormErrors;
  mapped: Mapped;
}

const TYPE_HINT = {
  signal_staging: "Behavioural signals, into the signal queue.",
  product_org: "Workspace or account data, mapped by a payload template.",
} as const satisfies Record<EndpointType, string>;

export function KeyFormView({ path, typed, errors, mapped }: KeyForm) {
  return (
    <>
      <PageHead title="Create API Key" crumbs={<KeyCrumbs path={path} />}>
        The full key is shown once, on the next page. It cannot be retrieved afterwards.
      </PageHead>
      <form
        method="post"
        action={`${path}/new`}
        class="key-form stack"
        data-once
        data-preview="#mapped"
        data-preview-url={`${path}/new/preview`}
        novalidate
      >
        {/* Enter in a field presses the first button of a form: this one, which nobody sees. */}
        <button class="visually-hidden" tabindex={-1} aria-hidden="true">
          Create API Key
        </button>
        <input type="hidden" name="form_token" value={typed.formToken} />
        <FormErrors errors={summary(errors)} />
        <Panel>
          <div class="form">
            <TextField
              name="name"
              label="Name"
              hint="What the key is for, such as the system that sends with it."
              value={typed.name}
              error={errors.name}
              autocomplete="off"
              autofocus={typed.name === "" && summary(errors).length === 0}
              required
            />
            <fieldset class="field">
              <legend>Endpoint Type</legend>
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
              label="Secret"
              hint="Generate a shared secret. Every call must then carry it in the header X-Api-Secret."
              checked={typed.secret}
            />
          </div>
        </Panel>
        <TemplateEditor typed={typed} errors={errors} mapped={mapped} />
        <div class="row">
          <button class="primary">Create API Key</button>
          <a class="button" href={path}>
            Cancel
          </a>
        </div>
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
    template === undefined ? [] : `Payload Template: ${template}`,
    wrongRows === 0
      ? []
      : `Payload Template: ${wrongRows === 1 ? "one mapping has" : `${wrongRows} mappings have`} an error.`,
  ].flat();
}

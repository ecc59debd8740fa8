/** The payload template of a Product Org Updates key (spec §2.1), edited row by row and tried on a sample at once. */
import { cut } from "../../domain/text.ts";
import { ACCOUNT_TARGETS, PAYLOAD_TYPES } from "../../domain/accounts/payload-template.ts";
import { TEMPLATE_MAX_MAPPINGS } from "../../limits.ts";
import type { KeyFormErrors, Mapped, MappingRow, RowErrors, TypedKey } from "./key-form.ts";
import { CheckField, SelectField, TextArea, TextField } from "../kit/forms.tsx";
import { Fact, FactList, Panel } from "../views/parts.tsx";

const TARGETS = [
  ["", "Choose …"],
  ...ACCOUNT_TARGETS.map((target) => [target, target] as const),
  ["attributes", "attributes.…"],
] as const;
const TYPES = PAYLOAD_TYPES.map((type) => [type, type] as const);

interface Props {
  typed: TypedKey;
  errors: KeyFormErrors;
  mapped: Mapped;
}

/** Shown when the endpoint type is product_org (style/keys.css). */
export function TemplateEditor({ typed, errors, mapped }: Props) {
  return (
    <div class="product-org columns" id="template">
      <Panel title="Payload Template">
        <p class="quiet">
          Which part of a payload fills which field of an account. Paths are dotted, such as <code>company.id</code>;{" "}
          <code>items[0].sku</code> reads an element. An account is known by its <code>external_id</code>.
        </p>
        {errors.template !== undefined && <p class="error">{errors.template}</p>}
        <ol class="mappings">
          {typed.rows.map((row, at) => (
            <TemplateRow row={row} at={at} errors={errors.rows[at] ?? {}} />
          ))}
        </ol>
        <div class="row">
          {typed.rows.length < TEMPLATE_MAX_MAPPINGS && (
            <button id="add-mapping" name="do" value="add" data-swap="#template">
              Add a mapping
            </button>
          )}
        </div>
      </Panel>
      <Panel title="Try it on a sample">
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
            Show the mapped record
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

function TemplateRow({ row, at, errors }: { row: MappingRow; at: number; errors: RowErrors }) {
  const field = (name: keyof MappingRow): string => `rows.${at}.${name}`;
  return (
    <li class="mapping" aria-label={`Mapping ${at + 1}`}>
      <div class="mapping-target">
        <SelectField name={field("target")} label="Target" value={row.target} options={TARGETS} error={errors.target} />
        <div class="attribute">
          <TextField name={field("attribute")} label="Attribute's name" value={row.attribute} placeholder="region" />
        </div>
      </div>
      <TextField
        name={field("path")}
        label="Path"
        value={row.path}
        placeholder="company.id"
        class="mono"
        autocomplete="off"
        spellcheck={false}
        error={errors.path}
      />
      <SelectField name={field("type")} label="Type" value={row.type} options={TYPES} error={errors.type} />
      <div class="mapping-end">
        <div class="optional">
          <CheckField name={field("required")} label="Required" checked={row.required} />
        </div>
        <span class="always quiet small">Always required</span>
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

const WHERE = {
  sample: "The sample cannot be read",
  template: "The template is not complete",
  payload: "A call with this payload would be refused with 422",
} as const satisfies Record<Extract<Mapped, { kind: "errors" }>["where"], string>;

export function MappedRecord({ mapped }: { mapped: Mapped }) {
  return (
    <div id="mapped" class="stack" aria-live="polite">
      {mapped.kind === "no_sample" && <p class="quiet">The mapped record is shown here.</p>}
      {mapped.kind === "errors" && (
        <div class={`notice ${mapped.where === "template" ? "warn" : "bad"}`}>
          <strong>{WHERE[mapped.where]}</strong>
          <ul>
            {mapped.details.map((detail) => (
              <li>{detail}</li>
            ))}
          </ul>
        </div>
      )}
      {mapped.kind === "record" && (
        <>
          <h3>The mapped record</h3>
          <FactList>
            <Fact name="external_id">
              <code>{mapped.record.externalId}</code>
            </Fact>
            {Object.entries(mapped.record.fields).map(([name, value]) => (
              <Fact name={name}>
                <MappedValue value={value} />
              </Fact>
            ))}
            {Object.entries(mapped.record.attributes).map(([name, value]) => (
              <Fact name={`attributes.${name}`}>
                <MappedValue value={value} />
              </Fact>
            ))}
          </FactList>
        </>
      )}
    </div>
  );
}

/** Each of a hundred mappings may take the whole sample. */
const VALUE_SHOWN_CHARACTERS = 300;

function MappedValue({ value }: { value: unknown }) {
  return <code>{cut(JSON.stringify(value), VALUE_SHOWN_CHARACTERS)}</code>;
}

/** The form of a new API key (spec §2.1): what was typed, and what it asks for or what is wrong with it. No I/O. */
import type { NewKey } from "../../control/new-keys.ts";
import { toSender } from "../../domain/keys/echo.ts";
import { compileTemplate, mapAccount } from "../../domain/accounts/payload-template.ts";
import type { AccountRecord, PayloadMapping } from "../../domain/accounts/payload-template.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { readSample } from "../../domain/accounts/template-sample.ts";
import { ENDPOINT_TYPES, type EndpointType } from "../../domain/signal/signal.ts";
import { TEMPLATE_MAX_MAPPINGS } from "../../limits.ts";
import { name as keyName } from "../../http/fields.ts";
import { payloadTemplate } from "../../workspace/manage-keys.ts";
import { expirationOf, readLifetime, type TypedLifetime } from "./key-lifetime.ts";
import { formText } from "../form-text.ts";

/** A mapping as it is typed; `target` is one of ACCOUNT_TARGETS, or `attributes` with the name in `attribute`. */
export interface MappingRow {
  target: string;
  attribute: string;
  path: string;
  type: string;
  required: boolean;
}

export interface TypedKey extends TypedLifetime {
  /** Random text of this form, by which it is known when it is sent twice. */
  formToken: string;
  name: string;
  endpointType: EndpointType;
  secret: boolean;
  rows: MappingRow[];
  /** JSON text of a payload to try the template on. */
  sample: string;
}

export type RowErrors = Partial<Record<"target" | "path" | "type", string>>;

export interface KeyFormErrors {
  form?: string;
  name?: string;
  expires?: string;
  /** What is wrong with the payload template as a whole. */
  template?: string;
  /** What is wrong with each row, in the order of the rows. */
  rows: RowErrors[];
}

export const NO_ERRORS: KeyFormErrors = { rows: [] };

export function emptyRow(target = ""): MappingRow {
  return { target, attribute: "", path: "", type: "string", required: false };
}

/** The endpoint type of a form or an address; Signal Staging where none is named. */
function endpointTypeNamed(text: string | undefined): EndpointType {
  return ENDPOINT_TYPES.find((type) => type === text) ?? "signal_staging";
}

/** @param type the endpoint type that the address asks for. */
export function emptyKey(formToken: string, type?: string): TypedKey {
  const rows = [emptyRow("external_id"), emptyRow("name")];
  const lifetime = { lifetime: "never", expires: "" } as const;
  const endpointType = endpointTypeNamed(type);
  return { formToken, name: "", endpointType, ...lifetime, secret: false, rows, sample: "" };
}

const FORM_TOKEN = /^[0-9a-f-]{36}$/;

/** The form's token; null where it is none that this form has given out. */
export function formTokenOf(form: FormData): string | null {
  const token = formText(form, "form_token");
  return FORM_TOKEN.test(token) ? token : null;
}

/** @param newToken is taken where the form came without a token. */
export function readKeyForm(form: FormData, newToken: string): TypedKey {
  const rows: MappingRow[] = [];
  for (let at = 0; at <= TEMPLATE_MAX_MAPPINGS && form.has(`rows.${at}.target`); at++) {
    rows.push({
      target: formText(form, `rows.${at}.target`),
      attribute: formText(form, `rows.${at}.attribute`).trim(),
      path: formText(form, `rows.${at}.path`).trim(),
      type: formText(form, `rows.${at}.type`),
      required: form.has(`rows.${at}.required`),
    });
  }
  return {
    formToken: formTokenOf(form) ?? newToken,
    name: formText(form, "name"),
    endpointType: endpointTypeNamed(formText(form, "endpoint_type")),
    ...readLifetime(form),
    secret: form.has("secret"),
    rows,
    sample: formText(form, "sample"),
  };
}

/** The name as it is stored, or what is wrong with it, as a sentence. */
export function checkKeyName(typed: string): Result<string, string> {
  if (typed.trim() === "") return refuse("Give the key a name.");
  const name = keyName.safeParse(typed);
  return name.success ? ok(name.data) : refuse(sentence(name.error.issues[0]?.message ?? ""));
}

/** What the form asks for; `key` is null where there are errors, and then every one is told. */
export function checkKeyForm(typed: TypedKey, nowMs: number): { key: NewKey | null; errors: KeyFormErrors } {
  const errors: KeyFormErrors = { rows: [] };
  const name = checkKeyName(typed.name);
  if (!name.ok) errors.name = name.refusal;
  const expiration = expirationOf(typed, nowMs);
  if (!expiration.ok) errors.expires = expiration.refusal;
  const isProductOrg = typed.endpointType === "product_org";
  const template = isProductOrg ? checkRows(typed.rows, errors) : null;

  const hasErrors = Object.keys(errors).length > 1 || errors.rows.some((row) => Object.keys(row).length > 0);
  if (hasErrors || !name.ok || !expiration.ok) return { key: null, errors };
  const { endpointType, secret } = typed;
  return {
    key: { name: name.value, endpointType, expiresAt: expiration.value, secret, payloadTemplate: template },
    errors,
  };
}

/** What the template makes of the sample. */
export type Mapped =
  | { kind: "no_sample" }
  | { kind: "record"; record: AccountRecord }
  /** `where`: what has to be mended. */
  | { kind: "errors"; where: "sample" | "template" | "payload"; details: string[] };

export function mapSample({ rows, sample }: TypedKey): Mapped {
  if (sample.trim() === "") return { kind: "no_sample" };
  const payload = readSample(sample);
  if (!payload.ok) return { kind: "errors", where: "sample", details: [payload.refusal] };
  const errors: KeyFormErrors = { rows: [] };
  const template = checkRows(rows, errors);
  if (template === null) {
    const ofRows = errors.rows.flatMap((row, at) => Object.values(row).map((detail) => `Mapping ${at + 1}: ${detail}`));
    return { kind: "errors", where: "template", details: [errors.template ?? [], ofRows].flat() };
  }
  const mapped = mapAccount(compileTemplate(template), payload.value);
  if (mapped.ok) return { kind: "record", record: mapped.value };
  return { kind: "errors", where: "payload", details: mapped.refusal.map(toSender) };
}

export function toRow({ target, ...mapping }: PayloadMapping): MappingRow {
  const isAttribute = target.startsWith("attributes.");
  return {
    ...mapping,
    target: isAttribute ? "attributes" : target,
    attribute: isAttribute ? target.slice("attributes.".length) : "",
  };
}

/** The rows as a payload template; null where they are none, and then `errors` says why. */
function checkRows(rows: readonly MappingRow[], errors: KeyFormErrors): PayloadMapping[] | null {
  const typed = rows.map(({ target, attribute, ...mapping }) => ({
    ...mapping,
    target: target === "attributes" ? `attributes.${attribute}` : target,
  }));
  const template = payloadTemplate.safeParse(typed);
  if (template.success) return template.data;
  errors.rows = rows.map(() => ({}));
  for (const { path: where, message } of template.error.issues) {
    const [at, field] = where;
    const row = typeof at === "number" ? rows[at] : undefined;
    const ofRow = typeof at === "number" ? errors.rows[at] : undefined;
    if (row === undefined || ofRow === undefined) {
      errors.template =
        rows.length > TEMPLATE_MAX_MAPPINGS ? `At most ${TEMPLATE_MAX_MAPPINGS} mappings.` : sentence(message);
    } else if (field === "path") {
      ofRow.path = row.path === "" ? "Give the path, or remove the mapping." : sentence(message);
    } else if (field === "target" && row.target === "") {
      ofRow.target = "Choose what it fills, or remove the mapping.";
    } else if (field === "target" && row.target === "attributes" && !message.includes("twice")) {
      ofRow.target = "Give the attribute a name, without spaces and dots.";
    } else ofRow[field === "target" ? "target" : "type"] = sentence(message);
  }
  return null;
}

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

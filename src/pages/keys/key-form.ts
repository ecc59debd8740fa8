/** The form of a new API key (spec §2.1), and the lifetime that it and a rotation ask for. No I/O. */
import type { NewKey } from "../../control/new-keys.ts";
import { toSender } from "../../domain/keys/echo.ts";
import { compileTemplate, mapAccount } from "../../domain/accounts/payload-template.ts";
import type { AccountRecord, PayloadMapping } from "../../domain/accounts/payload-template.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { ok, refuse, type Result } from "../../domain/result.ts";
import { readSample } from "../../domain/accounts/template-sample.ts";
import { ENDPOINT_TYPES, type EndpointType } from "../../domain/signal/signal.ts";
import { TEMPLATE_MAX_MAPPINGS } from "../../limits.ts";
import { name as keyName } from "../../http/fields.ts";
import { payloadTemplate } from "../../workspace/manage-keys.ts";
import { formText } from "../pages-env.ts";

/** A mapping as it is typed. */
export interface MappingRow {
  target: string;
  path: string;
  type: string;
  required: boolean;
}

export interface TypedKey extends TypedLifetime {
  /** Idempotency token of the form. */
  formToken: string;
  name: string;
  endpointType: EndpointType;
  secret: boolean;
  rows: MappingRow[];
  /** JSON text of a payload that tests the template. */
  sample: string;
}

export type RowErrors = Partial<Record<"target" | "path" | "type", string>>;

export interface KeyFormErrors {
  form?: string;
  name?: string;
  expires?: string;
  /** The error of the payload template as a whole. */
  template?: string;
  /** The errors of each row, in the order of the rows. */
  rows: RowErrors[];
}

export const NO_ERRORS: KeyFormErrors = { rows: [] };

export function emptyRow(target = ""): MappingRow {
  return { target, path: "", type: "string", required: false };
}

/** Signal Staging for an unknown endpoint type. */
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

/** The form's token. Null: it is missing or has another format. */
export function formTokenOf(form: FormData): string | null {
  const token = formText(form, "form_token");
  return FORM_TOKEN.test(token) ? token : null;
}

/** @param newToken replaces a missing token. */
export function readKeyForm(form: FormData, newToken: string): TypedKey {
  const rows: MappingRow[] = [];
  for (let at = 0; at <= TEMPLATE_MAX_MAPPINGS && form.has(`rows.${at}.target`); at++) {
    rows.push({
      target: formText(form, `rows.${at}.target`).trim(),
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

/** The name to store, or an error sentence. */
export function checkKeyName(typed: string): Result<string, string> {
  if (typed.trim() === "") return refuse("Enter a name.");
  const name = keyName.safeParse(typed);
  return name.success ? ok(name.data) : refuse(sentence(name.error.issues[0]?.message ?? ""));
}

/** The key to create. Null: there are errors. */
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

/** The result of mapping the sample with the template. */
export type Mapped =
  | { kind: "no_sample" }
  | { kind: "record"; record: AccountRecord }
  /** `where`: the input that has to be fixed. */
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

/** The rows as a payload template. Null: there are errors, in `errors`. */
function checkRows(rows: readonly MappingRow[], errors: KeyFormErrors): PayloadMapping[] | null {
  const template = payloadTemplate.safeParse(rows);
  if (template.success) return template.data;
  errors.rows = rows.map(() => ({}));
  for (const { path: where, message } of template.error.issues) {
    const [at, field] = where;
    const row = typeof at === "number" ? rows[at] : undefined;
    const ofRow = typeof at === "number" ? errors.rows[at] : undefined;
    if (row === undefined || ofRow === undefined) {
      errors.template =
        rows.length > TEMPLATE_MAX_MAPPINGS ? `At most ${TEMPLATE_MAX_MAPPINGS} mappings.` : sentence(message);
    } else ofRow[field === "path" || field === "target" ? field : "type"] = sentence(message);
  }
  return null;
}

function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/** The presets. A form also has `keep` (the expiration of the rotated key) and `at` (the time in `expires`). */
const LIFETIME_MS = { never: null, "30d": 30 * DAY_MS, "90d": 90 * DAY_MS, "365d": 365 * DAY_MS } as const;

type Preset = keyof typeof LIFETIME_MS;
export type Lifetime = Preset | "keep" | "at";

export interface TypedLifetime {
  /** Empty: nothing is chosen yet. */
  lifetime: Lifetime | "";
  /** A time in UTC such as `2026-11-21T10:00`, for the lifetime `at`. */
  expires: string;
}

export function readLifetime(form: FormData): TypedLifetime {
  const lifetime = formText(form, "lifetime");
  return { lifetime: isLifetime(lifetime) ? lifetime : "", expires: formText(form, "expires") };
}

/**
 * The expiration in ISO 8601, or an error sentence. Null: never.
 *
 * @param kept expiration of the rotated key; undefined if no key is rotated.
 */
export function expirationOf(
  { lifetime, expires }: TypedLifetime,
  nowMs: number,
  kept?: string | null,
): Result<string | null, string> {
  if (lifetime === "keep" && kept !== undefined) return ok(kept);
  if (lifetime === "" || lifetime === "keep") return refuse("Choose when the key expires.");
  if (lifetime !== "at") {
    const lifetimeMs = LIFETIME_MS[lifetime];
    return ok(lifetimeMs === null ? null : new Date(nowMs + lifetimeMs).toISOString());
  }
  const at = readUtc(expires);
  if (at === undefined) return refuse("Enter a date and a time, or choose another expiration.");
  return at.getTime() > nowMs ? ok(at.toISOString()) : refuse("Enter a time in the future.");
}

function isLifetime(text: string): text is Lifetime {
  return text === "keep" || text === "at" || Object.hasOwn(LIFETIME_MS, text);
}

const LOCAL_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?$/;

/** Undefined: not a time, for example on the 31st of February. */
function readUtc(text: string): Date | undefined {
  const at = new Date(`${text}Z`);
  if (!LOCAL_TIME.test(text) || Number.isNaN(at.getTime())) return undefined;
  return at.toISOString().startsWith(text) ? at : undefined;
}

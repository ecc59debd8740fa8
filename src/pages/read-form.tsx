/**
 * Reads the forms of the pages, and checks what several of them have. A route reads its form only after the middleware has
 * checked the user and the role. The bytes and the fields are counted before the form is parsed. A rejected form is shown again
 * with its fields, so these limits also limit the size of the answer.
 */
import type * as z from "zod";
import { ok, reject, type Result } from "../domain/result.ts";
import { configuredRate } from "../env.ts";
import { counted } from "../domain/text.ts";
import { readBody, type BodyProblem } from "../http/body.ts";
import { name as nameSchema } from "../http/fields.ts";
import { STRANGERS } from "../http/workspace-share.ts";
import {
  PAGE_FORM_MAX_BYTES,
  PAGE_FORM_MAX_CHARACTERS,
  PAGE_FORM_MAX_FIELDS,
  RETRY_MIN_SECONDS,
  RULES_FILE_MAX_BYTES,
  STRANGER_FORM_MAX_BYTES,
  STRANGER_FORM_MAX_FIELDS,
} from "../limits.ts";
import { sentence } from "./kit/format.ts";
import { messagePage } from "./page.tsx";
import { pages, type Answer, type Ctx } from "./pages-env.ts";

interface FormLimits {
  /** After decompression. */
  bytes: number;
  fields: number;
  /** Limit of all names and values together, files included, in UTF-16 units. Default: as many as bytes. */
  characters?: number;
}

const PAGE_FORM: FormLimits = {
  bytes: PAGE_FORM_MAX_BYTES,
  fields: PAGE_FORM_MAX_FIELDS,
  characters: PAGE_FORM_MAX_CHARACTERS,
};

export const RULES_FILE_FORM: FormLimits = {
  bytes: RULES_FILE_MAX_BYTES,
  fields: PAGE_FORM_MAX_FIELDS,
};

const STRANGER_FORM: FormLimits = { bytes: STRANGER_FORM_MAX_BYTES, fields: STRANGER_FORM_MAX_FIELDS };

export interface FormRejection {
  status: 400 | 413 | 503;
  title: string;
  detail: string;
}

/**
 * Middleware that sets `form`, or answers with a page that says why the form is rejected. Use it after requireSignIn and after
 * the middleware that checks the role.
 */
export function readForm(limits = PAGE_FORM) {
  return pages.createMiddleware(async (c, next) => {
    const form = await formOf(c, limits, c.get("workspace").id);
    if (!form.ok) return formRejectedPage(c, form.rejection);
    c.set("form", form.value);
    await next();
  });
}

/**
 * Reads the form of a request without a session, with smaller limits. All these requests share one part of the room for large
 * bodies, because one stranger may use many networks.
 */
export function readStrangersForm(c: Ctx): Promise<Result<FormData, FormRejection>> {
  return formOf(c, STRANGER_FORM, STRANGERS);
}

/** @param holder whose share of the room for large bodies the form takes (http/body.ts). */
async function formOf(c: Ctx, limits: FormLimits, holder: string): Promise<Result<FormData, FormRejection>> {
  const body = await readBody(c.req.raw, { maxBytes: limits.bytes, holder, rate: configuredRate(c.env) });
  if (!body.ok) return reject(unreadBody(body.rejection, limits));
  const type = c.req.header("content-type") ?? "";
  try {
    const tooManyFields = reject(tooLarge(`${limits.fields} fields`));
    if (hasMoreFields(body.bytes, type, limits.fields)) return tooManyFields;
    const form = await new Response(body.bytes, { headers: { "content-type": type } }).formData();
    // The parser may find another boundary than the count above, so the fields are counted again.
    if (Array.from(form.keys()).length > limits.fields) return tooManyFields;
    const { characters = limits.bytes } = limits;
    return charactersOf(form) > characters ? reject(tooLarge(`${characters} characters`)) : ok(form);
  } catch {
    return reject(unreadable("What was sent is labelled as a form and is not one."));
  } finally {
    body.release();
  }
}

/** Counts the separators between the fields before the form is parsed: a cheap estimate, at most one field too low. */
function hasMoreFields(bytes: Uint8Array, type: string, limit: number): boolean {
  const isMultipart = /^multipart\//i.test(type);
  const separator = isMultipart ? `--${/boundary="?([^";]+)/i.exec(type)?.[1] ?? ""}` : "&";
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = -1;
  // N parts have N + 1 boundaries, N fields at most N separators.
  const most = isMultipart ? limit + 1 : limit;
  for (let found = 0; found <= most; found++) {
    at = buffer.indexOf(separator, at + 1);
    if (at < 0) return false;
  }
  return true;
}

function charactersOf(form: FormData): number {
  let characters = 0;
  for (const [name, value] of form) characters += name.length + (typeof value === "string" ? value.length : value.size);
  return characters;
}

/**
 * Checks what a person has typed. A text of more than `max` characters gets an error that says the maximum, and `check` does
 * not look at it.
 */
export function checkTyped<Value>(
  typed: string,
  max: number,
  check: (text: string) => Result<Value, string>,
): Result<Value, string> {
  return typed.length > max ? reject(`Enter at most ${counted(max, "character")}.`) : check(typed);
}

export function checkName(typed: string): Result<string, string> {
  if (typed.trim() === "") return reject("Enter a name.");
  const name = nameSchema.safeParse(typed);
  return name.success ? ok(name.data) : reject(issueText(name.error));
}

export function issueText(error: z.ZodError): string {
  return sentence(error.issues[0]?.message ?? "");
}

type CheckedFields = Record<string, Result<unknown, string>>;
type FieldValues<Fields extends CheckedFields> = {
  [Name in keyof Fields]: Extract<Fields[Name], { ok: true }>["value"];
};
type FieldErrors<Fields extends CheckedFields> = Partial<Record<keyof Fields, string>>;

export function allFields<Fields extends CheckedFields>(
  fields: Fields,
): Result<FieldValues<Fields>, FieldErrors<Fields>> {
  const entries = Object.entries(fields);
  const errors = entries.flatMap(([name, field]) => (field.ok ? [] : [[name, field.rejection] as const]));
  if (errors.length > 0) return reject(Object.fromEntries(errors) as FieldErrors<Fields>);
  const values = entries.flatMap(([name, field]) => (field.ok ? [[name, field.value] as const] : []));
  return ok(Object.fromEntries(values) as FieldValues<Fields>);
}

function unreadBody(rejection: BodyProblem, limits: FormLimits): FormRejection {
  switch (rejection.code) {
    case "body_too_large":
      return tooLarge(`${limits.bytes} bytes`);
    case "unavailable":
    case "rate_limited":
      return {
        status: 503,
        title: "Too many large forms at once",
        detail: "Wait some seconds before you send it again.",
      };
    default:
      return unreadable(rejection.detail);
  }
}

function tooLarge(limit: string): FormRejection {
  return { status: 413, title: "This form is too large", detail: `It may have at most ${limit}: shorten it.` };
}

function unreadable(detail: string): FormRejection {
  return { status: 400, title: "This form cannot be read", detail };
}

export function formRejectedPage(c: Ctx, { status, title, detail }: FormRejection): Answer {
  if (status === 503) c.header("retry-after", String(RETRY_MIN_SECONDS));
  const text = `${detail} Nothing was saved. Go back to correct the form: your input is still there.`;
  return messagePage(c, { title, status, text });
}

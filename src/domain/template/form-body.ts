/**
 * Form-encoded bodies (`application/x-www-form-urlencoded`) as JSON, for senders that send no JSON. `a[b]=1` nests;
 * `a[]=1` and repeated names are lists; all values are texts. A field that contradicts an earlier one keeps its whole
 * name, so that nothing is lost: `a=1&a[b]=2` is `{"a":"1","a[b]":"2"}`. A path of that name still reads it.
 */
import { SIGNAL_MAX_DEPTH } from "../../limits.ts";
import type { JsonObject } from "../json/json-value.ts";
import type { SignalRejection } from "../keys/rejection.ts";
import { ok, reject, type Result } from "../result.ts";
import { grouped } from "../text.ts";

export const FORM_MAX_FIELDS = 1_000;

/** Whether a body that is no JSON begins as a form does: with a name and an equals sign. */
export function isFormBody(text: string): boolean {
  return /^[A-Za-z_%][\w.%+~[\]-]{0,254}=/.test(text);
}

/** Reads a form as one JSON object. Rejection: more than 1,000 fields (`body` of the sender is no form then), or other bytes than UTF-8. */
export function parseFormBody(text: string): Result<JsonObject, SignalRejection> {
  const form: JsonObject = {};
  let fields = 0;
  for (let start = 0; start < text.length;) {
    const ampersand = text.indexOf("&", start);
    const end = ampersand === -1 ? text.length : ampersand;
    if (end > start) {
      if ((fields += 1) > FORM_MAX_FIELDS) return reject(tooManyFields());
      const field = text.slice(start, end);
      const equals = field.indexOf("=");
      const name = decoded(equals === -1 ? field : field.slice(0, equals));
      const value = decoded(equals === -1 ? "" : field.slice(equals + 1));
      if (name === undefined || value === undefined) return reject(notUtf8(fields));
      if (name !== "" && !addAt(form, stepsOf(name), value)) addAt(form, [name], value);
    }
    start = end + 1;
  }
  return ok(form);
}

function tooManyFields(): SignalRejection {
  const detail = `The form has more than ${grouped(FORM_MAX_FIELDS)} fields. Send fewer, or send JSON.`;
  return { code: "signal_too_large", detail };
}

function notUtf8(field: number): SignalRejection {
  const detail = `Field ${grouped(field)} of the form is not UTF-8. Send the form in that encoding.`;
  return { code: "signal_not_utf8", detail };
}

/** A percent sign that begins no byte stands for itself. */
const LONE_PERCENT = /%(?![0-9A-Fa-f]{2})/g;

/** Undefined: not UTF-8. */
function decoded(text: string): string | undefined {
  const spaced = text.includes("+") ? withSpaces(text) : text;
  if (!spaced.includes("%")) return spaced;
  try {
    return decodeURIComponent(spaced.replaceAll(LONE_PERCENT, "%25"));
  } catch {
    return undefined;
  }
}

/** Each plus sign as a space. In bytes, because a text of a million of them takes `replaceAll` 100 ms. */
function withSpaces(text: string): string {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at++) if (bytes[at] === PLUS) bytes[at] = SPACE;
  return bytes.toString();
}

const PLUS = 0x2b;
const SPACE = 0x20;

/** `a[b][]` → `a`, `b`, null; null is the next element of a list. A name in another form, or too deep, is one step. */
function stepsOf(name: string): (string | null)[] {
  const open = name.indexOf("[");
  if (open < 1 || !name.endsWith("]")) return [name];
  const steps: (string | null)[] = [name.slice(0, open)];
  for (let at = open; at < name.length;) {
    const close = name.indexOf("]", at);
    if (name[at] !== "[" || close === -1 || steps.length === SIGNAL_MAX_DEPTH - 1) return [name];
    steps.push(close === at + 1 ? null : name.slice(at + 1, close));
    at = close + 1;
  }
  return steps;
}

/** False, and nothing has changed: another kind of value is on the way. */
function addAt(form: JsonObject, steps: readonly (string | null)[], value: string): boolean {
  let container: JsonObject | unknown[] = form;
  for (const [index, step] of steps.entries()) {
    const isLast = index === steps.length - 1;
    if ((step === null) !== Array.isArray(container)) return false;
    const known: unknown = step === null ? undefined : ownValue(container, step);
    if (known === undefined) {
      // A new container accepts each further step.
      put(container, step, builtFrom(steps.slice(index + 1), value));
      return true;
    }
    if (isLast) return step !== null && addValue(container as JsonObject, step, known, value);
    if (typeof known !== "object" || known === null) return false;
    container = known as JsonObject | unknown[];
  }
  return false;
}

/** A repeated name makes a list. A value beside fields has no name (`a[b]=1&a=2`). */
function addValue(container: JsonObject, name: string, known: unknown, value: string): boolean {
  if (known === undefined) put(container, name, value);
  else if (Array.isArray(known)) known.push(value);
  else if (typeof known === "string") put(container, name, [known, value]);
  else return addValue(known as JsonObject, "", ownValue(known as JsonObject, ""), value);
  return true;
}

function builtFrom(steps: readonly (string | null)[], value: string): unknown {
  let built: unknown = value;
  for (const step of steps.toReversed()) {
    const container: JsonObject | unknown[] = step === null ? [] : {};
    put(container, step, built);
    built = container;
  }
  return built;
}

function ownValue(container: object, name: string): unknown {
  return Object.hasOwn(container, name) ? (container as JsonObject)[name] : undefined;
}

/** As JSON.parse does; plain assignment of `__proto__` would set the prototype. */
function put(container: JsonObject | unknown[], step: string | null, value: unknown): void {
  const name = step ?? (container as unknown[]).length;
  Object.defineProperty(container, name, { value, enumerable: true, configurable: true, writable: true });
}

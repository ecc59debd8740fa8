/**
 * From a request's body to its signals (spec §4; design §9): one object, an array, `{"batch":[…]}`, or lines of JSON on
 * the bulk endpoint. Each body is parsed once; a bad signal is refused alone and each signal keeps the text it came as.
 */
import { BODY_MAX_VALUES, BODY_UNCOUNTED_BYTES, SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../limits.ts";
import { explainJsonError } from "./json-error.ts";
import { jsonDepth, jsonValues, scanItems } from "./json-scan.ts";
import { isJsonObject } from "./dot-path.ts";
import type { BodyRefusal, SignalRefusal } from "./refusal.ts";
import type { Result } from "./result.ts";
import { ok, refuse } from "./result.ts";

export interface BodySignal {
  /** The JSON text as sent. */
  text: string;
  /** Its UTF-8 length. */
  bytes: number;
  /** Null: to be admitted. */
  refusal: SignalRefusal | null;
}

export interface SignalBody {
  /** Whether the sender sent several, also when it is one in an array: then the answer has one result for each. */
  several: boolean;
  signals: BodySignal[];
}

export interface SignalBodyRules {
  maxSignals: number;
  /** Also take newline-delimited JSON. */
  lines: boolean;
  /** What is asked of each payload besides size and depth. */
  check: (payload: unknown) => Result<unknown, SignalRefusal>;
}

/** @param bytes UTF-8 length of `text`. */
export function readSignals(text: string, bytes: number, rules: SignalBodyRules): Result<SignalBody, BodyRefusal> {
  if (bytes > BODY_UNCOUNTED_BYTES && jsonValues(text) > BODY_MAX_VALUES) {
    const detail = `The body holds more than ${BODY_MAX_VALUES} values. Send fewer signals per request.`;
    return refuse({ code: "body_too_large", detail });
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    const lines = rules.lines ? readLines(text, rules) : null;
    if (lines !== null) return lines;
    return text.trim() === ""
      ? refuse({ code: "body_empty", detail: "The body is empty. Send the signal as a JSON object." })
      : refuse({ code: "body_not_json", detail: explainJsonError(text) });
  }
  if (Array.isArray(body)) return readItems(text, bytes, body, "array", rules);
  if (isBatch(body)) return readItems(text, bytes, body.batch, "batch", rules);
  return ok({ several: false, signals: [readOne(text, bytes, jsonDepth(text), body, rules)] });
}

/** The SDKs' envelope. An object that names an event is a signal, whatever else it carries. */
function isBatch(body: unknown): body is { batch: unknown[] } {
  return (
    isJsonObject(body) && Array.isArray(body["batch"]) && body["event"] === undefined && body["type"] === undefined
  );
}

function readItems(
  text: string,
  bytes: number,
  items: unknown[],
  where: "array" | "batch",
  rules: SignalBodyRules,
): Result<SignalBody, BodyRefusal> {
  const refusal = checkCount(items.length, rules.maxSignals);
  if (refusal !== null) return refuse(refusal);
  const ascii = bytes === text.length;
  const spans = scanItems(text, where);
  const scanned = spans !== null && spans.starts.length === items.length;
  const signals = items.map((item, index) => {
    const itemText = scanned ? text.slice(spans.starts[index], spans.ends[index]) : JSON.stringify(item);
    const itemBytes = ascii ? itemText.length : utf8Length(itemText);
    const depth = scanned ? (spans.depths[index] ?? 0) : jsonDepth(itemText);
    return readOne(itemText, itemBytes, depth, item, rules);
  });
  return ok({ several: true, signals });
}

/** Null when no line is JSON: then it was not meant as lines. */
function readLines(text: string, rules: SignalBodyRules): Result<SignalBody, BodyRefusal> | null {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length < 2) return null;
  const refusal = checkCount(lines.length, rules.maxSignals);
  if (refusal !== null) return refuse(refusal);
  let parsed = 0;
  const signals = lines.map((line): BodySignal => {
    const bytes = utf8Length(line);
    try {
      const payload: unknown = JSON.parse(line);
      parsed++;
      return readOne(line, bytes, jsonDepth(line), payload, rules);
    } catch {
      return { text: line, bytes, refusal: { code: "signal_not_json", detail: explainJsonError(line) } };
    }
  });
  return parsed === 0 ? null : ok({ several: true, signals });
}

/** In this order: size → depth → what the endpoint asks of the payload. */
function readOne(text: string, bytes: number, depth: number, payload: unknown, rules: SignalBodyRules): BodySignal {
  if (bytes > SIGNAL_MAX_BYTES) {
    const detail = `The signal has ${bytes} bytes; at most ${SIGNAL_MAX_BYTES} are taken. Send fewer or shorter properties.`;
    return { text, bytes, refusal: { code: "signal_too_large", detail } };
  }
  if (depth > SIGNAL_MAX_DEPTH) {
    const detail = `The signal is nested ${depth} levels deep; at most ${SIGNAL_MAX_DEPTH} are taken. Flatten its properties.`;
    return { text, bytes, refusal: { code: "signal_too_deep", detail } };
  }
  const checked = rules.check(payload);
  return { text, bytes, refusal: checked.ok ? null : checked.refusal };
}

function checkCount(count: number, max: number): BodyRefusal | null {
  if (count === 0) return { code: "batch_empty", detail: "The body holds no signals. Send at least one." };
  if (count <= max) return null;
  return { code: "batch_too_long", detail: `The body holds ${count} signals; at most ${max} are taken per request.` };
}

function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    // A surrogate pair is two units and four bytes: two for each.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

/**
 * From a request's body to its signals (spec §4; design §9): one object, an array, `{"batch":[…]}`, or lines of JSON on
 * the bulk endpoint. Signals are parsed one by one, so that a body of any form takes little more memory than its text; a
 * bad signal is refused alone, and each keeps the text it came as.
 */
import { SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../../limits.ts";
import { isJsonObject } from "../json/dot-path.ts";
import { findJsonError } from "../json/json-check.ts";
import { explainJsonError } from "../json/json-error.ts";
import { jsonDepth, scanItems, skipSpace, withoutSpaceBefore } from "../json/json-scan.ts";
import type { ItemSpans } from "../json/json-scan.ts";
import type { BodyRefusal, SignalRefusal } from "../keys/refusal.ts";
import type { Result } from "../result.ts";
import { ok, refuse } from "../result.ts";
import { utf8Length } from "../../platform/utf8-length.ts";

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

/** Null: not JSON, in this form at least. */
type Reading = Result<SignalBody, BodyRefusal> | null;

/** @param bytes UTF-8 length of `text`. */
export function readSignals(text: string, bytes: number, rules: SignalBodyRules): Result<SignalBody, BodyRefusal> {
  const isArray = text.charCodeAt(skipSpace(text, 0)) === 0x5b;
  const spans = scanItems(text, isArray ? "array" : "batch", rules.maxSignals);
  const reading =
    (spans && isAround(text, spans) ? readItems(text, bytes, spans, rules) : readSingle(text, bytes, rules)) ??
    (rules.lines ? readLines(text, rules) : null);
  if (reading !== null) return reading;
  return text.trim() === ""
    ? refuse({ code: "body_empty", detail: "The body is empty. Send the signal as a JSON object." })
    : refuse({ code: "body_not_json", detail: explainJsonError(text) });
}

/**
 * Whether what is around the array makes it a body of several: nothing, or the SDKs' envelope. An object that names an
 * event is a signal, whatever else it carries; and no envelope is larger than a signal.
 */
function isAround(text: string, { open, close }: ItemSpans): boolean {
  const [start, end] = [skipSpace(text, 0), withoutSpaceBefore(text, text.length)];
  if (open - start + end - close > SIGNAL_MAX_BYTES) return false;
  const around = parsed(`${text.slice(start, open)}[]${text.slice(close, end)}`);
  if (around === undefined) return false;
  return !isJsonObject(around.value) || (around.value["event"] === undefined && around.value["type"] === undefined);
}

function readItems(text: string, bytes: number, spans: ItemSpans, rules: SignalBodyRules): Reading {
  if (spans.count === 0) {
    return refuse({ code: "batch_empty", detail: "The body holds no signals. Send at least one." });
  }
  if (spans.count > rules.maxSignals) return findJsonError(text) === null ? refuse(tooLong(spans.count, rules)) : null;
  const ascii = bytes === text.length;
  const signals: BodySignal[] = [];
  for (let index = 0; index < spans.count; index++) {
    const item = text.slice(spans.starts[index], spans.ends[index]);
    const signal = readOne(item, ascii ? item.length : utf8Length(item), spans.depths[index] ?? 0, rules);
    if (signal === null) return null;
    signals.push(signal);
  }
  return ok({ several: true, signals });
}

function readSingle(text: string, bytes: number, rules: SignalBodyRules): Reading {
  const signal = readOne(text, bytes, jsonDepth(text), rules);
  return signal && ok({ several: false, signals: [signal] });
}

/** Line by line, and no further than there may be. Null when no line is JSON: then it was not meant as lines. */
function readLines(text: string, rules: SignalBodyRules): Reading {
  const signals: BodySignal[] = [];
  let read = 0;
  for (let start = skipSpace(text, 0); start < text.length;) {
    if (signals.length === rules.maxSignals) return read === 0 ? null : refuse(tooLong(null, rules));
    const found = text.indexOf("\n", start);
    const end = found < 0 ? text.length : found;
    const line = text.slice(start, withoutSpaceBefore(text, end));
    const bytes = utf8Length(line);
    const signal = readOne(line, bytes, jsonDepth(line), rules);
    if (signal !== null) read++;
    const broken = (): BodySignal => ({
      text: line,
      bytes,
      refusal: { code: "signal_not_json", detail: explainJsonError(line) },
    });
    signals.push(signal ?? broken());
    start = skipSpace(text, end);
  }
  return signals.length < 2 || read === 0 ? null : ok({ several: true, signals });
}

/** In this order: size → depth → what the endpoint asks of the payload. Null: not JSON. */
function readOne(text: string, bytes: number, depth: number, rules: SignalBodyRules): BodySignal | null {
  if (bytes > SIGNAL_MAX_BYTES) {
    // Not parsed: of a text of 16 MB that could take all the memory there is.
    if (findJsonError(text) !== null) return null;
    const detail = `The signal has ${bytes} bytes; at most ${SIGNAL_MAX_BYTES} are taken. Send fewer or shorter properties.`;
    return { text, bytes, refusal: { code: "signal_too_large", detail } };
  }
  const payload = parsed(text);
  if (payload === undefined) return null;
  if (depth > SIGNAL_MAX_DEPTH) {
    const detail = `The signal is nested ${depth} levels deep; at most ${SIGNAL_MAX_DEPTH} are taken. Flatten its properties.`;
    return { text, bytes, refusal: { code: "signal_too_deep", detail } };
  }
  const checked = rules.check(payload.value);
  return { text, bytes, refusal: checked.ok ? null : checked.refusal };
}

/** Undefined: not JSON. */
function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function tooLong(count: number | null, { maxSignals }: SignalBodyRules): BodyRefusal {
  const held = count === null ? `more than ${maxSignals}` : String(count);
  return {
    code: "batch_too_long",
    detail: `The body holds ${held} signals; at most ${maxSignals} are taken per request.`,
  };
}

/**
 * Splits a request's body into signals (spec §4): one object, an array, `{"batch":[…]}`, or lines of JSON
 * on the bulk endpoint. Reads and parses signals one by one, so that a body takes little more memory than its bytes.
 * Rejects bad signals individually. Each signal keeps its original text.
 */
import { SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../../limits.ts";
import { describeInvalidByte, describeJsonError } from "../json/json-error.ts";
import {
  closesAtEnd,
  findJsonError,
  jsonShape,
  scanItems,
  skipSpace,
  withoutSpaceBefore,
  type ItemSpans,
  type JsonError,
} from "../json/json-scan.ts";
import type { BodyRejection, SignalRejection } from "../keys/rejection.ts";
import { ok, reject, type Result } from "../result.ts";
import { isAbsent, isJsonObject } from "../json/json-value.ts";

export interface BodySignal {
  /** The signal's slice of the body, in bytes. */
  start: number;
  end: number;
  /** Why the signal is rejected; null: it may be admitted. */
  rejection: SignalRejection | null;
}

export interface SignalBody {
  /** Whether the body is an array, a batch or lines, even of a single signal. The answer then has a result for each. */
  isList: boolean;
  signals: BodySignal[];
  /** The JSON text as sent. The signals are slices of this text. */
  text: BodyText;
}

export interface SignalBodyRules {
  maxSignals: number;
  lines: boolean;
  /** Checks each payload, in addition to size and depth. */
  check: (payload: unknown) => Result<unknown, SignalRejection>;
}

/** A signal with more levels is rejected without validation: no useful JSON has as many. */
const SCANNED_MAX_DEPTH = 64;

/**
 * Bytes to validate in a text that is rejected for its size or count: validating 8 MB takes a tenth of a second. The
 * sender learns of a later error after splitting the body.
 */
const VALIDATED_MAX_BYTES = 1024 * 1024;

const LINE_FEED = 0x0a;
const OPEN_BRACKET = 0x5b;

/** The result of reading the body in one form; null: it is not JSON in that form. */
type Reading = Result<SignalBody, BodyRejection> | null;

export function readSignals(body: Uint8Array, rules: SignalBodyRules): Result<SignalBody, BodyRejection> {
  const first = skipSpace(body, 0);
  if (first === body.length) {
    return reject({ code: "body_empty", detail: "The body is empty. Send the signal as a JSON object." });
  }
  const spans = scanItems(body, body[first] === OPEN_BRACKET ? "array" : "batch", rules.maxSignals);
  const text = new BodyText(body);
  const reading =
    (spans && isBatch(text, spans) ? readItems(text, spans, rules) : readSingle(text, first, rules)) ??
    (rules.lines ? readLines(text, rules) : null);
  if (reading !== null) return reading;
  return reject({ code: "body_not_json", detail: describeJsonError(body, 0, body.length, text.error()) });
}

/** Up to this size the whole body is decoded at once, because a native call per slice takes longer than the copy. */
const DECODED_AT_ONCE_MAX_BYTES = 262_144;

const REPLACEMENT = "\ufffd";

// A byte order mark is one only at the beginning of the body, where it has been removed.
const lenientDecoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a body, read in slices of its bytes, and its first JSON error. */
export class BodyText {
  readonly bytes: Uint8Array;
  /** Text of a small body; null for a large one. */
  readonly #whole: string | null;
  /** Whether a small body is ASCII. */
  readonly #isAscii: boolean;
  #error: JsonError | null | undefined;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.#whole = bytes.length <= DECODED_AT_ONCE_MAX_BYTES ? lenientDecoder.decode(bytes) : null;
    this.#isAscii = this.#whole !== null && isAscii(this.#whole, bytes.length);
  }

  /** @param start and `end`: byte offsets at character boundaries. */
  slice(start: number, end: number): string {
    if (this.#whole !== null) {
      if (this.#isAscii) return this.#whole.slice(start, end);
      if (start === 0 && end === this.bytes.length) return this.#whole;
    }
    return lenientDecoder.decode(this.bytes.subarray(start, end));
  }

  /** Whether a slice is UTF-8. @param text of the slice. */
  isUtf8(text: string, start: number, end: number): boolean {
    if (this.#isAscii || !text.includes(REPLACEMENT)) return true;
    try {
      // The sender may have sent the replacement character itself.
      strictDecoder.decode(this.bytes.subarray(start, end));
      return true;
    } catch {
      return false;
    }
  }

  /** Searched once: that takes 0.05 s for 8 MB. */
  error(): JsonError | null {
    if (this.#error === undefined) this.#error = findJsonError(this.bytes, 0, this.bytes.length);
    return this.#error;
  }
}

function isAscii(text: string, bytes: number): boolean {
  return text.length === bytes && !text.includes(REPLACEMENT);
}

/**
 * Whether the body is an array, or the SDKs' envelope around one. An object with an event is a signal, regardless of
 * its other fields. No envelope is larger than a signal.
 */
function isBatch(text: BodyText, { open, close }: ItemSpans): boolean {
  const [start, end] = [skipSpace(text.bytes, 0), withoutSpaceBefore(text.bytes, text.bytes.length)];
  if (open - start + end - close > SIGNAL_MAX_BYTES) return false;
  const around = jsonValue(`${text.slice(start, open)}[]${text.slice(close, end)}`);
  if (around === undefined) return false;
  return !isJsonObject(around.value) || (isAbsent(around.value["event"]) && isAbsent(around.value["type"]));
}

function readItems(text: BodyText, { starts, ends, depths, count }: ItemSpans, rules: SignalBodyRules): Reading {
  if (count === 0) {
    return reject({ code: "batch_empty", detail: "The body holds no signals. Send at least one." });
  }
  if (count > rules.maxSignals) return mayBeJson(text, 0, text.bytes.length) ? reject(tooLong(count, rules)) : null;
  const signals: BodySignal[] = [];
  for (let index = 0; index < count; index++) {
    const signal = readSignal(text, starts[index] ?? 0, ends[index] ?? 0, depths[index] ?? 0, rules);
    if (signal === null) return null;
    signals.push(signal);
  }
  return ok({ isList: true, signals, text });
}

function readSingle(text: BodyText, first: number, rules: SignalBodyRules): Reading {
  const { bytes } = text;
  const { depth } = jsonShape(bytes, { start: first, maxDepth: SCANNED_MAX_DEPTH });
  // If the first line is too deep, the body may still be lines: it is a single signal only if all of it is JSON.
  const mayBeLines = rules.lines && depth > SCANNED_MAX_DEPTH && secondLine(bytes) < bytes.length;
  if (mayBeLines && text.error() !== null) return null;
  const signal = readSignal(text, 0, bytes.length, depth, rules);
  return signal && ok({ isList: false, signals: [signal], text });
}

/** Null: the body was not meant as lines, because no line is JSON or a JSON text spans the first two lines. */
function readLines(text: BodyText, rules: SignalBodyRules): Reading {
  const { bytes } = text;
  if (spansTwoLines(text)) return null;
  const signals: BodySignal[] = [];
  let read = 0;
  let [line, countedTo] = [1, 0];
  for (let start = skipSpace(bytes, 0); start < bytes.length;) {
    if (signals.length === rules.maxSignals) return read === 0 ? null : reject(tooLong(null, rules));
    const lineEnd = endOfLine(bytes, start);
    const end = withoutSpaceBefore(bytes, lineEnd, start);
    const { depth } = jsonShape(bytes, { start, end, maxDepth: SCANNED_MAX_DEPTH });
    const signal = readSignal(text, start, end, depth, rules);
    if (signal === null) {
      line += lineFeeds(bytes, countedTo, start);
      countedTo = start;
      const detail = describeJsonError(bytes, start, end, findJsonError(bytes, start, end), line);
      signals.push({ start, end, rejection: { code: "signal_not_json", detail } });
    } else {
      read++;
      signals.push(signal);
    }
    start = skipSpace(bytes, lineEnd);
  }
  return signals.length < 2 || read === 0 ? null : ok({ isList: true, signals, text });
}

/** Whether a JSON text continues from the first line to the second. The body as a whole is not JSON. */
function spansTwoLines(text: BodyText): boolean {
  const { bytes } = text;
  const second = secondLine(bytes);
  const error = text.error();
  if (error === null || second === bytes.length || error.position > second) return true;
  if (error.position < second || error.kind !== "value_expected") return false;
  // The second line may begin with a value that is truncated at the end of the line.
  return findJsonError(bytes, second, endOfLine(bytes, second))?.kind === "truncated";
}

/** Start of the second line that is not blank; the body's end if there is none. */
function secondLine(bytes: Uint8Array): number {
  return skipSpace(bytes, endOfLine(bytes, skipSpace(bytes, 0)));
}

function endOfLine(bytes: Uint8Array, from: number): number {
  const found = bytes.indexOf(LINE_FEED, from);
  return found < 0 ? bytes.length : found;
}

function lineFeeds(bytes: Uint8Array, start: number, end: number): number {
  let count = 0;
  for (let at = start; at < end; at++) if (bytes[at] === LINE_FEED) count++;
  return count;
}

/**
 * Checks in this order: more than SCANNED_MAX_DEPTH levels → size → JSON → UTF-8 → depth → the endpoint's check of the payload.
 * Null: not JSON.
 */
function readSignal(
  text: BodyText,
  start: number,
  end: number,
  depth: number,
  rules: SignalBodyRules,
): BodySignal | null {
  const length = end - start;
  if (depth > SCANNED_MAX_DEPTH) {
    return { start, end, rejection: tooDeep(`more than ${SCANNED_MAX_DEPTH}`) };
  }
  if (length > SIGNAL_MAX_BYTES) {
    return mayBeJson(text, start, end) ? { start, end, rejection: tooLarge(length) } : null;
  }
  const slice = text.slice(start, end);
  const payload = jsonValue(slice);
  if (payload === undefined) return null;
  // Different bytes would become the same character: two signals would be one, and so would two people.
  if (!text.isUtf8(slice, start, end)) return { start, end, rejection: notUtf8(text.bytes, start, end) };
  const checked = depth > SIGNAL_MAX_DEPTH ? reject(tooDeep(String(depth))) : rules.check(payload.value);
  return { start, end, rejection: checked.ok ? null : checked.rejection };
}

function notUtf8(bytes: Uint8Array, start: number, end: number): SignalRejection {
  return { code: "signal_not_utf8", detail: describeInvalidByte(bytes, start, end) };
}

function tooDeep(levels: string): SignalRejection {
  const detail = `The signal is nested ${levels} levels deep; at most ${SIGNAL_MAX_DEPTH} are taken. Flatten its properties.`;
  return { code: "signal_too_deep", detail };
}

function tooLarge(bytes: number): SignalRejection {
  const detail = `The signal has ${bytes} bytes; at most ${SIGNAL_MAX_BYTES} are taken. Send fewer or shorter properties.`;
  return { code: "signal_too_large", detail };
}

/**
 * Whether a text is JSON, without parsing it: parsing 8 MB could take all memory. Of a long text, checks only the
 * beginning, and that its brackets close at its end.
 */
function mayBeJson(text: BodyText, start: number, end: number): boolean {
  const validatedEnd = start + VALIDATED_MAX_BYTES;
  if (end > validatedEnd) {
    const error = findJsonError(text.bytes, start, validatedEnd);
    if (error !== null) return error.position === validatedEnd && closesAtEnd(text.bytes, start, end);
  }
  const isWhole = start === 0 && end === text.bytes.length;
  return (isWhole ? text.error() : findJsonError(text.bytes, start, end)) === null;
}

/** Wrapped in an object, because null is a value too. Undefined: not JSON. */
function jsonValue(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function tooLong(count: number | null, { maxSignals }: SignalBodyRules): BodyRejection {
  const held = count === null ? `more than ${maxSignals}` : String(count);
  return {
    code: "batch_too_long",
    detail: `The body holds ${held} signals; at most ${maxSignals} are taken per request.`,
  };
}

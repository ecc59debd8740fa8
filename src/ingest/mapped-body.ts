/**
 * Splits and checks a body for a key with a signal template. The consumer maps each signal again, with the same version of the
 * template and the same surroundings.
 */
import { REQUEST_MAX_STEPS } from "../domain/accounts/payload-template.ts";
import { describeInvalidByte, describeJsonError } from "../domain/json/json-error.ts";
import { jsonShape, skipSpace } from "../domain/json/json-scan.ts";
import { readPayload } from "../domain/json/json-value.ts";
import type { BodyRejection, SignalRejection } from "../domain/keys/rejection.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { BodyText, readSignals, type BodySignal, type SignalBodyRules } from "../domain/signal/signal-body.ts";
import { validateSignal } from "../domain/signal/validate-signal.ts";
import { applyTemplate, mapSignal, type Outcome, type TemplateContext } from "../domain/template/apply.ts";
import type { CompiledSignalTemplate } from "../domain/template/signal-template.ts";
import { isFormBody, parseFormBody } from "../domain/template/form-body.ts";
import type { MisfitHandling } from "../domain/template/key-template.ts";
import { bytesOf, keptHeaders, type Surroundings } from "../domain/template/surroundings.ts";
import { counted, grouped } from "../domain/text.ts";
import { SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../limits.ts";

/** A template with `items` needs the whole body as values, which take five times its bytes. */
const ITEMS_BODY_MAX_BYTES = 1024 * 1024;
/** What stands around the items of a body is written with each of them. */
const AROUND_MAX_BYTES = 2 * 1024 * 1024;
/** No useful JSON has as many levels. */
const BODY_MAX_DEPTH = 64;

export interface MappedSignalBody {
  isList: boolean;
  /** `isMisfit`: it becomes a dead letter, unless it is held. */
  signals: (BodySignal & { around?: Surroundings; isMisfit?: true })[];
  /** The texts of the signals. */
  bytes: Uint8Array;
  /** The headers that the template reads; undefined: none was sent. */
  headers: Surroundings["headers"];
}

type Reading = Result<MappedSignalBody, BodyRejection>;

export interface MappedBodyRules extends Omit<SignalBodyRules, "check"> {
  /** `keep` admits a misfit. `full` would keep it, but too many wait. */
  misfits: MisfitHandling | "full";
}

/** JSON is tried first, whatever the label says. The stored payload of a form is its JSON. */
export function readMappedBody(
  bytes: Uint8Array,
  template: CompiledSignalTemplate,
  context: TemplateContext,
  rules: MappedBodyRules,
): Reading {
  const read = readJson(bytes, template, context, rules);
  const mayBeForm = !read.ok && read.rejection.code === "body_not_json" && bytes.length <= ITEMS_BODY_MAX_BYTES;
  const body = new BodyText(bytes);
  const text = mayBeForm ? body.slice(0, bytes.length) : "";
  if (!isFormBody(text)) return read;
  const form = body.isUtf8(text, 0, bytes.length) ? parseFormBody(text.trimEnd()) : reject(notUtf8(bytes));
  if (form.ok) return readJson(Buffer.from(JSON.stringify(form.value)), template, context, rules);
  return ok({ ...NO_SIGNALS, signals: [{ start: 0, end: bytes.length, rejection: form.rejection }], bytes });
}

const NO_SIGNALS = { isList: false, headers: undefined };

function readJson(
  bytes: Uint8Array,
  template: CompiledSignalTemplate,
  context: TemplateContext,
  { misfits: handling, ...rules }: MappedBodyRules,
): Reading {
  const headers = keptHeaders(template, context.headers ?? {});
  const shared = { ...context, budget: { stepsLeft: REQUEST_MAX_STEPS } };
  const misfits = new Misfits(handling);
  if (template.items !== null) return readItems(bytes, template, shared, { headers, misfits });
  const around = headers && { headers };
  const check = (payload: unknown) => misfits.check(mapSignal(template, payload, around, shared), payload);
  const read = readSignals(bytes, { ...rules, check });
  if (read.ok) {
    return ok({ ...read.value, signals: read.value.signals.map((signal) => misfits.kept(signal)), bytes, headers });
  }
  // A poll without news is no mistake of the sender.
  if (read.rejection.code === "batch_empty") return ok({ isList: true, signals: [], bytes, headers });
  return read;
}

/** The stored texts of items are written anew, with all digits of their numbers. */
function readItems(
  bytes: Uint8Array,
  template: CompiledSignalTemplate,
  context: TemplateContext,
  { headers, misfits }: { headers: Surroundings["headers"]; misfits: Misfits },
): Reading {
  const value = readValue(bytes);
  if (!value.ok) return value;
  if ("signal" in value.value) {
    return ok({
      isList: false,
      signals: [{ start: 0, end: bytes.length, rejection: value.value.signal }],
      bytes,
      headers,
    });
  }
  const applied = applyTemplate(template, value.value.parsed, context);
  if (!applied.ok) return applied;
  const { isList, items } = applied.value;
  const texts = items.map(({ payload }) => Buffer.from(JSON.stringify(payload)));
  const signals: MappedSignalBody["signals"] = [];
  let [end, aroundBytes] = [0, 0];
  for (const [index, { payload, around, outcome }] of items.entries()) {
    const text = texts[index] ?? Buffer.alloc(0);
    const result = checkText(text) ?? misfits.check(outcome, payload);
    const start = end;
    end += text.length;
    const { headers: _shared, ...own } = around ?? {};
    const signal = misfits.kept({ start, end, rejection: result.ok ? null : result.rejection });
    if (Object.keys(own).length > 0) aroundBytes += bytesOf(own);
    signals.push(Object.keys(own).length === 0 ? signal : { ...signal, around: own });
  }
  if (aroundBytes > AROUND_MAX_BYTES) return reject(tooMuchAround(items.length));
  return ok({ isList, signals, bytes: Buffer.concat(texts), headers });
}

/** `signal`: why the whole body is rejected as one signal. */
function readValue(bytes: Uint8Array): Result<{ parsed: unknown } | { signal: SignalRejection }, BodyRejection> {
  if (bytes.length > ITEMS_BODY_MAX_BYTES) return reject(bodyTooLarge());
  const first = skipSpace(bytes, 0);
  if (first === bytes.length) {
    return reject({ code: "body_empty", detail: "The body is empty. Send the signal as a JSON object." });
  }
  const text = new BodyText(bytes);
  const whole = text.slice(0, bytes.length);
  if (jsonShape(bytes, { start: first, maxDepth: BODY_MAX_DEPTH }).depth > BODY_MAX_DEPTH) {
    return ok({ signal: tooDeep(`more than ${BODY_MAX_DEPTH}`) });
  }
  let parsed: unknown;
  try {
    parsed = readPayload(whole);
  } catch {
    return reject({ code: "body_not_json", detail: describeJsonError(bytes, 0, bytes.length, text.error()) });
  }
  if (text.isUtf8(whole, 0, bytes.length)) return ok({ parsed });
  return ok({ signal: notUtf8(bytes) });
}

function notUtf8(bytes: Uint8Array): SignalRejection {
  return { code: "signal_not_utf8", detail: describeInvalidByte(bytes, 0, bytes.length) };
}

/** Undefined: neither too large nor too deep. */
function checkText(text: Uint8Array): Result<never, SignalRejection> | undefined {
  if (text.length > SIGNAL_MAX_BYTES) {
    const detail = `The signal has ${counted(text.length, "byte")}; at most ${grouped(SIGNAL_MAX_BYTES)} are taken.`;
    return reject({ code: "signal_too_large", detail });
  }
  const { depth } = jsonShape(text, { start: 0, maxDepth: SIGNAL_MAX_DEPTH });
  return depth > SIGNAL_MAX_DEPTH ? reject(tooDeep(`more than ${SIGNAL_MAX_DEPTH}`)) : undefined;
}

function tooDeep(levels: string): SignalRejection {
  const detail = `The signal is nested ${levels} levels deep; at most ${SIGNAL_MAX_DEPTH} are taken.`;
  return { code: "signal_too_deep", detail };
}

function bodyTooLarge(): BodyRejection {
  const detail = `The template of this key reads \`items\`, and then a body has at most ${counted(ITEMS_BODY_MAX_BYTES, "byte")}.`;
  return { code: "body_too_large", detail };
}

function tooMuchAround(items: number): BodyRejection {
  const detail = `Too much stands around ${counted(items, "item")}. Send fewer of them in a request.`;
  return { code: "batch_too_long", detail };
}

/** Checks signals as a key without a template does, and knows which of the rejected ones are kept. */
class Misfits {
  readonly #handling: MappedBodyRules["misfits"];
  readonly #kept = new Set<SignalRejection>();

  constructor(handling: MappedBodyRules["misfits"]) {
    this.#handling = handling;
  }

  check(outcome: Outcome, payload: unknown): Result<unknown, SignalRejection> {
    switch (outcome.kind) {
      case "mapped":
        return ok(outcome.signal);
      case "call":
        return validateSignal(payload);
      case "misfit": {
        const { code, detail } = outcome.misfit;
        const rejection = { code, detail: this.#handling === "full" ? `${detail} ${TOO_MANY_MISFITS}` : detail };
        if (this.#handling === "keep") this.#kept.add(rejection);
        return reject(rejection);
      }
      case "rejected":
        return reject(outcome.rejection);
    }
  }

  kept(signal: BodySignal): BodySignal & { isMisfit?: true } {
    const isKept = signal.rejection !== null && this.#kept.has(signal.rejection);
    return isKept ? { ...signal, rejection: null, isMisfit: true } : signal;
  }
}

const TOO_MANY_MISFITS = "It is not kept, because too many such signals wait: correct the template and replay them.";

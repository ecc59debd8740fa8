/**
 * Checks a parsed signal before it is admitted (spec §2.2). CDP calls are accepted as they are, because a rejection
 * makes their senders drop the event; only a track call must have an event.
 */
import { cut } from "../text.ts";
import { EMAIL_MAX_LENGTH, NAME_MAX_CODE_POINTS } from "../../limits.ts";
import { echo, holdsCredential } from "../keys/api-key.ts";
import { addressIn, hasEmailShape } from "./identity.ts";
import { cdpCallType, knownCallType } from "./normalise.ts";
import { isAbsent, kindInWords, type JsonObject, isJsonObject } from "../json/json-value.ts";
import type { SignalRejection } from "../keys/rejection.ts";
import { ok, reject, type Result } from "../result.ts";

const CREDENTIAL = "holds an API key or a secret, and names are shown";

const ALIKE_MAX_LENGTH = 40;

export function validateSignal(payload: unknown): Result<JsonObject, SignalRejection> {
  if (!isJsonObject(payload)) {
    return reject({
      code: "signal_not_object",
      detail: `A signal is a JSON object such as {"event":"Filled Out Form"}, but this is ${kindInWords(payload)}.`,
    });
  }
  const rejection = rejectionOf(payload, cdpCallType(payload));
  return rejection === undefined ? ok(payload) : reject(rejection);
}

function rejectionOf(payload: JsonObject, callType: string | undefined): SignalRejection | undefined {
  if (callType === "track") return checkEvent(payload, "a track call");
  if (callType !== undefined) {
    // A call of an unknown type keeps the name of its event.
    const isUnknown = knownCallType(callType) === undefined && typeof payload["event"] === "string";
    return checkName("type", payload["type"]) ?? (isUnknown ? checkName("event", payload["event"]) : undefined);
  }
  const { source } = payload;
  return (
    checkIds(payload) ??
    checkEvent(payload, "a signal") ??
    checkEmail(payload["email"]) ??
    (source === undefined || source === null ? undefined : checkName("source", source)) ??
    checkProperties(payload["properties"])
  );
}

export function fitsName(text: string): boolean {
  if (text.length <= NAME_MAX_CODE_POINTS) return true;
  return text.length <= 2 * NAME_MAX_CODE_POINTS && codePoints(text) <= NAME_MAX_CODE_POINTS;
}

/**
 * Control characters except tab, line feed and carriage return, which occur in text from forms and sheets. People never
 * type the rest, and each takes six bytes in JSON.
 */
// oxlint-disable-next-line no-control-regex -- these are the characters that are looked for
const CONTROL_CHARACTER = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;

/** The first control character in a name, such as `the control character U+0007 at position 12`; null: none. */
export function controlCharacterIn(text: string): string | null {
  const name = text.trim();
  const found = CONTROL_CHARACTER.exec(name);
  if (found === null) return null;
  const code = found[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  const before = text.slice(0, text.indexOf(name) + found.index);
  return `the control character U+${code} at position ${codePoints(before) + 1}`;
}

/** A CDP's call without ids is taken for a signal, but a rejection about a missing event would confuse its sender. */
function checkIds({ type, event }: JsonObject): SignalRejection | undefined {
  if (!isAbsent(event) || knownCallType(type) === undefined) return undefined;
  return {
    code: "event_missing",
    detail: `\`type\` is "${String(type)}", but there is no \`userId\`, \`anonymousId\` or \`messageId\`: such a call needs one of them, any other signal an \`event\`.`,
  };
}

function checkEvent(payload: JsonObject, subject: string): SignalRejection | undefined {
  if (!isAbsent(payload["event"])) return checkName("event", payload["event"]);
  const alike = Object.keys(payload).find((name) => name !== "event" && name.trim().toLowerCase() === "event");
  const hint =
    alike === undefined
      ? ""
      : ` There is ${JSON.stringify(cut(alike, ALIKE_MAX_LENGTH))}, which is another name: write it in small letters, without spaces.`;
  return {
    code: "event_missing",
    detail: `\`event\` is missing or empty; ${subject} needs it as a text that names what happened, such as "Filled Out Form".${hint}`,
  };
}

/** Fields whose names are stored and shown to every member; what to send instead of a wrong type or a credential. */
const NAMES = {
  event: {
    code: "event_invalid",
    send: "send the event's name as a text",
    sendName: "Send a name for what happened.",
  },
  type: {
    code: "event_invalid",
    send: "send the type of the call as a text",
    sendName: 'Send the type of the call, such as "identify".',
  },
  source: {
    code: "source_invalid",
    send: "send the source's name as a text, or leave `source` out",
    sendName: "Send a name for what sends the signals.",
  },
} as const;

export function checkName(field: keyof typeof NAMES, name: unknown): SignalRejection | undefined {
  const { code, send, sendName } = NAMES[field];
  if (typeof name !== "string") return { code, detail: `\`${field}\` is ${kindInWords(name)}; ${send}.` };
  if (holdsCredential(name)) return { code, detail: `\`${field}\` ${CREDENTIAL}. ${sendName}` };
  const control = controlCharacterIn(name);
  if (control !== null) return { code, detail: `\`${field}\` has ${control}. Remove it.` };
  // A longer type is truncated when it becomes the event.
  if (field === "type" || fitsName(name.trim())) return undefined;
  const detail = `\`${field}\` has ${codePoints(name.trim())} characters; shorten it to at most ${NAME_MAX_CODE_POINTS}.`;
  return { code, detail, sent: echo(name) };
}

function checkEmail(email: unknown): SignalRejection | undefined {
  const code = "email_invalid";
  if (isAbsent(email)) return undefined;
  if (typeof email !== "string") {
    const detail = `\`email\` is ${kindInWords(email)}; send one address as a text, or leave \`email\` out.`;
    return { code, detail };
  }
  const address = addressIn(email);
  if (hasEmailShape(address)) return undefined;
  if (address.startsWith("{{")) {
    return { code, detail: "`email` is a token that was not replaced by its value. Check its name." };
  }
  const detail =
    address.length > EMAIL_MAX_LENGTH
      ? `\`email\` is longer than ${EMAIL_MAX_LENGTH} characters; send one address, or leave \`email\` out.`
      : '`email` is not an email address; send one such as "jane@example.com", or leave `email` out.';
  return { code, detail, sent: echo(address) };
}

export function checkProperties(properties: unknown): SignalRejection | undefined {
  if (properties === undefined || properties === null || isJsonObject(properties)) return undefined;
  // PHP writes an empty map as an empty array.
  if (Array.isArray(properties) && properties.length === 0) return undefined;
  return {
    code: "properties_invalid",
    detail: `\`properties\` is ${kindInWords(properties)}; send an object such as {"form_name":"Contact"}, or leave \`properties\` out.`,
  };
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

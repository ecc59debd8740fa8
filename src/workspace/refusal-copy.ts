/** Why a call was refused, in a few words, and what its sender should change. */
import { grouped } from "../domain/grouped.ts";
import type { RefusalCode, UnauthorizedCause } from "../domain/keys/refusal.ts";
import {
  BATCH_MAX_SIGNALS,
  BULK_MAX_SIGNALS,
  NAME_MAX_CODE_POINTS,
  SIGNAL_MAX_BYTES,
  SIGNAL_MAX_DEPTH,
} from "../limits.ts";

export interface RefusalCopy {
  label: string;
  advice: string;
}

export const REFUSAL_COPY = {
  unauthorized: {
    label: "Key or secret not valid",
    advice:
      "Use the URL of an active key. A key that needs a secret wants it in the header X-Api-Secret. A lost key or secret cannot be recovered: create a new key, and deactivate the old one.",
  },
  endpoint_mismatch: {
    label: "Wrong endpoint for the key",
    advice:
      "Post to the webhook URL that was shown with the key: Signal Staging keys to /api/signal-staging/…, Product Org Updates keys to /api/product-orgs/….",
  },
  body_empty: { label: "No body", advice: "Send a JSON body. In a webhook's settings, look for an empty template." },
  body_not_json: {
    label: "Not JSON",
    advice:
      "Mend the template where the detail says. Texts need quotation marks, and tokens that fill in texts need JSON encoding (in a marketing platform: Request Token Encoding JSON).",
  },
  body_unreadable: {
    label: "Unreadable body",
    advice: "Send UTF-8; with Content-Encoding: gzip, send all of a valid gzip stream.",
  },
  body_too_large: {
    label: "Body too large",
    advice: "Split what is sent into several calls, or use the bulk endpoint.",
  },
  batch_too_long: {
    label: "Too many signals in a call",
    advice: `Send at most ${grouped(BATCH_MAX_SIGNALS)} signals in a call, ${grouped(BULK_MAX_SIGNALS)} on the bulk endpoint.`,
  },
  batch_empty: { label: "No signal in the body", advice: "Send at least one signal, or no call." },
  media_type_unsupported: { label: "Not sent as JSON", advice: "Send JSON, with Content-Type: application/json." },
  content_encoding_unsupported: {
    label: "Unknown compression",
    advice: "Send the body uncompressed, or with Content-Encoding: gzip.",
  },
  idempotency_key_invalid: {
    label: "Invalid Idempotency-Key",
    advice: "Send printable ASCII, of a reasonable length, or leave the header out.",
  },
  source_invalid: {
    label: "Invalid source",
    advice: `Name the source by a text of at most ${NAME_MAX_CODE_POINTS} characters, in the path or as "source".`,
  },
  signal_not_json: {
    label: "A line is not JSON",
    advice: "In a bulk import each line is a whole JSON object of its own.",
  },
  signal_not_object: { label: "Signal is no object", advice: 'Send each signal as a JSON object: {"event": …}.' },
  signal_too_large: {
    label: "Signal too large",
    advice: `Send at most ${grouped(SIGNAL_MAX_BYTES)} bytes a signal: leave out what no mapping rule looks at.`,
  },
  signal_too_deep: {
    label: "Signal nested too deeply",
    advice: `Nest at most ${SIGNAL_MAX_DEPTH} levels: flatten the properties.`,
  },
  event_missing: { label: "No event", advice: 'Fill in "event": mapping rules match on it.' },
  event_invalid: {
    label: "Invalid event",
    advice: `Send "event" as a text of at most ${NAME_MAX_CODE_POINTS} characters.`,
  },
  email_invalid: {
    label: "Invalid email",
    advice: "Send one email address, or none. A token that was not replaced is not an address.",
  },
  properties_invalid: { label: "Invalid properties", advice: 'Send "properties" as a JSON object, or leave it out.' },
  template_mismatch: {
    label: "Does not fit the payload template",
    advice:
      "Send what the key's payload template maps; the detail names each path. Or create a key with another template.",
  },
  rate_limited: {
    label: "Too many requests",
    advice:
      "Wait for Retry-After seconds, then send again. Put more signals into one call rather than making more calls.",
  },
  allowance_exceeded: {
    label: "Signal limit reached",
    advice:
      "Nothing to change at the sender: it may send again in the next billing period. An owner or admin can switch overages on or change the plan.",
  },
  extra_room_exceeded: {
    label: "Twice the signal limit reached",
    advice:
      "Nothing to change at the sender: it may send again in the next billing period. An owner or admin can switch overages on or change the plan.",
  },
  unavailable: { label: "Temporarily unavailable", advice: "Send the same request again after Retry-After seconds." },
} as const satisfies Record<RefusalCode, RefusalCopy>;

/** Why a call was answered with the one 401 that says nothing of it. */
export const CAUSE_COPY = {
  key_malformed: "What stands in the URL is no API key.",
  key_unknown: "There is no such key.",
  key_expired: "The key has expired.",
  key_deactivated: "The key is deactivated.",
  secret_missing: "The key wants a secret, and the call had no X-Api-Secret header.",
  secret_wrong: "The secret in the X-Api-Secret header is not the key's.",
} as const satisfies Record<UnauthorizedCause, string>;

/** Refused because the limit is reached: the Usage page is where something can be done. */
export function isOverLimit(code: RefusalCode): boolean {
  return code === "allowance_exceeded" || code === "extra_room_exceeded" || code === "unavailable";
}

export function isRefusalCode(code: string | undefined): code is RefusalCode {
  return code !== undefined && Object.hasOwn(REFUSAL_COPY, code);
}

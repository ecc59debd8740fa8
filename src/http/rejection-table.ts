/** Every rejection of the ingestion endpoints: status (spec §7) and texts. */
import { grouped } from "../domain/text.ts";
import type { RejectionCode } from "../domain/keys/rejection.ts";
import { BODY_MAX_SIGNALS, NAME_MAX_CODE_POINTS, SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../limits.ts";

interface RejectionRecord {
  status: 400 | 401 | 403 | 413 | 415 | 422 | 429 | 503;
  title: string;
  /** The sender's text. Without it the rejection describes the request's error. */
  detail?: string;
  headers?: Record<string, string>;
  /** For developers: when the endpoints return this. */
  when: string;
  /** For admins: the reason in short; `advice` says what to do. */
  label: string;
  advice: string;
  /** The detail of each such rejection says what `advice` says, so beside a detail the advice is left out. */
  adviceIsInDetail?: true;
}

export const REJECTIONS: Readonly<Record<RejectionCode, RejectionRecord>> = {
  unauthorized: {
    status: 401,
    title: "Unauthorized",
    // Every cause has the same text, which reveals nothing to a stranger.
    detail:
      "The API key is not valid, or the X-Api-Secret header that it requires is missing or wrong. Create a key " +
      "under Settings > API keys and use its full webhook URL.",
    headers: { "www-authenticate": 'ApiKey realm="signal ingestion"' },
    when: "The key is unknown, expired or deactivated, or its secret is missing or wrong.",
    label: "Key or secret not valid",
    advice:
      "Use the URL of an active key, and send its secret in the header X-Api-Secret if it has one. If either is lost, rotate the key.",
  },
  endpoint_mismatch: {
    status: 403,
    title: "Wrong endpoint for this key",
    detail:
      "Signal Staging keys post to /api/signal-staging/…, Product Org Updates keys to /api/product-orgs/…. Use " +
      "the webhook URL that was shown with the key.",
    when: "The key is for the other endpoint family.",
    label: "Wrong endpoint for the key",
    advice:
      "Post to the webhook URL that was shown with the key: Signal Staging keys to /api/signal-staging/…, Product Org Updates keys to /api/product-orgs/….",
    adviceIsInDetail: true,
  },
  body_empty: {
    status: 400,
    title: "The body is not JSON",
    when: "There is no body.",
    label: "No body",
    advice: "Send a JSON body. In a webhook's settings, look for an empty template.",
  },
  body_not_json: {
    status: 400,
    title: "The body is not JSON",
    when: "The body is not JSON; the detail names the position and the likely cause.",
    label: "Not JSON",
    advice:
      "Fix the template at the position in the detail. Texts need quotation marks. Tokens in texts need JSON encoding (in a marketing platform: Request Token Encoding JSON).",
  },
  body_unreadable: {
    status: 400,
    title: "The body cannot be read",
    when: "The body does not decompress, or it broke off or stalled.",
    label: "Unreadable body",
    advice: "Send the whole body. With Content-Encoding: gzip, send a complete gzip stream.",
  },
  body_too_large: {
    status: 413,
    title: "Too large",
    when: "The body is too large, counted after decompression.",
    label: "Body too large",
    advice: "Split the signals into several calls.",
  },
  batch_too_long: {
    status: 413,
    title: "Too large",
    when: "There are too many signals in the body.",
    label: "Too many signals in a call",
    get advice() {
      return `Send at most ${grouped(BODY_MAX_SIGNALS)} signals in a call.`;
    },
    adviceIsInDetail: true,
  },
  batch_empty: {
    status: 422,
    title: "Not a valid signal",
    when: "There is no signal in the body.",
    label: "No signal in the body",
    advice: "Send at least one signal per call.",
    adviceIsInDetail: true,
  },
  media_type_unsupported: {
    status: 415,
    title: "Unsupported media type",
    when: "The body is labelled as something other than JSON, and is no JSON.",
    label: "Not sent as JSON",
    advice: "Send JSON, with Content-Type: application/json.",
  },
  content_encoding_unsupported: {
    status: 415,
    title: "Unsupported Content-Encoding",
    headers: { "accept-encoding": "gzip" },
    when: "The body is compressed with something other than gzip.",
    label: "Unknown compression",
    advice: "Send the body uncompressed, or with Content-Encoding: gzip.",
    adviceIsInDetail: true,
  },
  idempotency_key_invalid: {
    status: 400,
    title: "Invalid Idempotency-Key",
    when: "The Idempotency-Key is empty, too long, or not printable ASCII.",
    label: "Invalid Idempotency-Key",
    advice: "Send printable ASCII, of a reasonable length, or leave the header out.",
  },
  source_invalid: {
    status: 422,
    title: "Not a valid signal",
    when: "The source is no text, too long, or has a control character; the detail names it and its position.",
    label: "Invalid source",
    advice: `Name the source by a text of at most ${NAME_MAX_CODE_POINTS} characters, without control characters, in the path or as "source".`,
    adviceIsInDetail: true,
  },
  signal_not_json: {
    status: 422,
    title: "Not a valid signal",
    when: "This line is not JSON.",
    label: "A line is not JSON",
    advice: "In a bulk import, each line must be a complete JSON object.",
  },
  signal_not_utf8: {
    status: 400,
    title: "The signal is not UTF-8",
    when: "The signal has a byte that is not UTF-8; the detail names its position and the likely encoding.",
    label: "Not UTF-8",
    advice: "Send JSON in UTF-8. In a form or an export, look for a setting of the encoding, such as ISO 8859-1.",
  },
  signal_not_object: {
    status: 422,
    title: "Not a valid signal",
    when: "The signal is not a JSON object.",
    label: "Signal is no object",
    advice: 'Send each signal as a JSON object: {"event": …}.',
  },
  signal_too_large: {
    status: 413,
    title: "Too large",
    when: "The signal is too large.",
    label: "Signal too large",
    get advice() {
      return `Send at most ${grouped(SIGNAL_MAX_BYTES)} bytes per signal. Leave out properties that no mapping rule uses.`;
    },
  },
  signal_too_deep: {
    status: 422,
    title: "Not a valid signal",
    when: "The signal is nested too deeply.",
    label: "Signal nested too deeply",
    advice: `Nest at most ${SIGNAL_MAX_DEPTH} levels: flatten the properties.`,
  },
  event_missing: {
    status: 422,
    title: "Not a valid signal",
    when: "The signal has no event.",
    label: "No event",
    advice: 'Fill in "event": mapping rules match on it.',
  },
  event_invalid: {
    status: 422,
    title: "Not a valid signal",
    when: "The event is no text, too long, or has a control character such as U+0007; the detail names it and its position.",
    label: "Invalid event",
    advice: `Send "event" as a text of at most ${NAME_MAX_CODE_POINTS} characters, without control characters.`,
    adviceIsInDetail: true,
  },
  email_invalid: {
    status: 422,
    title: "Not a valid signal",
    when: "The email is not an address.",
    label: "Invalid email",
    advice: "Send one email address, or none. Check for tokens that were not replaced.",
  },
  properties_invalid: {
    status: 422,
    title: "Not a valid signal",
    when: "The properties are not an object.",
    label: "Invalid properties",
    advice: 'Send "properties" as a JSON object, or leave it out.',
    adviceIsInDetail: true,
  },
  template_mismatch: {
    status: 422,
    title: "Not a valid signal",
    when: "The payload does not fit the key's payload template; the detail names the path.",
    label: "Does not fit the payload template",
    advice:
      "Send the paths that the key's payload template maps. The detail names the missing ones. Or create a key with another template.",
  },
  rate_limited: {
    status: 429,
    title: "Too many requests",
    detail: "Requests came faster than the request rate allows. Send again after Retry-After seconds.",
    when: "Requests come faster than the request rate allows.",
    label: "Too many requests",
    advice: "Wait for Retry-After seconds, then send again. Send more signals per call instead of more calls.",
  },
  allowance_exceeded: {
    status: 429,
    title: "Signal limit reached",
    detail:
      "The plan's signal limit is used up and this workspace has no extra room any more. Enable overages or " +
      "upgrade the plan, or send again in the next billing period.",
    when: "The signal limit is used up, and there is no extra room any more.",
    label: "Signal limit reached",
    advice:
      "Nothing to fix at the sender. It can send again in the next billing period, or once an owner or admin enables overages or upgrades.",
  },
  extra_room_exceeded: {
    status: 429,
    title: "Twice the signal limit reached",
    detail:
      "The plan's signal limit and the extra room beyond it are used up. Enable overages or upgrade the plan, or " +
      "send again in the next billing period.",
    when: "Twice the signal limit is used up.",
    label: "Twice the signal limit reached",
    advice:
      "Nothing to fix at the sender. It can send again in the next billing period, or once an owner or admin enables overages or upgrades.",
  },
  key_limit_exceeded: {
    status: 429,
    title: "Signal limit of the key reached",
    detail:
      "The signal limit of this API key is used up. Raise it on the key's page, or send again in the next billing period.",
    when: "The signal limit of the key, which an owner or admin has set, is used up.",
    label: "Signal limit of the key reached",
    advice:
      "Look at what the key sends. If it is wanted, raise the signal limit on the key's page. It can send again in the next billing period.",
  },
  unavailable: {
    status: 503,
    title: "Temporarily unavailable",
    detail: "The signals are not confirmed as stored. Send the same request again after Retry-After seconds.",
    when: "Not confirmed as stored, for a reason that passes: the same request may be sent again.",
    label: "Temporarily unavailable",
    advice: "Send the same request again after Retry-After seconds.",
    adviceIsInDetail: true,
  },
};

export function isRejectionCode(code: string | undefined): code is RejectionCode {
  return code !== undefined && Object.hasOwn(REJECTIONS, code);
}

/** Every `code` of a problem, in words; `type` of a problem points to its entry on the /docs page. */
import type { RefusalCode } from "../domain/keys/refusal.ts";
import { statusOf } from "../http/problem.ts";

/** What the ingestion endpoints refuse. */
export const REFUSAL_CODES = {
  unauthorized: "The key is unknown, expired or deactivated, or its secret is missing or wrong.",
  endpoint_mismatch: "The key is for the other endpoint family.",
  body_empty: "There is no body.",
  body_not_json: "The body is not JSON; the detail names the position and the likely cause.",
  body_unreadable: "The body is not UTF-8, or does not decompress.",
  body_too_large: "The body is too large, counted after decompression.",
  batch_too_long: "There are too many signals in the body.",
  batch_empty: "There is no signal in the body.",
  media_type_unsupported: "The body is labelled as something other than JSON, and is no JSON.",
  content_encoding_unsupported: "The body is compressed with something other than gzip.",
  idempotency_key_invalid: "The Idempotency-Key is empty, too long, or not printable ASCII.",
  source_invalid: "The source is no text, or too long.",
  signal_not_json: "This line is not JSON.",
  signal_not_object: "The signal is not a JSON object.",
  signal_too_large: "The signal is too large.",
  signal_too_deep: "The signal is nested too deeply.",
  event_missing: "The signal has no event.",
  event_invalid: "The event is no text, or too long.",
  email_invalid: "The email is not an address.",
  properties_invalid: "The properties are not an object.",
  template_mismatch: "The payload does not fit the key's payload template; the detail names the path.",
  rate_limited: "Requests come faster than the request rate allows.",
  allowance_exceeded: "The signal limit is used up, and there is no extra room any more.",
  extra_room_exceeded: "Twice the signal limit is used up.",
  unavailable:
    "Not stored, for a reason that passes: the same request may be sent again. With results, too: nothing is stored twice.",
} as const satisfies Record<RefusalCode, string>;

/** What all addresses, or the operator API, refuse besides. */
const OTHER_CODES: Record<string, { status: number; when: string }> = {
  not_found: { status: 404, when: "There is nothing at this address, or no record with this id in this workspace." },
  method_not_allowed: { status: 405, when: "The address is known, the method is not; see `Allow`." },
  operator_unauthorized: { status: 401, when: "The operator token is missing or wrong." },
  validation_failed: { status: 422, when: "Fields are missing, unknown or wrong; `errors` names each." },
  slug_taken: { status: 409, when: "Another workspace has this slug." },
  email_taken: { status: 409, when: "The address is a member already." },
  key_inactive: { status: 409, when: "The key is deactivated or expired: it cannot be rotated." },
  last_owner: { status: 409, when: "A workspace keeps at least one owner." },
  too_many_rules: { status: 409, when: "The workspace has as many mapping rules as it may have." },
  rules_too_large: { status: 409, when: "All mapping rules of the workspace together would have too many values." },
  rule_changed: { status: 409, when: "Others are changing the same mapping rule; send the change again." },
};

export interface DescribedCode {
  code: string;
  status: number;
  when: string;
}

export function allCodes(): DescribedCode[] {
  const refusals = Object.entries(REFUSAL_CODES).map(([code, when]) => ({
    code,
    status: statusOf(code as RefusalCode),
    when,
  }));
  const others = Object.entries(OTHER_CODES).map(([code, { status, when }]) => ({ code, status, when }));
  return [...refusals, ...others].sort((a, b) => a.status - b.status);
}

/** Every `code` of a problem, in words; `type` of a problem points to its entry on the /docs page. */
import { REFUSALS } from "../../http/refusal-table.ts";

/** Codes beside those of ingestion: all addresses or the operator API answer with them. */
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
  too_many_destinations: { status: 409, when: "The workspace has as many destinations as it may have." },
  destination_not_active: { status: 409, when: "The destination is paused or switched off: resume it first." },
  destination_without_secret: { status: 409, when: "Only what a webhook is sent is signed." },
  rules_changed: { status: 409, when: "Others are changing mapping rules of the workspace; send the import again." },
  not_restorable: { status: 409, when: "The platform has no backup of that moment; the detail says why." },
  rule_changed: { status: 409, when: "Others are changing the same mapping rule; send the change again." },
};

export interface DescribedCode {
  code: string;
  status: number;
  when: string;
}

export function allCodes(): DescribedCode[] {
  const refusals = Object.entries(REFUSALS).map(([code, { status, when }]) => ({ code, status, when }));
  const others = Object.entries(OTHER_CODES).map(([code, { status, when }]) => ({ code, status, when }));
  return [...refusals, ...others].sort((a, b) => a.status - b.status);
}

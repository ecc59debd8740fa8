/** Every `code` of a problem, in words; `type` of a problem points to its entry on the /docs page. */
import { REFUSALS } from "../http/refusal-table.ts";

/** Codes beside those of ingestion: all addresses or the operator API answer with them. */
const OTHER_CODES = {
  not_found: { status: 404, when: "There is nothing at this address, or no record with this id in this workspace." },
  method_not_allowed: { status: 405, when: "The address is known, the method is not; see `Allow`." },
  operator_unauthorized: { status: 401, when: "The operator token is missing or wrong." },
  validation_failed: { status: 422, when: "Fields are missing, unknown or wrong; `errors` names each." },
};

/** The codes of the operator API's 409 answers, and when each is one. */
const CONFLICTS = {
  slug_taken: "Another workspace has this slug.",
  email_taken: "The address is a member already.",
  key_inactive: "The key is deactivated or expired: it cannot be rotated.",
  too_many_keys: "The workspace has as many active API keys as it may have.",
  too_many_keys_a_day: "The workspace has created as many API keys in 24 hours as it may create.",
  templates_too_large: "All payload templates of the workspace together would have too many bytes.",
  last_owner: "A workspace keeps at least one owner.",
  too_many_members: "The workspace has as many members as it may have.",
  too_many_rules: "The workspace has as many mapping rules as it may have.",
  rules_too_large: "All mapping rules of the workspace together would have too many values.",
  too_many_destinations: "The workspace has as many destinations as it may have.",
  destination_not_active: "The destination is paused or switched off: resume it first.",
  destination_without_secret: "Only what a webhook is sent is signed.",
  rules_changed: "Others are changing mapping rules of the workspace; send the import again.",
  not_restorable: "The platform has no backup of that moment; the detail says why.",
  signals_wait: "Accepted signals wait to be recorded, and the restore would lose them.",
  restore_unfinished: "Another restore of the workspace has begun and not finished.",
  rule_changed: "Others are changing the same mapping rule; send the change again.",
};
export type ConflictCode = keyof typeof CONFLICTS;

export interface DescribedCode {
  code: string;
  status: number;
  when: string;
}

export function allCodes(): DescribedCode[] {
  const refusals = Object.entries(REFUSALS).map(([code, { status, when }]) => ({ code, status, when }));
  const others = Object.entries(OTHER_CODES).map(([code, { status, when }]) => ({ code, status, when }));
  const conflicts = Object.entries(CONFLICTS).map(([code, when]) => ({ code, status: 409, when }));
  return [...refusals, ...others, ...conflicts].sort((a, b) => a.status - b.status);
}

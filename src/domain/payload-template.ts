/** The payload template of a Product Org Updates key (spec §2.1, design §8.7): which path of a payload fills what. */

export const PAYLOAD_TYPES = ["string", "number", "boolean", "json"] as const;

/** What an account has by name; anything else goes to `attributes.<name>`. */
export const ACCOUNT_TARGETS = [
  "external_id",
  "name",
  "plan",
  "user_count",
  "recurring_revenue",
  "trial_status",
  "feature_flags",
] as const;

export interface PayloadMapping {
  /** One of ACCOUNT_TARGETS, or `attributes.` and a name. Each at most once in a template. */
  target: string;
  /** Dot path into the payload. */
  path: string;
  type: (typeof PAYLOAD_TYPES)[number];
  /** A payload without it is refused. Always true for `external_id`. */
  required: boolean;
}

const ATTRIBUTE = /^attributes\.([^\p{C}\s.]+)$/u;

export function isAccountTarget(target: string): boolean {
  return ACCOUNT_TARGETS.some((known) => known === target) || isAttributeName(ATTRIBUTE.exec(target)?.[1]);
}

function isAttributeName(name: string | undefined): boolean {
  return name !== undefined && name !== "__proto__";
}

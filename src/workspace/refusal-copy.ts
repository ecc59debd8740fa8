/** Explanations of refused calls for admins, in addition to the table of refusals. */
import type { KeyLimit } from "../control/new-keys.ts";
import type { RefusalCode, UnauthorizedCause } from "../domain/keys/refusal.ts";
import {
  TEMPLATE_KEPT_DAYS,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_MAX_MEMBERS,
} from "../limits.ts";

/** Real cause of a 401, whose answer is the same for all causes. */
export const CAUSE_COPY = {
  key_malformed: "What stands in the URL is no API key.",
  key_unknown: "There is no such key.",
  key_expired: "The key has expired.",
  key_deactivated: "The key is deactivated.",
  secret_missing: "The key wants a secret, and the call had no X-Api-Secret header.",
  secret_wrong: "The secret in the X-Api-Secret header is not the key's.",
} as const satisfies Record<UnauthorizedCause, string>;

/** Title of a refusal because of a limit; the Usage page offers the remedies. */
export function isOverLimit(code: RefusalCode): boolean {
  return code === "allowance_exceeded" || code === "extra_room_exceeded" || code === "unavailable";
}

export const KEY_LIMIT_COPY = {
  too_many_keys: `This workspace has ${WORKSPACE_MAX_ACTIVE_KEYS} active API keys, the most it may have. Deactivate one that is no longer used.`,
  too_many_keys_a_day: `This workspace has created ${WORKSPACE_MAX_KEYS_A_DAY} API keys in the last 24 hours, the most it may create. Try again later.`,
  templates_too_large: `With this key, the payload templates of this workspace would have more than 1 MiB, the most they may have together. Create a key with a shorter template. The template of a key that has ended is deleted after ${TEMPLATE_KEPT_DAYS} days.`,
} as const satisfies Record<KeyLimit, string>;

export const TOO_MANY_MEMBERS = `This workspace has ${WORKSPACE_MAX_MEMBERS} members, the most it may have. Remove one who no longer needs access.`;

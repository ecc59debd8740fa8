/** Refused calls in an admin's words, besides what stands in the table of refusals. */
import type { RefusalCode, UnauthorizedCause } from "../domain/keys/refusal.ts";

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

/** Messages of the pages and of the operator API for the limits of a workspace. Each names the limit and the next step. */
import type { KeyLimit } from "../control/new-keys.ts";
import {
  TEMPLATE_KEPT_DAYS,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_MAX_MEMBERS,
} from "../limits.ts";

export const KEY_LIMIT_COPY = {
  too_many_keys: `This workspace has ${WORKSPACE_MAX_ACTIVE_KEYS} active API keys, the most it may have. Deactivate one that is no longer used.`,
  too_many_keys_a_day: `This workspace has created ${WORKSPACE_MAX_KEYS_A_DAY} API keys in the last 24 hours, the most it may create. Try again later.`,
  templates_too_large: `With this key, the payload templates of this workspace would have more than 1 MiB, the most they may have together. Create a key with a shorter template. The template of a key that has ended is deleted after ${TEMPLATE_KEPT_DAYS} days.`,
} as const satisfies Record<KeyLimit, string>;

export const TOO_MANY_MEMBERS = `This workspace has ${WORKSPACE_MAX_MEMBERS} members, the most it may have. Remove one who no longer needs access.`;

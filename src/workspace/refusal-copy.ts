/** Texts of the pages and the operator API for changes that a limit of the workspace refuses. */
import {
  TEMPLATE_KEPT_DAYS,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_MAX_MEMBERS,
  WORKSPACE_MAX_RULES,
  WORKSPACE_RULES_MAX_SIZE,
} from "../limits.ts";

export const LIMIT_COPY = {
  too_many_keys: `This workspace has ${WORKSPACE_MAX_ACTIVE_KEYS} active API keys, the most it may have. Deactivate one that is no longer used.`,
  too_many_keys_a_day: `This workspace has created ${WORKSPACE_MAX_KEYS_A_DAY} API keys in the last 24 hours, the most it may create. Try again later.`,
  templates_too_large: `With this key, the payload templates of this workspace would have more than 1 MiB, the most they may have together. Create a key with a shorter template. The template of a key that has ended is deleted after ${TEMPLATE_KEPT_DAYS} days.`,
  too_many_members: `This workspace has ${WORKSPACE_MAX_MEMBERS} members, the most it may have. Remove one who no longer needs access.`,
  too_many_rules: `A workspace has at most ${WORKSPACE_MAX_RULES} mapping rules: delete one first.`,
  rules_too_large: `All mapping rules of a workspace together have at most ${WORKSPACE_RULES_MAX_SIZE} paths and values, of which a long one counts as several: shorten some lists first.`,
} as const;

/** Texts of the pages and the operator API for changes that a limit of the workspace rejects. */
import {
  EXCLUSIONS_MAX_SIZE,
  TEMPLATE_KEPT_DAYS,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_ACTIVE_TOKENS,
  WORKSPACE_MAX_EXCLUSIONS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_MAX_MEMBERS,
  WORKSPACE_MAX_RULES,
  WORKSPACE_MAX_TOKENS_A_DAY,
  WORKSPACE_RULES_MAX_SIZE,
  WORKSPACE_TEMPLATES_MAX_BYTES,
} from "../limits.ts";

export const LIMIT_COPY = {
  too_many_keys: `This workspace has reached its limit of ${WORKSPACE_MAX_ACTIVE_KEYS} active API keys. Deactivate a key that is no longer used.`,
  too_many_keys_a_day: `This workspace has reached its limit of ${WORKSPACE_MAX_KEYS_A_DAY} new API keys in 24 hours. Try again later.`,
  too_many_tokens: `This workspace has reached its limit of ${WORKSPACE_MAX_ACTIVE_TOKENS} active API tokens. Revoke a token that is no longer used.`,
  too_many_tokens_a_day: `This workspace has reached its limit of ${WORKSPACE_MAX_TOKENS_A_DAY} new API tokens in 24 hours. Try again later.`,
  templates_too_large: `All payload templates of a workspace together have at most ${WORKSPACE_TEMPLATES_MAX_BYTES / 1_048_576} MiB, with their earlier versions. Send a shorter template. The template of an inactive key is deleted after ${TEMPLATE_KEPT_DAYS} days.`,
  too_many_members: `This workspace has ${WORKSPACE_MAX_MEMBERS} members, the most it may have. Remove one who no longer needs access.`,
  too_many_rules: `A workspace has at most ${WORKSPACE_MAX_RULES} mapping rules: delete one first.`,
  too_many_exclusions: `A workspace has at most ${WORKSPACE_MAX_EXCLUSIONS} exclusions: remove one first.`,
  exclusions_too_large: `All exclusions of a workspace together have at most ${EXCLUSIONS_MAX_SIZE} paths and values, of which a long one counts as several: shorten some lists first.`,
  exclusion_name_taken: "Two exclusions would have the same name: rename one of them.",
  rules_too_large: `All mapping rules of a workspace together have at most ${WORKSPACE_RULES_MAX_SIZE} paths and values, of which a long one counts as several: shorten some lists first.`,
} as const;

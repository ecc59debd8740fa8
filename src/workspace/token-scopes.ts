/** The meaning of each scope of an API token, for the pages and the OpenAPI document. */
import type { TokenScope } from "../domain/keys/api-token.ts";

export const SCOPE_MEANING = {
  read: "Reads what every member sees: signals, people, accounts, rules, members, usage.",
  rules: "Creates, changes, tests, imports, applies and deletes mapping rules.",
  keys: "Lists, creates, rotates and deactivates API keys.",
  export: "Downloads all signals, people and scoring signals.",
  delete: "Deletes people with all their data, for good.",
} as const satisfies Record<TokenScope, string>;

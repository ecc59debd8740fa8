/**
 * API tokens of a workspace: a program's access to the operator API, for this workspace and for the scopes of the token. A
 * token acts in the name of the owner or admin who created it, and ends for good when that person loses the role.
 */
import { isExpired } from "./api-key.ts";

/** The permissions of a token, in the order of the pages. `read` is what every member sees. */
export const TOKEN_SCOPES = ["read", "rules", "keys", "export", "delete"] as const;
export type TokenScope = (typeof TOKEN_SCOPES)[number];

/** Why a token was revoked: on request, or because its creator is no owner or admin any more. */
export type RevocationReason = "requested" | "role_lost";

type TokenStatus = "Active" | "Expired" | "Revoked";

/** Times are ISO 8601 UTC. */
export function tokenStatus(
  { expiresAt, revokedAt }: { expiresAt: string | null; revokedAt: string | null },
  nowMs: number,
): TokenStatus {
  if (revokedAt !== null) return "Revoked";
  return isExpired(expiresAt === null ? null : Date.parse(expiresAt), nowMs) ? "Expired" : "Active";
}

/** The actor of a token's changes in the audit log. Neither the id nor the name of a token ever changes. */
export function tokenActor({ id, name }: { id: string; name: string }): string {
  return `token ${id} (${name})`;
}

/** Null: the actor is not a token. */
export function readTokenActor(actor: string): { id: string; name: string } | null {
  const [, id, name] = /^token (tok_\S+) \((.*)\)$/.exec(actor) ?? [];
  return id === undefined || name === undefined ? null : { id, name };
}

/** For the pages and the OpenAPI document. */
export const SCOPE_MEANING = {
  read: "Reads what every member sees: signals, people, accounts, rules, members, usage. Not the names of keys.",
  rules: "Creates, changes, tests, imports, applies and deletes mapping rules and exclusions.",
  keys: "Lists, creates, changes, rotates and deactivates API keys. Reads the usage by key.",
  export: "Downloads all signals, people and scoring signals.",
  delete: "Deletes people with all their data, for good.",
} as const satisfies Record<TokenScope, string>;

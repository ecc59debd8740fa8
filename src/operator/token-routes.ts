/**
 * API tokens of a workspace. The operations have no scope, because a program with a token could give itself more rights.
 */
import * as z from "zod";
import { createToken, listTokens, revokeToken, TOKEN_LIMITS, type ApiToken } from "../d1/api-tokens.ts";
import { TOKEN_SCOPES, tokenStatus, SCOPE_MEANING } from "../domain/keys/api-token.ts";
import { ok, reject } from "../domain/result.ts";
import { futureTime, name } from "../http/fields.ts";
import { listQueryOf, idOf, isoInstant, listOf, listQuery, contextOf, operationsOf } from "./operation.ts";

const operation = operationsOf("API tokens", "token");

const scopes = z
  .array(z.enum(TOKEN_SCOPES))
  .min(1)
  .refine((list) => new Set(list).size === list.length, "a scope is listed twice")
  .describe(TOKEN_SCOPES.map((scope) => `\`${scope}\`: ${SCOPE_MEANING[scope]}`).join(" "));

const newToken = z.strictObject({
  name,
  scopes,
  expires_at: futureTime.nullish().describe("Default: the token never expires."),
});

const apiToken = z
  .object({
    id: idOf("tok", "Identifies the token. This is not the token itself."),
    name: z.string(),
    masked_token: z.string().meta({ example: "wt_4fG7a…x9Qz" }),
    scopes: z.array(z.enum(TOKEN_SCOPES)),
    created_at: isoInstant,
    created_by: z.string().describe("A member's email, or `operator`. The token ends when this member loses the role."),
    expires_at: isoInstant.nullable().describe("Null: never."),
    status: z.enum(["Active", "Expired", "Revoked"]),
    revoked_at: isoInstant.nullable(),
    revoked_reason: z
      .enum(["requested", "role_lost"])
      .nullable()
      .describe("`role_lost`: its creator is no owner or admin any more."),
    last_used_at: isoInstant.nullable().describe("The last authenticated call, exact to a minute."),
  })
  .meta({ id: "ApiToken" });
const createdToken = z
  .object({ ...apiToken.shape, token: z.string().describe("The full token. No other answer contains it.") })
  .meta({ id: "CreatedApiToken" });

export const tokenRoutes = [
  operation("POST", "/workspaces/:workspace_id/tokens", {
    summary: "Create an API token",
    description:
      "A program calls the operations of this workspace with the token, as far as its scopes allow. The answer contains the " +
      "full token. It cannot be retrieved later. A token that an owner or admin created on the pages ends when that person " +
      "loses the role.",
    body: newToken,
    bodyExample: { name: "Nightly export", scopes: ["read", "export"] },
    answers: { 201: "The new token." },
    schema: createdToken,
    conflicts: TOKEN_LIMITS,
    async handle(c, { body: { expiresAt = null, ...fields } }) {
      const created = await createToken(contextOf(c), { ...fields, expiresAt });
      if (created.ok) return ok({ ...withStatus(created.value.record), token: created.value.value });
      const { reason } = created.rejection;
      if (reason === "made_before" || reason === "not_manager") {
        throw new Error("The operator needs no role, and sends no form.");
      }
      return reject(reason);
    },
  }),
  operation("GET", "/workspaces/:workspace_id/tokens", {
    summary: "List the API tokens",
    query: listQuery,
    answers: { 200: "Active, expired and revoked tokens, newest first." },
    schema: listOf(apiToken),
    async handle(c, { query }) {
      const { items, next } = await listTokens(c.var.db, c.var.workspace.id, listQueryOf(query));
      return { items: items.map(withStatus), next };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/tokens/:token_id/revoke", {
    summary: "Revoke an API token",
    description:
      "After this answer, every new call with the token gets 401, everywhere. A revocation cannot be undone. A repeated call " +
      "returns the same record.",
    answers: { 200: "The revoked token." },
    schema: apiToken,
    async handle(c) {
      const revoked = await revokeToken(contextOf(c), c.req.param("token_id"));
      return revoked && withStatus(revoked);
    },
  }),
];

function withStatus(token: ApiToken) {
  return { ...token, status: tokenStatus(token, Date.now()) };
}

/** API keys (spec §2.1, §3.1). Only the answer to a creation or rotation contains the full key and the secret. */
import type { Context } from "hono";
import * as z from "zod";
import { listKeys, watchForSilence, type ApiKey } from "../control/api-keys.ts";
import { KEY_LIMITS, createKey, type CreatedKey } from "../control/new-keys.ts";
import { keyStatus } from "../domain/keys/api-key.ts";
import { ok, refuse, type Result } from "../domain/result.ts";
import { ENDPOINT_TYPES } from "../domain/signal/signal.ts";
import { futureTime, name } from "../http/fields.ts";
import {
  deactivateApiKey,
  OVERLAPS,
  payloadMapping,
  payloadTemplate,
  rotateApiKey,
  silentAfterDays,
} from "../workspace/manage-keys.ts";
import { quotaCounter } from "../workspace/objects.ts";
import {
  askedPage,
  idOf,
  instant,
  isoInstant,
  listOf,
  pageQuery,
  contextOf,
  operationsOf,
  type OperatorEnv,
} from "./operation.ts";

const operation = operationsOf("API keys", "key");

const endpointType = z.enum(ENDPOINT_TYPES);
const expiration = futureTime.nullish();

const newKey = z
  .strictObject({
    name,
    endpoint_type: endpointType.default("signal_staging").describe("The endpoints that the key may be used on."),
    expires_at: expiration.describe("Default: the key never expires."),
    secret: z.boolean().default(false).describe("Generate a shared secret that calls must carry."),
    payload_template: payloadTemplate.nullish().describe("Required for `product_org`, refused for `signal_staging`."),
  })
  .superRefine((key, ctx) => {
    const isGiven = (key.payload_template ?? null) !== null;
    if (isGiven === (key.endpoint_type === "product_org")) return;
    const message = isGiven ? "only for endpoint_type product_org" : "required when endpoint_type is product_org";
    ctx.addIssue({ code: "custom", path: ["payload_template"], message });
  });

const keyRotation = z
  .strictObject({
    overlap: z.enum(OVERLAPS),
    expires_at: expiration.describe(
      "Expiration of the successor. Null: never. Default: the requested expiration of the old key.",
    ),
  })
  .meta({ id: "KeyRotation" });

const apiKey = z
  .object({
    id: idOf("key", "Identifies the key. This is not the key itself."),
    name: z.string(),
    endpoint_type: endpointType,
    masked_key: z.string().meta({ example: "sk_4fG7a…x9Qz" }),
    created_at: isoInstant,
    expires_at: isoInstant
      .nullable()
      .describe("When the key ends: at its expiration, or with its overlap after a rotation. Null: never."),
    status: z.enum(["Active", "Inactive"]).describe("Inactive: deactivated, or expired."),
    last_used_at: instant.nullable().describe("The last authenticated webhook request."),
    deactivated_at: isoInstant.nullable(),
    has_secret: z.boolean(),
    payload_template: z.array(payloadMapping).nullable(),
    silent_after_days: silentAfterDays,
    successor_of: z.string().nullable().describe("Id of the key that this key replaced by rotation."),
  })
  .meta({ id: "ApiKey" });
const createdKey = z
  .object({
    ...apiKey.shape,
    key: z.string().describe("The full key. No other answer contains it."),
    secret: z.string().optional().describe("The shared secret, for `X-Api-Secret`. No other answer contains it."),
  })
  .meta({ id: "CreatedApiKey" });

export const keyRoutes = [
  operation("POST", "/workspaces/:workspace_id/keys", {
    summary: "Create an API key",
    scope: "keys",
    description: "The answer contains the full key and the secret. They cannot be retrieved later.",
    body: newKey,
    bodyExample: { name: "Website", endpoint_type: "signal_staging", secret: true },
    answers: { 201: "The new key." },
    schema: createdKey,
    conflicts: KEY_LIMITS,
    async handle(c, { body: { expiresAt = null, payloadTemplate: template = null, ...key } }) {
      return withValue(await createKey(contextOf(c), { ...key, expiresAt, payloadTemplate: template }));
    },
  }),
  operation("POST", "/workspaces/:workspace_id/keys/:key_id/rotate", {
    summary: "Rotate an API key",
    scope: "keys",
    description:
      "Creates a successor with the same settings, and with a new secret if the old key has one. The old key stays valid " +
      "for the overlap, or ends at once with `none`. `last_used_at` of both keys shows which one is still in use.",
    body: keyRotation,
    bodyExample: { overlap: "24h" },
    answers: { 201: "The successor." },
    schema: createdKey,
    conflicts: ["key_inactive", ...KEY_LIMITS],
    async handle(c, { body }) {
      return withValue(await rotateApiKey(contextOf(c), { keyId: c.req.param("key_id"), ...body, formToken: null }));
    },
  }),
  operation("PATCH", "/workspaces/:workspace_id/keys/:key_id", {
    summary: "Set an inactivity alert",
    scope: "keys",
    description: "After so many days without a call, `key.silent` is raised once, until the key is used again.",
    body: z.strictObject({ silent_after_days: silentAfterDays }),
    bodyExample: { silent_after_days: 3 },
    answers: { 200: "The key." },
    schema: apiKey,
    async handle(c, { body }) {
      return withLastUse(c, await watchForSilence(contextOf(c), c.req.param("key_id"), body.silentAfterDays));
    },
  }),
  operation("GET", "/workspaces/:workspace_id/keys", {
    summary: "List the API keys",
    scope: "keys",
    query: pageQuery,
    answers: { 200: "Active and inactive keys, newest first." },
    schema: listOf(apiKey),
    async handle(c, { query }) {
      const [{ items, next }, lastUsed] = await Promise.all([
        listKeys(c.var.db, c.var.workspace.id, askedPage(query)),
        quotaCounter(c.env, c.var.workspace.id).lastUsed(),
      ]);
      return { items: items.map((key) => withUse(key, lastUsed)), next };
    },
  }),
  operation("POST", "/workspaces/:workspace_id/keys/:key_id/deactivate", {
    summary: "Deactivate an API key",
    scope: "keys",
    description:
      "After this answer, no call with the key is accepted anywhere. A deactivation cannot be undone. A repeated call " +
      "returns the same record.",
    answers: { 200: "The inactive key." },
    schema: apiKey,
    handle: async (c) => withLastUse(c, await deactivateApiKey(contextOf(c), c.req.param("key_id"))),
  }),
];

async function withLastUse(c: Context<OperatorEnv>, key: ApiKey | null) {
  return key && withUse(key, await quotaCounter(c.env, c.var.workspace.id).lastUsed());
}

function withUse(key: ApiKey, lastUsedMs: Record<string, number>) {
  const status = keyStatus(key, Date.now());
  return { ...key, expiresAt: key.endsAt, status, lastUsedAtMs: lastUsedMs[key.id] ?? null };
}

function withValue<Refusal extends { reason: string }>(created: Result<CreatedKey, Refusal>) {
  if (!created.ok) {
    const reason: Refusal["reason"] = created.refusal.reason;
    if (reason === "made_before") throw new Error("A call without a form's token cannot be a repetition.");
    return refuse(reason as Exclude<Refusal["reason"], "made_before">);
  }
  const { record, value, secret } = created.value;
  return ok({ ...withUse(record, {}), key: value, ...(secret !== null && { secret }) });
}

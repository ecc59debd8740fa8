/** API keys (spec §2.1, §3.1). Only the answer to a creation or rotation contains the full key and the secret. */
import type { Context } from "hono";
import * as z from "zod";
import { changeWebhookSettings, findKey, listKeys, watchForSilence, type ApiKey } from "../d1/api-keys.ts";
import { changeTemplate } from "../d1/key-templates.ts";
import { KEY_LIMITS, type CreatedKey } from "../d1/new-keys.ts";
import { keyStatus, problemOfIdempotencyKey } from "../domain/keys/api-key.ts";
import { ok, reject, type Result } from "../domain/result.ts";
import { MISFIT_HANDLINGS, SUCCESS_STATUSES } from "../domain/template/key-template.ts";
import { ENDPOINT_TYPES } from "../domain/signal/signal.ts";
import type { BrowserUse } from "../quota/protocol.ts";
import { futureTime, name } from "../http/fields.ts";
import { TEMPLATE_MAX_MAPPINGS } from "../limits.ts";
import {
  createKeyOnce,
  deactivateApiKey,
  OVERLAPS,
  payloadMapping,
  payloadTemplate,
  limitApiKey,
  rotateKeyOnce,
  signalLimit,
  silentAfterDays,
} from "../use-cases/manage-keys.ts";
import { signalMapping, signalTemplate } from "../use-cases/signal-template-schema.ts";
import { quotaCounter } from "../use-cases/objects.ts";
import {
  fieldErrors,
  listQueryOf,
  idOf,
  instant,
  isoInstant,
  listOf,
  listQuery,
  contextOf,
  operationsOf,
  type OperatorEnv,
} from "./operation.ts";

const operation = operationsOf("API keys", "key");

export const misfits = z
  .enum(MISFIT_HANDLINGS)
  .describe(
    "Of a signal that the payload template does not fit: `reject` answers 422; `keep` accepts and counts it, and makes it a dead letter " +
      "that a corrected template can map. Without a template every misfit is rejected.",
  );
export const answer = z
  .literal(SUCCESS_STATUSES)
  .describe("Status for success at `/webhook/{source}/{key}`: some vendors send again after any other than 200.");

const endpointType = z.enum(ENDPOINT_TYPES);
const expiration = futureTime.nullish();

const ofEveryKey = {
  name,
  expires_at: expiration.describe("Default: the key never expires."),
  secret: z.boolean().default(false).describe("Generate a shared secret that calls must carry."),
  signal_limit: signalLimit.default(null),
};

const newKey = z.discriminatedUnion("endpoint_type", [
  z.strictObject({
    ...ofEveryKey,
    endpoint_type: z.literal("signal_staging").optional().describe("The default: the key is for signals."),
    payload_template: signalTemplate
      .nullish()
      .describe("For a sender that cannot change its body: where the fields of a signal stand in it."),
    misfits: misfits.default("reject"),
    answer: answer.default(202),
  }),
  z.strictObject({
    ...ofEveryKey,
    endpoint_type: z.literal("product_org").describe("The key is for account updates."),
    payload_template: payloadTemplate.describe("Where the fields of an account stand."),
  }),
]);

/** At least one field, so that a call without one says so. */
const keySettings = z
  .strictObject({
    silent_after_days: silentAfterDays.optional(),
    misfits: misfits.optional(),
    answer: answer.optional(),
    signal_limit: signalLimit.optional(),
  })
  .refine(
    (settings) => Object.keys(settings).length > 0,
    "at least one of silent_after_days, misfits, answer and signal_limit",
  )
  .meta({ id: "KeySettings" });

/** The type of the key decides which mappings it takes. */
const templateChange = z.strictObject({
  payload_template: z
    .array(z.unknown())
    .max(TEMPLATE_MAX_MAPPINGS)
    .describe("Mappings, as at the creation of the key."),
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
    payload_template: z
      .union([z.array(signalMapping), z.array(payloadMapping)])
      .nullable()
      .describe("Its newest version. Of a `product_org` key: mappings to the fields of an account."),
    silent_after_days: silentAfterDays,
    misfits,
    answer,
    signal_limit: signalLimit,
    public_origin: z
      .string()
      .nullable()
      .describe(
        "The origin of the first call from a browser. Whoever opens that page can read the key: rotate it. `null` as a text: the " +
          "page has no name. Null: no browser has used the key.",
      ),
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

const REPEATABLE =
  "A repeated call with the same value within ten minutes ends the key that the first call made, and answers a new one, because " +
  "no value is shown twice. The new key has the settings of the first call.";

export const keyRoutes = [
  operation("POST", "/workspaces/:workspace_id/keys", {
    summary: "Create an API key",
    scope: "keys",
    description: "The answer contains the full key and the secret. They cannot be retrieved later.",
    body: newKey,
    bodyExample: { name: "Website", endpoint_type: "signal_staging", secret: true },
    answers: { 201: "The new key." },
    schema: createdKey,
    idempotencyKey: REPEATABLE,
    conflicts: ["key_inactive", "idempotency_key_used", ...KEY_LIMITS],
    async handle(
      c,
      { body: { expiresAt = null, payloadTemplate: template = null, endpointType: type = "signal_staging", ...key } },
    ) {
      const repeated = idempotencyKeyOf(c);
      if (!repeated.ok) return repeated;
      const wanted = { ...key, endpointType: type, expiresAt, payloadTemplate: template };
      return withValue(await createKeyOnce(contextOf(c), wanted, repeated.value));
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
    idempotencyKey: REPEATABLE,
    conflicts: ["key_inactive", "idempotency_key_used", ...KEY_LIMITS],
    async handle(c, { body }) {
      const repeated = idempotencyKeyOf(c);
      if (!repeated.ok) return repeated;
      const rotation = { keyId: c.req.param("key_id"), ...body };
      return withValue(await rotateKeyOnce(contextOf(c), rotation, repeated.value));
    },
  }),
  operation("PATCH", "/workspaces/:workspace_id/keys/:key_id", {
    summary: "Change the settings of an API key",
    scope: "keys",
    description:
      "Fields that are left out stay. `silent_after_days`: after so many days without a call, `key.silent` is raised once, until the " +
      "key is used again. Calls follow `misfits` and `answer` within a minute. A signal limit holds with the " +
      "next call, and counts signals from when the key got one; a change keeps the count. A key shares it with the keys that it " +
      "replaced or that replace it. `key.usage_level` is raised at 80 and 100%.",
    body: keySettings,
    bodyExample: { silent_after_days: 3 },
    answers: { 200: "The key." },
    schema: apiKey,
    async handle(c, { body }) {
      const [context, keyId] = [contextOf(c), c.req.param("key_id")];
      const { silentAfterDays: days, signalLimit: limit } = body;
      if (days !== undefined) await watchForSilence(context, keyId, days);
      if (limit !== undefined) await limitApiKey(context, keyId, limit);
      return withLastUse(c, await changeWebhookSettings(context, keyId, body));
    },
  }),
  operation("PUT", "/workspaces/:workspace_id/keys/:key_id/template", {
    summary: "Change a payload template",
    scope: "keys",
    description:
      "Adds a version, which calls use within a minute, and replays at once. Signals that were admitted before keep what the " +
      "earlier version made of them. A key shares its template with the keys that it replaced or that replace it.",
    body: templateChange,
    bodyExample: { payload_template: [{ target: "event", path: "trigger" }] },
    answers: { 200: "The key." },
    schema: apiKey,
    conflicts: ["templates_too_large"],
    async handle(c, { body }) {
      const keyId = c.req.param("key_id");
      const key = await findKey(c.var.db, c.var.workspace.id, keyId);
      if (key === null) return null;
      const schema = key.endpointType === "product_org" ? payloadTemplate : signalTemplate;
      const parsed = z.object({ payload_template: schema }).safeParse({ payload_template: body.payloadTemplate });
      if (!parsed.success) return reject([...fieldErrors(parsed.error)]);
      const changed = await changeTemplate(contextOf(c), keyId, parsed.data.payload_template);
      if (changed === null || !changed.ok) return changed;
      return withLastUse(c, changed.value);
    },
  }),
  operation("DELETE", "/workspaces/:workspace_id/keys/:key_id/template", {
    summary: "Remove a payload template",
    scope: "keys",
    description:
      "From within a minute, signals of the key, and of the keys that share its template, are read as they are sent. Those that were " +
      "admitted before keep what the template made of them, and a replay uses its last version. A key for account updates needs one.",
    answers: { 200: "The key." },
    schema: apiKey,
    conflicts: ["template_required", "templates_too_large"],
    async handle(c) {
      const keyId = c.req.param("key_id");
      const key = await findKey(c.var.db, c.var.workspace.id, keyId);
      if (key === null) return null;
      if (key.endpointType === "product_org") return reject("template_required");
      const changed = await changeTemplate(contextOf(c), keyId, null);
      if (changed === null || !changed.ok) return changed;
      return withLastUse(c, changed.value);
    },
  }),
  operation("GET", "/workspaces/:workspace_id/keys", {
    summary: "List the API keys",
    scope: "keys",
    query: listQuery,
    answers: { 200: "Active and inactive keys, newest first." },
    schema: listOf(apiKey),
    async handle(c, { query }) {
      const [{ items, next }, uses] = await Promise.all([
        listKeys(c.var.db, c.var.workspace.id, listQueryOf(query)),
        usesOf(c),
      ]);
      return { items: items.map((key) => withUse(key, uses)), next };
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

/** Null: the call has none. */
function idempotencyKeyOf(c: Context<OperatorEnv>): Result<string | null, { path: string; message: string }[]> {
  const value = c.req.header("idempotency-key") ?? null;
  const message = value === null ? null : problemOfIdempotencyKey(value);
  return message === null ? ok(value) : reject([{ path: "Idempotency-Key", message }]);
}

async function withLastUse(c: Context<OperatorEnv>, key: ApiKey | null) {
  return key && withUse(key, await usesOf(c));
}

interface Uses {
  lastUsed: Record<string, number>;
  publicKeys: Record<string, BrowserUse>;
}

async function usesOf(c: Context<OperatorEnv>): Promise<Uses> {
  const counter = quotaCounter(c.env, c.var.workspace.id);
  const [lastUsed, publicKeys] = await Promise.all([counter.lastUsed(), counter.publicKeys()]);
  return { lastUsed, publicKeys };
}

function withUse(key: ApiKey, { lastUsed, publicKeys }: Uses) {
  const status = keyStatus(key, Date.now());
  const publicOrigin = publicKeys[key.id]?.origin ?? null;
  return { ...key, expiresAt: key.endsAt, status, lastUsedAtMs: lastUsed[key.id] ?? null, publicOrigin };
}

function withValue<Rejection>(created: Result<CreatedKey, Rejection>) {
  if (!created.ok) return created;
  const { record, value, secret } = created.value;
  return ok({ ...withUse(record, { lastUsed: {}, publicKeys: {} }), key: value, ...(secret !== null && { secret }) });
}

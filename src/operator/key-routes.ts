/** API keys (spec §2.1, §3.1). Only the answer to the creation contains the full key and the secret. */
import * as z from "zod";
import { KEY_LIMITS, createKey, type CreatedKey } from "../control/new-keys.ts";
import { watchForSilence, listKeys, type ApiKey } from "../control/api-keys.ts";
import { keyStatus } from "../domain/keys/api-key.ts";
import { ENDPOINT_TYPES } from "../domain/signal/signal.ts";
import { byOperator, operator } from "./environment.ts";
import { conflict, notFound, operation } from "./operation.ts";
import { idOf, instant, isoOrNull, listOf, pageAsked, pageQuery } from "./schema-parts.ts";
import { silentAfterDays, keyRotation, newKey, payloadMapping } from "../workspace/input-schemas.ts";
import { endKey, replaceKey } from "../workspace/end-key.ts";
import { KEY_LIMIT_COPY } from "../workspace/refusal-copy.ts";
import { quotaCounter } from "../workspace/objects.ts";

const keyChange = z.strictObject({ silent_after_days: silentAfterDays });
const keyFields = {
  id: idOf("key", "Of the key; not the key."),
  name: z.string(),
  endpoint_type: z.enum(ENDPOINT_TYPES),
  masked_key: z.string().meta({ example: "sk_4fG7a…x9Qz" }),
  created_at: instant,
  expires_at: instant.nullable().meta({
    description: "When it ends by itself: at its expiration, or with its overlap once it was rotated. Null: never.",
  }),
  status: z.enum(["Active", "Inactive"]).meta({ description: "Inactive: deactivated, or expired." }),
  last_used_at: instant.nullable().meta({ description: "The last authenticated webhook request." }),
  deactivated_at: instant.nullable(),
  has_secret: z.boolean(),
  payload_template: z.array(payloadMapping).nullable(),
  silent_after_days: silentAfterDays,
  successor_of: z.string().nullable().meta({ description: "Id of the key that this one was made from by rotation." }),
};
const keyAnswer = z.object(keyFields).meta({ id: "ApiKey" });
const createdKeyAnswer = z
  .object({
    ...keyFields,
    key: z.string().meta({ description: "The full key. Shown this once." }),
    secret: z.string().optional().meta({ description: "The shared secret, for `X-Api-Secret`. Shown this once." }),
  })
  .meta({ id: "CreatedApiKey" });

export const keyRoutes = operator
  .createApp()
  .post(
    "/workspaces/:workspace_id/keys",
    operation({
      tag: "API keys",
      summary: "Create an API key",
      description: "The answer holds the full key and the secret. Neither can be had again.",
      body: newKey,
      bodyExample: { name: "Website", endpoint_type: "signal_staging", secret: true },
      answers: { 201: { description: "The new key.", schema: createdKeyAnswer } },
      conflicts: [...KEY_LIMITS],
    }),
    async (c) => {
      const { endpoint_type, expires_at, payload_template, ...fields } = c.req.valid("json");
      const created = await createKey(
        c.get("db"),
        c.get("workspace").id,
        {
          ...fields,
          endpointType: endpoint_type,
          expiresAt: expires_at ?? null,
          payloadTemplate: payload_template ?? null,
        },
        byOperator(),
      );
      if (!created.ok) return conflict(c, created.refusal.reason, KEY_LIMIT_COPY[created.refusal.reason]);
      return c.json(createdKeyJson(created.value), 201);
    },
  )
  .post(
    "/workspaces/:workspace_id/keys/:key_id/rotate",
    operation({
      tag: "API keys",
      summary: "Rotate an API key",
      description:
        "Makes a successor with the same settings and a new secret, if there was one; `expires_at` gives it another expiration, or none. The old key goes on for the overlap, or ends at once with `none`. `last_used_at` of both tells which is still in use.",
      body: keyRotation,
      bodyExample: { overlap: "24h" },
      answers: { 201: { description: "The successor.", schema: createdKeyAnswer } },
      conflicts: ["key_inactive", ...KEY_LIMITS],
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const keyId = c.req.param("key_id");
      const { overlap, expires_at: expiresAt } = c.req.valid("json");
      const rotation = { keyId, overlap, expiresAt, formToken: null };
      const rotated = await replaceKey(c.env, c.get("db"), id, rotation, byOperator());
      if (rotated.ok) return c.json(createdKeyJson(rotated.value), 201);
      const { reason } = rotated.refusal;
      switch (reason) {
        case "not_found":
          return notFound(c, "key");
        case "inactive":
          return conflict(c, "key_inactive", "The key has ended. Create a new one instead.");
        case "made_before":
          throw new Error("A rotation without a form's token was made before.");
        default:
          return conflict(c, reason, KEY_LIMIT_COPY[reason]);
      }
    },
  )
  .patch(
    "/workspaces/:workspace_id/keys/:key_id",
    operation({
      tag: "API keys",
      summary: "Have a key's silence told",
      description: "After so many days without a call `key.silent` is raised, once until the key is used again.",
      body: keyChange,
      bodyExample: { silent_after_days: 3 },
      answers: { 200: { description: "The key.", schema: keyAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const { silent_after_days: days } = c.req.valid("json");
      const key = await watchForSilence(c.get("db"), id, c.req.param("key_id"), days, byOperator());
      return key === null ? notFound(c, "key") : c.json(keyJson(key, await quotaCounter(c.env, id).lastUsed()));
    },
  )
  .get(
    "/workspaces/:workspace_id/keys",
    operation({
      tag: "API keys",
      summary: "List the API keys",
      query: pageQuery,
      answers: { 200: { description: "Active and inactive keys, newest first.", schema: listOf(keyAnswer) } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const [page, lastUsed] = await Promise.all([
        listKeys(c.get("db"), id, pageAsked(c.req.valid("query"))),
        quotaCounter(c.env, id).lastUsed(),
      ]);
      return c.json({ items: page.items.map((key) => keyJson(key, lastUsed)), next: page.next });
    },
  )
  .post(
    "/workspaces/:workspace_id/keys/:key_id/deactivate",
    operation({
      tag: "API keys",
      summary: "Deactivate an API key",
      description:
        "Once this has answered, no call with the key is accepted anywhere. It cannot be undone. Repeating it gives the same record.",
      answers: { 200: { description: "The inactive key.", schema: keyAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const key = await endKey(c.env, c.get("db"), id, c.req.param("key_id"), byOperator());
      return key === null ? notFound(c, "key") : c.json(keyJson(key, await quotaCounter(c.env, id).lastUsed()));
    },
  );

function createdKeyJson({ record, value, secret }: CreatedKey): z.infer<typeof createdKeyAnswer> {
  return { ...keyJson(record, {}), key: value, ...(secret === null ? {} : { secret }) };
}

function keyJson(key: ApiKey, lastUsed: Record<string, number>): z.infer<typeof keyAnswer> {
  return {
    id: key.id,
    name: key.name,
    endpoint_type: key.endpointType,
    masked_key: key.maskedKey,
    created_at: key.createdAt,
    expires_at: key.endsAt,
    status: keyStatus(key, Date.now()),
    last_used_at: isoOrNull(lastUsed[key.id] ?? null),
    deactivated_at: key.deactivatedAt,
    has_secret: key.hasSecret,
    payload_template: key.payloadTemplate,
    silent_after_days: key.silentAfterDays,
    successor_of: key.successorOf,
  };
}

/**
 * API keys: fields of the forms and the operator API; changes that concern D1 and the Quota Counter (spec §3.1, design
 * §5).
 */
import * as z from "zod";
import { deactivateKey, findKey, overlapEnd, type ApiKey } from "../d1/api-keys.ts";
import { setSignalLimit } from "../d1/key-budgets.ts";
import { createKey, rotateKey, type CreatedKey, type KeyLimit, type NewKey, type Rotation } from "../d1/new-keys.ts";
import { ACCOUNT_TARGETS, isAccountTarget, PAYLOAD_TYPES } from "../domain/accounts/payload-template.ts";
import { DAY_MS } from "../domain/duration.ts";
import { parseDotPath } from "../domain/json/dot-path.ts";
import { reject, type Result } from "../domain/result.ts";
import { noCredential, boundedText } from "../http/fields.ts";
import {
  KEY_MAX_SIGNAL_LIMIT,
  KEY_SILENT_MAX_DAYS,
  TEMPLATE_MAX_BYTES,
  TEMPLATE_MAX_MAPPINGS,
  TEMPLATE_PATH_MAX_LENGTH,
} from "../limits.ts";
import { configureWorkspace } from "./configure-workspace.ts";
import { quotaCounter, type WorkspaceContext } from "./objects.ts";

export const payloadMapping = z
  .strictObject({
    target: boundedText(TEMPLATE_PATH_MAX_LENGTH)
      .refine(...noCredential)
      .refine(isAccountTarget, `one of ${ACCOUNT_TARGETS.join(", ")}, or attributes.<name>`)
      .meta({
        description: "`external_id`, another field of an account, or `attributes.<name>`.",
        example: "external_id",
      }),
    path: boundedText(TEMPLATE_PATH_MAX_LENGTH)
      .refine(...noCredential)
      .refine((path) => parseDotPath(path) !== undefined, "not a dot path such as company.id")
      .meta({ description: "Dot path into the payload.", example: "company.id" }),
    type: z.enum(PAYLOAD_TYPES),
    required: z.boolean().default(false),
  })
  .meta({ id: "PayloadMapping", outputId: "StoredPayloadMapping" });

export const payloadTemplate = z
  .array(payloadMapping)
  .max(TEMPLATE_MAX_MAPPINGS)
  .superRefine((template, ctx) => {
    const seen = new Set<string>();
    for (const [index, { target, type }] of template.entries()) {
      if (seen.has(target))
        ctx.addIssue({ code: "custom", path: [index, "target"], message: `${target} is mapped twice` });
      seen.add(target);
      if (target === "external_id" && type === "boolean")
        ctx.addIssue({ code: "custom", path: [index, "type"], message: "external_id cannot be true or false" });
    }
    if (!seen.has("external_id")) ctx.addIssue({ code: "custom", message: "a mapping of external_id is missing" });
    if (Buffer.byteLength(JSON.stringify(template)) > TEMPLATE_MAX_BYTES)
      ctx.addIssue({ code: "custom", message: `all mappings together have more than ${TEMPLATE_MAX_BYTES} bytes` });
  })
  // Accounts are found by their external id, so the template must always contain it.
  .transform((template) =>
    template.map((mapping) => ({ ...mapping, required: mapping.required || mapping.target === "external_id" })),
  );

export const silentAfterDays = z
  .int()
  .min(1)
  .max(KEY_SILENT_MAX_DAYS)
  .nullable()
  .meta({ description: "After so many days without a call `key.silent` is raised; null: never.", example: 3 });

export const signalLimit = z
  .int()
  .min(1)
  .max(KEY_MAX_SIGNAL_LIMIT)
  .nullable()
  .meta({
    description:
      "Signals of a billing period that the key and the keys that it replaced may send; beyond it they are rejected with 429 " +
      "`key_limit_exceeded`. Null: no limit but the plan's.",
    example: 10_000,
  });

/** Overlap of old and new key after a rotation. All except `none` exceed the time for which the edge caches keys. */
export const OVERLAP_MS = { none: 0, "1h": 3_600_000, "24h": DAY_MS, "7d": 7 * DAY_MS } as const;

export type Overlap = keyof typeof OVERLAP_MS;
export const OVERLAPS = Object.keys(OVERLAP_MS) as Overlap[];

export function isOverlap(text: unknown): text is Overlap {
  return typeof text === "string" && Object.hasOwn(OVERLAP_MS, text);
}

/**
 * Deactivates a key. When it returns, no further call with the key is accepted. Idempotent: a repeated call completes an
 * interrupted deactivation. Null: unknown key in this workspace.
 */
export async function deactivateApiKey(context: WorkspaceContext, keyId: string): Promise<ApiKey | null> {
  const { env, db, workspaceId } = context;
  if ((await findKey(db, workspaceId, keyId)) === null) return null;
  // The Quota Counter comes first: it rejects the next call even if the write to D1 fails.
  await quotaCounter(env, workspaceId).deactivate(keyId);
  return deactivateKey(context, keyId);
}

/**
 * Sets or removes the budget of a key. It holds with the next call, and counts from now on: signals that the key has sent without a budget
 * do not count. Null: unknown key in this workspace.
 */
export async function limitApiKey(
  context: WorkspaceContext,
  keyId: string,
  limit: number | null,
): Promise<ApiKey | null> {
  const changed = await setSignalLimit(context, keyId, limit);
  if (changed !== null) await configureWorkspace(context.env, context.db, context.workspaceId);
  return changed;
}

/** Creates a key. Its budget holds before its value is known, also if the call is repeated after an interruption. */
export async function createApiKey(
  context: WorkspaceContext,
  key: NewKey,
  formToken: string | null,
): ReturnType<typeof createKey> {
  const created = await createKey(context, key, formToken);
  const hasLimit = (key.signalLimit ?? null) !== null;
  const isMade = created.ok || created.rejection.reason === "made_before";
  if (isMade && hasLimit) await configureWorkspace(context.env, context.db, context.workspaceId);
  return created;
}

/**
 * Creates a successor; the old key ends after the overlap, or at once with `none`. A repeated form creates no second
 * key and completes an interrupted rotation. The Quota Counter knows the end of the overlap first, so that the old key
 * ends then even if D1 is away.
 */
export async function rotateApiKey(
  context: WorkspaceContext,
  { overlap, ...rotation }: Omit<Rotation, "overlapMs"> & { overlap: Overlap },
): ReturnType<typeof rotateKey> {
  const { keyId } = rotation;
  const [overlapMs, counter] = [OVERLAP_MS[overlap], quotaCounter(context.env, context.workspaceId)];
  const endMs = context.by.nowMs + overlapMs;
  const beforeMs = overlapMs > 0 ? await counter.endKey(keyId, endMs) : null;
  const rotated = await rotateKey(context, { ...rotation, overlapMs });
  if (overlapMs > 0) {
    if (!rotated.ok) await counter.keepKey(keyId, endMs, beforeMs);
    // Of two rotations at once, the one that fails may have taken back the end of the other.
    const overlapEndMs = await overlapEnd(context.db, context.workspaceId, keyId);
    if (overlapEndMs !== null) await counter.endKey(keyId, overlapEndMs);
  }
  const isRotated =
    rotated.ok || (rotated.rejection.reason === "made_before" && rotated.rejection.key.successorOf === keyId);
  if (isRotated && overlap === "none") await deactivateApiKey(context, keyId);
  return rotated;
}

/** A call that is repeated within this time, with the same `Idempotency-Key`, replaces the key that the first one made. */
export const KEY_REPEATED_MS = 10 * 60_000;

export async function createKeyOnce(context: WorkspaceContext, key: NewKey, idempotencyKey: string | null) {
  const formToken = idempotencyKey && `create ${idempotencyKey}`;
  return replaceUnseen(context, await createApiKey(context, key, formToken));
}

export async function rotateKeyOnce(
  context: WorkspaceContext,
  rotation: Omit<Rotation, "overlapMs" | "formToken"> & { overlap: Overlap },
  idempotencyKey: string | null,
) {
  const formToken = idempotencyKey && `rotate ${rotation.keyId} ${idempotencyKey}`;
  return replaceUnseen(context, await rotateApiKey(context, { ...rotation, formToken }));
}

/**
 * If the same call has made a key before, the answer with its value was lost. The value cannot be shown again (spec
 * §2.1), so the key is rotated and ends now. The answer with its successor may have been lost too.
 */
async function replaceUnseen(
  context: WorkspaceContext,
  made: Awaited<ReturnType<typeof createKey | typeof rotateKey>>,
): Promise<Result<CreatedKey, KeyLimit | "not_found" | "key_inactive" | "idempotency_key_used">> {
  for (let result = made; ;) {
    if (result.ok) return result;
    if (result.rejection.reason !== "made_before") return reject(result.rejection.reason);
    const { id: keyId, createdAt } = result.rejection.key;
    if (context.by.nowMs - Date.parse(createdAt) > KEY_REPEATED_MS) return reject("idempotency_key_used");
    // oxlint-disable-next-line no-await-in-loop -- one after the other, at most as many as a workspace may make a day
    result = await rotateApiKey(context, { keyId, overlap: "none", formToken: `replace ${keyId}` });
  }
}

/**
 * API keys: fields of the forms and the operator API; changes that concern D1 and the Quota Counter (spec §3.1, design
 * §5).
 */
import * as z from "zod";
import { deactivateKey, findKey, type ApiKey } from "../control/api-keys.ts";
import { rotateKey, type Rotation } from "../control/new-keys.ts";
import { ACCOUNT_TARGETS, isAccountTarget, PAYLOAD_TYPES } from "../domain/accounts/payload-template.ts";
import { DAY_MS } from "../domain/duration.ts";
import { parseDotPath } from "../domain/json/dot-path.ts";
import { noCredential, boundedText } from "../http/fields.ts";
import { KEY_SILENT_MAX_DAYS, TEMPLATE_MAX_BYTES, TEMPLATE_MAX_MAPPINGS, TEMPLATE_PATH_MAX_LENGTH } from "../limits.ts";
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
  // The Quota Counter comes first: it refuses the next call even if the write to D1 fails.
  await quotaCounter(env, workspaceId).revoke(keyId);
  return deactivateKey(context, keyId);
}

/**
 * Creates a successor; the old key ends after the overlap, or at once with `none`. A repeated form creates no second
 * key and completes an interrupted rotation.
 */
export async function rotateApiKey(
  context: WorkspaceContext,
  { overlap, ...rotation }: Omit<Rotation, "overlapMs"> & { overlap: Overlap },
): ReturnType<typeof rotateKey> {
  const rotated = await rotateKey(context, { ...rotation, overlapMs: OVERLAP_MS[overlap] });
  const { keyId } = rotation;
  const isRotated =
    rotated.ok || (rotated.refusal.reason === "made_before" && rotated.refusal.key.successorOf === keyId);
  if (isRotated && overlap === "none") await deactivateApiKey(context, keyId);
  return rotated;
}

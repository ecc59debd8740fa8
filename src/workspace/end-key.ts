/** Ends of an API key's life that concern both D1 and the Quota Counter (spec §3.1, design §5). */
import type { Change, ControlDatabase } from "../control/database.ts";
import { deactivateKey, type ApiKey } from "../control/api-keys.ts";
import { rotateKey, type Rotation } from "../control/new-keys.ts";
import { quotaCounter } from "./objects.ts";

/** Overlap of old and new key after a rotation. All except `none` exceed the time for which the edge caches keys. */
export const OVERLAP_MS = { none: 0, "1h": 3_600_000, "24h": 24 * 3_600_000, "7d": 7 * 24 * 3_600_000 } as const;

export type Overlap = keyof typeof OVERLAP_MS;

/**
 * Deactivates a key. When it returns, no further call with the key is accepted. Null: unknown key in this workspace.
 */
export async function endKey(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  keyId: string,
  by: Change,
): Promise<ApiKey | null> {
  return deactivateKey(db, workspaceId, keyId, (id) => quotaCounter(env, workspaceId).revoke(id), by);
}

/**
 * Creates a successor; the old key ends after the overlap, or at once with `none`. A repeated form creates no second
 * key and completes an interrupted rotation.
 */
export async function replaceKey(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  { overlap, ...rotation }: Omit<Rotation, "overlapMs"> & { overlap: Overlap },
  by: Change,
): ReturnType<typeof rotateKey> {
  const rotated = await rotateKey(db, workspaceId, { ...rotation, overlapMs: OVERLAP_MS[overlap] }, by);
  const { keyId } = rotation;
  const isRotated =
    rotated.ok || (rotated.refusal.reason === "made_before" && rotated.refusal.key.successorOf === keyId);
  if (isRotated && overlap === "none") await endKey(env, db, workspaceId, keyId, by);
  return rotated;
}

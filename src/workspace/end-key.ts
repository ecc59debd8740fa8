/** What of an API key's life (spec §3.1, design §5) concerns both the control plane and the Quota Counter. */
import type { Change, ControlDatabase } from "../control/database.ts";
import { deactivateKey, type ApiKey } from "../control/api-keys.ts";
import { rotateKey, type Rotation } from "../control/new-keys.ts";
import { quotaCounter } from "./objects.ts";

/** How long the old key goes on after a rotation. All but `none` are longer than key facts are cached at the edge. */
export const OVERLAP_MS = { none: 0, "1h": 3_600_000, "24h": 24 * 3_600_000, "7d": 7 * 24 * 3_600_000 } as const;

export type Overlap = keyof typeof OVERLAP_MS;

/** Deactivates a key: when it returns, no call with the key is accepted any more. Null: no such key in this workspace. */
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
 * Makes a successor; the old key ends after the overlap, or at once with `none`. Sent again by the same form, it makes no
 * second one, and finishes what was interrupted.
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

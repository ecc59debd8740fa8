/** Replay of dead letters (design §8): a job of the Signal Store, with an entry in the audit log that is written before. */
import { newAuditId, writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { signalStore } from "./objects.ts";

export interface Replayed {
  /** Dead letters that are on their way. */
  replayed: number;
  /** Whether the replay goes on by itself. */
  isUnderWay: boolean;
}

/** Sends the dead letters with these ids through the queue once more; null: all. */
export async function replay(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  ids: string[] | null,
  by: Change,
): Promise<Replayed> {
  const [only] = ids ?? [];
  const target = ids?.length === 1 && only !== undefined ? only : workspaceId;
  const id = newAuditId(by);
  await writeAuditEntry(db, by, { id, workspaceId, action: "dead_letters.replayed", target });
  const { sent, isUnderWay } = await signalStore(env, workspaceId).sendAgain(id, { kind: "replay", ids });
  return { replayed: sent, isUnderWay };
}

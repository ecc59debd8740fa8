/** Dead letters (design §8), sent through the queue once more by somebody. */
import { auditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { replayDeadLetters } from "../queue/release-and-replay.ts";

/** Replays the dead letters with these ids; null: all of them. Returns how many are on their way. */
export async function replay(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  ids: string[] | null,
  by: Change,
): Promise<number> {
  const replayed = await replayDeadLetters(env, workspaceId, ids);
  if (replayed > 0) {
    const [only] = ids ?? [];
    const target = ids?.length === 1 && only !== undefined ? only : workspaceId;
    await auditEntry(db, by, { workspaceId, action: "dead_letters.replayed", target, detail: { replayed } });
  }
  return replayed;
}

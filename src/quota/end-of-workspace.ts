/**
 * The end of a workspace. The Quota Counter leads it, because from its first row on no key of the workspace is accepted. Each step may
 * be repeated, and the alarm repeats them until D1 has nothing left.
 */
import { type ControlDatabase, controlDatabase, type EndCounts } from "../d1/database.ts";
import { countRows, deleteRows, hasEnded, markEnded } from "../d1/ended-workspaces.ts";

interface Ending {
  env: Env;
  workspaceId: string;
  requestedAtMs: number;
  actor: string;
  /** Signals that the counter has admitted. */
  signals: number;
}

/** @returns when to call again; null: everything is deleted. @throws if a part does not answer. */
export async function endWorkspace(ending: Ending): Promise<number | null> {
  const { env, workspaceId, requestedAtMs, actor } = ending;
  const [store, destinations] = [env.SIGNAL_STORE.getByName(workspaceId), env.DESTINATIONS.getByName(workspaceId)];
  const db = controlDatabase(env.DB.withSession("first-primary"));
  const request = { requestedAtMs, actor };
  if (!(await hasEnded(db, workspaceId))) {
    const counts = await countsOf(db, ending);
    await markEnded(db, workspaceId, { actor, nowMs: requestedAtMs }, counts);
  }
  await destinations.end(request);
  const nextMs = await store.end(request);
  if (nextMs !== null) return nextMs;
  await deleteRows(db, workspaceId, Date.now());
  return null;
}

async function countsOf(db: ControlDatabase, { env, workspaceId, signals }: Ending): Promise<EndCounts> {
  const [rows, stored, destinations] = await Promise.all([
    countRows(db, workspaceId),
    env.SIGNAL_STORE.getByName(workspaceId).amounts(),
    env.DESTINATIONS.getByName(workspaceId).list(),
  ]);
  return { ...rows, ...stored, destinations: destinations.length, signals };
}

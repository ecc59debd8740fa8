/**
 * How many workspaces are, one after the other in order of age. Each costs a call of each of its objects, which that
 * wakes: $0.30 at list price for a million workspaces asked, $0.45 for those with destinations. Nothing else knows: an object that has stopped reports nothing.
 */
import { alarmsOf, unreachable } from "../domain/health/alarm.ts";
import type { HealthAlarm } from "../domain/health/alarm.ts";
import { errorText } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { Health } from "./read-health.ts";
import { readHealth } from "./read-health.ts";

/** Workspaces that are asked how they are at a time: the platform lets a call have six connections open. */
const HEALTH_AT_ONCE = 6;
/** An object that takes longer to say how it is counts as one that does not answer. */
const HEALTH_ANSWER_MS = 5_000;

export interface WorkspaceHealth {
  id: string;
  slug: string;
  /** What is wrong, the gravest first; empty where all is well. */
  alarms: HealthAlarm[];
  /** The workspace's health; null where its objects did not answer. */
  health: Health | null;
}

/** Health in the order of `workspaces`. Never throws: a workspace whose objects do not answer is `unreachable`. */
export async function healthOfAll(
  env: Env,
  workspaces: readonly { id: string; slug: string }[],
  answerMs = HEALTH_ANSWER_MS,
): Promise<WorkspaceHealth[]> {
  const found: WorkspaceHealth[] = [];
  const entries = workspaces.entries();
  const worker = async (): Promise<void> => {
    // oxlint-disable-next-line no-await-in-loop -- HEALTH_AT_ONCE loops run at once, and each takes the next workspace
    for (const [index, { id, slug }] of entries)
      found[index] = { id, slug, ...(await healthOrAlarm(env, id, answerMs)) };
  };
  await Promise.all(Array.from({ length: HEALTH_AT_ONCE }, worker));
  return found;
}

async function healthOrAlarm(
  env: Env,
  workspaceId: string,
  answerMs: number,
): Promise<Pick<WorkspaceHealth, "alarms" | "health">> {
  try {
    const health = await within(answerMs, readHealth(env, workspaceId));
    return { health, alarms: alarmsOf(health, Date.now()) };
  } catch (error) {
    return { health: null, alarms: [unreachable(errorText(error))] };
  }
}

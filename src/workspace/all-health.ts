/**
 * How many workspaces are. Each costs a call of each of its objects, which that wakes: $0.30 at list price for a million
 * workspaces asked, $0.45 for those with destinations. Nothing else knows: an object that has stopped reports nothing.
 */
import { alarmsOf, notAsked, unreachable } from "../domain/health/alarm.ts";
import type { HealthAlarm } from "../domain/health/alarm.ts";
import { errorText } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import type { Health } from "./read-health.ts";
import { readHealth } from "./read-health.ts";

/** Workspaces in one answer: two or three calls each, and a data point, of which the platform takes 250 from one invocation. */
export const HEALTH_PAGE_WORKSPACES = 200;
/** Workspaces that are asked how they are at a time: calls of objects do not count among a Worker's six connections. */
const HEALTH_AT_ONCE = 50;
/** What all of it may take, in milliseconds: the two together are less than the fifteen seconds that operate.md promises. */
const HEALTH_LIMITS = {
  /** An object that takes longer to say how it is counts as one that does not answer. */
  answerMs: 5_000,
  /** Later than that no workspace is asked any more: twice what 400 objects take that all have to start. */
  askMs: 8_000,
};

export interface WorkspaceHealth {
  id: string;
  slug: string;
  /** What is wrong, the gravest first; empty where all is well. */
  alarms: HealthAlarm[];
  /** The workspace's health; null where its objects did not answer, or were not asked. */
  health: Health | null;
}

/**
 * Health in the order of `workspaces`, within the limits, whatever hangs. Never throws: a workspace whose objects do not
 * answer is `unreachable`, one that there was no time for is `not_asked`. Each call begins with another one, so that none is
 * left out for ever because of those before it.
 */
export async function healthOfAll(
  env: Env,
  workspaces: readonly { id: string; slug: string }[],
  { answerMs, askMs } = HEALTH_LIMITS,
): Promise<WorkspaceHealth[]> {
  const found = workspaces.map(({ id, slug }): WorkspaceHealth => ({ id, slug, alarms: [notAsked()], health: null }));
  const first = Math.floor(Math.random() * found.length);
  const inTurn = [...found.slice(first), ...found.slice(0, first)].values();
  const untilMs = Date.now() + askMs;
  const worker = async (): Promise<void> => {
    for (const one of inTurn) {
      if (Date.now() >= untilMs) return;
      // oxlint-disable-next-line no-await-in-loop -- HEALTH_AT_ONCE loops run at once, and each takes the next workspace
      Object.assign(one, await healthOrAlarm(env, one.id, answerMs));
    }
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

/**
 * How many workspaces are. Each costs a call of each of its objects, which that wakes: $0.30 at list price for a million
 * workspaces asked, $0.45 for those with destinations. Nothing else knows: an object that has stopped reports nothing.
 */
import { notAsked, type OpenRestore } from "../domain/health/alarm.ts";
import type { HealthOrAlarm } from "./read-health.ts";
import { HEALTH_ANSWER_MS, healthWithin } from "./read-health.ts";

/** Workspaces in one answer: two or three calls each. */
export const HEALTH_PAGE_WORKSPACES = 200;
/** Workspaces that are asked how they are at a time: calls of objects do not count among a Worker's six connections. */
const HEALTH_AT_ONCE = 50;
/** What all of it may take, in milliseconds: the two together are less than the fifteen seconds that operate.md promises. */
const HEALTH_LIMITS = {
  answerMs: HEALTH_ANSWER_MS,
  /** Later than that no workspace is asked any more: twice what 400 objects take that all have to start. */
  askMs: 8_000,
};

export interface WorkspaceHealth extends HealthOrAlarm {
  id: string;
  slug: string;
}

/**
 * Health in the order of `workspaces`, within the limits, whatever hangs. Never throws: a workspace whose objects do not
 * answer is `unreachable`, one that there was no time for is `not_asked`. Each call begins with another one, so that none is
 * left out for ever because of those before it.
 */
export async function healthOfAll(
  env: Env,
  workspaces: readonly { id: string; slug: string }[],
  openRestores: ReadonlyMap<string, readonly OpenRestore[]>,
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
      Object.assign(one, await healthWithin(env, one.id, openRestores.get(one.id) ?? [], answerMs));
    }
  };
  await Promise.all(Array.from({ length: HEALTH_AT_ONCE }, worker));
  return found;
}

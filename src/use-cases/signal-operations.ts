/** Operations on signals: follows one, releases held signals, and replays dead letters. */
import { newAuditId, auditEntry } from "../d1/audit.ts";
import type { SignalTrace } from "../store/protocol/stored-signals.ts";
import type { Admission } from "../wire/message.ts";
import { configureCounter } from "./configure-workspace.ts";
import { quotaCounter, signalStore, type WorkspaceContext } from "./objects.ts";

/**
 * Releases held signals up to the current limit, oldest first, each metered once. A release is never automatic.
 * `isUnderWay`: the release continues in the background.
 *
 * @param confirmed what a person has seen and confirmed; null: all that fit, at any price. @returns null: the overages have changed since.
 */
export async function releaseHeldSignals(
  { env, db, workspaceId, by }: WorkspaceContext,
  confirmed: { most: number; overages: boolean } | null = null,
) {
  // A recent change of the plan may not have reached the counter.
  await configureCounter(env, db, workspaceId, await quotaCounter(env, workspaceId).configVersion());
  const usage = await quotaCounter(env, workspaceId).usage();
  if (usage === null) return { released: 0, stillHeld: 0, isUnderWay: false };
  const { periodStartMs, periodEndMs, overages } = usage;
  if (confirmed !== null && confirmed.overages !== overages) return null;
  const id = newAuditId(by);
  await auditEntry(db, by, { id, workspaceId, action: "held.released", target: workspaceId });
  const scope = { kind: "release", periodStartMs, periodEndMs, overages, most: confirmed?.most ?? null } as const;
  const { sent, stillHeld, isUnderWay } = await signalStore(env, workspaceId).resend(id, scope);
  return { released: sent, stillHeld, isUnderWay };
}

/** Sends the dead letters with these ids through the queue again; null: all. */
export async function replayDeadLetters({ env, db, workspaceId, by }: WorkspaceContext, ids: string[] | null) {
  const [only] = ids ?? [];
  const target = ids?.length === 1 && only !== undefined ? only : workspaceId;
  const id = newAuditId(by);
  await auditEntry(db, by, { id, workspaceId, action: "dead_letters.replayed", target });
  const { sent, isUnderWay } = await signalStore(env, workspaceId).resend(id, { kind: "replay", ids });
  return { replayed: sent, isUnderWay };
}

/** Finds a signal by its id. Null: unknown signal in this workspace. */
export async function followSignal(
  env: Env,
  workspaceId: string,
  signalId: string,
): Promise<{ recorded: SignalTrace } | { inFlight: Admission } | null> {
  const store = signalStore(env, workspaceId);
  const trace = await store.signal(signalId);
  if (trace !== null) return { recorded: trace };
  const waiting = await quotaCounter(env, workspaceId).inFlight(signalId);
  if (waiting !== null) return { inFlight: waiting };
  // The signal may have moved from the counter to the store between the two reads.
  const arrived = await store.signal(signalId);
  return arrived === null ? null : { recorded: arrived };
}

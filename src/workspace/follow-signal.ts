/** Finds a signal in the Signal Store or, while it is in transit, in the Quota Counter. */
import type { Admission } from "../wire/admission.ts";
import type { SignalTrace } from "../store/protocol/stored-signals.ts";
import { quotaCounter, signalStore } from "./objects.ts";

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

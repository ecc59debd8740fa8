/** A signal wherever it is: in the Signal Store, or still on its way there. */
import type { Admission } from "../wire/admission.ts";
import type { SignalTrace } from "../store/protocol/stored-signals.ts";
import { quotaCounter, signalStore } from "./objects.ts";

/** Finds a signal by its id. Null: no such signal in this workspace. */
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
  // It may have arrived in the store, and been settled, between the two questions.
  const arrived = await store.signal(signalId);
  return arrived === null ? null : { recorded: arrived };
}

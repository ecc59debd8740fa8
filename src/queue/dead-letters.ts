/**
 * The end of the queue: messages that could not be recorded in all their attempts. Their signals are recorded as dead
 * letters, with the reason, and settled: given up is a place of its own in the books. Should even this fail, the rows
 * are still in the outbox and are sent again later.
 */
import type { ReceivedSignal } from "./message.ts";
import { buriedSignal } from "./process.ts";

const REASON = "Could not be recorded in all attempts: the store did not answer.";

export async function bury(env: Env, workspaceId: string, signals: ReceivedSignal[]): Promise<void> {
  const batch = signals.map((signal) => buriedSignal(signal, REASON));
  await env.SIGNAL_STORE.getByName(workspaceId).record(batch);
}

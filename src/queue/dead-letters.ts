/**
 * The end of the queue: messages that the consumer did not survive, time after time; what fails in a way that it lives
 * to see is let go before that, and comes again from the outbox. Their signals are recorded as dead
 * letters, with the reason, and settled: given up is a place of its own in the books. Should even this fail, the rows
 * are still in the outbox and are sent again later.
 */
import { within } from "../platform/time-limit.ts";
import { RECORD_TIMEOUT_MS } from "../limits.ts";
import type { RecordResult } from "../store/protocol/signals-to-record.ts";
import type { ReceivedRow } from "../wire/message.ts";
import { buriedSignal, rowsToRecord } from "./process.ts";

const REASON = "Could not be processed in all attempts: each ended the processing of its batch before it was done.";

export async function bury(
  env: Env,
  { workspaceId, rows }: { workspaceId: string; rows: ReceivedRow[] },
): Promise<RecordResult> {
  const batch = rowsToRecord(rows, (signal) => buriedSignal(signal, REASON));
  // These rows are recorded carefully: that they are here says that they have failed before.
  return within<RecordResult>(
    RECORD_TIMEOUT_MS,
    env.SIGNAL_STORE.getByName(workspaceId).record(batch, { carefully: true }),
  );
}

/** A signal that the outbox holds, found by its id. */
import { uuidv7Ms } from "../platform/uuidv7.ts";
import type { Admission } from "../wire/admission.ts";
import { readMessage, writeMessage } from "../wire/message.ts";

/** The longest from a signal's id, given at the edge, to its commit: clocks that differ, slices of a large body, retries. */
const ADMISSION_MAX_SKEW_MS = 60_000;

/**
 * How a signal of the outbox was admitted; null when the outbox does not hold it. It is looked for among the rows of the time that its id
 * tells, so that it takes no longer while the queue is down. A signal that is sent once more is not found: the Signal Store
 * still has it.
 */
export function findInFlight(sql: SqlStorage, workspaceId: string, signalId: string): Admission | null {
  const receivedMs = uuidv7Ms(signalId.slice(signalId.indexOf("_") + 1));
  if (receivedMs === null) return null;
  const rows = sql.exec<{ at: number; body: string }>(
    "SELECT at, body FROM outbox WHERE row >= ? ORDER BY row",
    firstRowSince(sql, receivedMs - ADMISSION_MAX_SKEW_MS),
  );
  for (const { at, body } of rows) {
    if (at > receivedMs + ADMISSION_MAX_SKEW_MS) return null;
    // Another signal's payload may quote the id, so that more than one row can hold the text.
    if (!body.includes(`"${signalId}"`)) continue;
    const { rows: received } = readMessage(writeMessage(workspaceId, 0, body));
    const found = received.flatMap(({ signals }) => signals).find(({ admission }) => admission.id === signalId);
    if (found !== undefined) return found.admission;
  }
  return null;
}

/** The first row of a time or later. Rows are in order of their time, so that a few steps find it among any number. */
function firstRowSince(sql: SqlStorage, atMs: number): number {
  // Each by itself is read off an end of the table; one query for both would go through all of it.
  const first = sql.exec<{ row: number | null }>("SELECT min(row) AS row FROM outbox").one();
  const last = sql.exec<{ row: number | null }>("SELECT max(row) AS row FROM outbox").one();
  let [low, high] = [first.row ?? 0, last.row ?? 0];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { at } = sql.exec<{ at: number }>("SELECT at FROM outbox WHERE row > ? ORDER BY row LIMIT 1", middle).one();
    if (at < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

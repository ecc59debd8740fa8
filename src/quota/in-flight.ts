/** A signal that the outbox holds, found by its id. */
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { uuidv7Ms } from "../platform/uuidv7.ts";
import type { Admission } from "../wire/admission.ts";
import { readMessage, writeMessage } from "../wire/message.ts";

/** How far the clocks of edge and counter may differ. */
const CLOCK_SKEW_MS = 5_000;
/** The longest time from a signal's id to its commit: the edge gives a new id to each attempt, and answers after this time. */
const COMMIT_MAX_DELAY_MS = CALL_TIMEOUT_MS;

/**
 * How a signal of the outbox was admitted; null when the outbox does not hold it. The id tells the time, so the search takes
 * no longer while the queue is down. SQLite compares the bodies: only those with the id come to JavaScript. A signal that is
 * sent once more is not found: the Signal Store still has it.
 */
export function findInFlight(sql: SqlStorage, workspaceId: string, signalId: string): Admission | null {
  const idMs = uuidv7Ms(signalId.slice(signalId.indexOf("_") + 1));
  if (idMs === null) return null;
  const [fromMs, untilMs] = [idMs - CLOCK_SKEW_MS, idMs + COMMIT_MAX_DELAY_MS + CLOCK_SKEW_MS];
  const rows = sql.exec<{ body: string }>(
    "SELECT body FROM outbox WHERE row >= ? AND row < ? AND at BETWEEN ? AND ? AND instr(body, ?) > 0 ORDER BY row",
    firstRowSince(sql, fromMs),
    firstRowSince(sql, untilMs + 1),
    fromMs,
    untilMs,
    `"${signalId}"`,
  );
  // Another signal's payload may quote the id, so that more than one row can hold the text.
  for (const { body } of rows) {
    const { rows: received } = readMessage(writeMessage(workspaceId, 0, body));
    const found = received.flatMap(({ signals }) => signals).find(({ admission }) => admission.id === signalId);
    if (found !== undefined) return found.admission;
  }
  return null;
}

/**
 * A number that divides the rows: those before it are of an earlier time, it and those behind it are not. The numbers are in
 * order of the rows' times, and need not follow each other: halving the range takes at most 53 reads.
 */
function firstRowSince(sql: SqlStorage, atMs: number): number {
  // Each by itself is read off an end of the table; one query for both would go through all of it.
  const first = sql.exec<{ row: number | null }>("SELECT min(row) AS row FROM outbox").one();
  const last = sql.exec<{ row: number | null }>("SELECT max(row) AS row FROM outbox").one();
  if (first.row === null || last.row === null) return 0;
  let [low, high] = [first.row, last.row + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { row, at } = sql
      .exec<{ row: number; at: number }>("SELECT row, at FROM outbox WHERE row >= ? ORDER BY row LIMIT 1", middle)
      .one();
    if (at < atMs) low = row + 1;
    else high = middle;
  }
  return low;
}

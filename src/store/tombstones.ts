/**
 * What is left of a signal whose person has been deleted: a row with its id, so that it is known if it is delivered once
 * more, and with its place in the books. Nothing in it says whose it was or what they did, but for the name of the event.
 */
import { SAMPLE_MAX_SIGNALS } from "../limits.ts";
import { scrub } from "./cold-storage.ts";
import type { SignalStatus } from "./protocol.ts";
import { replaceSamples } from "./samples.ts";
import { EventGroupChanges, TotalChanges } from "./tables.ts";

export interface ErasedSignal {
  [column: string]: SqlStorageValue;
  id: string;
  status: SignalStatus;
  kind: string;
  event: string;
  source: string;
  period_start: number;
  received_at: number;
  cold_object: string | null;
}

/** Held signals and dead letters can take no effect any more, and end as purged; the others have had theirs. */
const ERASE = `UPDATE signals SET erased_at = ?2,
    status = CASE status WHEN 'anonymous' THEN 'processed' WHEN 'held' THEN 'purged' WHEN 'dead' THEN 'purged'
      ELSE status END,
    person_id = NULL, named_by = NULL, email = NULL, user_id = NULL, anonymous_id = NULL, content_hash = NULL,
    linked_at = NULL, dead_reason = NULL, path_source = NULL, idempotency_key = NULL, payload = NULL,
    cold_object = NULL, cold_line = NULL
  WHERE seq IN (SELECT value FROM json_each(?1))`;

/** Returns them as they were. Copies in cold storage are removed by the alarm. */
export function eraseSignals(sql: SqlStorage, seqs: readonly number[], nowMs: number): ErasedSignal[] {
  if (seqs.length === 0) return [];
  const list = JSON.stringify(seqs);
  const erased = sql
    .exec<ErasedSignal>(
      `SELECT id, status, kind, event, source, period_start, received_at, cold_object FROM signals
       WHERE seq IN (SELECT value FROM json_each(?))`,
      list,
    )
    .toArray();
  sql.exec(ERASE, list, nowMs);
  const groups = new EventGroupChanges();
  const totals = new TotalChanges();
  for (const { status, kind, event, source, period_start: periodStart, received_at: receivedAtMs } of erased) {
    if (status === "held" || status === "dead") {
      totals.add(periodStart, status === "held" ? "held" : "dead_lettered", -1);
      totals.add(periodStart, "purged", 1);
    }
    if (kind !== "signal") continue;
    if (status === "held") groups.count(event, source, { count: -1, held: -1, anonymous: 0 }, receivedAtMs);
    if (status === "anonymous") groups.count(event, source, { count: 0, held: 0, anonymous: -1 }, receivedAtMs);
  }
  groups.write(sql);
  totals.write(sql);
  replaceSamples(
    sql,
    erased.filter(({ kind }) => kind === "signal"),
    SAMPLE_MAX_SIGNALS,
  );
  scrub(
    sql,
    erased.map((signal) => signal.cold_object),
  );
  return erased;
}

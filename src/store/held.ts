/** The end of held signals (spec §3.2, §8.3): deleted at the end of their billing period, never counted as processed. */
import { PURGE_ROWS } from "../limits.ts";
import { replaceSamples } from "./samples.ts";
import { EventGroupChanges, TotalChanges } from "./tables.ts";

/**
 * Deletes the content of held signals whose period has ended, at most PURGE_ROWS of them. A row without person, content and hash stays, so that the signal's id still tells what became of it.
 */
export function purgeHeld(sql: SqlStorage, nowMs: number): void {
  const purged = sql
    .exec<{ id: string; kind: string; event: string; source: string; period_start: number; received_at: number }>(
      `UPDATE signals SET status = 'purged', payload = NULL, content_hash = NULL, email = NULL, user_id = NULL,
         anonymous_id = NULL
       WHERE seq IN (SELECT seq FROM signals WHERE status = 'held' AND period_end <= ? LIMIT ?)
       RETURNING id, kind, event, source, period_start, received_at`,
      nowMs,
      PURGE_ROWS,
    )
    .toArray();
  const groups = new EventGroupChanges();
  const totals = new TotalChanges();
  for (const row of purged) {
    totals.add(row.period_start, "held", -1);
    totals.add(row.period_start, "purged", 1);
    if (row.kind === "signal")
      groups.count(row.event, row.source, { count: -1, held: -1, anonymous: 0 }, row.received_at);
  }
  groups.write(sql);
  totals.write(sql);
  replaceSamples(
    sql,
    purged.filter(({ kind }) => kind === "signal"),
  );
}

/** When the next held signals end, in milliseconds since 1970; null when there are none. */
export function nextPurgeMs(sql: SqlStorage): number | null {
  return sql.exec<{ at: number | null }>("SELECT min(period_end) AS at FROM signals WHERE status = 'held'").one().at;
}

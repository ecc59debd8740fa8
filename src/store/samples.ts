/** The sample of each group of the signal queue, where it has to be another one. */
import { rowsByBlock, SIGNALS_BY_EVENT } from "./blocks.ts";

type Group = { event: string; source: string };

const MAY_BE_SAMPLE = "status IN ('processed', 'anonymous', 'held') AND ifnull(payload, cold_object) IS NOT NULL";

/**
 * Where one of these signals was the sample, the latest of the group that is left is.
 *
 * @param limit so many of the event's latest signals with a payload are looked at; if none is the group's, nothing changes.
 */
export function replaceSamples(sql: SqlStorage, gone: readonly (Group & { id: string })[], limit?: number): void {
  if (gone.length === 0) return;
  const groups = sql
    .exec<Group>(
      `SELECT event, source FROM event_groups
       WHERE count > 0 AND (event, source) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
         AND sample_id IN (SELECT value ->> 2 FROM json_each(?1))`,
      JSON.stringify(gone.map(({ event, source, id }) => [event, source, id])),
    )
    .toArray();
  for (const { event, source } of groups) {
    const sample = latestOf(sql, event, source, limit);
    if (sample !== undefined) setSample(sql, event, source, sample);
  }
}

export function setSample(sql: SqlStorage, event: string, source: string, id: string): void {
  sql.exec("UPDATE event_groups SET sample_id = ?3 WHERE event = ?1 AND source = ?2", event, source, id);
}

function latestOf(sql: SqlStorage, event: string, source: string, limit?: number): string | undefined {
  const from = Number.MAX_SAFE_INTEGER;
  const sought = { value: event, from, to: "earlier", where: MAY_BE_SAMPLE, limit } as const;
  const latest = rowsByBlock<{ id: string; source: string }>(sql, SIGNALS_BY_EVENT, sought, ["id", "source"]);
  for (const signal of latest) if (signal.source === source) return signal.id;
  return undefined;
}

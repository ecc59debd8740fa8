/**
 * Cold storage (spec §6.1), as the store's tables know it. Signals of visitors nobody knows yet are recorded with their
 * payload; a little later the payloads of many of them move into one object in R2, and their rows keep the place. So an
 * R2 that does not answer delays that move and holds up nothing else. cold-work.ts drives it, cold-objects.ts is R2.
 *
 * A signal waits in an object while it is anonymous and its row names the object; then, and only then, its payload is
 * nowhere else. Linked, it gets the payload back, and its row goes on naming the object: as long as that is there it
 * holds a copy.
 */
import { newId } from "../http/ids.ts";
import { COLD_ABANDONED_MS, COLD_AFTER_MS, COLD_OBJECT_MAX_CHARACTERS, COLD_OBJECT_MAX_SIGNALS } from "../limits.ts";

/** Where a payload is. */
export interface ColdPlace {
  object: string;
  /** From 0. */
  line: number;
}

/** Where a row's payload is; null when it is in the row, or nowhere any more. */
export function placeOf(row: {
  payload: string | null;
  coldObject: string | null;
  coldLine: number | null;
}): ColdPlace | null {
  if (row.payload !== null || row.coldObject === null) return null;
  return { object: row.coldObject, line: row.coldLine ?? 0 };
}

/** An anonymous signal whose payload is still in the store. */
export interface WarmSignal {
  seq: number;
  id: string;
  payload: string;
}

/** In terms of the index on those that wait. */
const WAITING = "signals.cold_object IS NOT NULL AND signals.status = 'anonymous'";

/** Behind what has been packed already. */
const TO_PACK = `status = 'anonymous' AND status <> 'processed' AND payload IS NOT NULL
  AND seq > ifnull((SELECT packed_seq FROM cold_progress WHERE id = 1), 0)`;
const OLDEST_TO_PACK = `SELECT recorded_at FROM signals WHERE ${TO_PACK} ORDER BY seq LIMIT 1`;

/**
 * Has objects rewritten without the lines that no signal waits for, or removed where none waits: for lines of which no
 * copy may be left. Call it in the transaction that changes or deletes the rows, with the `cold_object` that they name
 * (`DELETE … RETURNING cold_object`; null and objects that are gone are let pass), also of signals that are linked by
 * now. Objects that are being written at the moment are included, as they may hold a copy too. The alarm does the work,
 * again and again until it has succeeded: the caller sees to it that the alarm is set (`#alarmForNext`).
 */
export function scrub(sql: SqlStorage, objects: Iterable<string | null>): void {
  sql.exec(
    "UPDATE cold_objects SET scrub = scrub + 1 WHERE id IN (SELECT value FROM json_each(?))",
    JSON.stringify([...new Set(objects)]),
  );
  sql.exec("UPDATE cold_objects SET scrub = scrub + 1 WHERE state = 'writing' AND state <> 'stored'");
  forgetCold(sql, objects);
}

/** How many objects still hold what `scrub` was asked to remove. */
export function scrubPending(sql: SqlStorage): number {
  return sql.exec<{ count: number }>("SELECT count(*) AS count FROM cold_objects WHERE id > '' AND scrub > 0").one()
    .count;
}

/**
 * Has those of the objects removed that no signal waits in any more. Call it in the transaction that takes signals out
 * of them: that links, changes or deletes their rows. As with `scrub`, the alarm does the work.
 */
export function forgetCold(sql: SqlStorage, objects: Iterable<string | null>): void {
  sql.exec(
    `UPDATE cold_objects SET state = 'removing'
     WHERE id IN (SELECT value FROM json_each(?)) AND state = 'stored'
       AND NOT EXISTS (SELECT 1 FROM signals WHERE signals.cold_object = cold_objects.id AND ${WAITING})`,
    JSON.stringify([...new Set(objects)]),
  );
}

/**
 * The anonymous signals that fill the next object, in order of arrival. One that becomes anonymous after later ones have
 * been packed (a duplicate that turns out to be an original, which is rare) stays in the store.
 */
export function signalsToPack(sql: SqlStorage): WarmSignal[] {
  const rows = sql.exec<{ seq: number; id: string; payload: string }>(
    `SELECT seq, id, payload FROM signals WHERE ${TO_PACK} ORDER BY seq LIMIT ?`,
    COLD_OBJECT_MAX_SIGNALS,
  );
  const packed: WarmSignal[] = [];
  let characters = 0;
  for (const { seq, id, payload } of rows) {
    packed.push({ seq, id, payload });
    characters += payload.length;
    if (characters >= COLD_OBJECT_MAX_CHARACTERS) break;
  }
  return packed;
}

/** When the oldest of them has waited long enough; null when there are none. */
export function packDueMs(sql: SqlStorage): number | null {
  const { recorded_at } = sql.exec<{ recorded_at: number | null }>(`SELECT (${OLDEST_TO_PACK}) AS recorded_at`).one();
  return recorded_at === null ? null : recorded_at + COLD_AFTER_MS;
}

/** Notes an object that is going to be written, so that none is ever in R2 without being known. Returns its id. */
export function beginObject(sql: SqlStorage, nowMs: number): string {
  const id = newId("cold", nowMs);
  sql.exec("INSERT INTO cold_objects (id, state, at) VALUES (?, 'writing', ?)", id, nowMs);
  return id;
}

/**
 * It has been written, with these signals, one a line: those that are still anonymous now wait in it. The lines of
 * others, linked or gone while it was being written, are removed from it again.
 */
export function finishObject(sql: SqlStorage, object: string, packed: readonly WarmSignal[]): void {
  const known = sql.exec("SELECT 1 FROM cold_objects WHERE id = ? AND state = 'writing'", object).toArray();
  // Given up already, and about to be removed.
  if (known.length === 0) return;
  let waiting = 0;
  packed.forEach(({ seq, id, payload }, line) => {
    const { rowsWritten } = sql.exec(
      `UPDATE signals SET payload = NULL, cold_object = ?, cold_line = ?
       WHERE seq = ? AND id = ? AND status = 'anonymous' AND payload = ?`,
      object,
      line,
      seq,
      id,
      payload,
    );
    if (rowsWritten > 0) waiting++;
  });
  sql.exec(
    "UPDATE cold_objects SET state = 'stored', scrub = scrub + ?2 WHERE id = ?1",
    object,
    Number(waiting < packed.length),
  );
  if (waiting === 0) forgetCold(sql, [object]);
  sql.exec(
    `INSERT INTO cold_progress (id, packed_seq) VALUES (1, ?)
     ON CONFLICT (id) DO UPDATE SET packed_seq = max(packed_seq, excluded.packed_seq)`,
    packed.at(-1)?.seq ?? 0,
  );
}

/** Lines of an object that signals wait for. */
export function waitingLines(sql: SqlStorage, object: string): Set<number> {
  const rows = sql.exec<{ cold_line: number }>(
    `SELECT cold_line FROM signals WHERE signals.cold_object = ? AND ${WAITING}`,
    object,
  );
  return new Set([...rows].map((row) => row.cold_line));
}

/** Objects to rewrite, with what `scrubbed` is to be told. */
export function objectsToScrub(sql: SqlStorage, limit: number): { id: string; scrub: number }[] {
  return sql
    .exec<{ id: string; scrub: number }>(
      "SELECT id, scrub FROM cold_objects WHERE id > '' AND scrub > 0 AND state = 'stored' LIMIT ?",
      limit,
    )
    .toArray();
}

/** It has been rewritten; unless more was asked for meanwhile, that is all. */
export function scrubbed(sql: SqlStorage, object: string, asked: number): void {
  sql.exec("UPDATE cold_objects SET scrub = 0 WHERE id = ? AND scrub = ?", object, asked);
}

/** Objects that are to be deleted from R2; those whose writing broke off too, once none can be under way any more. */
export function objectsToRemove(sql: SqlStorage, nowMs: number, limit: number): string[] {
  sql.exec(
    "UPDATE cold_objects SET state = 'removing' WHERE state = 'writing' AND state <> 'stored' AND at <= ?",
    nowMs - COLD_ABANDONED_MS,
  );
  const rows = sql.exec<{ id: string }>(
    "SELECT id FROM cold_objects WHERE state = 'removing' AND state <> 'stored' LIMIT ?",
    limit,
  );
  return [...rows].map(({ id }) => id);
}

/** They are gone. */
export function removed(sql: SqlStorage, objects: readonly string[]): void {
  sql.exec(
    "DELETE FROM cold_objects WHERE id IN (SELECT value FROM json_each(?)) AND state = 'removing'",
    JSON.stringify(objects),
  );
}

/** When something of all this is to be done, in milliseconds since 1970; null when nothing is. Asked with every batch. */
export function nextColdWorkMs(sql: SqlStorage, nowMs: number): number | null {
  const { at_once, writing, recorded_at } = sql
    .exec<{ at_once: number; writing: number | null; recorded_at: number | null }>(
      `SELECT EXISTS (SELECT 1 FROM cold_objects WHERE state = 'removing' AND state <> 'stored')
           OR EXISTS (SELECT 1 FROM cold_objects WHERE id > '' AND scrub > 0 AND state = 'stored') AS at_once,
         (SELECT min(at) FROM cold_objects WHERE state = 'writing' AND state <> 'stored') AS writing,
         (${OLDEST_TO_PACK}) AS recorded_at`,
    )
    .one();
  if (at_once === 1) return nowMs;
  const nextMs = Math.min(
    writing === null ? Number.POSITIVE_INFINITY : writing + COLD_ABANDONED_MS,
    recorded_at === null ? Number.POSITIVE_INFINITY : recorded_at + COLD_AFTER_MS,
  );
  return nextMs === Number.POSITIVE_INFINITY ? null : nextMs;
}

/** Payloads that must leave R2: asked for in the transaction that takes them from their lines, done by cold.ts. */
import type { Segment } from "./segment.ts";

/**
 * Has the payloads of those lines of the segments removed from R2 of which the facts say that they are kept no longer.
 * To be called in the transaction that changes the facts.
 *
 * @returns how many objects that is of which nothing was to be removed before.
 */
export function scrubCold(sql: SqlStorage, segments: Iterable<Pick<Segment, "firstSeq" | "coldObject">>): number {
  let objects = 0;
  for (const { firstSeq, coldObject } of segments) {
    if (coldObject === null) continue;
    // The search is among this object's segments: very many of other objects may be waiting.
    const asked = sql.exec(
      `SELECT 1 FROM cold_objects JOIN cold_scrubs
         ON cold_scrubs.first_seq BETWEEN cold_objects.first_seq AND cold_objects.last_seq
         JOIN signals_segments ON signals_segments.first_seq = cold_scrubs.first_seq WHERE key = ?1 AND cold = ?1 LIMIT 1`,
      coldObject,
    );
    if (asked.toArray().length === 0) objects++;
    sql.exec("INSERT OR IGNORE INTO cold_scrubs (first_seq) VALUES (?)", firstSeq);
  }
  return objects;
}

/** Whether R2 may hold payloads that must not be kept: their removal is asked for, or an object is not finished. */
export function isScrubbing(sql: SqlStorage): boolean {
  const { found } = sql
    .exec<{ found: number }>(
      `SELECT EXISTS (SELECT 1 FROM cold_scrubs) OR EXISTS (SELECT 1 FROM cold_objects WHERE state IN ('writing', 'removing')) AS found`,
    )
    .one();
  return found === 1;
}

/**
 * Has objects removed that hold nothing but segments that have been dropped. To be called in the transaction that drops
 * them.
 */
export function releaseObjects(sql: SqlStorage, keys: Iterable<string>): void {
  for (const key of new Set(keys)) {
    sql.exec(
      `UPDATE cold_objects SET state = 'removing' WHERE key = ?1 AND state = 'stored' AND NOT EXISTS
         (SELECT 1 FROM signals_segments WHERE signals_segments.first_seq BETWEEN cold_objects.first_seq
            AND cold_objects.last_seq AND cold = ?1)`,
      key,
    );
  }
}

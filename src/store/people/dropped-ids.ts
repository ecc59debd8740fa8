/**
 * The ids that a person has too many of: the oldest go. The store does not know a dropped id any more: a signal that carries such an id is an
 * unknown visitor's again, until an identify call names it once more. What it has brought is the person's already and stays
 * theirs, so that an id with signals that are still to be linked is passed over for now.
 */
import { keysOf } from "./visitor-keys.ts";
import type { VisitorId } from "./visitor-keys.ts";

const OLDEST = `SELECT key, "at", ordinal FROM identities AS theirs
  WHERE person_id = ? AND key > ? AND key < ? AND NOT EXISTS (SELECT 1 FROM link_jobs WHERE link_jobs.key = theirs.key)
  ORDER BY "at", ordinal LIMIT ?`;
// Earlier claims go too: who had the id before must not have it again. Claims of somebody who is being deleted are the
// deletion's.
const DROP = `DELETE FROM identities WHERE key = ? AND ("at", ordinal) <= (?, ?)
  AND EXISTS (SELECT 1 FROM people WHERE people.id = person_id) RETURNING person_id`;

type Row = { key: ArrayBuffer; at: number; ordinal: number };

/**
 * Drops a person's oldest ids of a kind.
 *
 * @param count how many are to go; fewer do where signals wait to be linked.
 * @returns the person of each claim that was dropped: also persons who had such an id before.
 */
export function dropOldestIds(sql: SqlStorage, personId: number, kind: VisitorId["kind"], count: number): number[] {
  const oldest = sql.exec<Row>(OLDEST, personId, ...keysOf(kind), count).toArray();
  return oldest.flatMap(({ key, at, ordinal }) => {
    deletePairs(sql, key);
    return sql
      .exec<{ person_id: number }>(DROP, key, at, ordinal)
      .toArray()
      .map(({ person_id }) => person_id);
  });
}

/** Deletes the pairs of an id, each of which is there both ways. */
export function deletePairs(sql: SqlStorage, key: ArrayBuffer): void {
  sql.exec("DELETE FROM pairs WHERE (key, other_key) IN (SELECT other_key, key FROM pairs WHERE key = ?)", key);
  sql.exec("DELETE FROM pairs WHERE key = ?", key);
}

/** Ids that name a person and other people as well: each signal belongs to the owner of the id at its receipt. */
import { visitorOfKey } from "../people/visitor-keys.ts";
import type { SharedId } from "../protocol/people-and-accounts.ts";
import { keyOfPlace } from "./person-identities.ts";
import type { ClaimPlace } from "./person-identities.ts";

/** Latest other people who share an id with the person and are shown with it. */
const SHARED_IDS_SHOWN = 20;

type Row = { key: ArrayBuffer; email: string; at: number };

/**
 * Shared ids of a person, latest first, at most SHARED_IDS_SHOWN.
 *
 * @param until last claim of the person to read, because a person may have very many. Null: all.
 */
export function sharedIds(sql: SqlStorage, personId: number, until: ClaimPlace | null): SharedId[] {
  const last = until ?? { key: "", atMs: 0, ordinal: 0 };
  const claims = sql.exec<Row>(
    `SELECT other.key, people.email, other."at" FROM identities AS mine
       CROSS JOIN identities AS other
         ON other.key = mine.key AND other.person_id <> mine.person_id
       CROSS JOIN people ON people.id = other.person_id
     WHERE mine.person_id = ? AND (mine."at", mine.ordinal, mine.key) >= (?, ?, ?)`,
    personId,
    last.atMs,
    last.ordinal,
    keyOfPlace(last),
  );
  const shared = new Map<string, SharedId>();
  for (const { at, email, key: ofId } of claims) {
    const one = { ...visitorOfKey(ofId), email };
    const key = JSON.stringify(one);
    shared.set(key, { ...one, sinceMs: Math.max(at, shared.get(key)?.sinceMs ?? 0) });
  }
  return [...shared.values()].sort((one, other) => other.sinceMs - one.sinceMs).slice(0, SHARED_IDS_SHOWN);
}

/** Ids that a person has been named by, and somebody else as well: each signal is whose the id was when it was received. */
import { SHARED_IDS_SHOWN } from "../../limits.ts";
import type { Identity } from "../protocol.ts";
import type { ClaimPlace } from "./person-identities.ts";

/** An id, and another person who has been named by it too. */
export interface SharedId {
  kind: Identity["kind"];
  value: string;
  email: string;
  /** Receipt of what named the other person, the last time. */
  sinceMs: number;
}

type Row = { kind: Identity["kind"]; value: string; email: string; at: number };

/** Behind every kind of id. */
const LAST_CLAIM: ClaimPlace = { kind: "~", value: "", atMs: 0, ordinal: 0 };

/**
 * The latest first, SHARED_IDS_SHOWN at most.
 *
 * @param until the claim of the person that is looked at last: somebody may have very many. Null: all are.
 */
export function sharedIds(sql: SqlStorage, personId: number, until: ClaimPlace | null): SharedId[] {
  const { kind, value, atMs, ordinal } = until ?? LAST_CLAIM;
  const claims = sql.exec<Row>(
    `SELECT other.kind, other.value, people.email, other."at" FROM identities AS mine
       CROSS JOIN identities AS other
         ON other.kind = mine.kind AND other.value = mine.value AND other.person_id <> mine.person_id
       CROSS JOIN people ON people.id = other.person_id
     WHERE mine.person_id = ? AND (mine.kind, mine.value, mine."at", mine.ordinal) <= (?, ?, ?, ?)`,
    personId,
    kind,
    value,
    atMs,
    ordinal,
  );
  const shared = new Map<string, SharedId>();
  for (const { at, ...one } of claims) {
    const key = JSON.stringify(one);
    shared.set(key, { ...one, sinceMs: Math.max(at, shared.get(key)?.sinceMs ?? 0) });
  }
  return [...shared.values()].sort((one, other) => other.sinceMs - one.sinceMs).slice(0, SHARED_IDS_SHOWN);
}

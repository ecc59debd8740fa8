/**
 * The ids that a person is known by, the newest first. An id may have been claimed by several, one after the other, and is
 * shown with the one who has it now. There may be PERSON_MAX_IDS of each kind, each long: they are read in parts.
 */
import { keysOf, visitorOfKey } from "../people/visitor-keys.ts";
import type { Identity } from "../protocol/people-and-accounts.ts";

/** A place in a person's claims: behind the one that was looked at last. */
export interface ClaimPlace {
  /** The claim's key as hexadecimal digits. */
  key: string;
  atMs: number;
  ordinal: number;
}

/** The place before all claims. */
export const FIRST_CLAIM: ClaimPlace = { key: "", atMs: Number.MAX_SAFE_INTEGER, ordinal: 0 };

type Row = { key: ArrayBuffer; at: number; ordinal: number; is_theirs: number };

export function keyOfPlace({ key }: ClaimPlace): ArrayBuffer {
  return new Uint8Array(Buffer.from(key, "hex")).buffer;
}

/** A part of a person's ids. `limit`: claims that are looked at; `next`: null where there are no more. */
export function readIdentities(
  sql: SqlStorage,
  personId: number,
  { behind, limit, kind: asked }: { behind: ClaimPlace; limit: number; kind?: Identity["kind"] },
): { identities: Identity[]; next: ClaimPlace | null } {
  const rows = sql
    .exec<Row>(
      `SELECT key, "at", ordinal, NOT EXISTS (SELECT 1 FROM identities AS later WHERE later.key = mine.key
             AND (later."at", later.ordinal) > (mine."at", mine.ordinal)) AS is_theirs
       FROM identities AS mine WHERE person_id = ?1 AND ("at", ordinal, key) < (?2, ?3, ?4)
         ${asked === undefined ? "" : "AND key > ?6 AND key < ?7"}
       ORDER BY "at" DESC, ordinal DESC, key DESC LIMIT ?5`,
      personId,
      behind.atMs,
      behind.ordinal,
      keyOfPlace(behind),
      limit,
      ...(asked === undefined ? [] : keysOf(asked)),
    )
    .toArray();
  const last = rows.at(-1);
  return {
    identities: rows
      .filter(({ is_theirs }) => is_theirs === 1)
      .map(({ key, at: linkedAtMs }) => ({ ...visitorOfKey(key), linkedAtMs })),
    next:
      last === undefined || rows.length < limit
        ? null
        : { key: Buffer.from(last.key).toString("hex"), atMs: last.at, ordinal: last.ordinal },
  };
}

/** The first ids of a person, and whether there are more; of very many, no more than the claims until `until` are looked at. */
export function firstIdentities(
  sql: SqlStorage,
  personId: number,
  limit: number,
): { identities: Identity[]; more: boolean; until: ClaimPlace | null } {
  const { identities, next } = readIdentities(sql, personId, { behind: FIRST_CLAIM, limit: 4 * limit });
  return { identities: identities.slice(0, limit), more: next !== null || identities.length > limit, until: next };
}

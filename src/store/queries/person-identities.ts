/**
 * The ids that a person is known by. An id may have been claimed by several, one after the other, and is shown with the one
 * who has it now. Nothing bounds how many ids a person has: they are read in parts.
 */
import type { Identity } from "../protocol.ts";

/** Behind the claim that was looked at last; an empty text stands before all. */
export interface ClaimPlace {
  kind: string;
  value: string;
  atMs: number;
  ordinal: number;
}

export const FIRST_CLAIM: ClaimPlace = { kind: "", value: "", atMs: 0, ordinal: 0 };

type Row = { kind: Identity["kind"]; value: string; at: number; ordinal: number; is_theirs: number };

/** By kind and value. `limit`: claims that are looked at; `next`: null where there are no more. */
export function readIdentities(
  sql: SqlStorage,
  personId: number,
  { behind, limit, kind: asked }: { behind: ClaimPlace; limit: number; kind?: Identity["kind"] },
): { identities: Identity[]; next: ClaimPlace | null } {
  const rows = sql
    .exec<Row>(
      `SELECT kind, value, "at", ordinal, NOT EXISTS (SELECT 1 FROM identities AS later
           WHERE later.kind = mine.kind AND later.value = mine.value
             AND (later."at", later.ordinal) > (mine."at", mine.ordinal)) AS is_theirs
       FROM identities AS mine WHERE person_id = ?1 AND (kind, value, "at", ordinal) > (?2, ?3, ?4, ?5)
         ${asked === undefined ? "" : "AND kind = ?2"}
       ORDER BY kind, value, "at", ordinal LIMIT ?6`,
      personId,
      behind.kind,
      behind.value,
      behind.atMs,
      behind.ordinal,
      limit,
    )
    .toArray();
  const last = rows.at(-1);
  return {
    identities: rows
      .filter(({ is_theirs }) => is_theirs === 1)
      .map(({ kind, value, at: linkedAtMs }) => ({ kind, value, linkedAtMs })),
    next:
      last === undefined || rows.length < limit
        ? null
        : { kind: last.kind, value: last.value, atMs: last.at, ordinal: last.ordinal },
  };
}

/** The first of them, and whether there are more; of very many, no more than the claims until `until` are looked at. */
export function firstIdentities(
  sql: SqlStorage,
  personId: number,
  limit: number,
): { identities: Identity[]; more: boolean; until: ClaimPlace | null } {
  const { identities, next } = readIdentities(sql, personId, { behind: FIRST_CLAIM, limit: 4 * limit });
  return { identities: identities.slice(0, limit), more: next !== null || identities.length > limit, until: next };
}

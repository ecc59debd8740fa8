/** Columns that lists of people show. */
import { eachTrait, TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { PersonTraits } from "../../domain/signal/traits.ts";
import { keysOf, visitorOfKey } from "../people/visitors.ts";
import type { Identity, PersonSummary } from "../protocol/people-and-accounts.ts";

export interface PersonRow extends PersonTraits {
  [column: string]: SqlStorageValue;
  id: number;
  email: string;
  score: number;
  first_seen: number;
  last_seen: number;
  last_day: number;
  ids_dropped: number;
}

/** Columns that a list of people reads: part of statements. */
export const PERSON_COLUMNS = `id, email, ${TRAIT_NAMES.join(", ")}, score, first_seen, last_seen, last_day, ids_dropped`;

export function toPersonSummary(row: PersonRow): PersonSummary {
  return {
    email: row.email,
    ...eachTrait((trait) => row[trait]),
    score: row.score,
    firstSeenMs: row.first_seen,
    lastSeenMs: row.last_seen,
    idsDropped: row.ids_dropped,
  };
}

/** Position in a person's claims: after the last one read. */
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

/** Part of a person's ids. `limit`: claims to read; `next`: null at the end. */
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

/** First ids of a person, and whether more exist; of very many, only the claims up to `until` are read. */
export function firstIdentities(
  sql: SqlStorage,
  personId: number,
  limit: number,
): { identities: Identity[]; more: boolean; until: ClaimPlace | null } {
  const { identities, next } = readIdentities(sql, personId, { behind: FIRST_CLAIM, limit: 4 * limit });
  return { identities: identities.slice(0, limit), more: next !== null || identities.length > limit, until: next };
}

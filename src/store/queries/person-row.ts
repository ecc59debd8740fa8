/** Columns that lists of people show. */
import { TRAIT_NAMES, eachTrait } from "../../domain/signal/traits.ts";
import type { PersonTraits } from "../../domain/signal/traits.ts";
import type { PersonSummary } from "../protocol/people-and-accounts.ts";

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

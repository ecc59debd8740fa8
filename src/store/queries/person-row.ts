/** What lists of people show of each. */
import type { PersonSummary } from "../record-pages.ts";

export interface PersonRow {
  [column: string]: SqlStorageValue;
  id: number;
  email: string;
  name: string | null;
  company: string | null;
  title: string | null;
  score: number;
  first_seen: number;
  last_seen: number;
  last_day: number;
  ids_dropped: number;
}

/** Columns that a list of people reads: part of statements. */
export const PERSON_COLUMNS = "id, email, name, company, title, score, first_seen, last_seen, last_day, ids_dropped";

export function toPersonSummary(row: PersonRow): PersonSummary {
  const { email, name, company, title, score, ids_dropped: idsDropped } = row;
  return { email, name, company, title, score, firstSeenMs: row.first_seen, lastSeenMs: row.last_seen, idsDropped };
}

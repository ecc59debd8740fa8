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
}

/** Part of statements. */
export const PERSON_COLUMNS = "id, email, name, company, title, score, first_seen, last_seen, last_day";

export function toPersonSummary(row: PersonRow): PersonSummary {
  const { email, name, company, title, score, first_seen: firstSeenMs, last_seen: lastSeenMs } = row;
  return { email, name, company, title, score, firstSeenMs, lastSeenMs };
}

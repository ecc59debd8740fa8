/** People with their identities and scores, as the operator API answers them. */
import {
  ACCOUNT_PAGE_MAX_CHARACTERS,
  PERSON_IDENTITIES_LISTED,
  PERSON_SCORES_LISTED,
  PERSON_SCORES_LOOK,
} from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { Person, ScoringSignal } from "../protocol.ts";
import type { StoreState } from "../state.ts";
import { firstIdentities } from "./person-identities.ts";
import { PERSON_COLUMNS, toPersonSummary } from "./person-row.ts";
import type { PersonRow } from "./person-row.ts";
import { latestScored, toScoringSignals } from "./scored.ts";

type Row = PersonRow & { recent: string };

/** Newest first, or the one with an email. A page of people with very much has fewer than asked for. */
export function listPeople(state: StoreState, { email }: { email?: string }, page: Page): PageOf<Person> {
  const items: Person[] = [];
  let characters = 0;
  let before = page.cursor === null ? Number.MAX_SAFE_INTEGER : Number(page.cursor);
  if (!Number.isSafeInteger(before)) return { items, next: null };
  const asked = email === undefined ? "" : "AND email = ?3";
  const rows = state.sql.exec<Row>(
    `SELECT ${PERSON_COLUMNS}, recent FROM people WHERE id < ?1 ${asked} ORDER BY id DESC LIMIT ?2`,
    before,
    page.limit + 1,
    ...(email === undefined ? [] : [email.trim().toLowerCase()]),
  );
  for (const row of rows.toArray()) {
    if (items.length === page.limit || characters > ACCOUNT_PAGE_MAX_CHARACTERS) return { items, next: String(before) };
    const person = toPerson(state, row);
    characters += JSON.stringify(person).length;
    items.push(person);
    before = row.id;
  }
  return { items, next: null };
}

function toPerson(state: StoreState, row: Row): Person {
  const scoringSignals: ScoringSignal[] = [];
  for (const { entry } of latestScored(state, row, { before: Number.MAX_SAFE_INTEGER, look: PERSON_SCORES_LOOK })) {
    if (entry !== null) scoringSignals.push(...toScoringSignals(state, entry));
    if (scoringSignals.length >= PERSON_SCORES_LISTED) break;
  }
  return {
    ...toPersonSummary(row),
    identities: firstIdentities(state.sql, row.id, PERSON_IDENTITIES_LISTED).identities,
    scoringSignals: scoringSignals.slice(0, PERSON_SCORES_LISTED),
  };
}

/** People with their identities and scores, as the operator API answers them. */
import { ACCOUNT_PAGE_MAX_CHARACTERS, PERSON_IDENTITIES_LISTED, PERSON_SCORES_LISTED } from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { Person, ScoringSignal } from "../protocol/people-and-accounts.ts";
import type { StoreState } from "../state/store-state.ts";
import { isCursorOf, listPeople } from "./people-search.ts";
import { firstIdentities } from "./person-identities.ts";
import { PERSON_COLUMNS, toPersonSummary } from "./person-row.ts";
import type { PersonRow } from "./person-row.ts";
import { latestScored, toScoringSignals } from "./scored-entries.ts";

/** Signals of a person, the latest, among which the operator API looks for scoring signals. */
const PERSON_SCORES_LOOK = 1_000;

type Row = PersonRow & { recent: string };

const ROW = `SELECT ${PERSON_COLUMNS}, recent FROM people WHERE`;

/**
 * People, newest first: all, those found by a search, or the one with an email. Large people make short pages. An
 * invalid cursor finds nobody.
 */
export function readPeople(
  state: StoreState,
  { email, text = "" }: { email?: string; text?: string },
  page: Page,
): PageOf<Person> {
  if (email !== undefined) {
    const [row] = state.sql.exec<Row>(`${ROW} email = ?`, email.trim().toLowerCase());
    return { items: row === undefined ? [] : [toPerson(state, row)], next: null };
  }
  const items: Person[] = [];
  if (!isCursorOf(text, page.cursor)) return { items, next: null };
  let characters = 0;
  let last: string | null = null;
  const found = listPeople(state, { sort: "newest", text }, page);
  for (const { row, cursor } of found.items) {
    if (characters > ACCOUNT_PAGE_MAX_CHARACTERS) return { items, next: last };
    const person = toPerson(state, state.sql.exec<Row>(`${ROW} id = ?`, row.id).one());
    characters += JSON.stringify(person).length;
    items.push(person);
    last = cursor;
  }
  return { items, next: found.next };
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

/**
 * People for lists, by order and filter. A search finds a text anywhere in an email or a searchable trait: it scans
 * an index that contains little else. The index is written when one of these values changes, not with each signal.
 */
import { folded } from "../../domain/signal/traits.ts";
import { PEOPLE_SCAN, PEOPLE_SEARCHED } from "../../limits.ts";
import type { Page } from "../../platform/list-page.ts";
import type { PeopleFilter, PeoplePage, PeopleQuery, PeopleSort } from "../protocol/people-and-accounts.ts";
import type { StoreState } from "../state/store-state.ts";
import { isOf } from "./by-day.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import { inOrder } from "./people-orders.ts";
import { PERSON_COLUMNS, toPersonSummary } from "./person-row.ts";
import type { PersonRow } from "./person-row.ts";

/** People that a search sorts; of more than that it gives all, by their email. Some 10 ms. */
export const PEOPLE_SORTED = 5_000;

/** A person of a page, with the cursor of the next one. */
export interface Listed {
  row: PersonRow;
  cursor: string;
}

export type ListedPage = Omit<PeoplePage, "items"> & { items: Listed[] };

/**
 * Filter of a search, with its first three parameters. It names the index, because SQLite would prefer the one on
 * scores.
 */
const FOUND = `FROM people INDEXED BY people_email
  WHERE email > ?1 AND (instr(email, ?2) > 0 OR instr(names, ?3) > 0)`;
const NARROWED = `${FOUND} AND score >= ?4 AND last_day >= ?5 AND last_day <= ?6`;
/** Marks a position in a sorted result; other positions are those of people-orders.ts. */
const SORTED = "sorted";

export function findPeople(state: StoreState, query: PeopleQuery, page: Page): PeoplePage {
  const { items, ...found } = listPeople(state, query, page);
  return { ...found, items: items.map(({ row }) => toPersonSummary(row)) };
}

/** People with a cursor each. A cursor that makes no sense is none. */
export function listPeople(state: StoreState, query: PeopleQuery, { cursor, limit }: Page): ListedPage {
  const { sql } = state;
  const place = readCursor(cursor);
  const { text = "" } = query;
  if (text === "") return walked(sql, query, place, limit);
  // A search whose first page was by email goes on so.
  const isByEmail = query.sort === "email" || typeof place === "string" || state.books.nextPersonId > PEOPLE_SEARCHED;
  const found = isByEmail ? null : sortedPage(sql, query, text, place, limit);
  return found ?? { ...byEmail(sql, query, text, place, limit), sorted: query.sort === "email" };
}

/** Whether a cursor belongs to the newest-first list or to a search. */
export function isCursorOf(text: string, cursor: string | null): boolean {
  const place = readCursor(cursor);
  if (text === "") return cursor === null || Number.isSafeInteger(place);
  return cursor === null || typeof place === "string" || sortedPlace(place) !== null;
}

/** People in an order, without those that do not match. */
function walked(sql: SqlStorage, query: PeopleQuery, place: unknown, limit: number): ListedPage {
  const items: Listed[] = [];
  let looked = 0;
  let behind: unknown = null;
  for (const step of inOrder(sql, query.sort, query, place)) {
    const row = step.row !== null && fits(step.row, query) ? step.row : null;
    const isFull = items.length === limit;
    if ((isFull && row !== null) || looked++ === PEOPLE_SCAN) {
      return { items, next: writeCursor(behind), complete: isFull, sorted: true };
    }
    behind = step.place;
    if (row !== null) items.push({ row, cursor: writeCursor(behind) });
  }
  return { items, next: null, complete: true, sorted: true };
}

function fits({ score, last_day: day }: PersonRow, filter: PeopleFilter): boolean {
  const { minScore, sinceDay, untilDay } = filter;
  return score >= (minScore ?? -Infinity) && day >= (sinceDay ?? 0) && day <= (untilDay ?? Infinity);
}

/** All people found, sorted. Null: too many to sort, unless an earlier page has sorted them. */
function sortedPage(
  sql: SqlStorage,
  query: PeopleQuery,
  text: string,
  place: unknown,
  limit: number,
): ListedPage | null {
  const from = sortedPlace(place);
  const most = from === null ? PEOPLE_SORTED : 2 * PEOPLE_SORTED;
  const { column, direction } = SORTS[query.sort];
  const ids = [
    ...sql.exec(`SELECT id ${fitting(query)} LIMIT ?7`, "", ...asked(query, text), most + 1).raw<[number]>(),
  ];
  if (ids.length > most) return null;
  const those = sql.exec(
    `SELECT id, ${column} FROM people WHERE id IN (SELECT value FROM json_each(?))`,
    JSON.stringify(ids.flat()),
  );
  const order = ([id, value]: readonly number[], [otherId, otherValue]: readonly number[]) =>
    direction * ((value ?? 0) - (otherValue ?? 0) || (id ?? 0) - (otherId ?? 0));
  const shown = [...those.raw<[id: number, value: number]>()]
    .filter((one) => from === null || order(one, from) > 0)
    .sort(order)
    .slice(0, limit + 1);
  const items = shown.slice(0, limit).flatMap(([id, value]): Listed[] => {
    const [row] = sql.exec<PersonRow>(`SELECT ${PERSON_COLUMNS} FROM people WHERE id = ?`, id);
    return row === undefined ? [] : [{ row, cursor: writeCursor([SORTED, id, value]) }];
  });
  const next = shown.length > limit ? (items.at(-1)?.cursor ?? null) : null;
  return { items, next, complete: true, sorted: true };
}

/** Position in a sorted result; null for a position of another kind. */
function sortedPlace(place: unknown): readonly [id: number, value: number] | null {
  const behind = Array.isArray(place) && place[0] === SORTED ? place.slice(1) : null;
  return isOf(behind, ["number", "number"]) ? [Number(behind[0]), Number(behind[1])] : null;
}

/** The column that each order sorts by, and whether its lowest value comes first. */
const SORTS = {
  newest: { column: "id", direction: -1 },
  email: { column: "id", direction: 1 },
  score: { column: "score", direction: -1 },
  score_up: { column: "score", direction: 1 },
  last_seen: { column: "last_seen", direction: -1 },
  last_seen_up: { column: "last_seen", direction: 1 },
} as const satisfies Record<PeopleSort, { column: string; direction: 1 | -1 }>;

/** People found, in index order, without a limit: a page scans at most PEOPLE_SEARCHED people. */
function byEmail(
  sql: SqlStorage,
  query: PeopleQuery,
  text: string,
  place: unknown,
  limit: number,
): Omit<ListedPage, "sorted"> {
  const after = typeof place === "string" ? place : "";
  const [end] = sql.exec<{ email: string }>(
    "SELECT email FROM people WHERE email > ? ORDER BY email LIMIT 1 OFFSET ?",
    after,
    PEOPLE_SEARCHED - 1,
  );
  const rows = sql
    .exec<PersonRow>(
      `SELECT ${PERSON_COLUMNS} ${fitting(query)} AND email <= ?8 ORDER BY email LIMIT ?7`,
      after,
      ...asked(query, text),
      limit + 1,
      end?.email ?? "\u{10FFFF}",
    )
    .toArray();
  const items = rows.slice(0, limit).map((row): Listed => ({ row, cursor: writeCursor(row.email) }));
  if (rows.length > limit) return { items, next: items.at(-1)?.cursor ?? null, complete: true };
  return { items, next: end === undefined ? null : writeCursor(end.email), complete: end === undefined };
}

/** The matching people: by the index alone, unless a filter needs their rows. */
function fitting({ minScore, sinceDay, untilDay }: PeopleFilter): string {
  return minScore === undefined && sinceDay === undefined && untilDay === undefined ? FOUND : NARROWED;
}

function asked({ minScore, sinceDay, untilDay }: PeopleFilter, text: string): (string | number)[] {
  const most = Number.MAX_SAFE_INTEGER;
  return [text.toLowerCase(), folded(text), minScore ?? -most, sinceDay ?? 0, untilDay ?? most];
}

/**
 * People for lists, by order and filter. A search finds a text anywhere in an email or a searchable trait: it scans
 * an index that contains little else. The index is written when one of these values changes, not with each signal.
 */
import { folded } from "../../domain/signal/traits.ts";
import {
  ACCOUNT_PAGE_MAX_CHARACTERS,
  PEOPLE_SCAN,
  PEOPLE_SEARCHED,
  PERSON_IDENTITIES_LISTED,
  PERSON_SCORES_LISTED,
} from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type {
  PeopleFilter,
  PeoplePage,
  PeopleQuery,
  PeopleSort,
  Person,
  ScoringSignal,
} from "../protocol/people-and-accounts.ts";
import type { StoreState } from "../state/store-state.ts";
import { ascending, byDay, isOf, readDayPlace, writeDayPlace, readCursor, writeCursor } from "./by-day.ts";
import type { DayList } from "./by-day.ts";
import { firstIdentities, PERSON_COLUMNS, toPersonSummary } from "./person-row.ts";
import type { PersonRow } from "./person-row.ts";
import { latestScored, toScoringSignals } from "./scored-entries.ts";

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
  { email, text = "" }: { email?: string | undefined; text?: string | undefined },
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

/** People of one day that are sorted by last seen; more are sorted in chunks. Some 5 ms. */
export const PEOPLE_DAY_SORTED = 1_000;

/** A person, or null for a person that does not match; and the next position, for the cursor. */
export interface PersonStep {
  row: PersonRow | null;
  place: unknown;
}

const PEOPLE = `SELECT ${PERSON_COLUMNS} FROM people WHERE`;
const WAYS = {
  down: { beyond: "<", order: "DESC", parts: [">", "0", "<"], first: Number.MAX_SAFE_INTEGER },
  up: { beyond: ">", order: "ASC", parts: ["<", "0", ">"], first: 0 },
} as const;
type Direction = keyof typeof WAYS;
/** For each part of the scores their sign, and the score that none is above. */
const SIGN = { ">": 1, "0": 0, "<": -1 } as const;
const HIGHEST = { ">": Number.MAX_SAFE_INTEGER, "0": 0, "<": -1 } as const;

/** People in an order. @param place of a cursor; an invalid one is ignored. */
export function inOrder(
  sql: SqlStorage,
  sort: PeopleSort,
  filter: PeopleFilter,
  place: unknown,
): Generator<PersonStep> {
  switch (sort) {
    case "newest":
      return eachNewest(sql, place);
    case "email":
      return eachByEmail(sql, place);
    case "score":
      return byScore(sql, "down", filter, place);
    case "score_up":
      return byScore(sql, "up", filter, place);
    case "last_seen":
      return byLastSeen(sql, "down", filter, place);
    case "last_seen_up":
      return byLastSeen(sql, "up", filter, place);
  }
}

function* eachNewest(sql: SqlStorage, place: unknown): Generator<PersonStep> {
  const before = Number.isSafeInteger(place) ? Number(place) : Number.MAX_SAFE_INTEGER;
  for (const row of sql.exec<PersonRow>(`${PEOPLE} id < ? ORDER BY id DESC`, before)) yield { row, place: row.id };
}

function* eachByEmail(sql: SqlStorage, place: unknown): Generator<PersonStep> {
  const after = typeof place === "string" ? place : "";
  for (const row of sql.exec<PersonRow>(`${PEOPLE} email > ? ORDER BY email`, after)) yield { row, place: row.email };
}

/**
 * People by their scores. The index of those who have a score gives those above zero and below; between them comes everybody
 * else by number, and those with a score are passed by there.
 */
function* byScore(
  sql: SqlStorage,
  direction: Direction,
  { minScore = -Number.MAX_SAFE_INTEGER }: PeopleFilter,
  place: unknown,
): Generator<PersonStep> {
  const { beyond, order, parts, first } = WAYS[direction];
  const lowest = direction === "up" ? { score: minScore, id: 0 } : null;
  let from = isOf(place, ["number", "number"]) ? { score: Number(place[0]), id: Number(place[1]) } : lowest;
  for (const part of parts) {
    if (from !== null && Math.sign(from.score) !== SIGN[part]) continue;
    // All parts that are left have lower scores still.
    if (direction === "down" && minScore > HIGHEST[part]) return;
    const rows = part === "0" ? everybody(from) : scored(part, from);
    for (const row of rows) {
      if (row.score < minScore && part !== "0") return;
      yield { row: part === "0" && row.score !== 0 ? null : row, place: [part === "0" ? 0 : row.score, row.id] };
    }
    from = null;
  }

  function everybody(behind: typeof from): Iterable<PersonRow> {
    return sql.exec<PersonRow>(`${PEOPLE} id ${beyond} ? ORDER BY id ${order}`, behind?.id ?? first);
  }

  function* scored(part: ">" | "<", behind: typeof from): Generator<PersonRow> {
    // Both conditions on the score are needed: a partial index is used where the statement has its condition.
    const those = `${PEOPLE} score <> 0 AND score ${part} 0`;
    const further = `ORDER BY score ${order}, id ${order}`;
    if (behind === null) return yield* sql.exec<PersonRow>(`${those} ${further}`);
    const { score, id } = behind;
    // Two statements, because SQLite would read every person of that score if one statement asked for both.
    yield* sql.exec<PersonRow>(`${those} AND score = ? AND id ${beyond} ? ORDER BY id ${order}`, score, id);
    yield* sql.exec<PersonRow>(`${those} AND score ${beyond} ? ${further}`, score);
  }
}

function* byLastSeen(
  sql: SqlStorage,
  direction: Direction,
  { sinceDay = 0, untilDay = Number.MAX_SAFE_INTEGER }: PeopleFilter,
  place: unknown,
): Generator<PersonStep> {
  const [down, up] = [
    "SELECT max(last_day) AS day FROM people WHERE last_day <= ? AND last_day >= ?",
    "SELECT min(last_day) AS day FROM people WHERE last_day >= ? AND last_day <= ?",
  ];
  const nextDay = (query: string, from: number, to: number) =>
    sql.exec<{ day: number | null }>(query, from, to).one().day;
  const list: DayList<PersonRow> = {
    chunk: PEOPLE_DAY_SORTED,
    direction,
    nextDay: (from) =>
      direction === "down"
        ? nextDay(down, Math.min(from, untilDay), sinceDay)
        : nextDay(up, Math.max(from, sinceDay), untilDay),
    rows: (day, behind) =>
      sql
        .exec<PersonRow>(
          `${PEOPLE} last_day = ? AND id < ? ORDER BY id DESC LIMIT ?`,
          day,
          behind?.[0] ?? Number.MAX_SAFE_INTEGER,
          PEOPLE_DAY_SORTED,
        )
        .toArray(),
    keyOf: ({ id }) => [id],
    orderOf: ({ id, last_seen }) => [last_seen, id],
    compare: (one, other) => (direction === "down" ? ascending(other, one) : ascending(one, other)),
  };
  const from = readDayPlace(place, ["number"], ["number", "number"]);
  for (const step of byDay(list, from)) yield { row: step.row, place: writeDayPlace(step.place) };
}

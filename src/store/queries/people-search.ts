/**
 * Lists of people. Without a text, people are walked in their order by an index, and filters apply on the way. A search finds a text
 * anywhere in an email or a searchable trait: it scans an index that contains little else and is not written with each signal.
 */
import { emailAsStored } from "../../domain/signal/identity.ts";
import { folded, SEARCHED_TRAITS } from "../../domain/signal/traits.ts";
import {
  SLICE_MAX_CHARACTERS,
  PEOPLE_SCAN,
  PEOPLE_SEARCHED,
  PERSON_IDENTITIES_LISTED,
  PERSON_SCORES_LISTED,
} from "../../limits.ts";
import type { ListQuery, ListPage } from "../../platform/list-page.ts";
import type {
  ListedPeople,
  PeopleFilter,
  PeoplePage,
  PeopleQuery,
  PeopleSort,
  Person,
} from "../protocol/people-and-accounts.ts";
import { areLapsesDue } from "../people/lapse-run.ts";
import type { ShownState } from "./shown.ts";
import {
  ascending,
  byDay,
  nextDayOf,
  hasTypes,
  readCursor,
  readDayPlace,
  writeCursor,
  type DayList,
} from "./by-day.ts";
import {
  latestIdentities,
  latestScored,
  PERSON_COLUMNS,
  toPersonSummary,
  toScoringSignals,
  type PersonSummaryRow,
} from "./person-page.ts";

/** Maximum results that a search sorts, in about 10 ms. More results are listed by email. */
export const PEOPLE_SORTED = 5_000;
export const MEMBERS_SORTED = 10_000;
/** People of one day who are sorted exactly by their last signal: about 5 ms. */
export const PEOPLE_DAY_SORTED = 1_000;
/** The latest signals of a person that the operator API reads to find scores. */
const PERSON_SIGNALS_READ = 1_000;

const SELECT = `SELECT ${PERSON_COLUMNS} FROM people WHERE`;
/** The matches of a search, with its first three parameters. Names the index, because SQLite prefers the index on scores. */
const FOUND = `FROM people INDEXED BY people_email
  WHERE email > ?1 AND (instr(email, ?2) > 0 OR instr(names, ?3) > 0)`;
const NARROWED = `${FOUND} AND score >= ?4 AND last_day >= ?5 AND last_day <= ?6`;
/** The people of an account, with the same parameters and the account. */
const OF_ACCOUNT = NARROWED.replace("INDEXED BY people_email", "INDEXED BY people_account");
/** Marks the cursor of a sorted search. */
const SORTED = "sorted";

const SORTS = {
  newest: { column: "id", direction: -1 },
  email: { column: "email", direction: 1 },
  score: { column: "score", direction: -1 },
  score_up: { column: "score", direction: 1 },
  last_seen: { column: "last_seen", direction: -1 },
  last_seen_up: { column: "last_seen", direction: 1 },
} as const satisfies Record<PeopleSort, { column: string; direction: 1 | -1 }>;

interface Listed {
  row: PersonSummaryRow;
  cursor: string;
}

type FoundRows = Omit<PeoplePage, "items" | "lapsing"> & { items: Listed[] };

/** An invalid cursor is ignored. */
export function findPeople(state: ShownState, query: PeopleQuery, listQuery: ListQuery): PeoplePage {
  const { items, ...found } = listPeople(state, query, listQuery);
  const lapsing = areLapsesDue(state);
  return { ...found, items: items.map(({ row }) => toPersonSummary(state, row)), lapsing };
}

/**
 * People with their ids and scores, the newest first, or the person with an email. A slice of very large people is short. An invalid
 * cursor gives an empty slice.
 */
export function readPeople(
  state: ShownState,
  { email, text = "", account }: ListedPeople,
  listQuery: ListQuery,
): ListPage<Person> {
  if (email !== undefined) {
    const rows = state.sql.exec<PersonSummaryRow>(`${SELECT} email = ?`, emailAsStored(email)).toArray();
    const found = rows.filter(({ accountId }) => account === undefined || accountId === account);
    return { items: found.map((row) => toPerson(state, row)), next: null };
  }
  const items: Person[] = [];
  if (account === undefined && !isCursorOf(text, listQuery.cursor)) return { items, next: null };
  let [characters, last]: [number, string | null] = [0, null];
  const found = listPeople(state, { sort: "newest", text, account }, listQuery);
  for (const { row, cursor } of found.items) {
    if (characters > SLICE_MAX_CHARACTERS) return { items, next: last };
    const person = toPerson(state, row);
    characters += JSON.stringify(person).length;
    items.push(person);
    last = cursor;
  }
  return { items, next: found.next };
}

function toPerson(state: ShownState, row: PersonSummaryRow): Person {
  const { recent } = state.sql.exec<{ recent: string }>("SELECT recent FROM people WHERE id = ?", row.id).one();
  const range = { before: Number.MAX_SAFE_INTEGER, limit: PERSON_SIGNALS_READ };
  const scoringSignals: Person["scoringSignals"] = [];
  for (const { entry } of latestScored(state, { id: row.id, recent }, range)) {
    if (entry !== null) scoringSignals.push(...toScoringSignals(state, row.id, entry));
    if (scoringSignals.length >= PERSON_SCORES_LISTED) break;
  }
  return {
    ...toPersonSummary(state, row),
    identities: latestIdentities(state.sql, row.id, PERSON_IDENTITIES_LISTED),
    scoringSignals: scoringSignals.slice(0, PERSON_SCORES_LISTED),
  };
}

function listPeople(state: ShownState, query: PeopleQuery, { cursor, limit }: ListQuery): FoundRows {
  const { sql } = state;
  const place = readCursor(cursor);
  const { text = "", account } = query;
  if (account !== undefined) return searchSorted(sql, query, text, place, limit) ?? walk(sql, query, place, limit);
  if (text === "") return walk(sql, query, place, limit);
  // A search that began in the order of emails keeps this order.
  const isByEmail = query.sort === "email" || typeof place === "string" || state.head.nextPersonId > PEOPLE_SEARCHED;
  const found = isByEmail ? null : searchSorted(sql, query, text, place, limit);
  return found ?? { ...searchByEmail(sql, query, text, place, limit), sorted: query.sort === "email" };
}

/** Whether a cursor belongs to the list of the newest people, or to a search. */
function isCursorOf(text: string, cursor: string | null): boolean {
  const place = readCursor(cursor);
  if (cursor === null) return true;
  return text === "" ? Number.isSafeInteger(place) : typeof place === "string" || sortedPlace(place) !== null;
}

function walk(sql: SqlStorage, query: PeopleQuery, place: unknown, limit: number): FoundRows {
  const { minScore = -Infinity, sinceDay = 0, untilDay = Infinity } = query;
  const items: Listed[] = [];
  let [looked, after]: [number, unknown] = [0, null];
  for (const { row, place: next } of inOrder(sql, query, place)) {
    const isInRange = row !== null && row.score >= minScore && row.lastDay >= sinceDay && row.lastDay <= untilDay;
    const fits = isInRange && (query.account === undefined || isMember(row, query.account, query.text));
    const isFull = items.length === limit;
    if ((isFull && fits) || looked++ === PEOPLE_SCAN) {
      return { items, next: writeCursor(after), complete: isFull, sorted: true };
    }
    after = next;
    if (fits) items.push({ row, cursor: writeCursor(next) });
  }
  return { items, next: null, complete: true, sorted: true };
}

/** Filters people in code if the account has too many people for SQL to sort. */
function isMember(row: PersonSummaryRow, account: string, text = ""): boolean {
  if (row.accountId !== account) return false;
  const named = SEARCHED_TRAITS.some((trait) => folded(row[trait] ?? "").includes(folded(text)));
  return named || row.email.includes(text.toLowerCase());
}

/** Null: too many matches to sort. Later slices allow more, because new people may match meanwhile. */
function searchSorted(
  sql: SqlStorage,
  query: PeopleQuery,
  text: string,
  place: unknown,
  limit: number,
): FoundRows | null {
  const from = sortedPlace(place);
  const sortable = query.account === undefined ? PEOPLE_SORTED : MEMBERS_SORTED;
  const max = from === null ? sortable : 2 * sortable;
  const { column, direction } = SORTS[query.sort];
  const condition = query.account === undefined ? conditionOf(query) : `${OF_ACCOUNT} AND account = ?8`;
  const account = query.account === undefined ? [] : [query.account];
  const matches = sql.exec(`SELECT id ${condition} LIMIT ?7`, "", ...valuesOf(query, text), max + 1, ...account);
  const ids = [...matches.raw<[id: number]>()].flat();
  if (ids.length > max) return null;
  const values = sql.exec(
    `SELECT id, ${column} FROM people WHERE id IN (SELECT value FROM json_each(?))`,
    JSON.stringify(ids),
  );
  const order = (a: SortedPlace, b: SortedPlace): number => direction * ascending(a.toReversed(), b.toReversed());
  const shown = [...values.raw<[id: number, value: number | string]>()]
    .filter((sorted) => from === null || order(sorted, from) > 0)
    .sort(order)
    .slice(0, limit + 1);
  const items = shown.slice(0, limit).flatMap(([id, value]) =>
    sql
      .exec<PersonSummaryRow>(`${SELECT} id = ?`, id)
      .toArray()
      .map((row): Listed => ({ row, cursor: writeCursor([SORTED, id, value]) })),
  );
  const next = shown.length > limit ? (items.at(-1)?.cursor ?? null) : null;
  return { items, next, complete: true, sorted: true, total: ids.length };
}

type SortedPlace = readonly [id: number, value: number | string];

/** Null: the cursor is of another list. */
function sortedPlace(place: unknown): SortedPlace | null {
  const after = Array.isArray(place) && place[0] === SORTED ? place.slice(1) : null;
  const [id, value] = after ?? [];
  const isValue = typeof value === "number" || typeof value === "string";
  return typeof id === "number" && isValue ? [id, value] : null;
}

/** The index has the order of emails. A slice scans PEOPLE_SEARCHED people at most. */
function searchByEmail(
  sql: SqlStorage,
  query: PeopleQuery,
  text: string,
  place: unknown,
  limit: number,
): Omit<FoundRows, "sorted"> {
  const after = typeof place === "string" ? place : "";
  const [end] = sql.exec<{ email: string }>(
    "SELECT email FROM people WHERE email > ? ORDER BY email LIMIT 1 OFFSET ?",
    after,
    PEOPLE_SEARCHED - 1,
  );
  const rows = sql
    .exec<PersonSummaryRow>(
      `SELECT ${PERSON_COLUMNS} ${conditionOf(query)} AND email <= ?8 ORDER BY email LIMIT ?7`,
      after,
      ...valuesOf(query, text),
      limit + 1,
      end?.email ?? "\u{10FFFF}",
    )
    .toArray();
  const items = rows.slice(0, limit).map((row): Listed => ({ row, cursor: writeCursor(row.email) }));
  if (rows.length > limit) return { items, next: items.at(-1)?.cursor ?? null, complete: true };
  return { items, next: end === undefined ? null : writeCursor(end.email), complete: end === undefined };
}

/** Uses the index alone, unless a filter needs the rows. */
function conditionOf({ minScore, sinceDay, untilDay }: PeopleFilter): string {
  return minScore === undefined && sinceDay === undefined && untilDay === undefined ? FOUND : NARROWED;
}

function valuesOf({ minScore, sinceDay, untilDay }: PeopleFilter, text: string): (string | number)[] {
  const max = Number.MAX_SAFE_INTEGER;
  return [text.toLowerCase(), folded(text), minScore ?? -max, sinceDay ?? 0, untilDay ?? max];
}

interface PersonStep {
  /** Null: skip this row. */
  row: PersonSummaryRow | null;
  place: unknown;
}

/** @param place from a cursor; an invalid place is ignored. */
function inOrder(sql: SqlStorage, query: PeopleQuery, place: unknown): Generator<PersonStep> {
  switch (query.sort) {
    case "newest":
      return byId(sql, place);
    case "email":
      return byEmail(sql, place);
    case "score":
      return byScore(sql, "down", query, place);
    case "score_up":
      return byScore(sql, "up", query, place);
    case "last_seen":
      return byLastSeen(sql, "down", query, place);
    case "last_seen_up":
      return byLastSeen(sql, "up", query, place);
  }
}

function* byId(sql: SqlStorage, place: unknown): Generator<PersonStep> {
  const before = Number.isSafeInteger(place) ? Number(place) : Number.MAX_SAFE_INTEGER;
  for (const row of sql.exec<PersonSummaryRow>(`${SELECT} id < ? ORDER BY id DESC`, before))
    yield { row, place: row.id };
}

function* byEmail(sql: SqlStorage, place: unknown): Generator<PersonStep> {
  const after = typeof place === "string" ? place : "";
  for (const row of sql.exec<PersonSummaryRow>(`${SELECT} email > ? ORDER BY email`, after))
    yield { row, place: row.email };
}

/** The index on scores has only the people above and below zero. The people with score 0 come between them, by id. */
function* byScore(
  sql: SqlStorage,
  direction: "down" | "up",
  { minScore = -Number.MAX_SAFE_INTEGER }: PeopleFilter,
  place: unknown,
): Generator<PersonStep> {
  const isUp = direction === "up";
  const [beyond, order] = isUp ? [">", "ASC"] : ["<", "DESC"];
  const lowest = isUp ? { score: minScore, id: 0 } : null;
  let from = hasTypes(place, ["number", "number"]) ? { score: Number(place[0]), id: Number(place[1]) } : lowest;
  for (const sign of isUp ? [-1, 0, 1] : [1, 0, -1]) {
    if (from !== null && Math.sign(from.score) !== sign) continue;
    // The remaining people have lower scores.
    if (!isUp && sign <= 0 && minScore > sign) return;
    for (const row of sign === 0 ? everybody(from?.id) : scored(sign, from)) {
      if (row.score < minScore && sign !== 0) return;
      yield { row: sign === 0 && row.score !== 0 ? null : row, place: [sign === 0 ? 0 : row.score, row.id] };
    }
    from = null;
  }

  function everybody(afterId = isUp ? 0 : Number.MAX_SAFE_INTEGER): Iterable<PersonSummaryRow> {
    return sql.exec<PersonSummaryRow>(`${SELECT} id ${beyond} ? ORDER BY id ${order}`, afterId);
  }

  function* scored(sign: number, after: typeof from): Generator<PersonSummaryRow> {
    // SQLite uses a partial index only for a statement that repeats its condition.
    const half = `${SELECT} score <> 0 AND score ${sign > 0 ? ">" : "<"} 0`;
    const ordered = `ORDER BY score ${order}, id ${order}`;
    if (after === null) return yield* sql.exec<PersonSummaryRow>(`${half} ${ordered}`);
    const { score, id } = after;
    // Two statements: one statement for both would read everybody with that score.
    yield* sql.exec<PersonSummaryRow>(`${half} AND score = ? AND id ${beyond} ? ORDER BY id ${order}`, score, id);
    yield* sql.exec<PersonSummaryRow>(`${half} AND score ${beyond} ? ${ordered}`, score);
  }
}

function* byLastSeen(
  sql: SqlStorage,
  direction: "down" | "up",
  filter: PeopleFilter,
  place: unknown,
): Generator<PersonStep> {
  const isUp = direction === "up";
  const list: DayList<PersonSummaryRow> = {
    chunk: PEOPLE_DAY_SORTED,
    direction,
    nextDay: nextDayOf(sql, "people", direction, filter),
    rows: (day, after) =>
      sql
        .exec<PersonSummaryRow>(
          `${SELECT} last_day = ? AND id < ? ORDER BY id DESC LIMIT ?`,
          day,
          after?.[0] ?? Number.MAX_SAFE_INTEGER,
          PEOPLE_DAY_SORTED,
        )
        .toArray(),
    keyOf: ({ id }) => [id],
    orderOf: ({ id, lastSeenMs }) => [lastSeenMs, id],
    compare: (a, b) => (isUp ? ascending(a, b) : ascending(b, a)),
  };
  yield* byDay(list, readDayPlace(place, ["number"], ["number", "number"]));
}

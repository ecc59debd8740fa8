/** People as the page lists them: in one of four orders, or those whose email or name begins with something. */
import { PEOPLE_DAY_SORTED, PEOPLE_SCAN } from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { PeopleQuery, PersonSummary } from "../record-pages.ts";
import { latestByDay, readDayPlace, writeDayPlace } from "./by-day.ts";
import type { DayList, Values } from "./by-day.ts";
import { PERSON_COLUMNS, toPersonSummary } from "./person-row.ts";
import type { PersonRow } from "./person-row.ts";

const PEOPLE = `SELECT ${PERSON_COLUMNS} FROM people WHERE`;

/** A cursor that makes no sense is none. */
export function findPeople(sql: SqlStorage, query: PeopleQuery, page: Page): PageOf<PersonSummary> {
  if ("prefix" in query)
    return query.by === "email" ? byEmail(sql, query.prefix, page) : byName(sql, query.prefix, page);
  switch (query.sort) {
    case "newest":
      return newest(sql, page);
    case "email":
      return byEmail(sql, "", page);
    case "score":
      return byScore(sql, page);
    case "last_seen":
      return byLastSeen(sql, page);
  }
}

function newest(sql: SqlStorage, page: Page): PageOf<PersonSummary> {
  const before = readNumbers(page.cursor, 1)?.[0] ?? Number.MAX_SAFE_INTEGER;
  const rows = sql.exec<PersonRow>(`${PEOPLE} id < ? ORDER BY id DESC LIMIT ?`, before, page.limit + 1).toArray();
  return pageOf(rows, page.limit, ({ id }) => String(id));
}

function byEmail(sql: SqlStorage, prefix: string, page: Page): PageOf<PersonSummary> {
  const begins = prefix.toLowerCase();
  // The cursor says where to begin, which the index is entered with; the plus keeps the prefix from being that.
  const from = page.cursor === null ? "email >= ?1" : "email > ?4 AND +email >= ?1";
  const rows = sql.exec<PersonRow>(
    `${PEOPLE} ${from} AND email < ?2 ORDER BY email LIMIT ?3`,
    begins,
    `${begins}\u{10FFFF}`,
    page.limit + 1,
    ...(page.cursor === null ? [] : [page.cursor]),
  );
  return pageOf(rows.toArray(), page.limit, ({ email }) => email);
}

/** In whatever case. Who has no name is not in the index. */
function byName(sql: SqlStorage, prefix: string, page: Page): PageOf<PersonSummary> {
  const [, id, name] = /^(\d{1,15})\.(.*)$/su.exec(page.cursor ?? "") ?? [];
  const read = (condition: string, limit: number, ...last: (string | number)[]) =>
    sql
      .exec<PersonRow>(
        `${PEOPLE} name IS NOT NULL AND ${condition} AND name COLLATE NOCASE < ?2
         ORDER BY name COLLATE NOCASE, id LIMIT ?3`,
        prefix,
        `${prefix}\u{10FFFF}`,
        limit,
        ...last,
      )
      .toArray();
  const cursorOf = (row: PersonRow) => `${row.id}.${row.name}`;
  if (name === undefined) return pageOf(read("name COLLATE NOCASE >= ?1", page.limit + 1), page.limit, cursorOf);
  // Asked for at once, SQLite would read everybody of that name from the first.
  const begins = "+name COLLATE NOCASE >= ?1";
  const same = read(`name COLLATE NOCASE = ?4 AND id > ?5 AND ${begins}`, page.limit + 1, name, Number(id));
  const beyond = read(`name COLLATE NOCASE > ?4 AND ${begins}`, page.limit + 1 - same.length, name);
  return pageOf([...same, ...beyond], page.limit, cursorOf);
}

/**
 * Those above zero and below by the index of those who have a score; between them everybody else, the newest first, of
 * whom a page looks at no more than PEOPLE_SCAN.
 */
function byScore(sql: SqlStorage, { cursor, limit }: Page): PageOf<PersonSummary> {
  let [id = 0, score = 0] = readNumbers(cursor, 2) ?? [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
  const rows: PersonRow[] = [];
  const cursorOf = (row: PersonRow) => `${row.id}.${row.score}`;
  const left = () => limit + 1 - rows.length;
  // Repeated: a partial index is used where the statement has its condition.
  const scored = (sign: ">" | "<") => {
    const ordered = `score <> 0 AND score ${sign} 0`;
    const same = `${PEOPLE} ${ordered} AND score = ? AND id < ? ORDER BY id DESC LIMIT ?`;
    const lower = `${PEOPLE} ${ordered} AND score < ? ORDER BY score DESC, id DESC LIMIT ?`;
    rows.push(...sql.exec<PersonRow>(same, score, id, left()));
    rows.push(...sql.exec<PersonRow>(lower, score, left()));
  };
  if (score > 0) {
    scored(">");
    [id, score] = [Number.MAX_SAFE_INTEGER, 0];
  }
  if (left() > 0 && score === 0) {
    const looked = sql.exec<PersonRow>(`${PEOPLE} id < ? ORDER BY id DESC LIMIT ?`, id, PEOPLE_SCAN).toArray();
    rows.push(...looked.filter((row) => row.score === 0).slice(0, left()));
    const last = looked.at(-1);
    if (left() > 0 && last !== undefined && looked.length === PEOPLE_SCAN) {
      return { items: rows.map(toPersonSummary), next: `${last.id}.0` };
    }
    [id, score] = [0, 0];
  }
  if (left() > 0) scored("<");
  return pageOf(rows, limit, cursorOf);
}

function byLastSeen(sql: SqlStorage, page: Page): PageOf<PersonSummary> {
  const list: DayList<PersonRow> = {
    chunk: PEOPLE_DAY_SORTED,
    latestDay: (upTo) =>
      sql.exec<{ day: number | null }>("SELECT max(last_day) AS day FROM people WHERE last_day <= ?", upTo).one().day,
    rows: (day, behind) =>
      sql
        .exec<PersonRow>(
          `SELECT ${PERSON_COLUMNS} FROM people WHERE last_day = ? AND id < ? ORDER BY id DESC LIMIT ?`,
          day,
          behind?.[0] ?? Number.MAX_SAFE_INTEGER,
          PEOPLE_DAY_SORTED,
        )
        .toArray(),
    keyOf: ({ id }) => [id],
    orderOf: ({ id, last_seen }) => [last_seen, id],
    compare: descending,
  };
  const from = page.cursor === null ? null : readDayPlace(page.cursor, ["number"], ["number", "number"]);
  const rows: PersonRow[] = [];
  let next: string | null = null;
  for (const { row, place } of latestByDay(list, from)) {
    if (rows.length === page.limit) return { items: rows.map(toPersonSummary), next };
    rows.push(row);
    next = writeDayPlace(place);
  }
  return { items: rows.map(toPersonSummary), next: null };
}

function descending(one: Values, other: Values): number {
  const at = one.findIndex((value, index) => value !== other[index]);
  return at === -1 ? 0 : Number(other[at]) - Number(one[at]);
}

function readNumbers(cursor: string | null, count: number): number[] | null {
  const numbers = (cursor ?? "").split(".").map(Number);
  return cursor !== null && cursor !== "" && numbers.length === count && numbers.every(Number.isSafeInteger)
    ? numbers
    : null;
}

function pageOf(
  rows: readonly PersonRow[],
  limit: number,
  cursorOf: (row: PersonRow) => string,
): PageOf<PersonSummary> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map(toPersonSummary),
    next: rows.length > limit && last !== undefined ? cursorOf(last) : null,
  };
}

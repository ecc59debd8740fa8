/**
 * Orders of the list of people. Each yields people lazily from a position, so that the caller stops reading when the
 * page is full.
 */
import type { PeopleFilter, PeopleSort } from "../protocol/people-and-accounts.ts";
import { ascending, byDay, isOf, readDayPlace, writeDayPlace } from "./by-day.ts";
import type { DayList } from "./by-day.ts";
import { PERSON_COLUMNS } from "./person-row.ts";
import type { PersonRow } from "./person-row.ts";

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
      return newest(sql, place);
    case "email":
      return byEmail(sql, place);
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

function* newest(sql: SqlStorage, place: unknown): Generator<PersonStep> {
  const before = Number.isSafeInteger(place) ? Number(place) : Number.MAX_SAFE_INTEGER;
  for (const row of sql.exec<PersonRow>(`${PEOPLE} id < ? ORDER BY id DESC`, before)) yield { row, place: row.id };
}

function* byEmail(sql: SqlStorage, place: unknown): Generator<PersonStep> {
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

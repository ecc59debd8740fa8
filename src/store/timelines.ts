/**
 * Which signals and scoring signals are whose. What a batch records belongs to people all over a large workspace: in an
 * index by person it would rewrite a page for each of them. So what became theirs last is named in the person's row, as
 * text, which recording writes in any case; it goes to a table when there are more than RECENT_CHARACTERS of it.
 *
 * Triggers (migration 0006) take out signals that are deleted or become somebody else's, and scoring signals that are
 * deleted: what is found here is theirs.
 */
import { RECENT_CHARACTERS } from "../limits.ts";

/** Part of statements: never what was sent. */
interface Timeline {
  table: string;
  row: string;
  /** Column of people: numbers with commas between them. */
  recent: "recent_signals" | "recent_scoring_signals";
}

export const SIGNALS: Timeline = { table: "person_signals", row: "seq", recent: "recent_signals" };
export const SCORES: Timeline = { table: "person_scoring_signals", row: "id", recent: "recent_scoring_signals" };

/**
 * A query for the numbers of a person's rows, in no order. All are names of parameters, or expressions.
 *
 * @param limit the latest, and some more: those that the person's row names come in addition; none: all
 * @param before only rows before this one
 */
export function rowsOf(
  { table, row, recent }: Timeline,
  person: string,
  limit = "-1",
  before = String(Number.MAX_SAFE_INTEGER),
): string {
  return `SELECT ${row} FROM (
      SELECT ${row} FROM ${table} WHERE person_id = ${person} AND ${row} < ${before} ORDER BY ${row} DESC LIMIT ${limit}
    ) AS latest_rows UNION ALL
    SELECT value FROM people, json_each('[' || ${recent} || ']') WHERE people.id = ${person} AND value < ${before}`;
}

/** What `rowsOf` finds. */
export function readLatest(
  sql: SqlStorage,
  timeline: Timeline,
  personId: number,
  limit: number,
  before = Number.MAX_SAFE_INTEGER,
): number[] {
  const rows = sql.exec(rowsOf(timeline, "?1", "?2", "?3"), personId, limit, before).raw<[number]>();
  return [...rows].map(([row]) => row);
}

/** Gathers what becomes whose, so that it is written with the rows of people. */
export class TimelineChanges {
  readonly #timeline: Timeline;
  readonly #rows = new Map<number, number[]>();

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  add(personId: number, row: number): void {
    const rows = this.#rows.get(personId);
    if (rows === undefined) this.#rows.set(personId, [row]);
    else rows.push(row);
  }

  people(): Iterable<number> {
    return this.#rows.keys();
  }

  /** Returns what the person's row is to say instead of `recent`; what is too much for it is written to the table. */
  write(sql: SqlStorage, personId: number, recent: string): string {
    const rows = this.#rows.get(personId);
    if (rows === undefined) return recent;
    const all = recent === "" ? rows.join(",") : `${recent},${rows.join(",")}`;
    if (all.length <= RECENT_CHARACTERS) return all;
    insertRows(sql, this.#timeline, personId, all);
    return "";
  }
}

/** Into the table. @param rows numbers with commas between them */
export function insertRows(sql: SqlStorage, { table, row }: Timeline, personId: number, rows: string): void {
  sql.exec(
    `INSERT OR IGNORE INTO ${table} (person_id, ${row}) SELECT ?, value FROM json_each(?)`,
    personId,
    `[${rows}]`,
  );
}

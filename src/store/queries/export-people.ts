/**
 * Export of people with their ids. A person may have tens of thousands of ids, so a line can exceed a slice: it is
 * written in parts, as the ids are read.
 */
import { eachTrait } from "../../domain/signal/traits.ts";
import type { ExportFormat, ExportPage } from "../protocol/store-operations.ts";
import type { StoreState } from "../state/store-state.ts";
import { headerOf, lineOf, EXPORT_PAGE_MAX_CHARACTERS } from "./export-text.ts";
import type { Columns } from "./export-text.ts";
import { FIRST_CLAIM, readIdentities } from "./person-identities.ts";
import type { ClaimPlace } from "./person-identities.ts";
import { PERSON_COLUMNS } from "./person-row.ts";
import type { PersonRow } from "./person-row.ts";

/** People per slice of an export, each with reads of their ids: some 20 ms. */
const EXPORT_PAGE_PEOPLE = 250;

const FACTS: Columns = {
  email: "value",
  ...eachTrait(() => "value" as const),
  score: "value",
  first_seen: "time",
  last_seen: "time",
  ids_dropped: "value",
};
const LISTS = [
  { column: "user_ids", kind: "user_id" },
  { column: "anonymous_ids", kind: "anonymous_id" },
] as const;
/** Ids that are read at a time. */
const IDS_AT_ONCE = 500;

interface Position {
  /** Number of the last person whose line has been begun. */
  person: number;
  lastPerson: number;
  /** Position within the line at which the export continues; null: the line is complete. */
  list: { index: number; behind: ClaimPlace; some: boolean } | null;
}

export function exportPeople(state: StoreState, format: ExportFormat, cursor: string | null): ExportPage {
  const columns = Object.fromEntries(LISTS.map(({ column }) => [column, "json" as const]));
  let text = cursor === null && format === "csv" ? headerOf({ ...FACTS, ...columns }) : "";
  let position =
    cursor === null
      ? { person: 0, lastPerson: state.books.nextPersonId - 1, list: null }
      : (JSON.parse(cursor) as Position);
  for (let rows = 0; rows < EXPORT_PAGE_PEOPLE && text.length < EXPORT_PAGE_MAX_CHARACTERS;) {
    const part: Part | null =
      position.list === null ? nextPerson(state, position, format) : nextIds(state, position, format);
    if (part === null) return { text, next: null };
    text += part.text;
    position = part.position;
    if (position.list === null) rows++;
  }
  return { text, next: JSON.stringify(position) };
}

interface Part {
  text: string;
  position: Position;
}

/** The beginning of the next person's line. */
function nextPerson({ sql }: StoreState, { person, lastPerson }: Position, format: ExportFormat): Part | null {
  const [row] = sql.exec<PersonRow>(
    `SELECT ${PERSON_COLUMNS} FROM people WHERE id > ? AND id <= ? ORDER BY id LIMIT 1`,
    person,
    lastPerson,
  );
  if (row === undefined) return null;
  const line = lineOf(row as Record<keyof typeof FACTS, string | number | null>, FACTS, format);
  const text = format === "csv" ? `${line.trimEnd()},` : `${line.slice(0, -"}\n".length)},"user_ids":[`;
  return { text, position: { person: row.id, lastPerson, list: beginningOf(0) } };
}

function beginningOf(index: number) {
  return { index, behind: FIRST_CLAIM, some: false };
}

/** The next ids of a list, with the list's end if this is it. */
function nextIds({ sql }: StoreState, { list, ...position }: Position, format: ExportFormat): Part {
  if (list === null) throw new Error("a line that is written has no more ids");
  const { kind } = LISTS[list.index] ?? LISTS[0];
  // Ids of a person whose deletion has started remain for a while.
  const isThere = sql.exec("SELECT 1 FROM people WHERE id = ?", position.person).toArray().length > 0;
  const { identities, next } = isThere
    ? readIdentities(sql, position.person, { behind: list.behind, limit: IDS_AT_ONCE, kind })
    : { identities: [], next: null };
  const ids = identities.map(({ value }) => JSON.stringify(value)).join(",");
  const some = list.some || ids !== "";
  let text = format === "csv" ? csvPart(ids, list.some) : `${list.some && ids !== "" ? "," : ""}${ids}`;
  if (next !== null) return { text, position: { ...position, list: { ...list, behind: next, some } } };
  const isLast = list.index === LISTS.length - 1;
  if (format === "csv") text += `${some ? ']"' : "[]"}${isLast ? "\r\n" : ","}`;
  else text += isLast ? "]}\n" : `],"${LISTS[list.index + 1]?.column}":[`;
  return { text, position: { ...position, list: isLast ? null : beginningOf(list.index + 1) } };
}

/** Part of a JSON array in a cell: an array that has something has quotes in it, so that the cell is quoted (RFC 4180). */
function csvPart(ids: string, isGoingOn: boolean): string {
  if (ids === "") return "";
  return `${isGoingOn ? "," : '"['}${ids.replaceAll('"', '""')}`;
}

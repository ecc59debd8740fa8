/**
 * Signals, people and scoring signals as files: NDJSON with payloads exactly as they were sent, or CSV (RFC 4180). A page
 * at a time, in the order in which they were recorded. The text is made here, where the rows are: it crosses to the Worker
 * as it is, so that an export costs it next to no CPU time, however long it is.
 */
import { stringify } from "csv-stringify/sync";
import { COLD_READS_AT_ONCE, EXPORT_PAGE_MAX_CHARACTERS, EXPORT_PAGE_ROWS } from "../limits.ts";
import { placeKey } from "./cold-objects.ts";
import type { ColdObjects } from "./cold-objects.ts";
import { placeOf } from "./cold-storage.ts";
import type { ColdPlace } from "./cold-storage.ts";
import type { ExportedRecords, ExportPage, ExportRange } from "./data-care.ts";

/** `json`: a JSON text, taken over as it is. */
type ColumnKind = "value" | "time" | "json";

interface Export {
  table: string;
  /** By name, in order. */
  columns: Record<string, ColumnKind>;
  /** Of the page (?1, ?2] of keys, with the key and all columns. */
  rows: string;
}

type Row = Record<string, string | number | null>;

const EXPORTS: Record<ExportedRecords, Export> = {
  signals: {
    table: "signals",
    columns: {
      id: "value",
      status: "value",
      kind: "value",
      event: "value",
      source: "value",
      email: "value",
      user_id: "value",
      anonymous_id: "value",
      endpoint: "value",
      key_id: "value",
      verdict: "value",
      ordinal: "value",
      received_at: "time",
      recorded_at: "time",
      duplicate_of: "value",
      linked_at: "time",
      points: "value",
      dead_reason: "value",
      erased_at: "time",
      payload: "json",
    },
    // Only a dead letter can hold what is no JSON.
    rows: `SELECT signals.seq AS key, signals.id, status, kind, event, source, ifnull(people.email, signals.email) AS email,
        user_id, anonymous_id, endpoint, key_id, verdict, ordinal, received_at, recorded_at, duplicate_of, linked_at,
        (SELECT ifnull(sum(points), 0) FROM scoring_signals WHERE signal_id = signals.id) AS points, dead_reason, erased_at,
        iif(status = 'dead' AND NOT json_valid(payload), json_quote(payload), payload) AS payload, cold_object, cold_line
      FROM signals LEFT JOIN people ON people.id = signals.person_id
      WHERE signals.seq > ?1 AND signals.seq <= ?2 ORDER BY signals.seq LIMIT ?3`,
  },
  people: {
    table: "people",
    columns: {
      email: "value",
      name: "value",
      company: "value",
      title: "value",
      score: "value",
      first_seen: "time",
      last_seen: "time",
      user_ids: "json",
      anonymous_ids: "json",
    },
    rows: `SELECT id AS key, email, name, company, title, score, first_seen, last_seen,
        (SELECT json_group_array(value) FROM identities WHERE person_id = people.id AND kind = 'user_id') AS user_ids,
        (SELECT json_group_array(value) FROM identities WHERE person_id = people.id AND kind = 'anonymous_id')
          AS anonymous_ids
      FROM people WHERE id > ?1 AND id <= ?2
        AND id NOT IN (SELECT person_id FROM erasures WHERE person_id IS NOT NULL)
      ORDER BY id LIMIT ?3`,
  },
  scoring_signals: {
    table: "scoring_signals",
    columns: {
      email: "value",
      signal_id: "value",
      rule_id: "value",
      rule_version: "value",
      scoring_signal: "value",
      points: "value",
      at: "time",
    },
    rows: `SELECT scored.id AS key, people.email, scored.signal_id, scored.rule_id, scored.rule_version,
        scored.scoring_signal, scored.points, scored."at"
      FROM scoring_signals AS scored JOIN people ON people.id = scored.person_id
      WHERE scored.id > ?1 AND scored.id <= ?2 ORDER BY scored.id LIMIT ?3`,
  },
};

const KEY = { signals: "seq", people: "id", scoring_signals: "id" };

/** @throws when payloads that are in cold storage cannot be had: an export leaves nothing out without a word. */
export async function exportPage(
  sql: SqlStorage,
  objects: ColdObjects,
  { records, format, after, until: fixed }: ExportRange,
): Promise<ExportPage> {
  const { table, columns, rows: query } = EXPORTS[records];
  const until = fixed ?? lastKey(sql, table, KEY[records]);
  const lineOf = format === "csv" ? csvLine : ndjsonLine;
  const title = after === 0 && format === "csv" ? toCsv(Object.keys(columns)) : "";
  // What was linked while its object was read has its payload again, and is found at the second attempt.
  for (let attempts = 2; attempts > 0; attempts--) {
    const { rows, places, last } = readRows(sql, query, after, until);
    // oxlint-disable-next-line no-await-in-loop -- the second only where the first was in vain
    if (places.length > 0 && !(await fillIn(rows, places, objects))) continue;
    const next = last === null ? null : { after: last, until };
    return { text: title + rows.map((row) => lineOf(row, columns)).join(""), next };
  }
  throw new Error("payloads in cold storage could not be read");
}

/** `last`: the key of the last row, when there may be more. */
function readRows(sql: SqlStorage, query: string, after: number, until: number) {
  const rows: Row[] = [];
  const places: ColdPlace[] = [];
  const objects = new Set<string>();
  let characters = 0;
  for (const row of sql.exec<Row>(query, after, until, EXPORT_PAGE_ROWS)) {
    rows.push(row);
    characters += String(row["payload"] ?? "").length;
    const place = coldPlace(row);
    if (place !== null) {
      places.push(place);
      objects.add(place.object);
    }
    const full = characters >= EXPORT_PAGE_MAX_CHARACTERS || objects.size >= COLD_READS_AT_ONCE;
    if (full || rows.length === EXPORT_PAGE_ROWS) return { rows, places, last: Number(row["key"]) };
  }
  return { rows, places, last: null };
}

/** Whether all of them were there. */
async function fillIn(rows: Row[], places: ColdPlace[], objects: ColdObjects): Promise<boolean> {
  const payloads = await objects.read(places);
  for (const row of rows) {
    const place = coldPlace(row);
    if (place !== null) row["payload"] = payloads.get(placeKey(place)) ?? null;
  }
  return payloads.size === places.length;
}

function coldPlace(row: Row): ColdPlace | null {
  const [payload, object] = [row["payload"] ?? null, row["cold_object"] ?? null];
  return placeOf({
    payload: payload === null ? null : String(payload),
    coldObject: object === null ? null : String(object),
    coldLine: Number(row["cold_line"] ?? 0),
  });
}

function lastKey(sql: SqlStorage, table: string, key: string): number {
  return sql.exec<{ last: number | null }>(`SELECT max(${key}) AS last FROM ${table}`).one().last ?? 0;
}

function ndjsonLine(row: Row, columns: Export["columns"]): string {
  const members = Object.entries(columns).map(([name, kind]) => {
    const value = valueOf(row, name, kind);
    return `"${name}":${kind === "json" && value !== null ? value : JSON.stringify(value)}`;
  });
  return `{${members.join(",")}}\n`;
}

function csvLine(row: Row, columns: Export["columns"]): string {
  return toCsv(Object.entries(columns).map(([name, kind]) => valueOf(row, name, kind)));
}

/**
 * A text that a spreadsheet would take for a formula gets a `'` in front, as OWASP recommends. Any line break is quoted
 * (RFC 4180), where the library by itself heeds only those that it writes.
 */
function toCsv(cells: (string | number | null)[]): string {
  return stringify([cells], { record_delimiter: "\r\n", quoted_match: /[\r\n]/, escape_formulas: true });
}

function valueOf(row: Row, name: string, kind: ColumnKind): string | number | null {
  const value = row[name] ?? null;
  if (value === null || kind === "value") return value;
  // Line breaks in a JSON text are white space: inside of its strings they are escaped.
  return kind === "time" ? new Date(Number(value)).toISOString() : String(value).replaceAll(/[\r\n]+/g, " ");
}

/**
 * Signals, people and scoring signals as files: NDJSON with payloads exactly as they were sent, or CSV (RFC 4180). A page
 * at a time, in the order in which they were recorded. The text is made here, where the rows are: it crosses to the Worker
 * as it is, so that an export costs it next to no CPU time, however long it is.
 */
import { stringify } from "csv-stringify/sync";
import { EXPORT_PAGE_MAX_CHARACTERS, EXPORT_PAGE_ROWS } from "../limits.ts";
import type { ExportedRecords, ExportFormat, ExportPage, ExportRange } from "./protocol.ts";

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
      payload: "json",
    },
    // Only a dead letter can hold what is no JSON.
    rows: `SELECT signals.seq AS key, signals.id, status, kind, event, source, ifnull(people.email, signals.email) AS email,
        user_id, anonymous_id, endpoint, key_id, verdict, ordinal, received_at, recorded_at, duplicate_of, linked_at,
        (SELECT ifnull(sum(points), 0) FROM scoring_signals WHERE signal_id = signals.id) AS points, dead_reason,
        iif(status = 'dead' AND NOT json_valid(payload), json_quote(payload), payload) AS payload
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
      FROM people WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3`,
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

export function exportPage(
  sql: SqlStorage,
  records: ExportedRecords,
  format: ExportFormat,
  { after, until: fixed }: ExportRange,
): ExportPage {
  const { table, columns, rows } = EXPORTS[records];
  const until = fixed ?? lastKey(sql, table, KEY[records]);
  const lineOf = format === "csv" ? csvLine : ndjsonLine;
  const page: ExportPage = { text: after === 0 && format === "csv" ? header(columns) : "", next: null };
  let read = 0;
  for (const row of sql.exec<Row>(rows, after, until, EXPORT_PAGE_ROWS)) {
    page.text += lineOf(row, columns);
    read++;
    if (read < EXPORT_PAGE_ROWS && page.text.length < EXPORT_PAGE_MAX_CHARACTERS) continue;
    page.next = { after: Number(row["key"]), until };
    break;
  }
  return page;
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

function header(columns: Export["columns"]): string {
  return toCsv(Object.keys(columns));
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

/** Rows of an export as text: NDJSON with payloads exactly as they were sent, or CSV (RFC 4180). */
import { stringify } from "csv-stringify/sync";
import type { ExportFormat } from "../protocol/store-operations.ts";

/** Records per slice of an export, so that the store can answer other calls in between. */
export const EXPORT_PAGE_ROWS = 1_000;
/** Maximum characters of a slice: two slices are in memory at the same time. A slice is then shorter. */
export const EXPORT_PAGE_MAX_CHARACTERS = 2_000_000;

/** Columns by name, in their order. `json`: a JSON text, taken over as it is. */
export type Columns = Record<string, "value" | "time" | "json">;

export type ExportRow = Record<string, string | number | null>;

export function headerOf(columns: Columns): string {
  return toCsv(Object.keys(columns));
}

export function lineOf(row: ExportRow, columns: Columns, format: ExportFormat): string {
  return format === "csv" ? csvLine(row, columns) : ndjsonLine(row, columns);
}

function ndjsonLine(row: ExportRow, columns: Columns): string {
  const members = Object.entries(columns).map(([name, kind]) => {
    const value = valueOf(row, name, kind);
    return `"${name}":${kind === "json" && value !== null ? value : JSON.stringify(value)}`;
  });
  return `{${members.join(",")}}\n`;
}

function csvLine(row: ExportRow, columns: Columns): string {
  return toCsv(Object.entries(columns).map(([name, kind]) => valueOf(row, name, kind)));
}

/**
 * Prefixes formulas with `'`, as OWASP recommends. Quotes any line break (RFC 4180), because the library quotes only
 * its own kind. Also quotes the cell separators of other locales, after which a text could begin a formula.
 */
function toCsv(cells: (string | number | null)[]): string {
  return stringify([cells], { record_delimiter: "\r\n", quoted_match: /[\r\n;\t]/, escape_formulas: true });
}

function valueOf(row: ExportRow, name: string, kind: Columns[string]): string | number | null {
  const value = row[name] ?? null;
  if (value === null || kind === "value") return value;
  // Line breaks in a JSON text are white space: inside of its strings they are escaped.
  return kind === "time" ? new Date(Number(value)).toISOString() : String(value).replaceAll(/[\r\n]+/g, " ");
}

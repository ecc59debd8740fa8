/** What can be exported, and as what. */
import type { ExportedRecords, ExportFormat } from "../../store/protocol/store-operations.ts";

export const EXPORTS = {
  people: { label: "People" },
  signals: { label: "Signals" },
  scoring_signals: { label: "Scoring signals" },
} as const satisfies Record<ExportedRecords, { label: string }>;

export const FORMATS = { csv: "CSV", ndjson: "NDJSON" } as const satisfies Record<ExportFormat, string>;

/** What a query asks to export. Null: there are no such records, or no such format. */
export function readExport(asked: Record<string, string>): { records: ExportedRecords; format: ExportFormat } | null {
  const { records = "people", format = "csv" } = asked;
  return isOneOf(EXPORTS, records) && isOneOf(FORMATS, format) ? { records, format } : null;
}

function isOneOf<Key extends string>(of: Record<Key, unknown>, key: string): key is Key {
  return Object.hasOwn(of, key);
}

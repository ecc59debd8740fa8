/** What callers of the Signal Store send and get for data care: plain data, all times in milliseconds since 1970. */

export type ExportedRecords = "signals" | "people" | "scoring_signals";

export type ExportFormat = "ndjson" | "csv";

/** Which page of an export: the first is asked for without a cursor, each other with `next` of the one before. */
export interface ExportRange {
  records: ExportedRecords;
  format: ExportFormat;
  cursor: string | null;
}

export interface ExportPage {
  /** With CSV the first page begins with the header. A page may end within a line; it may be empty. */
  text: string;
  /** Of the next page; null when there is none. What is recorded after the first is not part of the export. */
  next: string | null;
}

/** What the deletion of a person has taken away so far. */
export interface ErasureReceipt {
  /** `del_` + UUIDv7. */
  id: string;
  requestedAtMs: number;
  /** When nothing was left, in cold storage neither; null: it is under way. */
  finishedAtMs: number | null;
  people: number;
  identities: number;
  /** The person's, linked ones included. */
  signals: number;
  /** Of the person's user ids and anonymous ids, not linked yet. */
  anonymous: number;
  held: number;
  deadLetters: number;
  scoringSignals: number;
  /** Objects of cold storage that held a copy of one of these signals. */
  coldObjects: number;
}

/** The plan's terms as far as they concern the store. */
export interface StoreConfig {
  /** Days after its receipt that a signal is kept; null: for ever. */
  retentionDays: number | null;
}

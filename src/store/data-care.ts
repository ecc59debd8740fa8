/** What callers of the Signal Store send and get for data care: plain data, all times in milliseconds since 1970. */

export type ExportedRecords = "signals" | "people" | "scoring_signals";

export type ExportFormat = "ndjson" | "csv";

/** Which page of an export. The first is asked for with `after` 0 and `until` null, each other with what came last. */
export interface ExportRange {
  records: ExportedRecords;
  format: ExportFormat;
  after: number;
  /** Fixed by the first page: what is recorded later is not part of the export. */
  until: number | null;
}

export interface ExportPage {
  /** Whole lines, each with its end; with CSV the first page begins with the header. */
  text: string;
  /** Of the next page; null when there is none. */
  next: { after: number; until: number } | null;
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
  duplicates: number;
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

/** What callers of the Signal Store send and get for data care: plain data, all times in milliseconds since 1970. */
import type { SignalsByPeriod } from "../../domain/restore.ts";
import type { RuleVersions } from "../../domain/rules/rule-versions.ts";

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
  /** Cursor of the next page; null when there is none. What is recorded after the first page is not part of the export. */
  next: string | null;
}

/** What the deletion of a person has taken away so far. */
export interface DeletionReceipt {
  /** `del_` + UUIDv7. */
  id: string;
  requestedAtMs: number;
  /** When nothing of the person was left, in cold storage neither; null: the deletion is under way. */
  finishedAtMs: number | null;
  people: number;
  identities: number;
  /** Signals of the person, linked ones included. */
  signals: number;
  /** Signals of the person's user ids and anonymous ids that were not linked yet. */
  anonymous: number;
  held: number;
  deadLetters: number;
  scoringSignals: number;
  /** Objects of cold storage that held a copy of one of these signals. */
  coldObjects: number;
}

/** A deletion that was asked for before the store was restored to a moment without it. */
export interface ForgottenDeletion {
  /** Id of the receipt. */
  id: string;
  requestedAtMs: number;
  /** `hashOfName` of the email. */
  emailHash: string;
}

/** What a restored store cannot know. */
export interface BeforeStoreRestore {
  /** The highest number of an outbox row that was given before the restore. */
  highestRow: number;
  /** Rows that the restored counter has not settled. */
  unsettled: number[];
  /** Deletions since the moment restored to. */
  deletions: ForgottenDeletion[];
}

export interface RestoredStore {
  /** Those of the unsettled rows that the store has recorded. */
  recorded: number[];
  /** Signals that the store has, or had until retention, purge or a deletion took them. */
  signals: SignalsByPeriod;
  ruleVersions: RuleVersions;
}

/** The plan's terms as far as they concern the store. */
export interface StoreConfig {
  /** Days after its receipt that a signal is kept; null: for ever. */
  retentionDays: number | null;
}

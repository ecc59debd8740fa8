/** Exports, deletions and rules on stored signals, in questions and answers. Times are milliseconds since 1970. */
import type { DayCounts } from "../../domain/day-counts.ts";
import type { MappingRule } from "../../domain/rules/mapping-rule.ts";

export type ExportedRecords = "signals" | "people" | "scoring_signals";

export type ExportFormat = "ndjson" | "csv";

export interface ExportRange {
  records: ExportedRecords;
  format: ExportFormat;
  /** Null for the first page, then `next` of the page before. */
  cursor: string | null;
}

export interface ExportPage {
  /** The first page of a CSV begins with the header. A page may be empty or end within a line. */
  text: string;
  /** Null on the last page. The export leaves out everything recorded after its first page. */
  next: string | null;
}

/** The proof of a deletion, with the numbers deleted so far. */
export interface DeletionReceipt {
  id: string;
  requestedAtMs: number;
  /** When nothing of the person was left, not even in cold storage; null: the deletion is running. */
  finishedAtMs: number | null;
  people: number;
  identities: number;
  /** Signals of the person, linked ones included. */
  signals: number;
  /** Signals of the person's ids that were not linked yet. */
  anonymous: number;
  held: number;
  deadLetters: number;
  scoringSignals: number;
  /** Objects of cold storage with a copy of a deleted signal. */
  coldObjects: number;
}

/** A deletion that D1 knows, and the store possibly not. */
export interface ForgottenDeletion {
  id: string;
  requestedAtMs: number;
  emailHash: string;
}

export interface StoreConfig {
  /** Days that a signal is kept after it was received; null: for ever. */
  retentionDays: number | null;
}

export type RuleJobStatus = "queued" | "running" | "done";

export interface RuleJob {
  ruleId: string;
  /** Null: the scoring signals of the rule are removed. */
  ruleVersion: number | null;
  status: RuleJobStatus;
  scanned: number;
  /** Estimated at the start. */
  total: number;
  matched: number;
  added: number;
  changed: number;
  removed: number;
  requestedAtMs: number;
  startedAtMs: number | null;
  finishedAtMs: number | null;
}

export interface RuleToApply {
  ruleId: string;
  /** Null: remove the scoring signals of the rule. */
  rule: MappingRule | null;
  /** Version of a disabled rule. Scoring signals of newer versions stay. */
  disabledVersion?: number;
  /** Version of the workspace's rules, read together with the rule. */
  rulesVersion: number;
}

export interface PreviewRange {
  sinceMs: number;
  /** `next` of the page before. */
  beforeSeq: number;
  /** The latest signals of the rule's events are scanned. */
  limit: number;
  /** Days since 1970. */
  today: number;
}

export interface PreviewPage {
  scanned: number;
  /** Of the payloads that were read. */
  characters: number;
  matches: number;
  lapsed: number;
  people: number[];
  /** For a rule that scores once: each person, or pair of person and UTC day, with a match. */
  occasions: string[];
  lapsedOccasions: string[];
  samples: PreviewSample[];
  next: number | null;
  /** False: the preview ended early because cold storage did not answer. */
  complete: boolean;
}

export interface PreviewSample {
  id: string;
  event: string;
  source: string;
  email: string;
  receivedAtMs: number;
  payload: unknown;
}

export interface RuleSuggestions {
  events: string[];
  /** Paths such as `properties.…` in samples of the rule's events. */
  paths: string[];
}

export interface RuleFacts {
  days: DayCounts;
  job: RuleJob | null;
  hasScoringSignals: boolean;
}

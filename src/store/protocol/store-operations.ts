/** Exports, deletions and rules on stored signals, in questions and answers. Times are milliseconds since 1970. */
import type { DayCounts } from "../../domain/duration.ts";
import type { Exclusion } from "../../domain/rules/exclusion.ts";
import type { MappingRule } from "../../domain/rules/mapping-rule.ts";

export type ExportedRecords = "signals" | "people" | "scoring_signals";

export type ExportFormat = "ndjson" | "csv";

export interface ExportRange {
  records: ExportedRecords;
  format: ExportFormat;
  /** Null for the first part, then `next` of the part before. */
  cursor: string | null;
}

export interface ExportPart {
  /** The first part of a CSV begins with the header. A part may be empty or end within a line. */
  text: string;
  /** Null with the last part. The export leaves out everything recorded after its first part. */
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

/** Recorded signals by key: in a billing period, and on each of the latest 30 UTC days, the oldest first. */
export type KeyUsage = Record<string, { signals: number; days: number[] }>;

export interface StoreConfig {
  /** Days that a signal is kept after it was received; null: for ever. */
  retentionDays: number | null;
}

export type RuleJobStatus = "queued" | "running" | "done";

export interface RuleJob {
  /** Empty: the job applies the exclusions. */
  ruleId: string;
  /** Version of the rule, or of the exclusions. Null: the scoring signals of the rule are removed. */
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

export interface ExclusionsToApply {
  exclusions: readonly Exclusion[];
  /** Version of the exclusions. */
  version: number;
  /** Version of the workspace's rules, read together with the exclusions. */
  rulesVersion: number;
}

export interface PreviewRange {
  sinceMs: number;
  /** `next` of the part before. */
  beforeSeq: number;
  /** The latest signals of the rule's events are scanned. */
  limit: number;
  /** Days since 1970. */
  today: number;
}

export interface PreviewPart {
  scanned: number;
  /** Characters of the payloads that were read. */
  characters: number;
  matches: number;
  lapsed: number;
  people: number[];
  /** For a rule that scores each time: matches of each person whose points have not lapsed. */
  counted: [personId: number, matches: number][];
  /** For a rule that scores once: each person, or pair of person and UTC day, with a match. */
  occasions: string[];
  lapsedOccasions: string[];
  samples: PreviewSample[];
  next: number | null;
  /** False: the preview ended early because cold storage did not answer. */
  complete: boolean;
}

/** What exclusions would change, of a part of the log. */
export interface ExclusionsPreviewPart {
  scanned: number;
  /** Characters of the payloads that were read. */
  characters: number;
  /** Lines that would become excluded, and those that would not be excluded any more. */
  excluded: number;
  included: number;
  /** Lines that the exclusions cover, by exclusion. */
  covered: [exclusionId: string, lines: number][];
  /** Points of people that the rules which score each time would add or remove. */
  points: [personId: number, points: number][];
  /** Matches of rules that score once. */
  singles: SingleMatch[];
  samples: ExclusionSample[];
  next: number | null;
  /** False: the preview ended early because cold storage did not answer. */
  complete: boolean;
}

/** A match of a rule that scores a person once a day or once ever. */
export interface SingleMatch {
  personId: number;
  ruleId: string;
  signalId: string;
  isOnceEver: boolean;
  /** Version of the rule. */
  version: number;
  /** Whether it may take an empty place: no newer version was applied. */
  mayTake: boolean;
  /** UTC day of the occurrence. */
  day: number;
  /** Points that count from this UTC day or an earlier one have lapsed; null: they never lapse. */
  lapsedDay: number | null;
  /** The UTC day from which the points of this version count, if one of its matches counts and its points count from the earliest match. */
  firstDay: number | null;
  points: number;
  /** The signal that counts now: this one, or another one; null: none. */
  countedId: string | null;
  /** Whether its line would be excluded. */
  isExcluded: boolean;
}

/** A line whose exclusion would change. */
export interface ExclusionSample {
  id: string;
  event: string;
  source: string;
  email: string;
  receivedAtMs: number;
  /** Id of the exclusion that would cover it; null: none. */
  excludedBy: string | null;
}

/** A person and their score as it is now. */
export interface ScoredPerson {
  personId: number;
  email: string;
  name: string | null;
  score: number;
}

export interface PreviewSample {
  id: string;
  event: string;
  source: string;
  email: string;
  receivedAtMs: number;
  payload: string;
}

export interface RuleSuggestions {
  events: string[];
  /** Paths such as `properties.…` in samples of the rule's events. */
  paths: string[];
}

export interface RuleResults {
  days: DayCounts;
  job: RuleJob | null;
  hasScoringSignals: boolean;
}

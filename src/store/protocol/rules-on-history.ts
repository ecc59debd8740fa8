/** Mapping rules on stored signals: what the Signal Store is asked to apply and to preview, and how far it is. */
import type { DayCounts } from "../../domain/quota/day-counts.ts";
import type { MappingRule } from "../../domain/rules/mapping-rule.ts";

export type RuleJobStatus = "queued" | "running" | "done";

/** A rule being applied to what is stored: how far it is, and what it has done. */
export interface RuleJob {
  ruleId: string;
  /** The rule's version that is applied; null: its scoring signals are removed. */
  ruleVersion: number | null;
  status: RuleJobStatus;
  /** How many signals have been looked at, of how many as estimated at the beginning. */
  scanned: number;
  total: number;
  matched: number;
  added: number;
  changed: number;
  removed: number;
  requestedAtMs: number;
  startedAtMs: number | null;
  finishedAtMs: number | null;
}

/** A mapping rule that is to be applied to what is stored. */
export interface RuleToApply {
  ruleId: string;
  /** The rule; null: its scoring signals are to be removed. */
  rule: MappingRule | null;
  /** Version of a rule that is there but disabled: what newer versions of it have made stays. */
  disabledVersion?: number;
  /** Version of all of the workspace's rules, read together with the rule. */
  rulesVersion: number;
}

/** Which stored signals a page of a preview looks at: the latest `limit` of the rule's events, received since. */
export interface PreviewRange {
  sinceMs: number;
  /** `next` of the page before. */
  beforeSeq: number;
  limit: number;
}

export interface PreviewPage {
  scanned: number;
  matches: number;
  /** Numbers of the people whose signals match. */
  people: number[];
  /**
   * People and UTC days of receipt of the signals that match, each as person and day: for a rule that scores a person once a
   * day.
   */
  personDays: string[];
  /** The latest signals that match. */
  samples: PreviewSample[];
  /** Where the next page begins; null: there is none. */
  next: number | null;
  /** False where the preview ends early, because cold storage does not answer. */
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

/** What a rule's editor proposes. */
export interface RuleSuggestions {
  /** Names of events that came lately, the most frequent first. */
  events: string[];
  /** Paths, such as `properties.…`, in samples of the rule's events. */
  paths: string[];
}

/** What a rule has done, as its page shows it. */
export interface RuleFacts {
  /** How many scoring signals the rule has made, by day of receipt. */
  days: DayCounts;
  /** The rule's latest application to what is stored; null: there was none. */
  job: RuleJob | null;
  hasScoringSignals: boolean;
}

/** Mapping rules on stored signals: what the Signal Store is asked to apply and to preview, and how far it is. */
import type { MappingRule } from "../domain/mapping-rule.ts";

export type RuleJobStatus = "queued" | "running" | "done";

/** A rule being applied to what is stored: how far it is, and what it has done. */
export interface RuleJob {
  ruleId: string;
  /** Null: its scoring signals are removed. */
  ruleVersion: number | null;
  status: RuleJobStatus;
  /** Signals looked at, of these many as estimated at the beginning. */
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

/** What to apply. */
export interface RuleToApply {
  ruleId: string;
  /** Null: remove its scoring signals. */
  rule: MappingRule | null;
  /** The workspace's, read together with the rule. */
  rulesVersion: number;
}

/** An event whose stored signals are looked through, and how far they have been. */
export interface PreviewedEvent {
  event: string;
  beforeSeq: number;
}

/** Which stored signals a page of a preview reads: the latest `limit` of these events, received since. */
export interface PreviewRange {
  events: PreviewedEvent[];
  sinceMs: number;
  limit: number;
}

export interface PreviewPage {
  scanned: number;
  matches: number;
  /** The persons of those that match. */
  people: number[];
  /** The latest that match. */
  samples: PreviewSample[];
  /** The events of the next page: those that have more signals. */
  next: PreviewedEvent[];
}

export interface PreviewSample {
  id: string;
  event: string;
  source: string;
  email: string;
  receivedAtMs: number;
  payload: unknown;
}

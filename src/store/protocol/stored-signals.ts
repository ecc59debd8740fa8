/** Signals in calls and answers of the store. Times are milliseconds since 1970. */
import type { AccountRecord } from "../../domain/accounts/payload-template.ts";
import type { FailingJob } from "../../domain/health/alarm.ts";
import type { DayCounts } from "../../domain/day-counts.ts";
import type { Evaluation } from "../../domain/rules/evaluate-rules.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { AdmittedVerdict } from "../../domain/quota/quota.ts";
import type { Occurred, OccurredFrom } from "../../domain/signal/occurred-at.ts";
import type { EndpointType, NormalisedSignal, SignalKind, SignalStatus } from "../../domain/signal/signal.ts";
import type { PageOf } from "../../platform/list-page.ts";
import type { Admission } from "../../wire/admission.ts";

export interface Deduplication {
  /** SHA-256 of the canonical form, or of the request's Idempotency-Key, base64url; null: it can be no duplicate. */
  contentHash: string | null;
  /** Maximum time between a signal and its duplicate; 0: never a duplicate. */
  duplicateWindowMs: number;
}

export interface RecordOptions {
  rulesVersion?: number;
  /** Lower outbox rows are settled. */
  low?: number;
  /**
   * For signals that may have failed before: if one cannot be recorded, it becomes a dead letter, and the others are recorded.
   * This needs savepoints, in which SQLite copies each page that changes.
   */
  carefully?: boolean;
  /** The plan's retention, in days; null: signals are kept for ever; absent: unchanged. */
  retentionDays?: number | null;
}

export interface SignalToRecord {
  admission: Admission;
  payload: string;
  work:
    | (Deduplication & {
        kind: NormalisedSignal["kind"];
        /** Without properties: the consumer has already evaluated the rules. */
        normalised: Omit<NormalisedSignal, "properties" | "groupTraits">;
        /** Values that a `group` call gives to an account. */
        group?: AccountRecord;
        occurred: Occurred;
        /** Null: a rule needs the person's email, which the signal lacks. The signal is scored when it is linked. */
        evaluation: Evaluation | null;
      })
    /** An account update, mapped by the payload template of its key. Only an Idempotency-Key makes it a duplicate. */
    | (Deduplication & { kind: "account"; account: AccountRecord })
    | { kind: "dead"; reason: string };
}

export interface RowToRecord {
  row: number;
  signals: SignalToRecord[];
}

export type RecordResult =
  | {
      outcome: "recorded";
      /** Whether earlier signals wait to be linked, see `SignalStore.link`. */
      linksWait: boolean;
    }
  /** The store has no room and has recorded nothing. */
  | { outcome: "full" };

/** The kind of id that names the person of a signal, the strongest first (design §8.3). */
export type NamedBy = "email" | "user_id" | "anonymous_id";

export interface SignalSummary {
  id: string;
  status: SignalStatus;
  kind: SignalKind | "unknown";
  event: string | null;
  source: string | null;
  email: string | null;
  receivedAtMs: number;
  occurredAtMs: number;
  /** The field of the payload that `occurredAtMs` came from. */
  occurredFrom: OccurredFrom;
}

export interface LiveSignal extends SignalSummary {
  duplicateOf: string | null;
  deadReason: string | null;
  points: number;
}

export interface LatestSignals {
  signals: LiveSignal[];
  more: number;
  /** The next call sends the cursor and gets newer signals. */
  cursor: string;
}

export interface MatchedRule extends RuleMatch {
  scored: boolean;
  /** The signal that has scored instead of this signal; null: none has. */
  scoredBy: string | null;
  /** When the points lapse; null: never. */
  lapsesAtMs: number | null;
  lapsed: boolean;
}

export interface SignalTrace extends SignalSummary {
  endpoint: EndpointType;
  keyId: string;
  verdict: AdmittedVerdict;
  ordinal: number;
  signalLimit: number;
  recordedAtMs: number;
  duplicateOf: string | null;
  heldUntilMs: number | null;
  deadReason: string | null;
  anonymousId: string | null;
  userId: string | null;
  person: { email: string; by: NamedBy; linkedAtMs: number | null } | null;
  rulesTried: number;
  rulesMatched: MatchedRule[];
  points: number;
  deletedAtMs: number | null;
  /** The unchanged payload; null: not kept, or cold storage does not answer. */
  payload: unknown;
  inColdStorage: boolean;
  /** Whether the payload is missing in R2. */
  payloadLost: boolean;
}

export interface DeadLetter {
  id: string;
  reason: string;
  receivedAtMs: number;
  deadAtMs: number;
  payload: unknown;
}

export interface FindFilter {
  source?: string | undefined;
  event?: string | undefined;
  email?: string | undefined;
  status?: SignalStatus | undefined;
  keyId?: string | undefined;
  /** Received at or after `sinceMs` and before `untilMs`. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

export interface FoundSignals extends PageOf<SignalSummary> {
  /** False: the search stopped early and goes on from `next`. */
  complete: boolean;
}

/** A group of the signal queue: signals by event name and source. */
export interface EventGroup {
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /** The payload is null while cold storage does not answer. */
  sample: { id: string; payload: unknown };
}

export interface QueueFilter {
  /** Part of the event name, in any letter case. */
  search?: string | undefined;
  source?: string | undefined;
  /** Only groups that have held, or anonymous, signals. */
  only?: "held" | "anonymous" | undefined;
  /** First and last day of the last signal, inclusive, in days since 1970. */
  sinceDay?: number | undefined;
  untilDay?: number | undefined;
  /** Default: last seen first. */
  sort?: QueueSort | undefined;
}

/** `last_seen_up`: the oldest last signal first. */
export type QueueSort = "last_seen" | "last_seen_up" | "count" | "name";

export interface QueueGroup extends Omit<EventGroup, "sample"> {
  /** The latest signal of the group that was no duplicate. */
  sampleId: string;
  days: DayCounts;
}

export interface QueuePage extends PageOf<QueueGroup> {
  /** False: the search stopped early and goes on from `next`. */
  complete: boolean;
  /** True: there are more groups than QUEUE_SORTED_GROUPS, and only the latest groups are sorted. */
  isCut: boolean;
}

export interface RecentNames {
  events: string[];
  sources: string[];
}

export interface StoreTotals {
  processed: number;
  duplicates: number;
  held: number;
  purged: number;
  deadLettered: number;
}

export interface StoreHealth {
  totals: StoreTotals;
  deadLetterMs: number | null;
  failingJobs: FailingJob[];
  bytes: number;
  /** Size of the database at which the store stops to record. */
  maxBytes: number;
  /** Shorter than the duplicate window if memory is short. */
  duplicatesCoveredMs: number;
}

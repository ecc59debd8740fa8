/** Signals in calls and answers of the store. Times are milliseconds since 1970. */
import type { AccountRecord } from "../../domain/accounts/payload-template.ts";
import type { AlarmsOfHour, FailingChore } from "../../domain/health/alarm.ts";
import type { DayCounts } from "../../domain/duration.ts";
import type { Evaluation } from "../../domain/rules/evaluate-rules.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { AdmittedVerdict } from "../../domain/quota/quota.ts";
import type { Occurred, OccurredFrom } from "../../domain/signal/occurred-at.ts";
import type { Problems } from "../../domain/signal/normalise.ts";
import type { EndpointType, NormalisedSignal, SignalKind, SignalStatus } from "../../domain/signal/signal.ts";
import type { Traits } from "../../domain/signal/traits.ts";
import type { ListPage } from "../../platform/list-page.ts";
import type { Admission } from "../../wire/message.ts";

export interface Deduplication {
  /** SHA-256 of the canonical form, or of the request's Idempotency-Key, base64url; null: it can be no duplicate. */
  contentHash: string | null;
  /** Maximum time between a signal and its duplicate; 0: never a duplicate. */
  duplicateWindowMs: number;
}

export interface RecordOptions {
  rulesVersion?: number;
  /** Lower outbox rows are settled. */
  lowestUnsettledRow?: number;
  /**
   * For signals that may have failed before: if one cannot be recorded, it becomes a dead letter, and the others are recorded.
   * This needs savepoints, in which SQLite copies each page that changes.
   */
  isolateFailures?: boolean;
  /** The plan's retention, in days; null: signals are kept for ever; absent: unchanged. */
  retentionDays?: number | null;
}

export interface SignalToRecord {
  admission: Admission;
  payload: string;
  /** Absent: all fields are used, or the signal could not be processed. */
  problems?: Problems;
  work:
    | (Deduplication & {
        kind: NormalisedSignal["kind"];
        /** Without properties: the consumer has already evaluated the rules. */
        normalised: Omit<NormalisedSignal, "properties" | "groupTraits">;
        /** Present: a signal template made `normalised` and `occurred`. */
        mapped?: true;
        /** Present: `contentHash` is that of an id that the template maps. */
        hasMappedId?: true;
        /** What the signal is about, see domain/signal/topic.ts. */
        topic?: string;
        /** Values that a `group` call gives to an account. */
        group?: AccountRecord;
        occurred: Occurred;
        /** Null: a rule needs the person's email, which the signal lacks. The signal is scored when it is linked. */
        evaluation: Evaluation | null;
      })
    /** An account update, mapped by the payload template of its key. Only an Idempotency-Key makes it a duplicate. */
    | (Deduplication & { kind: "account"; account: AccountRecord })
    | {
        kind: "dead";
        reason: string;
        /** Its template does not fit it. Another version may. */
        isMisfit?: true;
      };
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
      /** No more misfits may be kept; absent: they may. */
      misfitsFull?: true;
    }
  /** The store has no room and has recorded nothing. */
  | { outcome: "full" }
  /** The workspace has ended. */
  | { outcome: "gone" }
  /** The store is being copied, and has recorded nothing. */
  | { outcome: "paused" };

/** The kind of id that names the person of a signal, the strongest first (design §8.3). */
export type NamedBy = "email" | "user_id" | "anonymous_id";

export interface SignalSummary {
  id: string;
  status: SignalStatus;
  kind: SignalKind | "unknown";
  event: string | null;
  source: string | null;
  email: string | null;
  /** What the signal is about, such as the name of a form; null: no property says it. */
  topic: string | null;
  /** Whether it is a `group` call, which makes its person a member of an account. */
  isGroupCall: boolean;
  receivedAtMs: number;
  occurredAtMs: number;
  /** The field of the payload that `occurredAtMs` came from. */
  occurredFrom: OccurredFrom;
}

export interface LiveSignal extends SignalSummary {
  duplicateOf: string | null;
  /** A duplicate: because of the id that its template maps, not of its content. */
  sameId: boolean;
  deletedAtMs: number | null;
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
  /** A duplicate: because of the id that its template maps, not of its content. */
  sameId: boolean;
  heldUntilMs: number | null;
  deadReason: string | null;
  anonymousId: string | null;
  userId: string | null;
  traits: Traits;
  /** Whether the template of its key made its fields. */
  mapped: boolean;
  /** Whether the template of its key does not fit it. */
  misfit: boolean;
  person: { email: string; by: NamedBy; linkedAtMs: number | null } | null;
  rulesTried: number;
  rulesMatched: MatchedRule[];
  /** Id of the exclusion that covers the signal, so that it never scores; null: none does. */
  excludedBy: string | null;
  points: number;
  deletedAtMs: number | null;
  /** The sent text; null: not kept, or cold storage does not answer. */
  payload: string | null;
  inColdStorage: boolean;
  /** Whether the payload is missing in R2. */
  payloadLost: boolean;
  problems: Problems;
}

/** A stored signal as a sample for a template. */
export interface SampleSignal {
  id: string;
  payload: string;
  source: string | null;
  /** JSON of `Surroundings`; null: none was kept. */
  around: string | null;
}

export interface DeadLetter {
  id: string;
  keyId: string;
  reason: string;
  receivedAtMs: number;
  deadAtMs: number;
  /** The sent text. */
  payload: string | null;
  /** Whether the template of its key does not fit it. */
  misfit: boolean;
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

export interface FoundSignals extends ListPage<SignalSummary> {
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
  sample: { id: string; payload: string | null };
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

export interface QueuePage extends ListPage<QueueGroup> {
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
  failingChores: FailingChore[];
  alarms: AlarmsOfHour;
  bytes: number;
  /** Size of the database at which the store stops to record. */
  maxBytes: number;
  /** Shorter than the duplicate window if memory is short. */
  duplicatesCoveredMs: number;
}

/** What the Signal Store's callers send and get: plain data, all times in milliseconds since 1970. */
import type { FailingJob } from "../domain/health/alarm.ts";
import type { RuleMatch } from "../domain/rules/mapping-rule.ts";
import type { AccountField, AccountRecord } from "../domain/accounts/payload-template.ts";
import type { EndpointType, NormalisedSignal, Verdict } from "../domain/signal/signal.ts";

export type { RuleMatch } from "../domain/rules/mapping-rule.ts";

/** What the mapping rules said of a signal. */
export interface Evaluation {
  rulesTried: number;
  matches: RuleMatch[];
}

/** How a signal was admitted; comes with it through the queue. */
export interface Admission {
  /** `sig_` + UUIDv7. */
  id: string;
  keyId: string;
  endpoint: EndpointType;
  verdict: Verdict;
  /** Ordinal in its billing period, and the plan's limit at that moment. */
  ordinal: number;
  signalLimit: number;
  receivedAtMs: number;
  periodStartMs: number;
  /** Held signals are deleted then. */
  periodEndMs: number;
  /** The `{source}` of the path, and the request's `Idempotency-Key` with the index in its body. */
  pathSource?: string;
  idempotencyKey?: string;
  /** Of one that is sent once more: the place that it leaves, as `StoredSignal` names it. */
  again?: { from: "held" | "dead"; place: number };
}

/** A held signal or a dead letter as it was admitted, to be sent through the queue once more. */
export interface StoredSignal {
  admission: Admission;
  payload: string;
  /** Where it stands: among the held signals or the dead letters, under this number. */
  from: "held" | "dead";
  place: number;
  /** Where the next page begins. */
  cursor: number;
}

/** What a signal's duplicates are found by. */
export interface Deduplication {
  /** SHA-256 of the canonical form, or of the request's Idempotency-Key, base64url; null where it can be no duplicate. */
  contentHash: string | null;
  /** 0 where it can be none. */
  duplicateWindowMs: number;
}

/** How a batch is to be recorded. */
export interface RecordOptions {
  /** Of the rules that the signals were run through, if they were. */
  rulesVersion?: number;
  /**
   * For signals that may have failed before: one that cannot be recorded becomes a dead letter, the others are recorded.
   * This takes savepoints, within which SQLite copies every page before changing it.
   */
  carefully?: boolean;
}

/** One signal as the consumer hands it to the store. */
export interface SignalToRecord {
  admission: Admission;
  /** The JSON text as it was sent. */
  payload: string;
  work:
    | (Deduplication & {
        kind: "signal" | "identify";
        /** The properties stay with the consumer, which has run them through the rules. */
        normalised: Omit<NormalisedSignal, "properties">;
        /** Null when a rule asks for the owner's email and the signal does not carry it: scored once it is linked. */
        evaluation: Evaluation | null;
      })
    /** An account update, mapped by the payload template of its key. Only an Idempotency-Key makes it a duplicate. */
    | (Deduplication & { kind: "account"; account: AccountRecord })
    /** What the consumer could not process. */
    | { kind: "dead"; reason: string };
}

/** An outbox row as the consumer hands it to the store: all of its signals. */
export interface RowToRecord {
  /** Its number, and when it was committed. */
  row: number;
  atMs: number;
  signals: SignalToRecord[];
}

export type RecordResult =
  | {
      outcome: "recorded";
      /** There are earlier signals to be linked, see `SignalStore.link`. */
      linksWait: boolean;
      /** Numbers of rows that were not recorded, and must not be settled. */
      refused: number[];
    }
  /** The store has no room: nothing was recorded. */
  | { outcome: "full" };

/** How full the store is, and what goes wrong in it. */
export interface StoreHealth {
  totals: StoreTotals;
  /** When the latest dead letter was recorded, in milliseconds since 1970; null when there is none. */
  deadLetterMs: number | null;
  failingJobs: FailingJob[];
  bytes: number;
  /** From here on it records nothing. */
  maxBytes: number;
  /** How far back signals with an id of their own are compared; less than the window while memory is short. */
  duplicatesCoveredMs: number;
  /** The highest number of an outbox row that was refused, because a restored counter had used it before; 0: none was. */
  refusedUpTo: number;
}

/** What says whose a signal is, the strongest first (design §8.3). */
export type NamedBy = "email" | "user_id" | "anonymous_id";

/** Where a signal ended up (design §9). `in_flight` is known by the Quota Counter only. */
export type SignalStatus = "processed" | "held" | "anonymous" | "duplicate" | "purged" | "dead";

export interface EventGroup {
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /** The latest signal of the group: its id, and its payload, null while cold storage does not answer. */
  sample: { id: string; payload: unknown };
}

export interface SignalSummary {
  id: string;
  status: SignalStatus;
  kind: "signal" | "identify" | "account" | "unknown";
  event: string | null;
  source: string | null;
  email: string | null;
  receivedAtMs: number;
}

/** A signal on the live page: with why it is what it is. */
export interface LiveSignal extends SignalSummary {
  duplicateOf: string | null;
  deadReason: string | null;
  points: number;
}

/** A rule that has matched a signal; what it has scored, unless it had scored the person before. */
export interface MatchedRule extends RuleMatch {
  scored: boolean;
  /** The signal that has scored in place of this one. */
  scoredBy: string | null;
}

/** The whole way of one signal. */
export interface SignalTrace extends SignalSummary {
  endpoint: EndpointType;
  keyId: string;
  verdict: Verdict;
  ordinal: number;
  signalLimit: number;
  recordedAtMs: number;
  duplicateOf: string | null;
  heldUntilMs: number | null;
  deadReason: string | null;
  anonymousId: string | null;
  userId: string | null;
  /** Whose it is, and what named them. */
  person: { email: string; by: NamedBy; linkedAtMs: number | null } | null;
  rulesTried: number;
  rulesMatched: MatchedRule[];
  points: number;
  /** When its person was deleted, and all that was theirs with it. */
  erasedAtMs: number | null;
  /** As it was sent; null when it is not kept, and while cold storage does not answer. */
  payload: unknown;
  inColdStorage: boolean;
}

export interface Identity {
  kind: "anonymous_id" | "user_id";
  value: string;
  linkedAtMs: number;
}

export interface ScoringSignal {
  scoringSignal: string;
  points: number;
  ruleId: string;
  ruleVersion: number;
  signalId: string;
  atMs: number;
}

export interface Person {
  email: string;
  name: string | null;
  company: string | null;
  title: string | null;
  score: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /** Older ids that were dropped: nobody keeps more than PERSON_MAX_IDS of a kind. One that came back and was dropped again counts twice. */
  idsDropped: number;
  /** Newest first, at most PERSON_IDENTITIES_LISTED. */
  identities: Identity[];
  /** Newest first, at most 100. */
  scoringSignals: ScoringSignal[];
}

/** Workspace or account data (design §8.7). A value is whatever JSON the payload templates make; null: never sent. */
export interface Account extends Record<AccountField, unknown> {
  externalId: string;
  attributes: Record<string, unknown>;
  firstSeenMs: number;
  lastSeenMs: number;
  /** Newest first, at most ACCOUNT_HISTORY_SHOWN. */
  history: AccountChange[];
}

export interface AccountChange {
  field: AccountField;
  /** Null where the field was not known before. */
  before: unknown;
  after: unknown;
  /** Receipt of the update that changed it, and its signal. */
  atMs: number;
  signalId: string;
}

export interface DeadLetter {
  id: string;
  reason: string;
  receivedAtMs: number;
  deadAtMs: number;
  payload: unknown;
}

/** The store's side of the books. */
export interface StoreTotals {
  processed: number;
  duplicates: number;
  held: number;
  purged: number;
  deadLettered: number;
}

export interface AccountFilter {
  externalId?: string;
}

export interface SignalFilter {
  event?: string;
  email?: string;
  status?: SignalStatus;
  keyId?: string;
  /** Received not before, and before: milliseconds since 1970. */
  sinceMs?: number;
  untilMs?: number;
}

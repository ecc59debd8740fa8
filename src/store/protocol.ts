/** What the Signal Store's callers send and get: plain data, all times in milliseconds since 1970. */
import type { FailingJob } from "../domain/health/alarm.ts";
import type { RuleMatch } from "../domain/rules/mapping-rule.ts";
import type { Evaluation } from "../domain/rules/evaluation.ts";
import type { AccountField, AccountRecord } from "../domain/accounts/payload-template.ts";
import type { EndpointType, NormalisedSignal, Verdict } from "../domain/signal/signal.ts";
import type { PersonTraits } from "../domain/signal/traits.ts";
import type { Admission } from "../wire/admission.ts";

/** A held signal or a dead letter as it was admitted, to be sent through the queue once more. */
export interface StoredSignal {
  admission: Admission;
  payload: string;
  /** Where it stands: among the held signals or the dead letters, under this number. */
  from: "held" | "dead";
  place: number;
  /** Cursor of the page that begins behind this signal. */
  cursor: number;
}

/** What a signal's duplicates are found by. */
export interface Deduplication {
  /** SHA-256 of the canonical form, or of the request's Idempotency-Key, base64url; null where it can be no duplicate. */
  contentHash: string | null;
  /** How long a twin makes the signal a duplicate; 0 where it can be none. */
  duplicateWindowMs: number;
}

/** How a batch is to be recorded. */
export interface RecordOptions {
  /** Version of the mapping rules that the signals were run through, if they were. */
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
        /** The signal normalised. Its properties stay with the consumer, which has run them through the rules. */
        normalised: Omit<NormalisedSignal, "properties">;
        /** Null when a rule asks for the owner's email, which the signal does not carry: it is scored once it is linked. */
        evaluation: Evaluation | null;
      })
    /** An account update, mapped by the payload template of its key. Only an Idempotency-Key makes it a duplicate. */
    | (Deduplication & { kind: "account"; account: AccountRecord })
    /** A signal that the consumer could not process. */
    | { kind: "dead"; reason: string };
}

/** An outbox row as the consumer hands it to the store: all of its signals. */
export interface RowToRecord {
  /** The row's number, and when it was committed. */
  row: number;
  atMs: number;
  signals: SignalToRecord[];
}

export type RecordResult =
  | {
      outcome: "recorded";
      /** Whether there are earlier signals to be linked, see `SignalStore.link`. */
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
  /** The size of the database from which on the store records nothing. */
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

/** A signal on the live page, with what explains its status. */
export interface LiveSignal extends SignalSummary {
  duplicateOf: string | null;
  deadReason: string | null;
  points: number;
}

/** A rule that has matched a signal. */
export interface MatchedRule extends RuleMatch {
  scored: boolean;
  /** The signal that has scored in place of this one; null: none has. */
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
  /** Whose the signal is, and what named them; null: nobody's. */
  person: { email: string; by: NamedBy; linkedAtMs: number | null } | null;
  rulesTried: number;
  rulesMatched: MatchedRule[];
  points: number;
  /** When the signal's person was deleted, and all that was theirs with it; null: they were not. */
  erasedAtMs: number | null;
  /** The payload as it was sent; null when it is not kept, and while cold storage does not answer. */
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

export interface Person extends PersonTraits {
  email: string;
  score: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /**
   * How many older ids were dropped: nobody keeps more than PERSON_MAX_IDS of a kind. One that came back and was dropped
   * again counts twice.
   */
  idsDropped: number;
  /** The latest ids, newest first, at most PERSON_IDENTITIES_LISTED. */
  identities: Identity[];
  /** The latest scoring signals, newest first, at most 100. */
  scoringSignals: ScoringSignal[];
}

/** Workspace or account data (design §8.7). A value is whatever JSON the payload templates make; null: never sent. */
export interface Account extends Record<AccountField, unknown> {
  externalId: string;
  attributes: Record<string, unknown>;
  firstSeenMs: number;
  lastSeenMs: number;
  /** The latest changes, newest first, at most ACCOUNT_HISTORY_SHOWN. */
  history: AccountChange[];
}

export interface AccountChange {
  field: AccountField;
  /** The value before; null where the field was not known. */
  before: unknown;
  after: unknown;
  /** Receipt of the update that made the change, and its signal. */
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
  /** When the signals were received: not before `sinceMs`, and before `untilMs`, in milliseconds since 1970. */
  sinceMs?: number;
  untilMs?: number;
}

/** Arguments and results of the Quota Counter's methods. All times are milliseconds since 1970. */
import type { RateState } from "../domain/quota/request-rate.ts";
import type { Rejection, LimitRefusal, RefusalCode } from "../domain/keys/refusal.ts";
import type { VerdictCounts } from "../domain/quota/quota.ts";
import type { UsageDay } from "../domain/quota/usage-day.ts";
import type { SignalsByPeriod } from "../domain/restore.ts";

/** Signals of one call in the format of the outbox (wire/message.ts), about MESSAGE_MAX_BYTES at most. */
export interface AdmitChunk {
  /** Records of `count` signals, as written by wire/message.ts. */
  text: string;
  count: number;
  /** UTF-8 length of `text`, possibly a few bytes more. */
  bytes: number;
}

export interface AdmitCall {
  keyId: string;
  chunks: AdmitChunk[];
  requestId: string;
  /** False for the later slices of a large body: they do not count against the request rate. */
  firstSlice: boolean;
  /** Number of requests that the body counts as (requestsOfBody); only with the first slice. Default: 1. */
  requests?: number;
  /** Signals of the same body that the edge refused, for the rejections list. */
  invalid: InvalidSignals[];
}

/** Signals of one call that were refused for the same reason. */
export interface InvalidSignals {
  code: RefusalCode;
  /** Error text of the first of these signals, without quotes from the body. */
  detail: string;
  signals: number;
}

/** Quota of the workspace after the call, for the `RateLimit` headers. */
export interface PeriodState {
  /** Signals until the first refusal; null: overages are enabled, so no signal is refused. */
  remaining: number | null;
  /** Ordinal of the first refused signal; null: overages are enabled. */
  ceiling: number | null;
  periodEndMs: number;
}

/**
 * Verdicts of one call, in order: the first `accepted` signals are accepted, the next `held` are held, the rest are refused
 * with `refusal`. Within a commit the plan does not change, so no other order occurs.
 */
export type AdmitResult =
  | ({
      outcome: "counted";
      refusal: LimitRefusal | null;
      rate: RateState;
      period: PeriodState;
      /** Version of the configuration that decided. */
      configVersion: number;
    } & VerdictCounts)
  | { outcome: "key_deactivated" }
  | { outcome: "rate_limited"; retryAfterMs: number; rate: RateState; period: PeriodState | null }
  /** The outbox is full (OUTBOX_MAX_BYTES) and nothing was counted. Only for the first slice of a body. */
  | { outcome: "full"; retryAfterMs: number; rate: RateState; period: PeriodState }
  /** The object has never been configured: configure it and call again. An old configuration still decides. */
  | { outcome: "unconfigured" }
  /** The workspace is being restored. */
  | { outcome: "closed" };

/** A call with a known key and the right secret that the edge refused. */
export interface RefusedCall {
  keyId: string;
  code: RefusalCode;
  /** Error text for the sender, without quotes from the body. */
  detail: string;
  requestId: string;
  /** Number of refused signals; 1 if unknown. */
  signals: number;
  /** As in AdmitCall: the body is charged although the call is refused. */
  requests?: number;
}

/**
 * The answer for a call that the edge refused. A deactivated key and an exceeded rate take precedence over the edge's
 * refusal.
 */
export type RefusedResult =
  | { outcome: "noted"; rate: RateState; period: PeriodState | null }
  | { outcome: "key_deactivated" }
  | { outcome: "rate_limited"; retryAfterMs: number; rate: RateState; period: PeriodState | null };

/** Counts of the current period, as stored in each outbox row. */
export interface Counts extends VerdictCounts {
  /** Accepted signals beyond the limit, with overages enabled. */
  overage: number;
  /** Signals admitted since the workspace began. */
  admitted: number;
}

export interface ClosedPeriod extends VerdictCounts {
  periodStartMs: number;
  periodEndMs: number;
  signalLimit: number;
  overages: boolean;
  /** Accepted signals beyond the limit, with overages enabled. */
  overage: number;
  /** Consecutive periods over the allowance, this one included; for the current period, up to the one before it. */
  streak: number;
}

export interface Usage extends ClosedPeriod {
  paid: boolean;
  extraRoomRemoved: boolean;
  /** Version of the counter's configuration. */
  configVersion: number;
  /** Newest first. */
  history: ClosedPeriod[];
}

export interface UsageByDay {
  usage: Usage;
  /** Days of the current and the previous period, in order. */
  days: UsageDay[];
  /** First day with counts; null: nothing was counted before today. */
  firstDayMs: number | null;
}

/** The counter's data for the overview page, in one read. */
export interface CounterOverview extends UsageByDay {
  /** The latest refusals, newest first. */
  rejections: Rejection[];
  /** Time of each key's last use, by key id. */
  lastUsed: Record<string, number>;
}

export interface KeyCalls {
  /** Time of the last call with the right secret, accepted or not; null: none. */
  usedMs: number | null;
  /** Time of the last accepted call; null: none. */
  acceptedMs: number | null;
  /** Ordered by their last call, newest first. */
  rejections: Rejection[];
  /** By day (days since 1970, UTC): calls with an accepted signal, and calls with a refused signal. A call may be both. */
  days: Record<number, { accepted: number; refused: number }>;
}

/** The counter's side of the books. */
export interface CounterBooks {
  /** Signals answered with 202, held ones included; since the beginning or in one period. */
  admitted: number;
  /** Signals in unsettled outbox rows. */
  unsettled: number;
  /** Admitted signals that restores have lost. */
  lost: number;
}

export interface UnsettledRow {
  row: number;
  periodStartMs: number;
  signals: number;
  /** Whether the Signal Store already has the signals (a release or a replay). */
  isResent: boolean;
}

/** Counts before a restore. */
export interface CountedBefore {
  /** Highest used number of an outbox row. */
  highestRow: number;
  accepted: SignalsByPeriod;
}

export interface RestoredCounter {
  accepted: SignalsByPeriod;
  /** Rows that were unsettled at the restored moment. */
  unsettled: UnsettledRow[];
}

/**
 * Losses of a billing period. Signals that were answered with 202 stay counted as accepted, which keeps the books balanced
 * (docs/operate.md).
 */
export interface Correction {
  periodStartMs: number;
  /** Accepted signals that the restored ledger does not count. */
  forgotten: number;
  /** Accepted signals that neither the outbox nor the Signal Store has. */
  lost: number;
}

/** Signals that wait for the Signal Store. */
export interface Backlog {
  /** Whether the store last answered that it is full. */
  storeFull: boolean;
  /** Signals answered with 202 since the beginning. */
  admitted: number;
  unsettledSignals: number;
  /** Size of the counter's database, nearly all of it the outbox. OUTBOX_MAX_BYTES limits it. */
  outboxBytes: number;
  outboxMaxBytes: number;
  /** Admission time of the oldest unsettled signal; null: every signal is settled. */
  oldestAtMs: number | null;
  /** Signals in rows that cannot be parsed. */
  unreadableSignals: number;
  lostSignals: number;
  hasDestinations: boolean;
}

/** A signal for the queue that the Signal Store already has. `text` and `bytes` as in AdmitChunk. */
export interface ResentSignal {
  id: string;
  periodStartMs: number;
  text: string;
  bytes: number;
}

/** A batch of held signals or dead letters that a job of the Signal Store sends again. */
export interface ResendPage {
  job: string;
  /** Number of the batch, from 1. The counter sends each batch of a job once. */
  page: number;
  /** Position of the batch's end in the store. */
  through: number;
  signals: ResentSignal[];
}

/** State at the start of a release. The release ends with the period, or if its overages are disabled. */
export interface ReleaseTerms {
  periodEndMs: number;
  overages: boolean;
}

export interface ResendResult {
  /** Signals that the job has sent so far, this batch included. */
  sent: number;
  /** Position in the store of the end of the last sent batch. */
  through: number;
  /** `more`: send the next batch. `end`: stop. `wait`: this batch was not sent; call again later. */
  next: "more" | "end" | "wait";
}

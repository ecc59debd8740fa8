/** Arguments and results of the Quota Counter's methods. All times are milliseconds since 1970. */
import type { RateState } from "../domain/quota/request-rate.ts";
import type { Rejection, LimitRefusal, RefusalCode } from "../domain/keys/refusal.ts";
import type { VerdictCounts } from "../domain/quota/quota.ts";
import type { UsageDay } from "../domain/quota/usage-day.ts";
import type { WrittenCall } from "../wire/message.ts";

/** All signals of a body. They are admitted together or not at all. */
export interface AdmitCall extends WrittenCall {
  keyId: string;
  requestId: string;
  /** Requests that the body counts as (requestsOfBody). Default: 1. */
  requests?: number;
  /** Refused signals of the body, for the rejections list. */
  invalid: InvalidSignals[];
}

export interface InvalidSignals {
  code: RefusalCode;
  /** Error text of the first signal, without quotes from the body. */
  detail: string;
  signals: number;
}

/** For the `RateLimit` headers. */
export interface PeriodState {
  /** Signals until the first refusal; null: overages are on. */
  remaining: number | null;
  /** Last ordinal before the first refusal; null: overages are on. */
  ceiling: number | null;
  periodEndMs: number;
}

/** The first `accepted` signals of the call are accepted, the next `held` are held, the rest are refused. */
export type AdmitResult =
  | ({
      outcome: "counted";
      refusal: LimitRefusal | null;
      rate: RateState;
      period: PeriodState;
      configVersion: number;
    } & VerdictCounts)
  | { outcome: "key_deactivated" }
  | { outcome: "rate_limited"; retryAfterMs: number; rate: RateState; period: PeriodState | null }
  /** The outbox is full and nothing was counted. */
  | { outcome: "full"; retryAfterMs: number; rate: RateState; period: PeriodState }
  /** Configure the object and call again. An old configuration still decides. */
  | { outcome: "unconfigured" };

/** A call with a known key and the right secret that the edge refused. */
export interface RefusedCall {
  keyId: string;
  code: RefusalCode;
  /** Without quotes from the body. */
  detail: string;
  requestId: string;
  /** 1 if unknown. */
  signals: number;
  /** As in AdmitCall: the body is charged although the call is refused. */
  requests?: number;
}

export type RefusedResult =
  | { outcome: "noted"; rate: RateState; period: PeriodState | null }
  | Extract<AdmitResult, { outcome: "key_deactivated" | "rate_limited" }>;

export interface Counts extends VerdictCounts {
  /** Accepted signals beyond the limit, with overages enabled. */
  overage: number;
  /** Of all periods, unlike the other counts. */
  admitted: number;
}

export interface ClosedPeriod extends Omit<Counts, "admitted"> {
  periodStartMs: number;
  periodEndMs: number;
  signalLimit: number;
  overages: boolean;
  /** Consecutive periods over the allowance, this one included; for the current period, those before it. */
  streak: number;
}

export interface Usage extends ClosedPeriod {
  paid: boolean;
  extraRoomRemoved: boolean;
  configVersion: number;
  /** Newest first. */
  history: ClosedPeriod[];
}

export interface UsageByDay {
  usage: Usage;
  /** Days of the current and the previous period. */
  days: UsageDay[];
  /** First day with counts; null: nothing was counted before today. */
  firstDayMs: number | null;
}

export interface CounterOverview extends UsageByDay {
  rejections: Rejection[];
  lastUsed: Record<string, number>;
}

export interface KeyCalls {
  /** The last call with the right secret; null: none. */
  usedMs: number | null;
  /** Null: none. */
  acceptedMs: number | null;
  rejections: Rejection[];
  /** Day (days since 1970, UTC) → calls. A partly accepted call counts as both. */
  days: Record<number, { accepted: number; refused: number }>;
}

export interface CounterBooks {
  /** Signals answered with 202, held ones included. */
  admitted: number;
  unsettled: number;
}

export interface RevokedKeys {
  /** Keys that were not revoked before the call. */
  added: number;
  keys: { keyId: string; atMs: number }[];
}

export interface Backlog {
  storeFull: boolean;
  /** Signals answered with 202 since the beginning. */
  admitted: number;
  unsettledSignals: number;
  outboxBytes: number;
  outboxMaxBytes: number;
  oldestAtMs: number | null;
  /** Signals in rows that cannot be parsed. */
  unreadableSignals: number;
  hasDestinations: boolean;
}

/** Written as a call of one signal. */
export interface ResentSignal extends WrittenCall {
  id: string;
  periodStartMs: number;
}

/** A batch of held signals or dead letters that a job of the Signal Store sends again. */
export interface ResendPage {
  job: string;
  /** Number of the batch, from 1. */
  page: number;
  through: number;
  signals: ResentSignal[];
}

/** State at the start of a release. The release ends with the period, or if overages are turned off. */
export interface ReleaseTerms {
  periodEndMs: number;
  overages: boolean;
}

export interface ResendResult {
  sent: number;
  /** Position in the store of the end of the last sent batch. */
  through: number;
  /** `more`: send the next batch. `end`: stop. `wait`: this batch was not sent; call again later. */
  next: "more" | "end" | "wait";
}

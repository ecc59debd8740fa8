/** Arguments and results of the Quota Counter's methods. All times are milliseconds since 1970. */
import type { AlarmsOfHour } from "../domain/health/alarm.ts";
import type { RateState } from "../domain/quota/request-rate.ts";
import type { RejectionEntry, LimitRejection, RejectionCode } from "../domain/keys/rejection.ts";
import type { VerdictCounts } from "../domain/quota/quota.ts";
import type { ByFirstKey, KeyBudgets } from "../domain/quota/key-budget.ts";
import type { UsageDay } from "../domain/quota/usage-day.ts";
import type { WrittenCall } from "../wire/message.ts";

/** All signals of a body. They are admitted together or not at all. */
export interface AdmitCall extends WrittenCall {
  keyId: string;
  /** The first key of the rotation chain; undefined: the key replaces none. */
  firstKeyId?: string;
  requestId: string;
  /** Of the browser that made the call (domain/keys/browser-origin.ts); undefined: no browser did. */
  origin?: string;
  /** Requests that the body counts as (requestsOfBody). Default: 1. */
  requests?: number;
  /** Rejected signals of the body, for the rejections list. */
  invalid: InvalidSignals[];
  /** The edge may not know yet that a rotation has ended the key. */
  isCopy?: true;
}

export interface InvalidSignals {
  code: RejectionCode;
  /** Error text of the first signal, without quotes from the body. */
  detail: string;
  signals: number;
}

/** For the `RateLimit` headers. */
export interface PeriodState {
  /** Signals until the first rejection; null: overages are on. */
  remaining: number | null;
  /** Last ordinal before the first rejection; null: overages are on. */
  ceiling: number | null;
  periodEndMs: number;
}

/** The first `accepted` signals of the call are accepted, the next `held` are held, the rest are rejected. */
export type AdmitResult =
  | ({
      outcome: "counted";
      rejection: LimitRejection | null;
      rate: RateState;
      period: PeriodState;
      configVersion: number;
      /** Keep no misfits for a minute: too many wait in the store. */
      misfitsFull?: true;
    } & VerdictCounts)
  | { outcome: "key_deactivated" }
  /** A rotation has ended the key, which the edge did not know. */
  | { outcome: "key_ended" }
  /** The workspace has ended, or its keys have moved to another one. Only D1 knows which. */
  | { outcome: "gone" }
  /** The workspace moves, or is being imported. Only D1 knows whether the key has moved already. */
  | { outcome: "closed" }
  | { outcome: "rate_limited"; retryAfterMs: number; rate: RateState; period: PeriodState | null }
  /** The outbox is full and nothing was counted. */
  | { outcome: "full"; retryAfterMs: number; rate: RateState; period: PeriodState }
  /** Configure the object and call again. An old configuration still decides. */
  | { outcome: "unconfigured" };

/** Whether calls with a key are accepted. */
export type KeyState =
  | { outcome: "active" }
  | Extract<AdmitResult, { outcome: "key_deactivated" | "key_ended" | "gone" | "closed" }>;

/** A call with a known key and the right secret that the edge rejected. */
export interface RejectedCall {
  keyId: string;
  code: RejectionCode;
  /** Without quotes from the body. */
  detail: string;
  requestId: string;
  /** 1 if unknown. */
  signals: number;
  /** As in AdmitCall. */
  origin?: string;
  /** As in AdmitCall: the body is charged although the call is rejected. */
  requests?: number;
}

export type RejectedResult =
  | { outcome: "noted"; rate: RateState; period: PeriodState | null }
  | Extract<AdmitResult, { outcome: "key_deactivated" | "gone" | "closed" | "rate_limited" }>;

export interface Counts extends VerdictCounts {
  /** Accepted signals beyond the limit, with overages enabled. */
  overage: number;
  /** Admitted signals of all periods, unlike the other counts. */
  admitted: number;
}

/** The counts that each outbox row has. */
export interface RowCounts extends Counts {
  budgetUse: ByFirstKey;
}

export interface ClosedPeriod extends Omit<Counts, "admitted"> {
  periodStartMs: number;
  periodEndMs: number;
  signalLimit: number;
  overages: boolean;
  /** Consecutive periods over the allowance, this one included; for the current period, those before it. */
  streak: number;
}

export interface Usage extends ClosedPeriod, KeyBudgets {
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

/** The first call from a browser. */
export interface BrowserUse {
  origin: string;
  atMs: number;
}

export interface CounterOverview extends UsageByDay {
  /** By key, for keys that a browser has used. */
  publicKeys: Record<string, BrowserUse>;
  rejections: RejectionEntry[];
  lastUsed: Record<string, number>;
  /** The last call with an accepted signal, by key. */
  lastAccepted: Record<string, number>;
}

export interface KeyCalls {
  /** The last call with the right secret; null: none. */
  usedMs: number | null;
  /** Null: none. */
  acceptedMs: number | null;
  rejections: RejectionEntry[];
  /** Null: no browser has used the key. */
  browser: BrowserUse | null;
  /** Day (days since 1970, UTC) → calls. A partly accepted call counts as both. */
  days: Record<number, { accepted: number; rejected: number }>;
}

export interface CounterBooks {
  /** Signals answered with 202, held ones included. */
  admitted: number;
  unsettled: number;
}

export interface DeactivatedKeys {
  /** Keys that were not deactivated before the call. */
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
  alarms: AlarmsOfHour;
}

/** Written as a call of one signal. */
export interface ResentSignal extends WrittenCall {
  id: string;
  periodStartMs: number;
}

/** A batch of held signals or dead letters that a job of the Signal Store sends again. */
export interface ResendBatch {
  job: string;
  /** Number of the batch, from 1. */
  batch: number;
  through: number;
  /** Signals that the store knows as sent by the job: the counter forgets old jobs. */
  sent: number;
  signals: ResentSignal[];
}

/** The state when a release was requested. If the period or the overages change, the release ends. */
export interface ReleaseTerms {
  periodEndMs: number;
  overages: boolean;
  /** The number of signals that a person has confirmed; null: all that fit. */
  most: number | null;
}

export interface ResendResult {
  sent: number;
  /** Position in the store of the end of the last sent batch. */
  through: number;
  /** `more`: send the next batch. `end`: stop. `wait`: this batch was not sent; call again later. */
  next: "more" | "end" | "wait";
}

/** What the Quota Counter's callers send and get: plain data, all times in milliseconds since 1970. */
import type { RateState } from "../domain/quota/request-rate.ts";
import type { Rejection } from "../domain/keys/rejection.ts";
import type { VerdictCounts } from "../domain/quota/quota.ts";
import type { UsageDay } from "../domain/quota/usage-day.ts";
import type { SignalsByPeriod } from "../domain/restore.ts";
import type { LimitRefusal, RefusalCode } from "../domain/keys/refusal.ts";

/** Signals of one call, already in the outbox's form (wire/message.ts), at most about MESSAGE_MAX_BYTES each. */
export interface AdmitChunk {
  /** `message.ts` records of `count` signals. */
  text: string;
  count: number;
  /** UTF-8 length of `text`, or a little more. */
  bytes: number;
}

export interface AdmitCall {
  keyId: string;
  chunks: AdmitChunk[];
  /** The call's id, for the rejections list. */
  requestId: string;
  /** Only the first slice of a large body counts against the request rate. */
  firstSlice: boolean;
  /** How many requests the body counts as (requestsOfBody), with the first slice; without the field 1. */
  requests?: number;
  /** What the edge refused of the same body, for the rejections list. */
  invalid: InvalidSignals[];
}

/** Signals of one call that were refused for the same reason. */
export interface InvalidSignals {
  code: RefusalCode;
  /** What the sender was told of the first of the signals, without what that repeats of the body. */
  detail: string;
  signals: number;
}

/** Where the workspace stands after this call, for the `RateLimit` headers. */
export interface PeriodState {
  /** Signals until the first refusal; null with overages on: there is no refusal. */
  remaining: number | null;
  /** Ordinal at which refusals begin; null with overages on. */
  ceiling: number | null;
  periodEndMs: number;
}

/**
 * Verdicts of one call, in order: the first `accepted` signals are accepted, the next `held` are held, the rest refused
 * for `refusal`. (Within one commit the plan does not change, so the three can come in no other order.)
 */
export type AdmitResult =
  | ({
      outcome: "counted";
      refusal: LimitRefusal | null;
      rate: RateState;
      period: PeriodState;
      /** Version of the configuration that has decided. */
      configVersion: number;
    } & VerdictCounts)
  | { outcome: "key_deactivated" }
  | { outcome: "rate_limited"; retryAfterMs: number; rate: RateState; period: PeriodState | null }
  /** The outbox takes no more, see OUTBOX_MAX_BYTES; nothing was counted. Said of a body's first slice only. */
  | { outcome: "full"; retryAfterMs: number; rate: RateState; period: PeriodState }
  /** The object has no configuration at all: configure it and call again. With an old one it decides. */
  | { outcome: "unconfigured" }
  /** The workspace is about to be restored. */
  | { outcome: "closed" };

/** A call with a known key and the right secret that the edge refused. */
export interface RefusedCall {
  keyId: string;
  code: RefusalCode;
  /** What the sender was told, without what that repeats of the body. */
  detail: string;
  requestId: string;
  /** Signals refused in this call; 1 where that is not known. */
  signals: number;
  /** As in AdmitCall: what was read of the body is charged although the call is refused. */
  requests?: number;
}

/** What the sender of a call that the edge refused is to be told, which is not always what the edge had found. */
export type RefusedResult =
  | { outcome: "noted"; rate: RateState; period: PeriodState | null }
  | { outcome: "key_deactivated" }
  | { outcome: "rate_limited"; retryAfterMs: number; rate: RateState; period: PeriodState | null };

export interface ClosedPeriod extends VerdictCounts {
  periodStartMs: number;
  periodEndMs: number;
  signalLimit: number;
  overages: boolean;
  /** Signals accepted beyond the limit with overages on. */
  overage: number;
  /** Consecutive periods over the allowance, up to this one; while this is the current one, up to the one before it. */
  streak: number;
}

/** The current period, and the closed ones before it. */
export interface Usage extends ClosedPeriod {
  paid: boolean;
  extraRoomRemoved: boolean;
  /** Version of the configuration that the counter has. */
  configVersion: number;
  /** The closed periods, newest first. */
  history: ClosedPeriod[];
}

export interface UsageByDay {
  usage: Usage;
  /** Days of the current period and of the one before it, in order. */
  days: UsageDay[];
  /** The first day that is known; null when nothing was counted before today. */
  firstDayMs: number | null;
}

/** What has come of one key's calls. */
export interface KeyCalls {
  /** When a call last carried the right secret, whatever came of it; null: none so far. */
  usedMs: number | null;
  /** When a call was last accepted; null: none was so far. */
  acceptedMs: number | null;
  /** The key's rejections, those with the latest calls first. */
  rejections: Rejection[];
  /**
   * By day (days since 1970, UTC): calls of which something was accepted, and calls of which something was refused. A call
   * may be both.
   */
  days: Record<number, { accepted: number; refused: number }>;
}

/** The counter's side of the books. */
export interface CounterBooks {
  /** Every signal answered with 202, held ones included; since the beginning or for one period. */
  admitted: number;
  /** Signals in outbox rows that are not settled yet. */
  unsettled: number;
  /** Signals of those admitted that restores have lost. */
  lost: number;
}

/** A row of the outbox that is not settled. */
export interface UnsettledRow {
  row: number;
  periodStartMs: number;
  signals: number;
  /** Whether its signals are sent once more, so that the Signal Store has them already. */
  isAgain: boolean;
}

/** What the counter had counted before a restore. */
export interface CountedBefore {
  /** The highest number of an outbox row that was given. */
  highestRow: number;
  accepted: SignalsByPeriod;
}

/** What a restored counter has. */
export interface RestoredCounter {
  accepted: SignalsByPeriod;
  /** The rows that were not settled at the moment that was restored, and still are not. */
  unsettled: UnsettledRow[];
}

/** What waits for the Signal Store. */
export interface Backlog {
  /** Whether the store has said that it has no room, and has taken nothing since. */
  storeFull: boolean;
  /** Every signal ever answered with 202. */
  admitted: number;
  unsettledSignals: number;
  /** Bytes of the counter's whole database, nearly all of which is the outbox: OUTBOX_MAX_BYTES bounds them. */
  outboxBytes: number;
  outboxMaxBytes: number;
  /** When the oldest unsettled signal was admitted; null when nothing waits. */
  oldestAtMs: number | null;
  /** Signals of outbox rows that cannot be read. */
  unreadableSignals: number;
  lostSignals: number;
  /** Whether there are destinations to be asked how they are. */
  hasDestinations: boolean;
}

/** A signal that is sent through the queue once more; `text` and `bytes` are as in AdmitChunk, of this signal alone. */
export interface SignalAgain {
  id: string;
  periodStartMs: number;
  text: string;
  bytes: number;
}

/** A page of held signals or dead letters that a job of the Signal Store sends again. */
export interface SignalsAgainPage {
  /** Id of the job. */
  job: string;
  /** Number of the page, from 1. The counter sends each page of a job once. */
  page: number;
  /** Where the page ends in the store. */
  through: number;
  signals: SignalAgain[];
}

/** What a release began with: it ends with its period, and where its overages are switched off. */
export interface ReleaseTerms {
  periodEndMs: number;
  overages: boolean;
}

export interface SignalsAgainResult {
  /** Signals that the job has sent so far, this page included. */
  sent: number;
  /** Where the last page that the counter has sent for the job ends in the store. */
  through: number;
  /** `more`: the next page may follow. `end`: nothing more is sent. `wait`: this page was not sent; ask again later. */
  next: "more" | "end" | "wait";
}

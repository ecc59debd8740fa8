/**
 * What becomes of an attempt to deliver: done, the end of the destination, or another attempt. By the Standard Webhooks
 * specification ("Deliverability and reliability").
 */

/** A retry comes up to so much later than the schedule says. */
export const RETRY_JITTER = 0.2;
/** The longest that a receiver's Retry-After is heeded. */
export const RETRY_AFTER_MAX_MS = 24 * 3_600_000;
/** A destination that nothing has reached for so long is switched off. */
export const DESTINATION_FAILING_MS = 5 * 24 * 3_600_000;
/** A failure so long after the last one begins a new run: longer than the longest pause of the schedule, with its jitter. */
export const DESTINATION_FORGIVEN_MS = 36 * 3_600_000;

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** The specification's schedule: from one attempt's failure to the next attempt, some three days in all. */
export const RETRY_DELAYS_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
] as const;

/** How an attempt ended, as the consumer reports it. */
export interface AttemptResult {
  /** When it began, in milliseconds since 1970. */
  atMs: number;
  tookMs: number;
  /** Status of the answer; null: there was none, or none that has a status. */
  status: number | null;
  /** Why the attempt failed, in words for an admin; null: it was delivered. */
  error: string | null;
  /** The beginning of the answer, at most ANSWER_MAX_BYTES of it. */
  answer: string | null;
  /** How long the receiver has asked to be left alone; null: it has not. */
  retryAfterMs: number | null;
}

export type Judgement =
  | { outcome: "delivered" }
  /** 410: the receiver wants nothing any more. */
  | { outcome: "gone" }
  /** Every attempt of the schedule has failed. */
  | { outcome: "given_up" }
  | { outcome: "again"; atMs: number };

/**
 * What becomes of a delivery after this attempt.
 *
 * @param failedAttempts of this round, this one included if it failed.
 * @param random from 0 up to 1, so that what failed together does not come again together.
 */
export function judgeAttempt(result: AttemptResult, failedAttempts: number, nowMs: number, random: number): Judgement {
  if (result.error === null) return { outcome: "delivered" };
  if (result.status === 410) return { outcome: "gone" };
  const delayMs = RETRY_DELAYS_MS[failedAttempts - 1];
  if (delayMs === undefined) return { outcome: "given_up" };
  return { outcome: "again", atMs: nowMs + Math.max(jittered(delayMs, random), askedMs(result)) };
}

/** A destination fails once so many attempts have failed in a row, each of them begun after the one before had failed. */
export const FAILING_AFTER = 2;

/**
 * Until when a receiver is left alone that has failed this often in a row: the schedule again, or as long as it has asked.
 * Between, one delivery after the other is tried, so that one that it never accepts holds up no other. 0: it is not.
 */
export function notBeforeMs(result: AttemptResult, failures: number, nowMs: number, random: number): number {
  const delays = RETRY_DELAYS_MS.slice(0, Math.max(0, failures - FAILING_AFTER + 1));
  const waitMs = Math.max(jittered(delays.at(-1) ?? 0, random), askedMs(result));
  return waitMs === 0 ? 0 : nowMs + waitMs;
}

function jittered(delayMs: number, random: number): number {
  return Math.round(delayMs * (1 + RETRY_JITTER * random));
}

function askedMs({ retryAfterMs }: AttemptResult): number {
  return Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS);
}

/** Since when nothing has reached a destination, and when something last did not. */
export interface Failing {
  sinceMs: number;
  lastMs: number;
}

/**
 * The run of failures with one more. What failed before a long silence says nothing of today: a destination that is rarely
 * told anything is not switched off for two mishaps a week apart.
 */
export function failedAgain(failing: Failing | null, nowMs: number): Failing {
  if (failing === null || nowMs - failing.lastMs > DESTINATION_FORGIVEN_MS) return { sinceMs: nowMs, lastMs: nowMs };
  return { sinceMs: failing.sinceMs, lastMs: nowMs };
}

/** Whether a destination has failed for so long that it is switched off. */
export function isHopeless({ sinceMs, lastMs }: Failing): boolean {
  return lastMs - sinceMs >= DESTINATION_FAILING_MS;
}

/**
 * The outcome of a delivery attempt: delivered, retried, given up, or the end of the destination. Follows the
 * Standard Webhooks specification ("Deliverability and reliability").
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

export const RETRY_JITTER = 0.2;
export const RETRY_AFTER_MAX_MS = 24 * HOUR_MS;
/** Time without a successful delivery after which a destination is switched off. */
export const DESTINATION_FAILING_MS = 5 * 24 * HOUR_MS;
/** A failure after a longer pause starts a new run. Longer than the longest retry delay with its jitter. */
export const FAILURE_RUN_GAP_MS = 36 * HOUR_MS;

/** The specification's schedule: delays from a failure to the next attempt, about three days in all. */
export const RETRY_DELAYS_MS: readonly number[] = [
  5_000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR_MS),
];

export interface AttemptResult {
  atMs: number;
  tookMs: number;
  /** Status of the answer; null: there was no answer, or it has no status (email). */
  status: number | null;
  /** Cause of the failure, for an admin; null: delivered. */
  error: string | null;
  answer: string | null;
  retryAfterMs: number | null;
}

type Judgement =
  | { outcome: "delivered" }
  /** 410: the receiver has unsubscribed. */
  | { outcome: "gone" }
  | { outcome: "given_up" }
  | { outcome: "again"; atMs: number };

/** @param random from 0 up to 1; spreads retries of deliveries that failed together. */
export function decideAttempt(result: AttemptResult, failedAttempts: number, nowMs: number, random: number): Judgement {
  if (result.error === null) return { outcome: "delivered" };
  if (result.status === 410) return { outcome: "gone" };
  const delayMs = RETRY_DELAYS_MS[failedAttempts - 1];
  if (delayMs === undefined) return { outcome: "given_up" };
  return { outcome: "again", atMs: nowMs + Math.max(jittered(delayMs, random), askedMs(result)) };
}

/** Consecutive failures, each begun after the previous one, after which a destination is failing. */
export const FAILING_AFTER = 2;

/** Time until which a receiver is left alone after this many consecutive failures; 0: it is not. */
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

export interface Failing {
  sinceMs: number;
  lastMs: number;
}

/**
 * Adds a failure to the run. Failures before a long silence do not count: a destination with few notifications must not be
 * switched off for two failures a week apart.
 */
export function failedAgain(failing: Failing | null, nowMs: number): Failing {
  if (failing === null || nowMs - failing.lastMs > FAILURE_RUN_GAP_MS) return { sinceMs: nowMs, lastMs: nowMs };
  return { sinceMs: failing.sinceMs, lastMs: nowMs };
}

export function hasFailedTooLong({ sinceMs, lastMs }: Failing): boolean {
  return lastMs - sinceMs >= DESTINATION_FAILING_MS;
}

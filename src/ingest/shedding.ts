/**
 * Refuses floods of a workspace before they reach the Quota Counter. The counter decides exactly, for each key, and would also
 * refuse every call that is refused here.
 */
import { takeRequest, type RateDecision, type RequestRate } from "../domain/quota/request-rate.ts";
import type { WorkspaceCalls } from "../http/workspace-share.ts";

/** Multiple of the request rate of a key beyond which an isolate refuses calls of a workspace: more than its counter can serve. */
export const SHED_FACTOR = 4;
/** Interval at which a refused call still asks the Quota Counter whether the key is active. */
export const SHED_ASK_MS = 1_000;

export function shedCall(calls: WorkspaceCalls, nowMs: number, { perSecond, burst }: RequestRate): RateDecision {
  const taken = takeRequest(calls.bucket, nowMs, { perSecond: perSecond * SHED_FACTOR, burst: burst * SHED_FACTOR });
  calls.bucket = taken.bucket;
  return taken;
}

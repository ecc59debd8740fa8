/**
 * Calls with a known key that did not authenticate, summed up for a moment: for the admin's list only, exact, and nothing
 * that the sender could notice. A flood of them costs the workspace's counter one call a second and isolate; with a key that
 * is deactivated, one a minute.
 */
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";
import type { Refusal } from "../domain/keys/refusal.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { storedDetail } from "../http/problem.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import type { KnownKey } from "./key-cache.ts";

/** How long an isolate sums up calls that did not authenticate before it tells the counter. */
const UNAUTHENTICATED_SUM_MS = 1_000;
/** How long it sums up calls with a key that it knows to be deactivated, after the first. */
const DEACTIVATED_SUM_MS = 60_000;
/** How long work may go on behind an answer: the platform ends it after 30 seconds. */
const WAIT_AFTER_ANSWER_MS = 25_000;

export function sumUpRefused(c: Context<AppEnv>, key: KnownKey, refusal: Refusal, nowMs: number): void {
  const cause = "cause" in refusal ? refusal.cause : null;
  const known = key.refused.find((one) => one.code === refusal.code && one.cause === cause);
  if (known === undefined) {
    const told = { code: refusal.code, cause, detail: storedDetail(refusal) };
    // An isolate may end before it has told of its calls: a deactivated key's are told of once a minute only.
    const when = { firstAtMs: nowMs, lastAtMs: nowMs, atLeast: key.isDeactivated };
    key.refused.push({ keyId: key.keyId, ...told, requestId: c.get("requestId"), calls: 1, signals: 1, ...when });
  } else {
    known.calls++;
    known.signals++;
    known.lastAtMs = nowMs;
  }
  // The first of these calls waits for others and tells of all, after its own answer. Should it end before it has told, a
  // later call does.
  if (nowMs < key.refusedToldMs) return;
  const waitMs = Math.max(UNAUTHENTICATED_SUM_MS, key.refusedPauseMs - nowMs);
  if (waitMs > WAIT_AFTER_ANSWER_MS) return;
  key.refusedToldMs = nowMs + waitMs + 9 * UNAUTHENTICATED_SUM_MS;
  c.executionCtx.waitUntil(tellSoon(c.env, key, waitMs));
}

async function tellSoon(env: Env, key: KnownKey, waitMs: number): Promise<void> {
  await scheduler.wait(waitMs);
  const { refused } = key;
  if (key.isDeactivated) key.refusedPauseMs = Date.now() + DEACTIVATED_SUM_MS;
  key.refused = [];
  key.refusedToldMs = 0;
  try {
    await within(CALL_TIMEOUT_MS, env.QUOTA_COUNTER.getByName(key.workspaceId).countRefused(refused));
  } catch (error) {
    logEvent("refused_calls_lost", { workspace: key.workspaceId, calls: refused.length, error: errorText(error) });
  }
}

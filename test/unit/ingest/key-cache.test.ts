/** The keys in an isolate's memory, and the collected counts of their rejected calls. */
import type { Context } from "hono";
import { describe, expect, test } from "vitest";
import type { AppEnv } from "../../../src/env.ts";
import {
  KEY_CACHE_MS,
  cachedKey,
  deactivatedKey,
  failDeactivated,
  lookUpKey,
  type KnownKey,
} from "../../../src/ingest/authenticate.ts";
import { expectLogged } from "../../support/logged.ts";
import { CALL_TIMEOUT_MS } from "../../../src/limits.ts";
import { until } from "../../support/until.ts";
import { sumUpRejected } from "../../../src/ingest/routes.ts";

// Node has no cache of a data centre.
expectLogged("key_copy_failed");

const BACKGROUND = { waitUntil: () => {} };
const NOW = Date.UTC(2031, 2, 5, 12);
const ROW = {
  id: "key_1",
  workspace_id: "ws_1",
  endpoint_type: "signal_staging",
  secret_hash: null,
  expires_at: null,
  overlap_ends_at: null,
  template: null,
};

/** A database that answers a look-up with `answer`. */
function database(answer: () => Promise<unknown>): D1Database {
  const session = { prepare: () => ({ bind: () => ({ run: answer }) }) };
  return { withSession: () => session } as unknown as D1Database;
}

async function knownKey(value: string): Promise<KnownKey> {
  const found = database(() => Promise.resolve({ results: [ROW], meta: { served_by_primary: true } }));
  const key = await lookUpKey(found, value, NOW, BACKGROUND);
  if (key === undefined) throw new Error("The key was not found.");
  return key;
}

describe("a key with a pending look-up", () => {
  test("is used by other calls while it is pending", async () => {
    const key = await knownKey("sk_stale");
    const notAsked = (): void => {};
    let answer: (found: object) => void = notAsked;
    const silent = database(() => new Promise((resolve) => (answer = resolve)));
    const later = NOW + KEY_CACHE_MS;
    expect(cachedKey("sk_stale", later)).toBeUndefined();
    const pending = lookUpKey(silent, "sk_stale", later, BACKGROUND);
    expect(cachedKey("sk_stale", later + CALL_TIMEOUT_MS - 1)).toBe(key);
    expect(cachedKey("sk_stale", later + CALL_TIMEOUT_MS)).toBeUndefined();
    // The hash of the key comes before the look-up.
    await until(() => expect(answer).not.toBe(notAsked));
    answer({ results: [ROW], meta: { served_by_primary: true } });
    await pending;
  });

  test("keeps its statistics when it is read again", async () => {
    const key = await knownKey("sk_again");
    key.shedAskAtMs = NOW + 1_000;
    // The same object, because calls under way share its rate.
    expect(await knownKey("sk_again")).toBe(key);
    expect(key.shedAskAtMs).toBe(NOW + 1_000);
  });
});

describe("summed-up rejections", () => {
  const context = { get: () => "req_1" } as unknown as Context<AppEnv>;
  /** Rejections of a key whose report to the counter is pending. */
  async function rejectedKey(value: string): Promise<KnownKey> {
    const key = await knownKey(value);
    key.rejectedReportMs = NOW + 10_000;
    for (const afterMs of [0, 300, 900]) {
      sumUpRejected(context, key, { code: "unauthorized", cause: "secret_wrong" }, NOW + afterMs);
    }
    return key;
  }

  test("keep the first and the last time", async () => {
    const key = await rejectedKey("sk_rejected");
    expect(key.rejected).toMatchObject([{ calls: 3, signals: 3, firstAtMs: NOW, lastAtMs: NOW + 900 }]);
  });

  test.each([
    ["after a second", 0, 1_000],
    ["after the pause of a deactivated key", 20_000, 20_000],
    ["after 25 seconds at the latest, if the clock was set back", 3_600_000, 25_000],
  ])("are reported %s", async (name, pauseMs, afterMs) => {
    const key = await knownKey(`sk_${name}`);
    key.rejectedPauseMs = NOW + pauseMs;
    const executionCtx = { waitUntil: (report: Promise<void>) => void report.catch(() => undefined) };
    const withWork = { get: () => "req_1", executionCtx } as unknown as Context<AppEnv>;
    sumUpRejected(withWork, key, { code: "unauthorized", cause: "secret_wrong" }, NOW);
    // A report that does not end may be repeated nine seconds later.
    expect(key.rejectedReportMs).toBe(NOW + afterMs + 9_000);
  });

  test("are not reported again after the key is known to be deactivated", async () => {
    const key = await rejectedKey("sk_ended");
    const env = { AUTH_FAILURES: { limit: () => Promise.resolve({ success: true }) } } as unknown as Env;
    await failDeactivated(env, { apiKey: "sk_ended", secret: undefined, address: undefined }, key, NOW);
    expect(deactivatedKey("sk_ended")).toMatchObject({ isDeactivated: true, rejected: [], rejectedReportMs: 0 });
    expect(key.rejected).toHaveLength(1);
  });
});

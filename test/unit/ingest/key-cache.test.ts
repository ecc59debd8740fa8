/** The keys in an isolate's memory, and the collected counts of their refused calls. */
import type { Context } from "hono";
import { describe, expect, test } from "vitest";
import type { AppEnv } from "../../../src/env.ts";
import {
  KEY_STALE_MS,
  cachedKey,
  deactivatedKey,
  failDeactivated,
  lookUpKey,
  type KnownKey,
} from "../../../src/ingest/authenticate.ts";
import { sumUpRefused } from "../../../src/ingest/routes.ts";

const NOW = Date.UTC(2031, 2, 5, 12);
const ROW = {
  id: "key_1",
  workspace_id: "ws_1",
  endpoint_type: "signal_staging",
  secret_hash: null,
  expires_at: null,
  overlap_ends_at: null,
  payload_template: null,
};

/** A database that answers a look-up with `answer`. */
function database(answer: () => Promise<unknown>): D1Database {
  const session = { prepare: () => ({ bind: () => ({ run: answer }) }) };
  return { withSession: () => session } as unknown as D1Database;
}

async function knownKey(value: string): Promise<KnownKey> {
  const found = database(() => Promise.resolve({ results: [ROW], meta: { served_by_primary: true } }));
  const key = await lookUpKey(found, value, NOW);
  if (key === undefined) throw new Error("The key was not found.");
  return key;
}

describe("a key with a pending look-up", () => {
  test("is used by other calls for ten minutes after its last read", async () => {
    const key = await knownKey("sk_stale");
    const silent = database(() => new Promise(() => {}));
    // It fails after ten seconds of real time, when the test is over.
    lookUpKey(silent, "sk_stale", NOW + KEY_STALE_MS).catch(() => {});
    expect(cachedKey("sk_stale", NOW + KEY_STALE_MS - 1)).toBe(key);
    expect(cachedKey("sk_stale", NOW + KEY_STALE_MS)).toBeUndefined();
  });

  test("keeps its statistics when it is read again", async () => {
    const key = await knownKey("sk_again");
    key.shedAskAtMs = NOW + 1_000;
    // The same object, because calls under way share its rate.
    expect(await knownKey("sk_again")).toBe(key);
    expect(key.shedAskAtMs).toBe(NOW + 1_000);
  });
});

describe("summed-up refusals", () => {
  const context = { get: () => "req_1" } as unknown as Context<AppEnv>;
  /** Refusals of a key whose report to the counter is pending for ever. */
  async function refusedKey(value: string): Promise<KnownKey> {
    const key = await knownKey(value);
    key.refusedReportMs = Number.POSITIVE_INFINITY;
    for (const afterMs of [0, 300, 900]) {
      sumUpRefused(context, key, { code: "unauthorized", cause: "secret_wrong" }, NOW + afterMs);
    }
    return key;
  }

  test("keep the first and the last time", async () => {
    const key = await refusedKey("sk_refused");
    expect(key.refused).toMatchObject([{ calls: 3, firstAtMs: NOW, lastAtMs: NOW + 900 }]);
  });

  test("are not reported again after the key is known to be deactivated", async () => {
    const key = await refusedKey("sk_ended");
    const env = { AUTH_FAILURES: { limit: () => Promise.resolve({ success: true }) } } as unknown as Env;
    await failDeactivated(env, { apiKey: "sk_ended", secret: undefined, address: undefined }, key, NOW);
    expect(deactivatedKey("sk_ended")).toMatchObject({ isDeactivated: true, refused: [], refusedReportMs: 0 });
    expect(key.refused).toHaveLength(1);
  });
});

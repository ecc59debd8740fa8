/** Spec §5, §7 and §3.1, design §5: authentication, refusals, and the effect of a revocation. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { composeKey } from "../../../src/domain/keys/api-key.ts";
import { MISSES_BURST } from "../../../src/http/auth-failures.ts";
import worker from "../../../src/index.ts";
import { deactivatedKey, lookUpKey, KEY_CACHE_MS, KEY_STALE_MS } from "../../../src/ingest/key-cache.ts";
import { SHED_ASK_MS } from "../../../src/ingest/shedding.ts";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { TEST_AUTH_FAILURES_PER_MINUTE } from "../../support/auth-failures.ts";
import { until } from "../../support/until.ts";
import { call, concurrently, newWorkspace } from "../../support/workspace.ts";
import type { Problem, TestKey, TestWorkspace } from "../../support/workspace.ts";

const SIGNAL = { email: "jane@example.com", event: "Filled Out Form" };
const TEMPLATE = [{ target: "external_id", path: "id", type: "string" }];
const PRODUCT_ORGS = "/api/product-orgs/webhook/{key}";
const NOW = Date.UTC(2031, 4, 20, 12);

/** Well formed but unknown. */
const unknownKey = () => composeKey((n) => crypto.getRandomValues(new Uint8Array(n)));
const newAddress = () => ({ "cf-connecting-ip": crypto.randomUUID() });
/** The key with another last character, so that its checksum is wrong. */
const mistyped = (key: string) => key.slice(0, -1) + (key.endsWith("a") ? "b" : "a");

/** The clock of tests, Worker and objects, which share an isolate, stands still until it is set. */
function stopClock(nowMs = NOW): void {
  vi.useFakeTimers({ toFake: ["Date"], now: nowMs });
}

afterEach(() => {
  vi.useRealTimers();
});

async function problemOf(response: Response): Promise<Problem> {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  return response.json<Problem>();
}

/** Everything that a sender can see of a 401, except the request's id. */
async function seen(response: Response): Promise<unknown> {
  const { request_id, ...body } = await problemOf(response);
  expect(response.headers.get("x-request-id")).toBe(request_id);
  const headers = [...response.headers].filter(([name]) => name !== "x-request-id");
  return { status: response.status, headers, body };
}

interface ListedKey {
  id: string;
  status: string;
  last_used_at: string | null;
}

async function listed(workspace: TestWorkspace, key: TestKey): Promise<Partial<ListedKey>> {
  const { items } = await workspace.operator<{ items: ListedKey[] }>("GET", "/keys");
  return items.find((item) => item.id === key.id) ?? {};
}

const deactivate = (workspace: TestWorkspace, key: TestKey) => workspace.operator("POST", `/keys/${key.id}/deactivate`);

describe("§5.3, §5.4, §7: 401", () => {
  test("has the same answer with WWW-Authenticate for every cause", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const expiring = await workspace.newKey({ expires_at: new Date(NOW + 1_000).toISOString() });
    const deactivated = await workspace.newKey();
    await deactivate(workspace, deactivated);
    vi.setSystemTime(NOW + 1_000);

    const answers: Record<string, Response> = {
      "no key at all": await workspace.send(SIGNAL, { key: "nothing" }),
      "too short": await workspace.send(SIGNAL, { key: workspace.key.key.slice(0, -1) }),
      mistyped: await workspace.send(SIGNAL, { key: mistyped(workspace.key.key) }),
      "lower case": await workspace.send(SIGNAL, { key: workspace.key.key.toLowerCase() }),
      unknown: await workspace.send(SIGNAL, { key: unknownKey() }),
      "unknown, with a secret": await workspace.send(SIGNAL, { key: unknownKey(), headers: { "x-api-secret": "x" } }),
      expired: await workspace.send(SIGNAL, { key: expiring.key }),
      deactivated: await workspace.send(SIGNAL, { key: deactivated.key }),
      "no secret": await workspace.send(SIGNAL, { key: withSecret.key }),
      "an empty secret": await workspace.send(SIGNAL, { key: withSecret.key, headers: { "x-api-secret": "" } }),
      "a wrong secret": await workspace.send(SIGNAL, { key: withSecret.key, headers: { "x-api-secret": "wrong" } }),
      "the hash instead of the secret": await workspace.send(SIGNAL, {
        key: withSecret.key,
        headers: { "x-api-secret": await sha256Hex(withSecret.secret ?? "") },
      }),
      "no key before /batch": await workspace.send(SIGNAL, { path: "/api/signal-staging/webhook/nothing/batch" }),
      "another family": await workspace.send(SIGNAL, { path: PRODUCT_ORGS, key: unknownKey() }),
      bulk: await workspace.send(SIGNAL, { path: "/api/signal-staging/bulk/{key}", key: unknownKey() }),
    };
    const first = await seen(await workspace.send(SIGNAL, { key: unknownKey() }));
    expect(first).toMatchObject({ status: 401, body: { code: "unauthorized", status: 401 } });
    expect(first).toMatchObject({ headers: expect.arrayContaining([["www-authenticate", expect.any(String)]]) });
    for (const [cause, answer] of Object.entries(answers)) expect(await seen(answer), cause).toEqual(first);
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 0, held: 0, rejected: 0 });
  });

  test("is avoided by the right secret, and a key without a secret ignores the header", async () => {
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const headers = { "x-api-secret": withSecret.secret ?? "" };
    expect((await workspace.send(SIGNAL, { key: withSecret.key, headers })).status).toBe(202);
    expect((await workspace.send(SIGNAL, { headers })).status).toBe(202);
    expect((await workspace.send(SIGNAL, { headers: { "x-api-secret": "" } })).status).toBe(202);
  });

  test("is the answer to the secret of another key", async () => {
    const workspace = await newWorkspace();
    const [key, otherKey] = [await workspace.newKey({ secret: true }), await workspace.newKey({ secret: true })];
    const headers = { "x-api-secret": otherKey.secret ?? "" };
    expect((await workspace.send(SIGNAL, { key: key.key, headers })).status).toBe(401);
  });

  test("is not cached for unknown keys: a new key works at once", async () => {
    const workspace = await newWorkspace();
    const key = await workspace.newKey();
    const setHash = (hash: string) =>
      env.DB.prepare("UPDATE api_keys SET key_hash = ? WHERE id = ?").bind(hash, key.id).run();
    await setHash("somebody else's");
    expect((await workspace.send(SIGNAL, { key: key.key })).status).toBe(401);
    await setHash(await sha256Hex(key.key));
    expect((await workspace.send(SIGNAL, { key: key.key })).status).toBe(202);
  });

  test("asks the primary after the replica, and asks the primary once for an unknown key", async () => {
    const workspace = await newWorkspace();
    const { key } = await workspace.newKey();
    const behind = replicated({ nearest: "replica" });
    expect(await lookUpKey(behind.database, key, Date.now())).toMatchObject({ workspaceId: workspace.id });
    expect(behind.asked).toEqual(["first-unconstrained", "first-primary"]);

    const alone = replicated({ nearest: "primary" });
    expect(await lookUpKey(alone.database, unknownKey(), Date.now())).toBeUndefined();
    expect(alone.asked).toEqual(["first-unconstrained"]);
    expect(await lookUpKey(alone.database, key, Date.now())).toMatchObject({ workspaceId: workspace.id });
  });
});

/** A database behind a lagging replica that knows none of its keys, or with the primary nearest. */
function replicated({ nearest }: { nearest: "replica" | "primary" }): { database: D1Database; asked: string[] } {
  const asked: string[] = [];
  const withSession = (constraint: string) => {
    asked.push(constraint);
    const byPrimary = constraint === "first-primary" || nearest === "primary";
    const bind = (query: string, values: unknown[]) => ({
      async run() {
        const answer = await env.DB.prepare(query)
          .bind(...values)
          .run();
        const results = byPrimary ? answer.results : [];
        return { ...answer, results, meta: { ...answer.meta, served_by_primary: byPrimary } };
      },
    });
    return { prepare: (query: string) => ({ bind: (...values: unknown[]) => bind(query, values) }) };
  };
  return { database: { withSession } as unknown as D1Database, asked };
}

describe("§5.2, §7: 403", () => {
  test("refuses a key on the endpoints of the other family", async () => {
    const workspace = await newWorkspace();
    const accountKey = await workspace.newKey({ endpoint_type: "product_org", payload_template: TEMPLATE });
    const wrong = await workspace.send(SIGNAL, { path: PRODUCT_ORGS });
    expect(wrong.status).toBe(403);
    expect((await problemOf(wrong)).code).toBe("endpoint_mismatch");
    for (const path of [
      "/api/signal-staging/webhook/{key}",
      "/api/signal-staging/webhook/web/{key}",
      "/api/signal-staging/webhook/{key}/batch",
      "/api/signal-staging/bulk/{key}",
    ]) {
      expect((await workspace.send(SIGNAL, { path, key: accountKey.key })).status, path).toBe(403);
    }
    expect((await workspace.send({ id: "1" }, { path: PRODUCT_ORGS, key: accountKey.key })).status).toBe(202);
  });

  test("is checked after the secret and before the body", async () => {
    const workspace = await newWorkspace();
    const key = await workspace.newKey({ secret: true });
    const post = (headers: Record<string, string>, body: unknown = SIGNAL) =>
      workspace.send(body, { path: PRODUCT_ORGS, key: key.key, headers });
    expect((await post({})).status).toBe(401);
    expect((await post({ "x-api-secret": "wrong" })).status).toBe(401);
    expect((await post({ "x-api-secret": key.secret ?? "" })).status).toBe(403);
    expect((await post({ "x-api-secret": key.secret ?? "" }, "{ broken")).status).toBe(403);
  });

  test("yields to 401 for an expired key", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const key = await workspace.newKey({ expires_at: new Date(NOW + 1).toISOString() });
    vi.setSystemTime(NOW + 1);
    expect((await workspace.send(SIGNAL, { path: PRODUCT_ORGS, key: key.key })).status).toBe(401);
  });
});

describe("§3.1: expiration", () => {
  test("is exact to the millisecond, even while the key is cached", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const key = await workspace.newKey({ expires_at: new Date(NOW + 30_000).toISOString() });
    const at = async (ms: number) => {
      vi.setSystemTime(NOW + ms);
      return (await workspace.send(SIGNAL, { key: key.key })).status;
    };
    expect([await at(0), await at(29_999), await at(30_000), await at(30_001), await at(90_000)]).toEqual([
      202, 202, 401, 401, 401,
    ]);
  });
});

describe("§3.1: deactivation (invariant 4)", () => {
  test("takes effect when it returns, although the key is cached", async () => {
    const workspace = await newWorkspace();
    const otherKey = await workspace.newKey();
    expect((await workspace.send(SIGNAL)).status).toBe(202);
    await deactivate(workspace, workspace.key);
    expect((await workspace.send(SIGNAL)).status).toBe(401);
    expect((await workspace.send([SIGNAL, SIGNAL])).status).toBe(401);
    expect((await workspace.send(SIGNAL, { key: otherKey.key })).status).toBe(202);
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 2 });
  });

  test("lets no call of 64 concurrent callers through that began after it returned", async () => {
    const workspace = await newWorkspace();
    let returned = false;
    let accepted = 0;
    const after: number[] = [];
    const caller = async () => {
      for (let callsAfter = 0; callsAfter < 3;) {
        const late = returned;
        const { status } = await workspace.send(SIGNAL);
        if (status === 202) accepted++;
        if (late) callsAfter++;
        if (late) after.push(status);
      }
    };
    const callers = Promise.all(Array.from({ length: 64 }, caller));
    await until(() => expect(accepted).toBeGreaterThanOrEqual(100));
    await deactivate(workspace, workspace.key);
    returned = true;
    await callers;
    expect(after).toHaveLength(64 * 3);
    expect(new Set(after)).toEqual(new Set([401]));
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted });
  });

  test("answers 401 regardless of other problems of the call", async () => {
    const workspace = await newWorkspace({ signalLimit: 1 });
    await workspace.send([SIGNAL, SIGNAL]);
    const overQuota = await workspace.send(SIGNAL);
    expect(overQuota.status).toBe(429);
    await deactivate(workspace, workspace.key);

    const first = await seen(await workspace.send(SIGNAL, { key: unknownKey() }));
    const batch = "/api/signal-staging/webhook/{key}/batch";
    const calls: Record<string, Parameters<TestWorkspace["send"]>> = {
      "the quota is used up": [SIGNAL],
      "wrong family": [SIGNAL, { path: PRODUCT_ORGS }],
      "broken JSON": ["{ broken"],
      "a form": ["a=b", { headers: { "content-type": "application/x-www-form-urlencoded" } }],
      "nothing in it": [""],
      "no signal in it": [[]],
      "too many signals": [Array.from({ length: 5_001 }, () => 0), { path: batch }],
      "too large": [" ".repeat(8 * 1024 * 1024 + 1)],
      "an invalid signal": [{ event: "" }],
      "only invalid signals": [[{ event: "" }, 1], { path: batch }],
      "an unknown encoding": [SIGNAL, { headers: { "content-encoding": "br" } }],
      "an invalid Idempotency-Key": [SIGNAL, { headers: { "idempotency-key": "x".repeat(256) } }],
      "an invalid source": [SIGNAL, { path: "/api/signal-staging/webhook/%20/{key}" }],
      "a secret that it never had": [SIGNAL, { headers: { "x-api-secret": "x" } }],
    };
    for (const [cause, args] of Object.entries(calls)) {
      expect(await seen(await workspace.send(...args)), cause).toEqual(first);
    }
  });

  test("lists calls with the key as rejections, and does not count them as use", async () => {
    const workspace = await newWorkspace();
    await deactivate(workspace, workspace.key);
    const { request_id } = await (await workspace.send(SIGNAL)).json<Problem>();
    const { items } = await workspace.operator<{ items: unknown[] }>("GET", "/rejections");
    expect(items).toMatchObject([{ key_id: workspace.key.id, status: 401, cause: "key_deactivated", request_id }]);
    expect(await listed(workspace, workspace.key)).toMatchObject({ status: "Inactive", last_used_at: null });
  });
});

describe("refuses a deactivated key whose payload template was dropped", () => {
  test.each([
    ["which the Quota Counter knows to be deactivated", true],
    ["which the Quota Counter has forgotten", false],
  ])("gets the ordinary 401, %s", async (_, deactivated) => {
    const workspace = await newWorkspace();
    const accounts = { endpoint_type: "product_org", payload_template: TEMPLATE };
    const [ended, withSecret] = [
      await workspace.newKey(accounts),
      await workspace.newKey({ ...accounts, secret: true }),
    ];
    if (deactivated) for (const key of [ended, withSecret]) await deactivate(workspace, key);
    await env.DB.prepare("UPDATE api_keys SET payload_template = NULL WHERE workspace_id = ?").bind(workspace.id).run();
    const unknown = await seen(await workspace.send({ id: "a1" }, { path: PRODUCT_ORGS, key: unknownKey() }));
    for (const { key } of [ended, withSecret, ended, withSecret]) {
      expect(await seen(await workspace.send({ id: "a1" }, { path: PRODUCT_ORGS, key }))).toEqual(unknown);
    }
    expect(await seen(await workspace.send([1, {}], { path: PRODUCT_ORGS, key: ended.key }))).toEqual(unknown);
    await until(async () => {
      const { items } = await workspace.operator<{ items: { key_id: string }[] }>("GET", "/rejections");
      expect(items).toMatchObject([{ cause: "key_deactivated" }, { cause: "key_deactivated" }]);
      expect(items.map((item) => item.key_id).sort()).toEqual([ended.id, withSecret.id].sort());
    });
  });
});

describe("§7.1: the request rate of a key", () => {
  test("allows a burst, then answers 429 with Retry-After, then allows calls at the configured rate", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const burst = await concurrently(64, 1_010, () => workspace.send(SIGNAL));
    const refused = burst.filter((response) => response.status !== 202);
    expect(burst.length - refused.length).toBe(1_000);
    expect(refused.map((response) => response.status)).toEqual(Array.from({ length: 10 }, () => 429));
    for (const response of refused) {
      expect(response.headers.get("retry-after")).toBe("1");
      expect(response.headers.get("ratelimit-policy")).toContain('"request-rate";q=1000;w=2');
      expect(response.headers.get("ratelimit")).toContain('"request-rate";r=0;t=2');
      expect((await problemOf(response)).code).toBe("rate_limited");
    }
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 1_000 });

    // 500 a second: one every two milliseconds.
    const statuses = async (calls: number) => {
      const answers = await concurrently(1, calls, () => workspace.send(SIGNAL));
      return answers.map((response) => response.status);
    };
    vi.setSystemTime(NOW + 1);
    expect(await statuses(1)).toEqual([429]);
    vi.setSystemTime(NOW + 2);
    expect(await statuses(2)).toEqual([202, 429]);
    vi.setSystemTime(NOW + 8);
    expect(await statuses(4)).toEqual([202, 202, 202, 429]);
    const otherKey = await workspace.newKey();
    expect((await workspace.send(SIGNAL, { key: otherKey.key })).status).toBe(202);
  });
});

describe("design §5: an isolate refuses calls far beyond the rate", () => {
  /** Four concurrent calls pass; then none for a long time. */
  const slow = { ...env, REQUEST_RATE_PER_SECOND: "0.0001", REQUEST_BURST: "1" };

  /** Calls that reach the counter get its answer. */
  function sender(workspace: TestWorkspace) {
    let reached = 0;
    const namespace = {
      getByName: () => {
        reached++;
        return workspace.counter;
      },
    } as unknown as typeof env.QUOTA_COUNTER;
    return {
      send: async (): Promise<number> => {
        const url = `https://signals.example/api/signal-staging/webhook/${workspace.key.key}`;
        const request = new Request(url, { method: "POST", headers: newAddress(), body: JSON.stringify(SIGNAL) });
        const bindings = { ...slow, QUOTA_COUNTER: namespace };
        return (await worker.fetch(request, bindings, createExecutionContext())).status;
      },
      reached: () => reached,
    };
  }

  test("at once, while one call a second still asks the counter", async () => {
    stopClock();
    const { send, reached } = sender(await newWorkspace());
    const statuses: number[] = [];
    for (let n = 0; n < 10; n++) statuses.push(await send());
    expect(statuses).toEqual([202, 202, 202, 202, 429, 429, 429, 429, 429, 429]);
    expect(reached()).toBe(5);
    vi.setSystemTime(NOW + SHED_ASK_MS);
    expect([await send(), await send()]).toEqual([429, 429]);
    expect(reached()).toBe(6);
  });

  test("and still answers 401 for a deactivated key", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const { send, reached } = sender(workspace);
    for (let n = 0; n < 4; n++) expect(await send()).toBe(202);
    await deactivate(workspace, workspace.key);
    expect([await send(), await send(), await send()]).toEqual([401, 401, 401]);
    expect(reached()).toBe(5);
  });
});

describe("design §5: failed authentications are limited by client network", () => {
  /** Calls beyond the limit, even if a minute ends among them. */
  const MANY = 2 * TEST_AUTH_FAILURES_PER_MINUTE + 50;

  async function flood(workspace: TestWorkspace, addressOf: (n: number) => string): Promise<Set<number>> {
    const statuses = new Set<number>();
    for (let calls = 0; calls < MANY && !statuses.has(429); calls += 25) {
      const answers = await concurrently(25, 25, (n) =>
        workspace.send(SIGNAL, { key: unknownKey(), headers: { "cf-connecting-ip": addressOf(calls + n) } }),
      );
      for (const { status } of answers) statuses.add(status);
    }
    return statuses;
  }

  test("with 429 and Retry-After, for that network only, and never for known keys", async () => {
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const right = { "x-api-secret": withSecret.secret ?? "" };
    const [flooding, otherAddress] = [newAddress(), newAddress()];
    await workspace.send(SIGNAL);
    expect(await flood(workspace, () => flooding["cf-connecting-ip"])).toEqual(new Set([401, 429]));

    const limited = await workspace.send(SIGNAL, { key: unknownKey(), headers: flooding });
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect((await problemOf(limited)).code).toBe("rate_limited");

    expect((await workspace.send(SIGNAL, { key: unknownKey(), headers: otherAddress })).status).toBe(401);
    expect((await workspace.send(SIGNAL, { headers: flooding })).status).toBe(202);
    expect((await workspace.send(SIGNAL, { key: mistyped(unknownKey()), headers: flooding })).status).toBe(401);
    // Another sender at the same address, with a key that this isolate has never seen.
    expect((await workspace.send(SIGNAL, { key: withSecret.key, headers: { ...flooding, ...right } })).status).toBe(
      202,
    );
  });

  test("with the same answer for every cause", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const expiring = await workspace.newKey({ expires_at: new Date(NOW + 1).toISOString() });
    const [deactivated, remembered] = [await workspace.newKey(), await workspace.newKey()];
    await deactivate(workspace, deactivated);
    await deactivate(workspace, remembered);
    await workspace.send(SIGNAL, { key: remembered.key });
    vi.setSystemTime(NOW + 2);
    const headers = newAddress();
    await flood(workspace, () => headers["cf-connecting-ip"]);

    const first = await seen(await workspace.send(SIGNAL, { key: unknownKey(), headers }));
    expect(first).toMatchObject({ status: 429, body: { code: "rate_limited" } });
    const wrong = { ...headers, "x-api-secret": "wrong" };
    const answers: Record<string, Response> = {
      "unknown, with a secret": await workspace.send(SIGNAL, { key: unknownKey(), headers: wrong }),
      expired: await workspace.send(SIGNAL, { key: expiring.key, headers }),
      deactivated: await workspace.send(SIGNAL, { key: deactivated.key, headers }),
      "deactivated, with a broken body": await workspace.send("{", { key: deactivated.key, headers }),
      "deactivated, and known to be": await workspace.send(SIGNAL, { key: remembered.key, headers }),
      "no secret": await workspace.send(SIGNAL, { key: withSecret.key, headers }),
      "a wrong secret": await workspace.send(SIGNAL, { key: withSecret.key, headers: wrong }),
    };
    for (const [cause, answer] of Object.entries(answers)) expect(await seen(answer), cause).toEqual(first);
  });

  test.each(["expired", "deactivated", "without its secret", "with a wrong one"])(
    "a key that is %s counts as much as an unknown one",
    async (cause) => {
      stopClock();
      const workspace = await newWorkspace();
      const key = await workspace.newKey({
        secret: cause.startsWith("with"),
        expires_at: new Date(NOW + 1_000).toISOString(),
      });
      if (cause === "deactivated") await deactivate(workspace, key);
      if (cause === "expired") vi.setSystemTime(NOW + 1_000);
      const headers = { ...newAddress(), ...(cause === "with a wrong one" ? { "x-api-secret": "wrong" } : {}) };
      const answers = await concurrently(25, MANY, () => workspace.send(SIGNAL, { key: key.key, headers }));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401, 429]));
    },
    30_000,
  );

  test("with one limit for an IPv6 /64", async () => {
    const workspace = await newWorkspace();
    const groups = Array.from(crypto.getRandomValues(new Uint16Array(4)), (group) => group.toString(16)).join(":");
    expect(await flood(workspace, (n) => `${groups}::${n.toString(16)}`)).toEqual(new Set([401, 429]));
    const headers = { "cf-connecting-ip": `${groups}:ffff:ffff:ffff:ffff` };
    expect((await workspace.send(SIGNAL, { key: unknownKey(), headers })).status).toBe(429);
  });

  test("so that guessed secrets lock out no sender, and malformed keys cost nothing", async () => {
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const [guessing, noisy] = [newAddress(), newAddress()];
    const guess = (n: number) => ({ key: withSecret.key, headers: { ...guessing, "x-api-secret": `guess ${n}` } });
    const guesses = await concurrently(25, MANY, (n) => workspace.send(SIGNAL, guess(n)));
    expect(new Set(guesses.map((response) => response.status))).toEqual(new Set([401, 429]));
    const right = { ...guessing, "x-api-secret": withSecret.secret ?? "" };
    expect((await workspace.send(SIGNAL, { key: withSecret.key, headers: right })).status).toBe(202);
    const neighbour = await workspace.newKey();
    expect((await workspace.send(SIGNAL, { key: neighbour.key, headers: guessing })).status).toBe(202);
    const noise = await concurrently(25, MANY, () => workspace.send(SIGNAL, { key: "sk_noise", headers: noisy }));
    expect(new Set(noise.map((response) => response.status))).toEqual(new Set([401]));
  });
});

describe("design §5: an isolate caches that a key is deactivated", () => {
  /** Bindings that throw on any use: the call must not use them. */
  const unreachable = new Proxy(
    {},
    {
      get() {
        throw new Error("asked");
      },
    },
  );
  const bare = { ...env, QUOTA_COUNTER: unreachable, DB: unreachable } as typeof env;
  const post = (key: string, environment = bare) => {
    const request = new Request(`https://signals.example/api/signal-staging/webhook/${key}`, {
      method: "POST",
      body: JSON.stringify(SIGNAL),
      headers: newAddress(),
    });
    return { request, answer: worker.fetch(request, environment, createExecutionContext()) };
  };

  test("and answers 401 without any call and without reading the body", async () => {
    const workspace = await newWorkspace();
    const otherKey = await workspace.newKey();
    await workspace.send(SIGNAL, { key: otherKey.key });
    await deactivate(workspace, workspace.key);
    const refusal = await seen(await workspace.send(SIGNAL));
    const { request, answer } = post(workspace.key.key);
    expect(await seen(await answer)).toEqual(refusal);
    expect(request.bodyUsed).toBe(false);
    // The call with the other key does ask.
    expect((await post(otherKey.key).answer).status).toBe(503);
    expect((await workspace.send(SIGNAL, { key: otherKey.key })).status).toBe(202);
  });

  test("and caches no other refusal of a key", async () => {
    stopClock();
    const workspace = await newWorkspace({ signalLimit: 3 });
    const key = await workspace.newKey({ secret: true });
    const right = { "x-api-secret": key.secret ?? "" };
    const statusOf = async (body: unknown, headers: Record<string, string>, path?: string) =>
      (await workspace.send(body, { key: key.key, headers, ...(path === undefined ? {} : { path }) })).status;
    const good = () => statusOf(SIGNAL, right);
    expect([await good(), await statusOf(SIGNAL, {}), await good()]).toEqual([202, 401, 202]);
    expect([await statusOf(SIGNAL, { "x-api-secret": "wrong" }), await good()]).toEqual([401, 202]);
    expect([await statusOf("{ broken", right), await good()]).toEqual([400, 202]);
    expect([await statusOf(SIGNAL, right, PRODUCT_ORGS), await good()]).toEqual([403, 202]);
    // D1 may know it before the counter, if an earlier version's deactivation was interrupted.
    const mark = "UPDATE api_keys SET deactivated_at = ? WHERE id = ?";
    await env.DB.prepare(mark).bind(new Date(NOW).toISOString(), key.id).run();
    vi.setSystemTime(NOW + KEY_CACHE_MS);
    expect(await good()).toBe(202);
    expect(await good()).toBe(429);
    await deactivate(workspace, key);
    expect([await good(), await statusOf("{ broken", right), await good()]).toEqual([401, 401, 401]);
  });

  test("and reports its calls to the counter as a count, after a second and then once a minute", async () => {
    stopClock();
    const workspace = await newWorkspace();
    await deactivate(workspace, workspace.key);
    const calls = async () => {
      const { items } = await workspace.operator<{ items: { calls: number; cause: string }[] }>("GET", "/rejections");
      expect(items).toMatchObject([{ cause: "key_deactivated" }]);
      return items[0]?.calls;
    };
    await workspace.send(SIGNAL);
    expect(await calls()).toBe(1);
    await concurrently(8, 20, () => workspace.send(SIGNAL));
    await until(async () => expect(await calls()).toBe(21));

    const counted = vi.spyOn(QuotaCounter.prototype, "countRefused");
    for (let second = 1; second <= 58; second++) {
      vi.setSystemTime(NOW + second * 1_000);
      await workspace.send(SIGNAL);
      if (second < 30) expect(counted).not.toHaveBeenCalled();
    }
    vi.setSystemTime(NOW + 60_000);
    counted.mockRestore();
    // A call of the last seconds waits for the end of the minute, in real time.
    const key = deactivatedKey(workspace.key.key);
    expect(key?.refused).toMatchObject([{ calls: 58 }]);
    expect(key?.refusedReportMs).toBeGreaterThan(NOW + 60_000);
  });
});

describe("a database that fails", () => {
  test("delays new keys; keys known within the last ten minutes go on working unless deactivated", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const [ended, unseen] = [await workspace.newKey(), await workspace.newKey()];
    const statuses = async () => [
      (await workspace.send(SIGNAL)).status,
      (await workspace.send(SIGNAL, { key: ended.key })).status,
      (await workspace.send(SIGNAL, { key: unseen.key })).status,
    ];
    await workspace.send(SIGNAL);
    await workspace.send(SIGNAL, { key: ended.key });
    await workspace.operator("POST", `/keys/${ended.id}/deactivate`);
    await env.DB.exec("ALTER TABLE api_keys RENAME TO gone");
    try {
      vi.setSystemTime(NOW + KEY_CACHE_MS);
      expect(await statuses()).toEqual([202, 401, 503]);
      vi.setSystemTime(NOW + KEY_STALE_MS);
      expect(await statuses()).toEqual([503, 401, 503]);
    } finally {
      await env.DB.exec("ALTER TABLE gone RENAME TO api_keys");
    }
    expect(await statuses()).toEqual([202, 401, 202]);
  });
});

describe("§2.1: last used", () => {
  test("is the last authenticated call, accepted or refused, and never a call with a wrong secret", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const key = await workspace.newKey({ secret: true });
    const right = { "x-api-secret": key.secret ?? "" };
    let hour = 0;
    /** The status of a call an hour later, and the last use that is then listed. */
    const then = async (body: unknown, headers: Record<string, string>, path?: string) => {
      vi.setSystemTime(NOW + ++hour * 3_600_000);
      const options = { key: key.key, headers, ...(path === undefined ? {} : { path }) };
      const { status } = await workspace.send(body, options);
      const { last_used_at: lastUsed } = await listed(workspace, key);
      return [status, lastUsed === null ? null : (Date.parse(lastUsed ?? "") - NOW) / 3_600_000];
    };
    expect(await then(SIGNAL, {})).toEqual([401, null]);
    expect(await then(SIGNAL, { "x-api-secret": "wrong" })).toEqual([401, null]);
    expect(await then(SIGNAL, right)).toEqual([202, 3]);
    expect(await then(SIGNAL, { "x-api-secret": "wrong" })).toEqual([401, 3]);
    expect(await then({ event: "" }, right)).toEqual([422, 5]);
    expect(await then("{ broken", right)).toEqual([400, 6]);
    expect(await then(SIGNAL, right, PRODUCT_ORGS)).toEqual([403, 7]);
    expect(await then([SIGNAL], right)).toEqual([202, 8]);
    await deactivate(workspace, key);
    expect(await then(SIGNAL, right)).toEqual([401, 8]);
  });
});

describe("§7: refused calls are in the admin's list with their reason", () => {
  test("including calls with a wrong secret and an expired key", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const expiring = await workspace.newKey({ expires_at: new Date(NOW + 1).toISOString() });
    vi.setSystemTime(NOW + 5_000);
    await workspace.send(SIGNAL, { key: withSecret.key, headers: { "x-api-secret": "wrong" } });
    await workspace.send(SIGNAL, { key: expiring.key });
    await until(async () => expect(await workspace.counter.rejections(10)).toHaveLength(2));
    const { items } = await workspace.operator<{ items: unknown[] }>("GET", "/rejections");
    const expected = { status: 401, code: "unauthorized", calls: 1, detail: expect.stringContaining("is not valid") };
    expect(items).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ key_id: expiring.id, cause: "key_expired", ...expected }),
        expect.objectContaining({ key_id: withSecret.id, cause: "secret_wrong", ...expected }),
      ]),
    );
  });

  test("with exact counts for a burst without a secret and with a wrong one", async () => {
    const workspace = await newWorkspace();
    const { id, key } = await workspace.newKey({ secret: true });
    await concurrently(8, 40, (n) =>
      workspace.send(SIGNAL, { key, headers: n % 2 === 0 ? {} : { "x-api-secret": "wrong" } }),
    );
    const counted = async () => {
      const { items } = await workspace.operator<{ items: { cause: string; calls: number }[] }>("GET", "/rejections");
      return items.map((item) => [item.cause, item.calls]).sort();
    };
    await until(async () =>
      expect(await counted()).toEqual([
        ["secret_missing", 20],
        ["secret_wrong", 20],
      ]),
    );
    expect(await listed(workspace, { id, key })).toMatchObject({ last_used_at: null });
  });

  test("and use up the request rate of the key like any other call", async () => {
    stopClock();
    const workspace = await newWorkspace();
    const answers = await concurrently(64, 1_010, () => workspace.send("{ broken"));
    const tooFast = answers.filter((response) => response.status === 429);
    expect(answers.filter((response) => response.status === 400)).toHaveLength(1_000);
    expect(tooFast).toHaveLength(10);
    for (const response of tooFast) {
      expect(response.headers.get("retry-after")).toBe("1");
      expect(await problemOf(response)).toMatchObject({ code: "rate_limited" });
    }
    expect((await workspace.send(SIGNAL)).status).toBe(429);
    const { items } = await workspace.operator<{ items: unknown[] }>("GET", "/rejections");
    expect(items).toMatchObject([
      { code: "rate_limited", calls: 11, detail: expect.stringContaining("faster than the request rate") },
      { code: "body_not_json", calls: 1_000 },
    ]);
    await deactivate(workspace, workspace.key);
    expect((await workspace.send("{ broken")).status).toBe(401);
  });
});

test("omits limits from answers to calls without a workspace", async () => {
  const response = await call("/api/signal-staging/webhook/nothing", { method: "POST", body: "{}" });
  expect(response.headers.get("ratelimit")).toBeNull();
});

async function sha256Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

describe("unsuccessful look-ups are limited per isolate", () => {
  test("with 429 for unknown keys from every network, and never for known keys", async () => {
    stopClock(NOW + 24 * 3_600_000);
    const workspace = await newWorkspace();
    const [known, fresh] = [workspace.key.key, await workspace.newKey()];
    expect((await workspace.send(SIGNAL, { key: known })).status).toBe(202);
    const answers = await concurrently(10, MISSES_BURST + 100, () => workspace.send(SIGNAL, { key: unknownKey() }));
    const missed = answers.filter(({ status }) => status === 401).length;
    // The bucket, the calls that penalised networks get per second, and calls in progress when the bucket ran empty.
    expect(missed).toBeGreaterThanOrEqual(MISSES_BURST);
    expect(missed).toBeLessThanOrEqual(MISSES_BURST + 60);
    const late = await workspace.send(SIGNAL, { key: fresh.key });
    expect([late.status, late.headers.get("retry-after")]).toEqual([429, "1"]);
    expect((await problemOf(late)).detail).toContain("Too many calls with an unknown key");
    expect((await workspace.send(SIGNAL, { key: known })).status).toBe(202);
    expect((await workspace.send(SIGNAL, { key: mistyped(known) })).status).toBe(401);

    vi.setSystemTime(Date.now() + 1_000);
    expect((await workspace.send(SIGNAL, { key: fresh.key })).status).toBe(202);

    // Some seconds later no caller waits, in this file and in later files of this isolate.
    vi.setSystemTime(Date.now() + 10_000);
    const again = await concurrently(10, 100, () => workspace.send(SIGNAL, { key: unknownKey() }));
    expect(new Set(again.map(({ status }) => status))).toEqual(new Set([401]));
  }, 60_000);
});

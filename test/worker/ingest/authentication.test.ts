/** Spec §5, §7 and §3.1, design §5: authentication, rejections, and the effect of a revocation. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { countMiss, MISSES_BURST } from "../../../src/http/auth-failures.ts";
import worker from "../../../src/index.ts";
import { lookUpKey, KEY_CACHE_MS } from "../../../src/ingest/authenticate.ts";
import { SHED_ASK_MS } from "../../../src/http/workspace-share.ts";
import { digestHex } from "../../../src/platform/hashes.ts";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { TEST_AUTH_FAILURES_PER_MINUTE } from "../../support/auth-failures.ts";
import { stopClock } from "../../support/clock.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";
import { concurrently, newWorkspace, problemOf, unknownKey, type TestWorkspace } from "../../support/workspace.ts";

// Timers that a test moves end the calls of background work.
expectLogged("rejected_calls_lost");

const SIGNAL = { email: "jane@example.com", event: "Filled Out Form" };
const ACCOUNTS = {
  endpoint_type: "product_org",
  payload_template: [{ target: "external_id", path: "id", type: "string" }],
};
const PRODUCT_ORGS = "/api/product-orgs/webhook/{key}";
const BATCH = "/api/signal-staging/webhook/{key}/batch";
const BULK = "/api/signal-staging/bulk/{key}";
const NOW = Date.UTC(2031, 4, 20, 12);

const newAddress = () => ({ "cf-connecting-ip": crypto.randomUUID() });
/** The key with another last character, so that its checksum is wrong. */
const mistyped = (key: string) => key.slice(0, -1) + (key.endsWith("a") ? "b" : "a");
const secretOf = ({ secret = "" }: { secret?: string }) => ({ "x-api-secret": secret });

/** Everything that a sender can see of a rejection, except the request's id. */
async function seen(response: Response): Promise<unknown> {
  const { request_id, ...body } = await problemOf(response);
  expect(response.headers.get("x-request-id")).toBe(request_id);
  const headers = [...response.headers].filter(([name]) => name !== "x-request-id");
  return { status: response.status, headers, body };
}

type Call = Parameters<TestWorkspace["send"]>;

async function expectAnswer(workspace: TestWorkspace, answer: unknown, calls: Record<string, Call>): Promise<void> {
  for (const [cause, sent] of Object.entries(calls)) {
    expect(await seen(await workspace.send(...sent)), cause).toEqual(answer);
  }
}

interface ListedKey {
  id: string;
  status: string;
  last_used_at: string | null;
}

const listed = async (workspace: TestWorkspace, { id }: { id: string }): Promise<Partial<ListedKey>> =>
  (await workspace.list<ListedKey>("/keys")).find((item) => item.id === id) ?? {};

const statusesOf = (answers: readonly Response[]) => new Set(answers.map(({ status }) => status));

describe("§5.3, §5.4, §7: 401", () => {
  test("has the same answer with WWW-Authenticate for every cause", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace();
    const [withSecret, otherKey] = [await workspace.newKey({ secret: true }), await workspace.newKey({ secret: true })];
    const expiring = await workspace.newKey({ expires_at: new Date(NOW + 1_000).toISOString() });
    const deactivated = await workspace.newKey();
    await workspace.deactivate(deactivated);
    vi.setSystemTime(NOW + 1_000);

    const first = await seen(await workspace.send(SIGNAL, { key: unknownKey() }));
    expect(first).toMatchObject({ status: 401, body: { code: "unauthorized", status: 401 } });
    expect(first).toMatchObject({ headers: expect.arrayContaining([["www-authenticate", expect.any(String)]]) });
    // Without a workspace there are no limits to show.
    expect(JSON.stringify(first)).not.toContain("ratelimit");
    const secret = (text: string) => ({ key: withSecret.key, headers: { "x-api-secret": text } });
    await expectAnswer(workspace, first, {
      "no key at all": [SIGNAL, { key: "nothing" }],
      "too short": [SIGNAL, { key: workspace.key.key.slice(0, -1) }],
      mistyped: [SIGNAL, { key: mistyped(workspace.key.key) }],
      "lower case": [SIGNAL, { key: workspace.key.key.toLowerCase() }],
      "unknown, with a secret": [SIGNAL, { key: unknownKey(), headers: { "x-api-secret": "x" } }],
      expired: [SIGNAL, { key: expiring.key }],
      "expired, at the other family": [SIGNAL, { key: expiring.key, path: PRODUCT_ORGS }],
      deactivated: [SIGNAL, { key: deactivated.key }],
      "no secret": [SIGNAL, { key: withSecret.key }],
      "no secret, at the other family": [SIGNAL, { key: withSecret.key, path: PRODUCT_ORGS }],
      "an empty secret": [SIGNAL, secret("")],
      "a wrong secret": [SIGNAL, secret("wrong")],
      "a wrong secret, at the other family": [SIGNAL, { ...secret("wrong"), path: PRODUCT_ORGS }],
      "the hash instead of the secret": [SIGNAL, secret(await digestHex(withSecret.secret ?? ""))],
      "the secret of another key": [SIGNAL, { key: withSecret.key, headers: secretOf(otherKey) }],
      "no key before /batch": [SIGNAL, { path: "/api/signal-staging/webhook/nothing/batch" }],
      "unknown, at the other family": [SIGNAL, { path: PRODUCT_ORGS, key: unknownKey() }],
      "unknown, in bulk": [SIGNAL, { path: BULK, key: unknownKey() }],
    });
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 0, held: 0, rejected: 0 });
  });

  test("is avoided by the right secret, and a key without a secret ignores the header", async () => {
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const headers = secretOf(withSecret);
    expect((await workspace.send(SIGNAL, { key: withSecret.key, headers })).status).toBe(202);
    // HTTP allows white space around the value, and the platform removes it.
    for (const value of [` ${withSecret.secret}`, `${withSecret.secret} `, `\t${withSecret.secret} \t`])
      expect((await workspace.send(SIGNAL, { key: withSecret.key, headers: { "x-api-secret": value } })).status).toBe(
        202,
      );
    expect((await workspace.send(SIGNAL, { headers })).status).toBe(202);
    expect((await workspace.send(SIGNAL, { headers: { "x-api-secret": "" } })).status).toBe(202);
  });

  test("is not cached for unknown keys: a new key works at once", async () => {
    const workspace = await newWorkspace();
    const key = await workspace.newKey();
    const setHash = (hash: string) =>
      env.DB.prepare("UPDATE api_keys SET key_hash = ? WHERE id = ?").bind(hash, key.id).run();
    await setHash("somebody else's");
    expect((await workspace.send(SIGNAL, { key: key.key })).status).toBe(401);
    await setHash(await digestHex(key.key));
    expect((await workspace.send(SIGNAL, { key: key.key })).status).toBe(202);
  });

  test("asks the primary after the replica, and asks the primary once for an unknown key", async () => {
    const workspace = await newWorkspace();
    const { key } = await workspace.newKey();
    const behind = replicated({ nearest: "replica" });
    expect(await lookUpKey(behind.database, key, Date.now(), createExecutionContext())).toMatchObject({
      workspaceId: workspace.id,
    });
    expect(behind.asked).toEqual(["first-unconstrained", "first-primary"]);

    const alone = replicated({ nearest: "primary" });
    expect(await lookUpKey(alone.database, unknownKey(), Date.now(), createExecutionContext())).toBeUndefined();
    expect(alone.asked).toEqual(["first-unconstrained"]);
    expect(await lookUpKey(alone.database, key, Date.now(), createExecutionContext())).toMatchObject({
      workspaceId: workspace.id,
    });
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

test("§5.2, §7: answers 403 to a key on the endpoints of the other family, before the body is read", async () => {
  const workspace = await newWorkspace();
  const accountKey = await workspace.newKey(ACCOUNTS);
  const wrong = await workspace.send("{ not read", { path: PRODUCT_ORGS });
  expect(await problemOf(wrong)).toMatchObject({ status: 403, code: "endpoint_mismatch" });
  for (const path of ["/api/signal-staging/webhook/{key}", "/api/signal-staging/webhook/web/{key}", BATCH, BULK]) {
    expect((await workspace.send(SIGNAL, { path, key: accountKey.key })).status, path).toBe(403);
  }
  expect((await workspace.send({ id: "1" }, { path: PRODUCT_ORGS, key: accountKey.key })).status).toBe(202);
});

test("§3.1: expiration is exact to the millisecond, even while the key is cached", async () => {
  stopClock(NOW);
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

describe("§3.1: deactivation (invariant 4)", () => {
  test("lets no call of 64 concurrent callers through that began after it returned, and calls with other keys pass", async () => {
    const workspace = await newWorkspace();
    const otherKey = await workspace.newKey();
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
    await workspace.deactivate();
    returned = true;
    await callers;
    expect(after).toHaveLength(64 * 3);
    expect(new Set(after)).toEqual(new Set([401]));
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted });
    expect((await workspace.send(SIGNAL, { key: otherKey.key })).status).toBe(202);
  });

  test("answers 401 regardless of other problems of the call", async () => {
    const workspace = await newWorkspace({ signalLimit: 1 });
    await workspace.send([SIGNAL, SIGNAL]);
    const overQuota = await workspace.send(SIGNAL);
    expect(overQuota.status).toBe(429);
    await workspace.deactivate();

    const first = await seen(await workspace.send(SIGNAL, { key: unknownKey() }));
    await expectAnswer(workspace, first, {
      "the quota is used up": [SIGNAL],
      "wrong family": [SIGNAL, { path: PRODUCT_ORGS }],
      "broken JSON": ["{ broken"],
      "a form": ["a=b", { headers: { "content-type": "application/x-www-form-urlencoded" } }],
      "nothing in it": [""],
      "no signal in it": [[]],
      "too many signals": [Array.from({ length: 5_001 }, () => 0), { path: BATCH }],
      "too large": [" ".repeat(8 * 1024 * 1024 + 1)],
      "an invalid signal": [{ event: "" }],
      "only invalid signals": [[{ event: "" }, 1], { path: BATCH }],
      "an unknown encoding": [SIGNAL, { headers: { "content-encoding": "br" } }],
      "an invalid Idempotency-Key": [SIGNAL, { headers: { "idempotency-key": "x".repeat(256) } }],
      "an invalid source": [SIGNAL, { path: "/api/signal-staging/webhook/%20/{key}" }],
      "a secret that it never had": [SIGNAL, { headers: { "x-api-secret": "x" } }],
    });
  });
});

describe("a key whose payload template was dropped", () => {
  test.each([
    ["which the Quota Counter knows to be deactivated", true],
    ["which the Quota Counter has forgotten", false],
  ])("gets the ordinary 401, %s", async (_, isDeactivated) => {
    const workspace = await newWorkspace();
    const [ended, withSecret] = [
      await workspace.newKey(ACCOUNTS),
      await workspace.newKey({ ...ACCOUNTS, secret: true }),
    ];
    if (isDeactivated) for (const key of [ended, withSecret]) await workspace.deactivate(key);
    await env.DB.prepare("DELETE FROM payload_templates WHERE workspace_id = ?").bind(workspace.id).run();
    const unknown = await seen(await workspace.send({ id: "a1" }, { path: PRODUCT_ORGS, key: unknownKey() }));
    for (const { key } of [ended, withSecret, ended, withSecret]) {
      await expectAnswer(workspace, unknown, { dropped: [{ id: "a1" }, { path: PRODUCT_ORGS, key }] });
    }
    await expectAnswer(workspace, unknown, { invalid: [[1, {}], { path: PRODUCT_ORGS, key: ended.key }] });
    await until(async () => {
      const items = await workspace.list<{ key_id: string }>("/rejections");
      expect(items).toMatchObject([{ cause: "key_deactivated" }, { cause: "key_deactivated" }]);
      expect(items.map((item) => item.key_id).sort()).toEqual([ended.id, withSecret.id].sort());
    });
  });
});

test("§7.1: a key's request rate allows a burst of calls, then answers 429 with Retry-After, then allows the configured rate", async () => {
  stopClock(NOW);
  const workspace = await newWorkspace();
  const burst = await concurrently(64, 1_010, (n) => workspace.send(n % 2 === 0 ? SIGNAL : "{ broken"));
  const [accepted = [], broken = [], tooFast = []] = [202, 400, 429].map((status) =>
    burst.filter((response) => response.status === status),
  );
  expect([accepted.length + broken.length, tooFast.length]).toEqual([1_000, 10]);
  for (const response of tooFast) {
    expect(response.headers.get("retry-after")).toBe("1");
    expect(response.headers.get("ratelimit-policy")).toContain('"request-rate";q=1000;w=2');
    expect(response.headers.get("ratelimit")).toContain('"request-rate";r=0;t=2');
    expect((await problemOf(response)).code).toBe("rate_limited");
  }
  expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: accepted.length });
  expect(await workspace.list("/rejections")).toMatchObject([
    { code: "rate_limited", calls: 10, detail: expect.stringContaining("faster than the request rate") },
    { code: "body_not_json", calls: broken.length },
  ]);

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
  await workspace.deactivate();
  expect((await workspace.send("{ broken")).status).toBe(401);
});

describe("design §5: an isolate rejects calls far beyond the rate", () => {
  /** Four concurrent calls pass; then none for a long time. */
  const slow = { ...env, REQUEST_RATE_PER_SECOND: "0.0001", REQUEST_BURST: "1" };

  /** Calls that reach the counter get its answer. */
  function sender(workspace: TestWorkspace) {
    let reached = 0;
    const getByName = () => {
      reached++;
      return workspace.counter;
    };
    const bindings = { ...slow, QUOTA_COUNTER: { getByName } } as unknown as Env;
    return { send: async () => (await workspace.send(SIGNAL, { bindings })).status, reached: () => reached };
  }

  test("at once, while one call a second still asks the counter", async () => {
    stopClock(NOW);
    const { send, reached } = sender(await newWorkspace());
    for (let n = 0; n < 4; n++) expect(await send()).toBe(202);
    // Together, because each rejection waits before it is sent.
    const send6 = () => Promise.all(Array.from({ length: 6 }, send));
    expect(await send6()).toEqual([429, 429, 429, 429, 429, 429]);
    expect(reached()).toBe(5);
    vi.setSystemTime(NOW + SHED_ASK_MS);
    expect(await send6()).toEqual([429, 429, 429, 429, 429, 429]);
    expect(reached()).toBe(6);
  });

  test("and still answers 401 for a deactivated key", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace();
    const { send, reached } = sender(workspace);
    for (let n = 0; n < 4; n++) expect(await send()).toBe(202);
    await workspace.deactivate();
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
    const [flooding, otherAddress] = [newAddress(), newAddress()];
    await workspace.send(SIGNAL);
    expect(await flood(workspace, () => flooding["cf-connecting-ip"])).toEqual(new Set([401, 429]));

    const limited = await workspace.send(SIGNAL, { key: unknownKey(), headers: flooding });
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect((await problemOf(limited)).code).toBe("rate_limited");
    const statusOf = async (key: string, headers: Record<string, string>) =>
      (await workspace.send(SIGNAL, { key, headers })).status;
    expect(await statusOf(unknownKey(), otherAddress)).toBe(401);
    expect(await statusOf(workspace.key.key, flooding)).toBe(202);
    expect(await statusOf(mistyped(unknownKey()), flooding)).toBe(401);
    // Another sender at the same address, with a key that this isolate has never seen. The flood may have taken the look-ups of a second.
    const other = { ...flooding, ...secretOf(withSecret) };
    await expect.poll(() => statusOf(withSecret.key, other)).toBe(202);
  });

  test("with the same answer for every cause", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace();
    const withSecret = await workspace.newKey({ secret: true });
    const expiring = await workspace.newKey({ expires_at: new Date(NOW + 1).toISOString() });
    const [deactivated, remembered] = [await workspace.newKey(), await workspace.newKey()];
    await workspace.deactivate(deactivated);
    await workspace.deactivate(remembered);
    await workspace.send(SIGNAL, { key: remembered.key });
    vi.setSystemTime(NOW + 2);
    const headers = newAddress();
    await flood(workspace, () => headers["cf-connecting-ip"]);

    const first = await seen(await workspace.send(SIGNAL, { key: unknownKey(), headers }));
    expect(first).toMatchObject({ status: 429, body: { code: "rate_limited" } });
    const wrong = { ...headers, "x-api-secret": "wrong" };
    await expectAnswer(workspace, first, {
      "unknown, with a secret": [SIGNAL, { key: unknownKey(), headers: wrong }],
      expired: [SIGNAL, { key: expiring.key, headers }],
      deactivated: [SIGNAL, { key: deactivated.key, headers }],
      "deactivated, with a broken body": ["{", { key: deactivated.key, headers }],
      "deactivated, and known to be": [SIGNAL, { key: remembered.key, headers }],
      "no secret": [SIGNAL, { key: withSecret.key, headers }],
      "a wrong secret": [SIGNAL, { key: withSecret.key, headers: wrong }],
    });
  });

  test.each([
    ["expired", [401, 429]],
    ["deactivated", [401, 429]],
    ["sent without its secret", [401, 429]],
    ["sent with a wrong secret", [401, 429]],
    ["malformed", [401]],
  ])(
    "so that many calls with a key that is %s get %j, and neighbours 202",
    async (cause, statuses) => {
      stopClock(NOW);
      const workspace = await newWorkspace();
      const created = await workspace.newKey({
        secret: cause.includes("secret"),
        expires_at: new Date(NOW + 1_000).toISOString(),
      });
      const key = cause === "malformed" ? "sk_noise" : created.key;
      if (cause === "deactivated") await workspace.deactivate(created);
      if (cause === "expired") vi.setSystemTime(NOW + 1_000);
      const address = newAddress();
      const headers = { ...address, ...(cause.includes("wrong") && { "x-api-secret": "wrong" }) };
      const answers = await concurrently(25, MANY, () => workspace.send(SIGNAL, { key, headers }));
      expect(statusesOf(answers)).toEqual(new Set(statuses));
      // Guessed secrets and ended keys lock out no other sender at the address.
      const rightful = { ...address, ...secretOf(created) };
      if (cause.includes("secret")) expect((await workspace.send(SIGNAL, { key, headers: rightful })).status).toBe(202);
      const neighbour = await workspace.newKey();
      expect((await workspace.send(SIGNAL, { key: neighbour.key, headers: address })).status).toBe(202);
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
    expectLogged("error");
    const workspace = await newWorkspace();
    const otherKey = await workspace.newKey();
    await workspace.send(SIGNAL, { key: otherKey.key });
    await workspace.deactivate();
    const rejection = await seen(await workspace.send(SIGNAL));
    const { request, answer } = post(workspace.key.key);
    expect(await seen(await answer)).toEqual(rejection);
    expect(request.bodyUsed).toBe(false);
    expect((await post(otherKey.key).answer).status).toBe(503);
    expect((await workspace.send(SIGNAL, { key: otherKey.key })).status).toBe(202);
  });

  test("and caches no other rejection of a key", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace({ signalLimit: 3 });
    const key = await workspace.newKey({ secret: true });
    const right = secretOf(key);
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
    await workspace.deactivate(key);
    expect([await good(), await statusOf("{ broken", right), await good()]).toEqual([401, 401, 401]);
  });

  test("and reports every call to the counter: after a second, and then 25 seconds after the last report", async () => {
    stopClock(NOW);
    const workspace = await newWorkspace();
    await workspace.deactivate();
    await workspace.send(SIGNAL);
    const countRejected = vi.spyOn(QuotaCounter.prototype, "countRejected");
    onTestFinished(() => countRejected.mockRestore());
    const waits: number[] = [];
    const realWait = scheduler.wait.bind(scheduler);
    // Each wait is recorded, and takes a second and a half at most.
    const wait = vi.spyOn(scheduler, "wait").mockImplementation((ms) => {
      waits.push(ms);
      return realWait(Math.min(ms, 1_500));
    });
    onTestFinished(() => wait.mockRestore());
    const reported = () => {
      const reports = countRejected.mock.calls.flat(2).filter(({ keyId }) => keyId === workspace.key.id);
      return reports.reduce((sum, { calls }) => sum + calls, 0);
    };
    await concurrently(5, 5, () => workspace.send(SIGNAL));
    await until(() => expect(reported()).toBe(5));
    expect(waits[0]).toBe(1_000);

    // No call follows these, so one of them must wait for the report.
    for (let second = 1; second <= 10; second++) {
      vi.setSystemTime(NOW + second * 1_000);
      await workspace.send(SIGNAL);
    }
    await until(() => expect(reported()).toBe(15));
    expect(Math.max(...waits)).toBeGreaterThan(20_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(25_000);
  });
});

test("a database that fails delays new keys; keys that this isolate knows go on working unless deactivated", async () => {
  expectLogged("error", "key_lookup_failed");
  stopClock(NOW);
  const workspace = await newWorkspace();
  const [ended, unseen] = [await workspace.newKey(), await workspace.newKey()];
  const statuses = async () => [
    (await workspace.send(SIGNAL)).status,
    (await workspace.send(SIGNAL, { key: ended.key })).status,
    (await workspace.send(SIGNAL, { key: unseen.key })).status,
  ];
  await workspace.send(SIGNAL);
  await workspace.send(SIGNAL, { key: ended.key });
  await workspace.deactivate(ended);
  await env.DB.exec("ALTER TABLE api_keys RENAME TO gone");
  try {
    vi.setSystemTime(NOW + KEY_CACHE_MS);
    expect(await statuses()).toEqual([202, 401, 503]);
    vi.setSystemTime(NOW + 60 * KEY_CACHE_MS);
    expect(await statuses()).toEqual([202, 401, 503]);
  } finally {
    await env.DB.exec("ALTER TABLE gone RENAME TO api_keys");
  }
  expect(await statuses()).toEqual([202, 401, 202]);
});

test("§2.1: last used is the last authenticated call, accepted or rejected, and never a call with a wrong secret", async () => {
  stopClock(NOW);
  const workspace = await newWorkspace();
  const key = await workspace.newKey({ secret: true });
  const right = secretOf(key);
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
  await workspace.deactivate(key);
  expect(await then(SIGNAL, right)).toEqual([401, 8]);
});

test("§7: calls with a wrong secret or an expired key are counted by cause as rejections, and are no use of the key", async () => {
  stopClock(NOW);
  const workspace = await newWorkspace();
  const withSecret = await workspace.newKey({ secret: true });
  const expiring = await workspace.newKey({ expires_at: new Date(NOW + 1).toISOString() });
  vi.setSystemTime(NOW + 5_000);
  await workspace.send(SIGNAL, { key: expiring.key });
  await concurrently(8, 40, (n) =>
    workspace.send(SIGNAL, { key: withSecret.key, headers: n % 2 === 0 ? {} : { "x-api-secret": "wrong" } }),
  );
  const rejected = { status: 401, code: "unauthorized", detail: expect.stringContaining("is not valid") };
  await until(async () => {
    const items = await workspace.list<{ cause: string }>("/rejections");
    expect(items.toSorted((a, b) => a.cause.localeCompare(b.cause))).toMatchObject([
      { ...rejected, cause: "key_expired", key_id: expiring.id, calls: 1 },
      { ...rejected, cause: "secret_missing", key_id: withSecret.id, calls: 20 },
      { ...rejected, cause: "secret_wrong", key_id: withSecret.id, calls: 20 },
    ]);
  });
  expect(await listed(workspace, withSecret)).toMatchObject({ last_used_at: null });
});

test("limits unsuccessful look-ups of an isolate with 429 for unknown keys from every network, never for known keys", async () => {
  stopClock(NOW + 24 * 3_600_000);
  const workspace = await newWorkspace();
  const [known, fresh] = [workspace.key.key, (await workspace.newKey()).key];
  const statusOf = async (key: string) => (await workspace.send(SIGNAL, { key })).status;
  expect(await statusOf(known)).toBe(202);
  vi.setSystemTime(Date.now() + KEY_CACHE_MS - 2);
  for (let n = 2; n < MISSES_BURST; n++) countMiss(Date.now());
  // The last two calls of the burst, and the calls that penalised networks get per second.
  const answers = await concurrently(1, 60, () => statusOf(unknownKey()));
  expect(answers).toEqual(Array.from({ length: 60 }, (_, n) => (n < 52 ? 401 : 429)));
  const late = await workspace.send(SIGNAL, { key: fresh });
  expect([late.status, late.headers.get("retry-after")]).toEqual([429, "1"]);
  expect((await problemOf(late)).detail).toContain("Too many calls with an unknown key");
  expect([await statusOf(known), await statusOf(mistyped(known))]).toEqual([202, 401]);
  // Now the cached fields of the known key are too old, and it is looked up again.
  vi.setSystemTime(Date.now() + 4);
  expect(await statusOf(known)).toBe(202);

  vi.setSystemTime(Date.now() + 1_000);
  expect(await statusOf(fresh)).toBe(202);

  // Some seconds later no caller waits, in this file and in later files of this isolate.
  vi.setSystemTime(Date.now() + 10_000);
  expect(new Set(await concurrently(10, 100, () => statusOf(unknownKey())))).toEqual(new Set([401]));
});

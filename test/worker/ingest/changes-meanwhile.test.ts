/** Changes of a key while a call with it is under way, and clocks that go back. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import type { ingestApp } from "../../../src/ingest/routes.ts";
import { KEY_CACHE_MS } from "../../../src/ingest/authenticate.ts";
import { createKey } from "../../../src/d1/new-keys.ts";
import { setSignalLimit } from "../../../src/d1/key-budgets.ts";
import { createKeyOnce, rotateApiKey } from "../../../src/use-cases/manage-keys.ts";
import { TEST_AUTH_FAILURES_PER_MINUTE } from "../../support/auth-failures.ts";
import { intercept } from "../../support/intercept.ts";
import { expectLogged } from "../../support/logged.ts";
import { newWorkspace, type TestKey, type TestWorkspace } from "../../support/workspace.ts";

const NOW = Date.UTC(2031, 2, 5, 12);
const HOUR = 3_600_000;

type Ingest = typeof ingestApp;

/** The edge as in a new isolate, which has no key in memory. */
async function newIsolate(): Promise<Ingest> {
  vi.resetModules();
  return (await import("../../../src/ingest/routes.ts")).ingestApp;
}

interface Posted {
  body?: object;
  source?: string;
  bindings?: Partial<Env>;
  address?: string;
}

async function post(ingest: Ingest, { key }: TestKey, { body, bindings, address, source }: Posted = {}) {
  const context = createExecutionContext();
  const path = source === undefined ? key : `${source}/${key}`;
  const request = new Request(`https://signals.example/api/signal-staging/webhook/${path}`, {
    method: "POST",
    body: JSON.stringify(body ?? { event: "Visit", email: "a@example.com" }),
    headers: address === undefined ? {} : { "cf-connecting-ip": address },
  });
  const answer = await ingest.fetch(request, { ...env, ...bindings } as Env, context);
  const text = await answer.text();
  await waitOnExecutionContext(context);
  return { status: answer.status, text };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
});
afterEach(() => {
  vi.useRealTimers();
});

function templateOf(path: string) {
  return [
    { target: "event", path },
    { target: "email", path: "mail" },
  ];
}

test("a signal is mapped as it was checked, also if the template changes between two attempts to admit it", async () => {
  const workspace = await newWorkspace({ key: { payload_template: templateOf("trigger") } });
  const { key } = workspace;
  const ingest = await newIsolate();
  expectLogged("admit_failed", "error");
  let isFirst = true;
  const counters = intercept(env.QUOTA_COUNTER, async ({ method, make }) => {
    if (method !== "admit" || !isFirst) return make();
    isFirst = false;
    await workspace.operator("PUT", `/keys/${key.id}/template`, { payload_template: templateOf("action") });
    vi.setSystemTime(NOW + KEY_CACHE_MS);
    // Another call makes the isolate read the key again.
    expect(await post(ingest, key, { body: { action: "Left", mail: "b@example.com" } })).toMatchObject({ status: 202 });
    throw Object.assign(new Error("the counter restarts"), { retryable: true });
  });
  const sent = { body: { trigger: "Visit", mail: "a@example.com" }, bindings: { QUOTA_COUNTER: counters } };
  const { status, text } = await post(ingest, key, sent);
  expect(status).toBe(202);
  await workspace.settled();
  const { id } = JSON.parse(text) as { id: string };
  expect(await workspace.operator("GET", `/signals/${id}`)).toMatchObject({ status: "processed", event: "Visit" });
});

describe("two rotations of a key at once", () => {
  test("leave the end of its overlap in the counter, also if the first to begin is the one that fails", async () => {
    const workspace = await newWorkspace();
    const rotation = { keyId: workspace.key.id, overlap: "1h", formToken: "form" } as const;
    const by = (nowMs: number) => ({ actor: "test", nowMs });
    let second: Awaited<ReturnType<typeof rotateApiKey>> | null = null;
    const db = intercept(env.DB, async ({ make }) => {
      second ??= await rotateApiKey(workspace.context({ by: by(NOW + 1) }), rotation);
      return make();
    });
    const first = await rotateApiKey(workspace.context({ db: controlDatabase(db), by: by(NOW) }), rotation);
    expect([first.ok, second]).toMatchObject([false, { ok: true }]);
    vi.setSystemTime(NOW + 1 + HOUR);
    expect(await workspace.counter.stateOfKey(workspace.key.id, true)).toEqual({ outcome: "key_ended" });
  });
});

test("a successor has the settings that its key got while it was rotated", async () => {
  const workspace = await newWorkspace();
  const { id } = workspace.key;
  let calls = 0;
  const db = intercept(env.DB, async ({ make }) => {
    const read = await make();
    if (calls++ > 0) return read;
    await workspace.operator("PUT", `/keys/${id}/template`, { payload_template: templateOf("trigger") });
    await workspace.operator("PATCH", `/keys/${id}`, { misfits: "keep", answer: 200, silent_after_days: 3 });
    return read;
  });
  const rotation = { keyId: id, overlap: "24h", formToken: null } as const;
  const made = await rotateApiKey(workspace.context({ db: controlDatabase(db) }), rotation);
  if (!made.ok) throw new Error(made.rejection.reason);
  const keys = await workspace.list("/keys");
  const successor = keys.find((listed) => listed["id"] === made.value.record.id);
  expect(successor).toMatchObject({ misfits: "keep", answer: 200, silent_after_days: 3 });
  const key = { id: made.value.record.id, key: made.value.value } as TestKey;
  const answer = await post(await newIsolate(), key, { body: { trigger: "Visit", mail: "a@example.com" } });
  expect(answer.status).toBe(202);
  expect(JSON.parse(answer.text)).not.toHaveProperty("misfit");
  await workspace.settled();
});

test("calls with the keys of a closed workspace are no failed authentications", async () => {
  const [workspace, other] = [await newWorkspace(), await newWorkspace()];
  await workspace.operator("POST", "/close");
  const [ingest, address] = [await newIsolate(), "203.0.113.77"];
  const statuses = new Set<number>();
  for (let calls = 0; calls < 2 * TEST_AUTH_FAILURES_PER_MINUTE + 60; calls++) {
    // oxlint-disable-next-line no-await-in-loop
    statuses.add((await post(ingest, workspace.key, { address })).status);
  }
  expect(statuses).toEqual(new Set([503]));
  expect((await post(ingest, other.key, { address })).status).toBe(202);
  await workspace.operator("POST", "/open");
  expect((await post(ingest, workspace.key, { address })).status).toBe(202);
});

describe("a clock that was set back by a day", () => {
  async function atLaterTime(): Promise<{ workspace: TestWorkspace; ingest: Ingest }> {
    const [workspace, ingest] = [await newWorkspace(), await newIsolate()];
    vi.setSystemTime(NOW + 24 * HOUR);
    expect((await post(ingest, workspace.key)).status).toBe(202);
    vi.setSystemTime(NOW);
    return { workspace, ingest };
  }

  test("keeps no isolate from reading a key again", async () => {
    const { workspace, ingest } = await atLaterTime();
    await workspace.operator("POST", `/keys/${workspace.key.id}/rotate`, { overlap: "1h" });
    vi.setSystemTime(NOW + HOUR);
    expect((await post(ingest, workspace.key)).status).toBe(401);
  });

  test("keeps no isolate from sending a new configuration to the counter", async () => {
    const [workspace, ingest] = [await newWorkspace(), await newIsolate()];
    const limit = async (nowMs: number, signals: number) => {
      vi.setSystemTime(nowMs);
      // The counter does not learn of it here.
      await setSignalLimit(workspace.context(), workspace.key.id, signals);
      const first = await post(ingest, workspace.key);
      return [first.status, (await post(ingest, workspace.key)).status];
    };
    expect(await limit(NOW + 24 * HOUR, 5)).toEqual([202, 202]);
    expect(await limit(NOW, 1)).toEqual([202, 429]);
    await workspace.settled();
  });

  test("keeps no deactivated key from its 401 beyond the request rate", async () => {
    const [workspace, ingest] = [await newWorkspace(), await newIsolate()];
    /** The isolate lets four calls pass, then none for a long time. */
    const bindings = { REQUEST_RATE_PER_SECOND: "0.0001", REQUEST_BURST: "1" } as unknown as Partial<Env>;
    const send = async (calls: number) => {
      const answers = await Promise.all(Array.from({ length: calls }, () => post(ingest, workspace.key, { bindings })));
      return answers.map(({ status }) => status);
    };
    vi.setSystemTime(NOW + 24 * HOUR);
    expect((await send(6)).slice(-2)).toEqual([429, 429]);
    vi.setSystemTime(NOW);
    await workspace.counter.deactivate(workspace.key.id);
    expect(await send(1)).toEqual([401]);
    await workspace.settled();
  });
});

test("a copy of a key's fields replaces none that D1 has given meanwhile", async () => {
  const workspace = await newWorkspace();
  await post(await newIsolate(), workspace.key);
  vi.setSystemTime(NOW + HOUR);
  await workspace.operator("PATCH", `/keys/${workspace.key.id}`, { signal_limit: null, answer: 200 });
  expectLogged("key_lookup_failed", "error");
  const ingest = await newIsolate();
  const withSource = (bindings: Partial<Env> = {}) =>
    post(ingest, workspace.key, { bindings, source: "crm" }).then(({ status }) => status);
  let isFirst = true;
  const db = intercept(env.DB, async ({ make }) => {
    if (!isFirst) return make();
    isFirst = false;
    await scheduler.wait(0);
    throw new Error("away");
  });
  const open = caches.open.bind(caches);
  const opened = vi.spyOn(caches, "open").mockImplementationOnce(async (name) => {
    const cache = await open(name);
    const match = async (address: string) => {
      const copy = await cache.match(address);
      expect(await withSource()).toBe(200);
      return copy;
    };
    return { match } as unknown as Cache;
  });
  expect(await withSource({ DB: db })).toBe(200);
  opened.mockRestore();
  expect(await withSource()).toBe(200);
  await workspace.settled();
});

test("the limit of a new key holds, also if the call that made it was interrupted and is repeated", async () => {
  const workspace = await newWorkspace();
  const wanted = {
    name: "CRM",
    endpointType: "signal_staging",
    expiresAt: null,
    payloadTemplate: null,
    secret: false,
    signalLimit: 1,
  } as const;
  await createKey(workspace.context(), wanted, "create deploy");
  const made = await createKeyOnce(workspace.context(), wanted, "deploy");
  if (!made.ok) throw new Error(made.rejection);
  const key = { id: made.value.record.id, key: made.value.value } as TestKey;
  const ingest = await newIsolate();
  const statuses = [await post(ingest, key, { body: [{ event: "A" }, { event: "B" }] }), await post(ingest, key)];
  expect(JSON.parse(statuses[0]?.text ?? "")).toMatchObject({ accepted: 1, rejected: 1 });
  expect(statuses[1]?.status).toBe(429);
  await workspace.settled();
});

test("a template version that D1 lost by a restore, and gives again, is read anew within a minute", async () => {
  const workspace = await newWorkspace({ key: { payload_template: templateOf("trigger") } });
  const { id, key } = workspace.key;
  const change = (path: string) =>
    workspace.operator("PUT", `/keys/${id}/template`, { payload_template: templateOf(path) });
  const statusOf = async (body: object) => {
    vi.setSystemTime(Date.now() + KEY_CACHE_MS);
    const answer = await workspace.send(body, { key });
    const sent = await answer.json<{ id: string }>();
    await workspace.settled();
    return (await workspace.operator<{ status: string }>("GET", `/signals/${sent.id}`)).status;
  };
  await change("action");
  expect(await statusOf({ action: "Visit", mail: "a@example.com" })).toBe("processed");
  await env.DB.batch([
    env.DB.prepare("DELETE FROM payload_templates WHERE id = ? AND version = 2").bind(id),
    env.DB.prepare("UPDATE payload_templates SET replaced_at = NULL WHERE id = ?").bind(id),
  ]);
  await change("verb");
  expect(await statusOf({ verb: "Visit", mail: "b@example.com" })).toBe("processed");
});

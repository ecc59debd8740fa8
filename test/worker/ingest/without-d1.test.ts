/** Calls while D1 is away: isolates that know the key, and new ones, which have the copy in the cache of the data centre. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ingestApp } from "../../../src/ingest/routes.ts";
import { expectLogged } from "../../support/logged.ts";
import { askOperator, newWorkspace, type TestKey, type TestWorkspace } from "../../support/workspace.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = Date.UTC(2031, 2, 5, 12);

type Ingest = typeof ingestApp;

/** The edge as in a new isolate, which has no key in memory. */
async function newIsolate(): Promise<Ingest> {
  vi.resetModules();
  return (await import("../../../src/ingest/routes.ts")).ingestApp;
}

const FAILING = {
  withSession: () => ({ prepare: () => ({ bind: () => ({ run: () => Promise.reject(new Error("away")) }) }) }),
};
const SILENT = { withSession: () => ({ prepare: () => ({ bind: () => ({ run: () => new Promise(() => {}) }) }) }) };

function requestOf({ key }: TestKey): Request {
  const body = JSON.stringify({ event: "Visit", email: "a@example.com" });
  return new Request(`https://signals.example/api/signal-staging/webhook/${key}`, { method: "POST", body });
}

async function post(ingest: Ingest, key: TestKey, db: object = FAILING): Promise<number> {
  const bindings = { ...env, DB: db } as unknown as Env;
  const context = createExecutionContext();
  const answer = await ingest.fetch(requestOf(key), bindings, context);
  await answer.text();
  await waitOnExecutionContext(context);
  return answer.status;
}

async function rotate(workspace: TestWorkspace, overlap: string): Promise<void> {
  await workspace.operator("POST", `/keys/${workspace.key.id}/rotate`, { overlap });
}

describe("while D1 is away", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["Date"], now: NOW });
    expectLogged("key_lookup_failed", "error");
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A key that a sender has used, an hour before D1 was lost. */
  async function used(): Promise<TestWorkspace> {
    const workspace = await newWorkspace();
    expect(await post(await newIsolate(), workspace.key, env.DB)).toBe(202);
    return workspace;
  }

  test("a new isolate accepts a key that was used here, for the whole outage, and no signal is lost", async () => {
    const workspace = await used();
    for (const minutes of [0, 1, 30, 60, 61]) {
      vi.setSystemTime(NOW + minutes * MINUTE);
      expect(await post(await newIsolate(), workspace.key)).toBe(202);
    }
    expect((await workspace.settled()).accepted).toBe(6);
  });

  test("a new isolate that gets no answer from D1 waits two seconds, then uses the copy", async () => {
    const workspace = await used();
    const startedAt = performance.now();
    const ingest = await newIsolate();
    expect(await post(ingest, workspace.key, SILENT)).toBe(202);
    expect(performance.now() - startedAt).toBeGreaterThan(1_500);
    // Others do not wait while this look-up counts as pending.
    const next = performance.now();
    expect(await post(ingest, workspace.key, SILENT)).toBe(202);
    expect(performance.now() - next).toBeLessThan(1_500);
  });

  test("no answer waits for the copy", async () => {
    const workspace = await newWorkspace();
    let written = 0;
    const open = vi.spyOn(caches, "open").mockImplementation(async () => {
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      written++;
      throw new Error("slow");
    });
    expectLogged("key_copy_failed", "error");
    const ingest = await newIsolate();
    const context = createExecutionContext();
    const [request, bindings] = [requestOf(workspace.key), { ...env } as Env];
    const answer = await ingest.fetch(request, bindings, context);
    expect([answer.status, written]).toEqual([202, 0]);
    await waitOnExecutionContext(context);
    expect(written).toBe(1);
    open.mockRestore();
  });

  test("a key that nobody has used here gets 503, and works when D1 is back", async () => {
    const workspace = await newWorkspace();
    const ingest = await newIsolate();
    expect(await post(ingest, workspace.key)).toBe(503);
    expect(await post(ingest, workspace.key, env.DB)).toBe(202);
  });

  test("a key that was deactivated after the copy gets 401", async () => {
    const workspace = await used();
    await workspace.deactivate();
    expect(await post(await newIsolate(), workspace.key)).toBe(401);
  });

  test("a key that was rotated after the copy works until its overlap ends, and not longer", async () => {
    const workspace = await used();
    await rotate(workspace, "1h");
    const known = await newIsolate();
    expect(await post(known, workspace.key)).toBe(202);
    vi.setSystemTime(NOW + HOUR - 1);
    expect(await post(await newIsolate(), workspace.key)).toBe(202);
    vi.setSystemTime(NOW + HOUR);
    expect([await post(await newIsolate(), workspace.key), await post(known, workspace.key)]).toEqual([401, 401]);
  });

  test("a key keeps the end of its overlap when the rotation is repeated with a shorter one", async () => {
    const workspace = await used();
    const path = `/workspaces/${workspace.id}/keys/${workspace.key.id}/rotate`;
    const turn = (overlap: string) => askOperator("POST", path, { overlap }, { "idempotency-key": "turn" });
    expect((await turn("24h")).status).toBe(201);
    expect((await turn("1h")).status).toBe(201);
    vi.setSystemTime(NOW + 24 * 60 * MINUTE - 1);
    expect(await post(await newIsolate(), workspace.key)).toBe(202);
    vi.setSystemTime(NOW + 24 * 60 * MINUTE);
    expect(await post(await newIsolate(), workspace.key)).toBe(401);
    await workspace.settled();
  });

  test("the end that a rejected rotation took back does not hold, and no other end goes with it", async () => {
    const workspace = await used();
    vi.setSystemTime(NOW + MINUTE);
    const end = NOW + MINUTE;
    await workspace.counter.endKey(workspace.key.id, end);
    await workspace.counter.keepKey(workspace.key.id, end + 1, null);
    expect(await post(await newIsolate(), workspace.key)).toBe(401);
    expect(await post(await newIsolate(), workspace.key, env.DB), "D1 says that it goes on").toBe(202);
    expect(await workspace.counter.stateOfKey(workspace.key.id, false)).toEqual({ outcome: "active" });
    await workspace.counter.keepKey(workspace.key.id, end, null);
    expect(await post(await newIsolate(), workspace.key)).toBe(202);
  });

  test("a copy that says that the key has expired is right", async () => {
    const workspace = await newWorkspace();
    const key = await workspace.newKey({ expires_at: new Date(NOW + HOUR).toISOString() });
    expect(await post(await newIsolate(), key, env.DB)).toBe(202);
    vi.setSystemTime(NOW + HOUR);
    expect(await post(await newIsolate(), key)).toBe(401);
  });
});

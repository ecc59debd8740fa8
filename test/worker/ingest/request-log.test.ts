/** The request log: a line for each failure, a summary of the rest. All other tests log a line per request. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import { composeKey } from "../../../src/domain/keys/api-key.ts";
import worker from "../../../src/index.ts";
import { REJECTED_LOG_LINES_PER_SECOND } from "../../../src/http/request-log.ts";
import { newWorkspace, type TestKey } from "../../support/workspace.ts";

type Line = Record<string, unknown>;

/** The lines logged during the call, until the last second was summed up. */
async function logged(act: (post: Post) => Promise<unknown>, logRequests = "sums"): Promise<Line[]> {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  // A separate second, in which the clock stands still.
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10_000 });
  const contexts: ExecutionContext[] = [];
  await act(async ({ key }, body, headers = {}) => {
    const context = createExecutionContext();
    contexts.push(context);
    const request = new Request(`https://signals.example/api/signal-staging/webhook/${key}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers,
    });
    return worker.fetch(request, { ...env, LOG_REQUESTS: logRequests }, context);
  });
  vi.useRealTimers();
  await Promise.all(contexts.map((context) => waitOnExecutionContext(context)));
  const lines = log.mock.calls.map(([line]) => JSON.parse(String(line)) as Line);
  log.mockRestore();
  return lines;
}

type Post = (key: Pick<TestKey, "key">, body: unknown, headers?: Record<string, string>) => Promise<Response>;

const SIGNAL = { email: "jane@example.com", event: "E" };
const stranger = () => ({ key: composeKey((n) => crypto.getRandomValues(new Uint8Array(n))) });
const ofEvent = (lines: Line[], event: string) => lines.filter((line) => line["event"] === event);

test("logs the successful requests of a second in one line: calls, signals, the slowest", async () => {
  const { key } = await newWorkspace();
  const ids: (string | null)[] = [];
  const lines = await logged(async (post) => {
    for (const [body, ms] of [
      [SIGNAL, 3],
      [[SIGNAL, SIGNAL, { event: "" }], 7],
      [SIGNAL, 5],
    ] as const) {
      const answer = post(key, body);
      vi.setSystemTime(Date.now() + ms);
      ids.push((await answer).headers.get("x-request-id"));
    }
  });
  expect(ofEvent(lines, "request")).toEqual([]);
  const [sum, ...rest] = ofEvent(lines, "requests");
  expect(rest).toEqual([]);
  expect(sum).toMatchObject({ calls: 3, signals: 4, slowest_ms: 7, slowest_request_id: ids[1] });
});

test("sums each second up, unless it only had rejections with a line of their own", async () => {
  const { key } = await newWorkspace();
  const lines = await logged(async (post) => {
    for (const bodies of [[SIGNAL], [SIGNAL, SIGNAL], [{ event: "" }]]) {
      for (const body of bodies) await post(key, body);
      vi.setSystemTime(Date.now() + 1_000);
    }
  });
  expect(ofEvent(lines, "requests").map(({ calls, signals }) => [calls, signals])).toEqual([
    [1, 1],
    [2, 2],
  ]);
  expect(ofEvent(lines, "request")).toMatchObject([{ status: 422 }]);
});

test("logs a few rejections individually and counts the rest by code", async () => {
  const workspace = await newWorkspace();
  const guarded = await workspace.newKey({ secret: true });
  const headers = { "x-api-secret": "wrong" };
  const lines = await logged(async (post) => {
    for (let n = 0; n < 5 + 7; n++) await post(guarded, SIGNAL, headers);
    for (let n = 0; n < 2; n++) await post(workspace.key, { event: "" });
    await post({ key: "sk_nonsense" }, SIGNAL);
    await post(stranger(), SIGNAL);
  });
  const requests = ofEvent(lines, "request");
  expect(requests).toHaveLength(5);
  for (const line of requests) {
    expect(line).toMatchObject({ status: 401, code: "unauthorized", workspace: workspace.id });
  }
  expect(ofEvent(lines, "requests")).toMatchObject([{ calls: 0, rejected: { unauthorized: 9, event_missing: 2 } }]);
});

test("logs each fault individually", async () => {
  await env.DB.exec("ALTER TABLE api_keys RENAME TO gone");
  try {
    const calls = REJECTED_LOG_LINES_PER_SECOND + 3;
    const lines = await logged(async (post) => {
      for (let n = 0; n < calls; n++) expect((await post(stranger(), SIGNAL)).status).toBe(503);
    });
    expect(ofEvent(lines, "request").filter((line) => line["status"] === 503)).toHaveLength(calls);
    expect(ofEvent(lines, "error")).toHaveLength(calls);
  } finally {
    await env.DB.exec("ALTER TABLE gone RENAME TO api_keys");
  }
});

test("logs each request with LOG_REQUESTS: route, status, workspace, code, never the path", async () => {
  const workspace = await newWorkspace();
  const act = async (post: Post) => {
    await post(workspace.key, SIGNAL);
    await post(workspace.key, { email: "jane@example.com" });
  };
  const lines = ofEvent(await logged(act, "all"), "request");
  const route = "/api/signal-staging/webhook/:apiKey";
  expect(lines).toMatchObject([
    { method: "POST", route, status: 202, workspace: workspace.id, request_id: expect.stringMatching(/^req_/) },
    { method: "POST", route, status: 422, workspace: workspace.id, code: "event_missing" },
  ]);
});

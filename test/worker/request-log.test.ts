/** The request log: one line of JSON per request, and a bounded number for strangers. */
import { afterEach, expect, test, vi } from "vitest";
import { STRANGER_LOG_LINES_PER_SECOND } from "../../src/limits.ts";
import { call, newWorkspace } from "./workspace.ts";

type Line = Record<string, unknown>;

/** The lines of `event` that are logged meanwhile. */
async function logged(event: string, act: () => Promise<unknown>): Promise<Line[]> {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  await act();
  const lines = log.mock.calls.map(([line]) => JSON.parse(String(line)) as Line);
  log.mockRestore();
  return lines.filter((line) => line["event"] === event);
}

const stranger = () => call("/api/signal-staging/webhook/sk_nonsense", { method: "POST", body: "{}" });

afterEach(() => vi.useRealTimers());

test("each request of a workspace has its line: route, status, workspace, code, never the path", async () => {
  const workspace = await newWorkspace();
  const lines = await logged("request", async () => {
    await workspace.send({ email: "jane@example.com", event: "E" });
    await workspace.send({ email: "jane@example.com" });
  });
  const route = "/api/signal-staging/webhook/:apiKey";
  expect(lines).toMatchObject([
    { method: "POST", route, status: 202, workspace: workspace.id, request_id: expect.stringMatching(/^req_/) },
    { method: "POST", route, status: 422, workspace: workspace.id, code: "event_missing" },
  ]);
});

test("a flood from strangers is summed up; a workspace's calls meanwhile are not", async () => {
  const workspace = await newWorkspace();
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + 10_000);
  const lines = await logged("request", async () => {
    for (let n = 0; n < STRANGER_LOG_LINES_PER_SECOND + 7; n++) await stranger();
    await workspace.send({ email: "jane@example.com" });
  });
  expect(lines.filter((line) => line["status"] === 401)).toHaveLength(STRANGER_LOG_LINES_PER_SECOND);
  expect(lines.filter((line) => line["status"] === 422)).toHaveLength(1);

  vi.setSystemTime(Date.now() + 1_000);
  expect(await logged("requests_unlogged", stranger)).toMatchObject([{ count: 7 }]);
});

/** A workspace is one holder of a share of an isolate (src/http/workspace-share.ts): its keys, tokens and members together. */
import { env } from "cloudflare:workers";
import { gzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { readBody, SMALL_BODY_MS } from "../../../src/http/body.ts";
import {
  DOWNLOADS,
  LARGE_BODY_BYTES,
  OPEN_BODIES,
  pauseOfRejection,
  PREVIEWS,
  previews,
  SHED_FACTOR,
  turnOfLargeBody,
  turnOfPage,
} from "../../../src/http/workspace-share.ts";
import { BODY_MAX_BYTES } from "../../../src/limits.ts";
import type { AdmitCall, AdmitResult } from "../../../src/quota/protocol.ts";
import { stopClock } from "../../support/clock.ts";
import { expectLogged } from "../../support/logged.ts";
import {
  askOperator,
  call,
  newWorkspace,
  type Problem,
  type TestKey,
  type TestWorkspace,
} from "../../support/workspace.ts";

// Timers that a test moves end the calls of background work.
expectLogged("drain_failed", "rejected_calls_lost");

const GZIPPED = { "content-encoding": "gzip" };
const RATE = { perSecond: 500, burst: 1_000 };

/** A call whose body never ends. @param sent bytes that arrive. @param cancelled runs when nobody waits for more. */
function stall(
  workspace: TestWorkspace,
  key: TestKey,
  sent: Uint8Array,
  headers: Record<string, string> = {},
  cancelled: () => void = () => {},
) {
  const body = new ReadableStream({
    type: "bytes",
    start: (controller) => (sent.length > 0 ? controller.enqueue(sent.slice()) : undefined),
    cancel: cancelled,
  });
  return workspace.send(body, { key: key.key, headers, bindings: env });
}

function fakeTimers(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  onTestFinished(() => void vi.useRealTimers());
}

async function timed(work: Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work;
  return performance.now() - startedMs;
}

// Shares fill with time, and the tests share an isolate.
let minute = 0;
const MINUTE_MS = 60_000;

describe("a body that stalls", () => {
  const LATE = /Its first 262144 bytes have 30 seconds/;

  test.each([
    ["a kilobyte with a Content-Length", 1_000, { "content-length": "1001" }],
    ["16 KB with a Content-Length", 16_000, { "content-length": "16384" }],
    ["200 KB with a Content-Length", 200_000, { "content-length": "262144" }],
    ["a kilobyte without a Content-Length", 1_000, {}],
    ["200 KB without a Content-Length", 200_000, {}],
    ["nothing", 0, {}],
  ])(
    "after %s is answered after 30 seconds, with one reason, and its stream is cancelled",
    async (_, bytes, headers) => {
      const workspace = await newWorkspace();
      fakeTimers();
      let answered = false;
      const cancelled = vi.fn<() => void>();
      const sent = new Uint8Array(bytes).fill(0x20);
      const answer = stall(workspace, workspace.key, sent, headers, cancelled).then((response) => {
        answered = true;
        return response;
      });
      // The timer begins when the key is found and the first bytes are read.
      await vi.waitUntil(() => vi.getTimerCount() > 0, { timeout: 5_000 });
      await scheduler.wait(100);
      vi.advanceTimersByTime(SMALL_BODY_MS - 2_000);
      await scheduler.wait(50);
      expect(answered).toBe(false);
      expect(cancelled).not.toHaveBeenCalled();
      vi.advanceTimersByTime(3_000);
      const problem = await (await answer).json<Problem>();
      expect(problem).toMatchObject({ status: 400, code: "body_unreadable", detail: expect.stringMatching(LATE) });
      expect(cancelled).toHaveBeenCalledOnce();
    },
  );
});

describe("open bodies", () => {
  test("of a key and of a workspace are bounded; other workspaces do not notice", async () => {
    const [workspace, neighbour] = [await newWorkspace(), await newWorkspace()];
    const keys = [workspace.key, await workspace.newKey(), await workspace.newKey()];
    fakeTimers();
    let rejected = 0;
    const calls = keys.flatMap((key) =>
      Array.from({ length: OPEN_BODIES.key + 1 }, async () => {
        const answer = await stall(workspace, key, new Uint8Array(10).fill(0x20), { "content-length": "11" });
        if (answer.status === 503) rejected++;
        return answer;
      }),
    );
    const most = Math.min(keys.length * OPEN_BODIES.key, OPEN_BODIES.workspace);
    await vi.waitUntil(() => rejected === calls.length - most, { timeout: 20_000 });
    const another = await workspace.send({ event: "E" });
    expect([another.status, another.headers.get("retry-after")]).toEqual([503, "5"]);
    expect((await another.json<Problem>()).detail).toContain("whose bodies had not arrived");
    expect((await neighbour.send({ event: "E" })).status).toBe(202);
    vi.advanceTimersByTime(SMALL_BODY_MS);
    const answers = await Promise.all(calls);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(most);
    expect((await workspace.send({ event: "E" })).status).toBe(202);
  }, 60_000);
});

describe("large bodies of a workspace", () => {
  const large = `[{"event":"E"}${" ".repeat(LARGE_BODY_BYTES)}]`;

  /** Bindings whose Quota Counter answers when the test says so. */
  function heldCounter(workspace: TestWorkspace) {
    const { promise, resolve: go } = Promise.withResolvers<void>();
    let [atOnce, most] = [0, 0];
    const admit = async (admitted: AdmitCall): Promise<AdmitResult> => {
      most = Math.max(most, ++atOnce);
      await promise;
      const result = (await workspace.counter.admit(admitted)) as AdmitResult;
      atOnce--;
      return result;
    };
    const rejected = (rejectedCall: never) => workspace.counter.rejected(rejectedCall);
    const namespace = { getByName: () => ({ admit, rejected }) } as unknown as typeof env.QUOTA_COUNTER;
    return { go, most: () => most, bindings: { ...env, QUOTA_COUNTER: namespace } };
  }

  test("are worked on one at a time: some wait for their turn, more get 503", async () => {
    const workspace = await newWorkspace();
    const keys = [workspace.key, await workspace.newKey()];
    const { go, most, bindings } = heldCounter(workspace);
    let rejected = 0;
    const calls = Array.from({ length: 8 }, async (_, n) => {
      const answer = await workspace.send(large, { key: keys[n % 2]?.key ?? "", bindings });
      if (answer.status === 503) rejected++;
      return answer;
    });
    await vi.waitUntil(() => rejected === 3, { timeout: 5_000 });
    const small = await workspace.send({ event: "E" });
    expect(small.status).toBe(202);
    const neighbour = await newWorkspace();
    expect((await neighbour.send(large)).status).toBe(202);
    go();
    const answers = await Promise.all(calls);
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 202, 202, 202, 202, 503, 503, 503]);
    expect(most()).toBe(1);
    // Those that have waited leave their places to others.
    const later = await Promise.all(keys.map(({ key }) => workspace.send(large, { key })));
    expect(later.map(({ status }) => status)).toEqual([202, 202]);
  });

  test("begin one after the other in all workspaces: the next one in half of the time that one takes", async () => {
    const first = await turnOfLargeBody("first workspace", BODY_MAX_BYTES);
    const next = await timed(turnOfLargeBody("next workspace", LARGE_BODY_BYTES));
    first?.release();
    expect(next).toBeGreaterThan(300);
  });

  test("are rejected for all keys and tokens when the share of the workspace is used up, before they are unpacked", async () => {
    stopClock(Date.UTC(2032, 0, 1) + MINUTE_MS * minute++);
    const [workspace, neighbour] = [await newWorkspace(), await newWorkspace()];
    const another = await workspace.newKey();
    const { token } = await workspace.newToken(["keys"]);
    const packed = gzipSync("[".repeat(8 * 1024 * 1024));
    const path = "/api/signal-staging/bulk/{key}";
    const send = (key: TestKey) => workspace.send(packed, { path, key: key.key, headers: GZIPPED });
    const statuses: number[] = [];
    for (let n = 0; n < 8; n++) statuses.push((await send(n % 2 === 0 ? workspace.key : another)).status);
    expect(statuses.filter((status) => status === 422).length).toBeLessThanOrEqual(5);
    expect(statuses.slice(-2)).toEqual([429, 429]);
    const rejected = await askOperator(
      "POST",
      `/workspaces/${workspace.id}/accounts/preview`,
      `{"payload":"${"x".repeat(100_000)}"}`,
      { authorization: `Bearer ${token}` },
    );
    expect([rejected.status, rejected.body["code"]]).toEqual([429, "rate_limited"]);
    expect((await workspace.send({ event: "small" })).status).toBe(202);
    expect((await neighbour.send(packed, { path, headers: GZIPPED })).status).toBe(422);
  });

  test("of several gzip members are read whole, although the last declares less", async () => {
    const workspace = await newWorkspace();
    const signals = Array.from({ length: 500 }, (_, n) => `{"event":"E","n":${n},"pad":"${"x".repeat(1_000)}"}\n`);
    const members = [signals.slice(0, 499), signals.slice(499)].map((part) => gzipSync(part.join("")));
    const answer = await workspace.send(new Uint8Array(Buffer.concat(members)), {
      path: "/api/signal-staging/bulk/{key}",
      headers: GZIPPED,
    });
    expect(answer.status).toBe(202);
    expect(await answer.json()).toMatchObject({ accepted: 500 });
  });

  test("are charged by their real size if the declared size is wrong", async () => {
    stopClock(Date.UTC(2032, 0, 1) + MINUTE_MS * minute++);
    const read = async (body: Uint8Array, holder: string) => {
      const request = new Request("https://signals.example", { method: "POST", headers: GZIPPED, body });
      return readBody(request, { maxBytes: BODY_MAX_BYTES, holder, rate: RATE });
    };
    const bomb = gzipSync(" ".repeat(BODY_MAX_BYTES + 1));
    const lying = Buffer.concat([bomb, gzipSync("x")]);
    const codes: string[] = [];
    for (let n = 0; n < 4; n++) {
      const result = await read(new Uint8Array(lying), "liar");
      codes.push(result.ok ? "ok" : result.rejection.code);
    }
    expect(codes).toEqual(["body_too_large", "rate_limited", "rate_limited", "rate_limited"]);
  });
});

test("the calls of all keys of a workspace share an isolate's limit", async () => {
  stopClock(Date.UTC(2032, 0, 1) + MINUTE_MS * minute++);
  const workspace = await newWorkspace();
  const neighbour = await newWorkspace();
  const keys = [workspace.key, ...(await Promise.all([workspace.newKey(), workspace.newKey()]))];
  const bindings = { ...env, REQUEST_RATE_PER_SECOND: "5", REQUEST_BURST: "5" } as unknown as Env;
  for (let n = 0; n < SHED_FACTOR * 5; n++) {
    const { key } = keys[n % 3] ?? workspace.key;
    expect((await workspace.send({ event: "E" }, { key, bindings })).status).toBe(202);
  }
  // A key that has sent nothing is rejected by the isolate.
  const fresh = await workspace.newKey();
  expect((await workspace.send({ event: "E" }, { key: fresh.key, bindings })).status).toBe(429);
  expect((await neighbour.send({ event: "E" }, { bindings })).status).toBe(202);
});

describe("pages and API calls of a workspace", () => {
  test("share a limit among all tokens: calls wait for their turn, and some are rejected", async () => {
    const [workspace, neighbour] = [await newWorkspace(), await newWorkspace()];
    const tokens = await Promise.all(Array.from({ length: 6 }, () => workspace.newToken(["read"])));
    const neighbours = await neighbour.newToken(["read"]);
    const all = tokens.flatMap((token) => Array.from({ length: 65 }, () => workspace.askWith(token, "GET", "/usage")));
    // Others do not wait behind them.
    const others = await Promise.all([
      neighbour.askWith(neighbours, "GET", "/usage"),
      workspace.ask("GET", "/usage"),
      Promise.race(all),
    ]);
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200]);
    const answers = await Promise.all(all);
    const rejected = answers.filter(({ status }) => status === 429);
    // A hundred at once, and those that wait for at most five seconds.
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(330);
    expect(rejected.length).toBeGreaterThanOrEqual(10);
    for (const { body, headers } of rejected) {
      expect(body["code"]).toBe("rate_limited");
      expect(Number(headers.get("retry-after"))).toBeGreaterThanOrEqual(5);
    }
  });

  test("count in units of a page; a call that would wait longer than five seconds is rejected after a pause", async () => {
    expect(await turnOfPage("a workspace of units", 400)).toBe(0);
    const rejected = turnOfPage("a workspace of units");
    expect(await timed(rejected)).toBeGreaterThan(240);
    expect(await rejected).toBeGreaterThan(5_000);
  });

  test("previews of rules have few places", async () => {
    const workspace = await newWorkspace();
    const rule = { name: "r", event: "E", scoring_signal: "s", points: 1 };
    const places = Array.from({ length: PREVIEWS.each }, () => previews.begin(workspace.id, Date.now(), 1_000));
    const rejected = await workspace.ask("POST", "/rules/preview", rule);
    expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, "2"]);
    for (const place of places) place?.release();
    for (let n = 0; n < 2 * PREVIEWS.each; n++)
      expect((await workspace.ask("POST", "/rules/preview", rule)).status).toBe(200);
  });
});

describe("callers who repeat their calls at once", () => {
  test("wait for a rejection, the longer the more of them wait", async () => {
    expect(await timed(pauseOfRejection("alone"))).toBeGreaterThan(240);
    const waits = await Promise.all(Array.from({ length: 200 }, (_, n) => timed(pauseOfRejection(`caller ${n % 3}`))));
    expect(waits[0]).toBeLessThan(600);
    expect(waits.at(-1)).toBeGreaterThan(600);
    expect(await timed(pauseOfRejection("alone"))).toBeLessThan(600);
    // A body that is rejected for the share of its workspace.
    stopClock(Date.UTC(2032, 0, 1) + MINUTE_MS * minute++);
    const workspace = await newWorkspace();
    const send = () => workspace.send(gzipSync("[".repeat(8 * 1024 * 1024)), { headers: GZIPPED });
    await send();
    expect(await timed(send())).toBeGreaterThan(240);
  });

  test("are delayed if they are strangers, and never rejected; others are not delayed", async () => {
    const workspace = await newWorkspace();
    const strangers = Array.from({ length: 500 }, () => call("/sign-in"));
    const known = workspace.ask("GET", "/usage");
    const tookMs = await timed(Promise.all(strangers));
    const statuses = new Set((await Promise.all(strangers)).map(({ status }) => status));
    expect(statuses).toEqual(new Set([200]));
    // A hundred beyond those that may come at once, two hundred a second.
    expect(tookMs).toBeGreaterThan(400);
    expect((await known).status).toBe(200);
  });
});

describe("downloads", () => {
  const exportPath = (workspace: TestWorkspace) => `/operator/workspaces/${workspace.id}/export/signals`;
  const download = (workspace: TestWorkspace) =>
    call(exportPath(workspace), { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } });

  test("of a workspace are bounded until their readers take them", async () => {
    const workspace = await newWorkspace();
    await workspace.send({ event: "E", email: "a@example.com" });
    await workspace.settled();
    const open = await Promise.all(Array.from({ length: DOWNLOADS.each }, () => download(workspace)));
    expect(open.map(({ status }) => status)).toEqual(Array(DOWNLOADS.each).fill(200));
    const rejected = await download(workspace);
    expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, "10"]);
    await rejected.body?.cancel();
    for (const answer of open) {
      expect(await answer.text()).toContain('"event":"E"');
      const again = await download(workspace);
      expect(again.status).toBe(200);
      await again.text();
    }
  });
});

/** Spec §8.7: a large body counts as several requests, at the counter and at the edge, also if it is rejected. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { BODY_MAX_BYTES } from "../../../src/limits.ts";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { stopClock } from "../../support/clock.ts";
import { call, gzip, newWorkspace, type BatchAnswer, type Problem } from "../../support/workspace.ts";

const BULK = "/api/signal-staging/bulk/{key}";
const GZIPPED = { "content-encoding": "gzip" };
const KB = 1_024;

const left = (response: Response) =>
  Number(/"request-rate";r=(\d+)/.exec(response.headers.get("ratelimit") ?? "")?.[1]);

// Buckets and shares fill with time, and the tests share an isolate.
let hour = 0;
beforeEach(() => stopClock(Date.UTC(2031, 4, 20, hour++)));

describe("a body counts as one request for each started 32 KB", () => {
  const space = (start: string, end: string) => (bytes: number) =>
    `${start}${" ".repeat(bytes - start.length - end.length)}${end}`;

  test.each([
    ["an array", space('[{"event":"e"}', "]"), 202],
    ["a batch", space('{"batch":[{"event":"e"}', "]}"), 202],
    ["lines", space('{"event":"e"}\n', '{"event":"e"}'), 202],
    ["a body that is no JSON", space('[{"event":"e"}', "}"), 400],
    ["too many signals", (bytes: number) => `[${"1,".repeat(bytes / 2 - 2)}1`.padEnd(bytes - 1) + "]", 413],
    ["a signal that is too deep", (bytes: number) => "[".repeat(bytes), 422],
  ])("%s, by its decompressed length, plain, as gzip or chunked", async (_, make, status) => {
    for (const [kilobytes, requests] of [
      [32, 1],
      [33, 2],
      [320, 10],
    ] as const) {
      const workspace = await newWorkspace();
      const body = make(kilobytes * KB);
      expect(body).toHaveLength(kilobytes * KB);
      const plain = await workspace.send(body, { path: BULK });
      expect([plain.status, left(plain)]).toEqual([status, 1_000 - requests]);
      const packed = await workspace.send(await gzip(body), { path: BULK, headers: GZIPPED });
      expect([packed.status, left(packed)]).toEqual([status, 1_000 - 2 * requests]);
      const stream = new Blob([body]).stream();
      const chunked = await call(BULK.replace("{key}", workspace.key.key), { method: "POST", body: stream });
      expect([chunked.status, left(chunked)]).toEqual([status, 1_000 - 3 * requests]);
    }
  });

  test("also for account data", async () => {
    const template = [{ target: "external_id", path: "id", type: "string" }];
    const workspace = await newWorkspace({ key: { endpoint_type: "product_org", payload_template: template } });
    const path = "/api/product-orgs/webhook/{key}";
    const good = await workspace.send(`[{"id":"1"}${" ".repeat(320 * KB - 12)}]`, { path });
    expect([good.status, left(good)]).toEqual([202, 990]);
    const rejected = await workspace.send(" ".repeat(320 * KB), { path });
    expect([rejected.status, left(rejected)]).toEqual([400, 980]);
  });

  test("also if rejected, by its unpacked bytes", async () => {
    const workspace = await newWorkspace();
    const rejected = await workspace.send(await gzip(" ".repeat(BODY_MAX_BYTES + 1)), { path: BULK, headers: GZIPPED });
    expect([rejected.status, left(rejected)]).toEqual([413, 1_000 - 256]);
  });
});

test("charges a gzip body with a broken end for the bytes before the error", async () => {
  const workspace = await newWorkspace();
  const packed = await gzip(" ".repeat(1_000_000));
  const lastOfChecksum = packed.length - 5;
  packed[lastOfChecksum] = (packed[lastOfChecksum] ?? 0) ^ 1;
  const rejected = await workspace.send(packed, { path: BULK, headers: GZIPPED });
  expect([rejected.status, left(rejected)]).toEqual([400, expect.any(Number)]);
  expect(left(rejected)).toBeLessThanOrEqual(1_000 - 31);
  const noGzip = await workspace.send(" ".repeat(10_000), { path: BULK, headers: GZIPPED });
  expect([noGzip.status, left(noGzip)]).toEqual([400, left(rejected) - 1]);
});

test("counts a body with many small signals as one request per started 100 of them", async () => {
  const workspace = await newWorkspace();
  for (const [signals, total] of [
    [100, 1],
    [101, 3],
    [1_000, 13],
  ] as const) {
    const answer = await workspace.send(`[${Array(signals).fill("1").join(",")}]`, { path: BULK });
    expect([answer.status, left(answer)]).toEqual([422, 1_000 - total]);
  }
});

test("limits the mapping steps of all account updates of a body and rejects only the excess", async () => {
  const template = [
    { target: "external_id", path: "id", type: "string" },
    ...Array.from({ length: 99 }, (_, n) => ({ target: `attributes.a${n}`, path: `list[].a${n}`, type: "json" })),
  ];
  const workspace = await newWorkspace({ key: { endpoint_type: "product_org", payload_template: template } });
  const update = (n: number): string => `{"id":"account ${n}","list":[${"0,".repeat(989)}0]}`;
  const body = `[${Array.from({ length: 400 }, (_, n) => update(n)).join(",")}]`;
  const answer = await workspace.send(body, { path: "/api/product-orgs/webhook/{key}" });
  const { accepted, rejected, results } = await answer.json<BatchAnswer>();
  expect(answer.status).toBe(202);
  expect(accepted).toBeGreaterThan(50);
  expect(accepted + rejected).toBe(400);
  expect(results.at(-1)).toMatchObject({ code: "template_mismatch", detail: expect.stringContaining("send fewer") });
});

describe("many large bodies of one key", () => {
  test("get 429 beyond the share of the workspace; small calls and other workspaces do not", async () => {
    const [workspace, otherWorkspace] = [await newWorkspace(), await newWorkspace()];
    const packed = await gzip("[".repeat(BODY_MAX_BYTES));
    const send = () => workspace.send(packed, { path: BULK, headers: GZIPPED });
    expect((await send()).status).toBe(422);
    const rejected = await send();
    expect([rejected.status, rejected.headers.get("retry-after")]).toEqual([429, "1"]);
    expect((await rejected.json<Problem>()).code).toBe("rate_limited");
    expect((await workspace.send({ event: "small" })).status).toBe(202);
    expect((await otherWorkspace.send(packed, { path: BULK, headers: GZIPPED })).status).toBe(422);
    vi.setSystemTime(Date.now() + 5_000);
    expect((await send()).status).toBe(422);
  });

  test("sent concurrently are not parsed beyond the rate, and the rejection states their number of requests", async () => {
    const workspace = await newWorkspace();
    const packed = await gzip("[".repeat(BODY_MAX_BYTES));
    const rejected = vi.spyOn(QuotaCounter.prototype, "rejected");
    // All calls pass the isolate's first check of the rate before a body arrives; then the bodies arrive one by one.
    let waiting = 0;
    const calls = Array.from({ length: 6 }, () => {
      const { promise: bodyComes, resolve: send } = Promise.withResolvers<void>();
      const body = new ReadableStream({
        type: "bytes",
        async pull(controller) {
          waiting++;
          await bodyComes;
          controller.enqueue(packed.slice());
          controller.close();
        },
      });
      return { send, answer: workspace.send(body, { path: BULK, headers: GZIPPED, bindings: env }) };
    });
    await vi.waitUntil(() => waiting === calls.length);
    const answers: Response[] = [];
    for (const { send, answer } of calls) {
      send();
      answers.push(await answer);
    }
    expect(answers.map(({ status }) => status)).toEqual([422, 429, 429, 429, 429, 429]);
    // The isolate rejects calls beyond the share. One of them asks whether the key is active.
    expect(rejected).toHaveBeenCalledTimes(2);
    rejected.mockRestore();
    const tooFast = answers.filter(({ status }) => status === 429);
    const problems = await Promise.all(tooFast.map((answer) => answer.json<Problem>()));
    const detail = expect.stringMatching(/this body counts as 256 requests, one for each started 32 KB or 100 signals/);
    expect(problems).toContainEqual(expect.objectContaining({ code: "rate_limited", detail }));
  });

  test("pass a burst that is smaller than their number of requests", async () => {
    const workspace = await newWorkspace();
    const body = `[{"event":"e"}${" ".repeat(BODY_MAX_BYTES - 20)}]`;
    const bindings = { ...env, REQUEST_RATE_PER_SECOND: "5", REQUEST_BURST: "10" } as unknown as Env;
    expect((await workspace.send(body, { path: BULK, bindings })).status).toBe(202);
    expect((await workspace.send({ event: "next" }, { bindings })).status).toBe(202);
  });
});

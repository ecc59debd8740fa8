/** Design §7a: a fault in the middle of a large body, which is admitted in slices. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import worker from "../../../src/index.ts";
import { ADMIT_SLICE_MAX_BYTES } from "../../../src/ingest/admit.ts";
import { BATCH_MAX_SIGNALS, BULK_MAX_SIGNALS } from "../../../src/limits.ts";
import type { AdmitCall, AdmitChunk, AdmitResult } from "../../../src/quota/protocol.ts";
import { newWorkspace } from "../../support/workspace.ts";
import type { BatchAnswer, Problem, TestWorkspace } from "../../support/workspace.ts";

const COUNT = 60;
const PADDING = "x".repeat(40_000);
/** Five slices. */
const body = (extra: (n: number) => Record<string, unknown> = () => ({})) =>
  Array.from({ length: COUNT }, (_, n) => ({ email: `p${n}@example.com`, event: "E", padding: PADDING, ...extra(n) }));
const withIds = () => body((n) => ({ messageId: `m${n}` }));

type Admit = (call: AdmitCall) => Promise<AdmitResult>;

/** A call whose `n`th slice, from 1, meets `fault` instead of the counter. */
function send(
  workspace: TestWorkspace,
  signals: unknown[],
  {
    slice,
    fault,
    headers = {},
    source = "",
  }: { slice: number; fault: Admit; headers?: Record<string, string>; source?: string },
): Promise<Response> {
  let calls = 0;
  const admit: Admit = (call) => {
    if (call.firstSlice) calls = 0;
    return ++calls >= slice ? fault(call) : (workspace.counter.admit(call) as Promise<AdmitResult>);
  };
  const namespace = { getByName: () => ({ admit }) } as unknown as typeof env.QUOTA_COUNTER;
  const path =
    source === "" ? `bulk/${workspace.key.key}` : `webhook/${encodeURIComponent(source)}/${workspace.key.key}`;
  const request = new Request(`https://signals.example/api/signal-staging/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(signals),
  });
  return worker.fetch(request, { ...env, QUOTA_COUNTER: namespace }, createExecutionContext());
}

const down: Admit = () => Promise.reject(new Error("the counter does not answer"));
const deactivated: Admit = () => Promise.resolve({ outcome: "key_deactivated" });

function tally(results: { status: string; code?: string }[] = []): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status, code = status } of results) counts[code] = (counts[code] ?? 0) + 1;
  return counts;
}

describe("a large body", () => {
  test.each([
    ["large signals", body(), "", {}],
    [
      "many small signals with a long Idempotency-Key and a long source",
      undefined,
      "€".repeat(255),
      { "idempotency-key": '"'.repeat(255) },
    ],
    ["many small signals with neither", undefined, "", {}],
  ])("of %s is admitted in slices of at most 500 KB, as they are written", async (_, large, source, headers) => {
    const workspace = await newWorkspace({ signalLimit: 100_000 });
    const signals =
      large ?? Array.from({ length: source === "" ? BULK_MAX_SIGNALS : BATCH_MAX_SIGNALS }, () => ({ event: "E" }));
    const slices: { bytes: number; written: number; signals: number }[] = [];
    const record: Admit = ({ chunks }) => {
      const sum = (of: (chunk: AdmitChunk) => number) => chunks.reduce((all, chunk) => all + of(chunk), 0);
      const [bytes, count] = [sum((chunk) => chunk.bytes), sum((chunk) => chunk.count)];
      slices.push({ bytes, written: sum(({ text }) => Buffer.byteLength(text)), signals: count });
      const verdicts = { accepted: count, held: 0, rejected: 0, refusal: null };
      const period = { remaining: null, ceiling: null, periodEndMs: 0 };
      const rate = { remaining: 1, resetMs: 1 };
      return Promise.resolve({ outcome: "counted", ...verdicts, rate, period, configVersion: 1 });
    };
    const answer = await send(workspace, signals, { slice: 1, fault: record, headers, source });
    expect(answer.status).toBe(202);
    expect(slices.reduce((all, slice) => all + slice.signals, 0)).toBe(signals.length);
    for (const { bytes, written } of slices) {
      expect(written).toBeLessThanOrEqual(bytes);
      expect(bytes).toBeLessThanOrEqual(ADMIT_SLICE_MAX_BYTES);
    }
    // The minimum number of slices.
    for (const { written } of slices.slice(0, -1)) expect(written).toBeGreaterThan(0.9 * ADMIT_SLICE_MAX_BYTES);
  });
});

describe("answers 503 with Retry-After and the results so far if a call breaks off and repeating it is harmless", () => {
  test.each([
    ["each signal has an id of its own", withIds(), {}],
    ["the call has an Idempotency-Key", body(), { "idempotency-key": "once" }],
  ])(
    "as when %s; sent again, everything is stored once",
    async (_, signals, headers) => {
      const workspace = await newWorkspace();
      const broken = await send(workspace, signals, { slice: 2, fault: down, headers });
      expect(broken.status).toBe(503);
      expect(Number(broken.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(broken.headers.get("ratelimit")).toContain("request-rate");
      const problem = await broken.json<Problem & { accepted: number; rejected: number }>();
      expect(problem).toMatchObject({ code: "unavailable", detail: expect.stringContaining("same request again") });
      const { accepted = 0, unavailable = 0 } = tally(problem.results);
      expect([accepted, unavailable]).toEqual([problem.accepted, problem.rejected]);
      expect(Math.min(accepted, unavailable)).toBeGreaterThan(10);
      expect(accepted + unavailable).toBe(COUNT);
      expect((await workspace.counter.books()).admitted).toBe(accepted);

      const path = "/api/signal-staging/bulk/{key}";
      const again = await workspace.send(signals, { path, headers });
      expect(await again.json()).toMatchObject({ status: "accepted", accepted: COUNT });
      const books = await workspace.settled();
      expect(books).toMatchObject({
        accepted: COUNT + accepted,
        processed: COUNT,
        duplicates: accepted,
        balanced: true,
      });
    },
    30_000,
  );

  test("and does so for account updates", async () => {
    const template = [{ target: "external_id", path: "id", type: "string" }];
    const workspace = await newWorkspace({
      key: { endpoint_type: "product_org", payload_template: template },
    });
    const updates = Array.from({ length: COUNT }, (_, n) => ({ id: `acme-${n}`, padding: PADDING }));
    let calls = 0;
    const admit: Admit = (call) => (++calls > 1 ? down(call) : (workspace.counter.admit(call) as Promise<AdmitResult>));
    const namespace = { getByName: () => ({ admit }) } as unknown as typeof env.QUOTA_COUNTER;
    const request = new Request(`https://signals.example/api/product-orgs/webhook/${workspace.key.key}`, {
      method: "POST",
      body: JSON.stringify(updates),
    });
    const answer = await worker.fetch(request, { ...env, QUOTA_COUNTER: namespace }, createExecutionContext());
    expect(answer.status).toBe(503);
    expect(tally((await answer.json<Problem>()).results)).toMatchObject({ accepted: expect.any(Number) });
  });
});

describe("a call that breaks off and must not be repeated as a whole", () => {
  test.each([
    ["no signal has an id", body()],
    ["a signal that was stored has no id", body((n) => (n === 3 ? {} : { id: `m${n}` }))],
  ])("as when %s, is 202 partial, and its items say unavailable", async (_, signals) => {
    const workspace = await newWorkspace();
    const answer = await send(workspace, signals, { slice: 2, fault: down });
    expect(answer.status).toBe(202);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    const { status, results, accepted } = await answer.json<BatchAnswer>();
    expect([status, tally(results)]).toEqual(["partial", { accepted, unavailable: COUNT - accepted }]);
    expect((await workspace.counter.books()).admitted).toBe(accepted);
  });

  test("reports per item, depending only on the stored signals", async () => {
    const workspace = await newWorkspace();
    const without = await send(
      workspace,
      body((n) => (n < 59 ? { id: `m${n}` } : {})),
      { slice: 2, fault: down },
    );
    expect(without.status).toBe(503);
    const only = await send(
      workspace,
      body((n) => (n === 59 ? { id: `m${n}` } : {})),
      { slice: 2, fault: down },
    );
    expect(only.status).toBe(202);
  });
});

test("answers 503 and stores nothing after a fault before the first slice", async () => {
  const workspace = await newWorkspace();
  const answer = await send(workspace, body(), { slice: 1, fault: down });
  expect(answer.status).toBe(503);
  expect(await answer.json<Problem>()).not.toHaveProperty("results");
  expect((await workspace.counter.books()).admitted).toBe(0);
});

test("answers no 202 for invalid signals in the first slice if nothing could be stored", async () => {
  const workspace = await newWorkspace();
  const signals = body((n) => (n < 30 ? { event: "" } : {}));
  expect((await send(workspace, signals, { slice: 2, fault: down })).status).toBe(503);
  expect((await send(workspace, signals, { slice: 2, fault: deactivated })).status).toBe(401);
});

test("reports a key that is deactivated during the call per item instead of as unavailable", async () => {
  const workspace = await newWorkspace();
  const answer = await send(workspace, withIds(), { slice: 2, fault: deactivated });
  expect(answer.status).toBe(202);
  expect(answer.headers.get("retry-after")).toBeNull();
  const { status, results, accepted } = await answer.json<BatchAnswer>();
  expect([status, tally(results)]).toEqual(["partial", { accepted, unauthorized: COUNT - accepted }]);
});

/** Design §7a: a fault in the middle of a large body, which is admitted in slices. */
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { NO_VERDICTS } from "../../../src/domain/quota/quota.ts";
import { ADMIT_SLICE_MAX_BYTES } from "../../../src/ingest/admit.ts";
import { BATCH_MAX_SIGNALS, BULK_MAX_SIGNALS } from "../../../src/limits.ts";
import type { AdmitCall, AdmitChunk, AdmitResult } from "../../../src/quota/protocol.ts";
import { newWorkspace, type BatchAnswer, type Problem, type TestWorkspace } from "../../support/workspace.ts";

const COUNT = 60;
const PADDING = "x".repeat(40_000);
const body = (extra: (n: number) => Record<string, unknown> = () => ({})) =>
  Array.from({ length: COUNT }, (_, n) => ({ email: `p${n}@example.com`, event: "E", padding: PADDING, ...extra(n) }));
const withIds = () => body((n) => ({ messageId: `m${n}` }));

type Admit = (call: AdmitCall) => Promise<AdmitResult>;

/** A call whose `slice`th slice, from 1, and all later ones meet `fault` instead of the counter. */
function send(
  workspace: TestWorkspace,
  signals: unknown[],
  slice: number,
  fault: Admit,
  { headers = {}, path = "/api/signal-staging/bulk/{key}" }: { headers?: Record<string, string>; path?: string } = {},
): Promise<Response> {
  let calls = 0;
  const admit: Admit = (call) => {
    if (call.firstSlice) calls = 0;
    return ++calls >= slice ? fault(call) : (workspace.counter.admit(call) as Promise<AdmitResult>);
  };
  const namespace = { getByName: () => ({ admit }) } as unknown as typeof env.QUOTA_COUNTER;
  return workspace.send(signals, { path, headers, bindings: { ...env, QUOTA_COUNTER: namespace } });
}

const down: Admit = () => Promise.reject(new Error("the counter does not answer"));
const deactivated: Admit = () => Promise.resolve({ outcome: "key_deactivated" });

function tally(results: { status: string; code?: string }[] = []): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status, code = status } of results) counts[code] = (counts[code] ?? 0) + 1;
  return counts;
}

const small = (count: number) => Array.from({ length: count }, () => ({ event: "E" }));
const FROM_SOURCE = `/api/signal-staging/webhook/${encodeURIComponent("€".repeat(255))}/{key}`;

test.each([
  ["large signals", body(), {}],
  ["many small signals", small(BULK_MAX_SIGNALS), {}],
  [
    "many small signals with a long Idempotency-Key and a long source",
    small(BATCH_MAX_SIGNALS),
    { headers: { "idempotency-key": '"'.repeat(255) }, path: FROM_SOURCE },
  ],
])("admits a body of %s in slices of at most 500 KB, as they are written", async (_, signals, options) => {
  const workspace = await newWorkspace({ signalLimit: 100_000 });
  const slices: { bytes: number; written: number; signals: number }[] = [];
  const record: Admit = ({ chunks }) => {
    const sum = (of: (chunk: AdmitChunk) => number) => chunks.reduce((all, chunk) => all + of(chunk), 0);
    const [bytes, count] = [sum((chunk) => chunk.bytes), sum((chunk) => chunk.count)];
    slices.push({ bytes, written: sum(({ text }) => Buffer.byteLength(text)), signals: count });
    const verdicts = { ...NO_VERDICTS, accepted: count, refusal: null };
    const period = { remaining: null, ceiling: null, periodEndMs: 0 };
    const rate = { remaining: 1, resetMs: 1 };
    return Promise.resolve({ outcome: "counted", ...verdicts, rate, period, configVersion: 1 });
  };
  expect((await send(workspace, signals, 1, record, options)).status).toBe(202);
  expect(slices.reduce((all, slice) => all + slice.signals, 0)).toBe(signals.length);
  for (const { bytes, written } of slices) {
    expect(written).toBeLessThanOrEqual(bytes);
    expect(bytes).toBeLessThanOrEqual(ADMIT_SLICE_MAX_BYTES);
  }
  for (const { written } of slices.slice(0, -1)) expect(written).toBeGreaterThan(0.9 * ADMIT_SLICE_MAX_BYTES);
});

describe("a call that breaks off after some slices", () => {
  test.each([
    ["each signal has an id", withIds(), {}],
    ["the call has an Idempotency-Key", body(), { "idempotency-key": "once" }],
  ])(
    "is a 503 with the results so far if %s, and can be sent again",
    async (_, signals, headers) => {
      const workspace = await newWorkspace();
      const broken = await send(workspace, signals, 2, down, { headers });
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

      const again = await workspace.send(signals, { path: "/api/signal-staging/bulk/{key}", headers });
      expect(await again.json()).toMatchObject({ status: "accepted", accepted: COUNT });
      const counts = { accepted: COUNT + accepted, processed: COUNT, duplicates: accepted, balanced: true };
      expect(await workspace.settled()).toMatchObject(counts);
    },
    30_000,
  );

  test("is a 503 for account updates, which replace each other", async () => {
    // A signal with an `id` could be repeated too.
    const template = [{ target: "external_id", path: "account", type: "string" }];
    const workspace = await newWorkspace({ key: { endpoint_type: "product_org", payload_template: template } });
    const updates = Array.from({ length: COUNT }, (_, n) => ({ account: `acme-${n}`, padding: PADDING }));
    const answer = await send(workspace, updates, 2, down, { path: "/api/product-orgs/webhook/{key}" });
    expect(answer.status).toBe(503);
    expect(tally((await answer.json<Problem>()).results)).toMatchObject({ accepted: expect.any(Number) });
  });

  test.each([
    ["no signal has an id", body()],
    ["a stored signal has no id", body((n) => (n === 3 ? {} : { id: `m${n}` }))],
    ["only a signal that was not stored has an id", body((n) => (n === 59 ? { id: `m${n}` } : {}))],
  ])("is a 202 that names the unavailable signals if %s", async (_, signals) => {
    const workspace = await newWorkspace();
    const answer = await send(workspace, signals, 2, down);
    expect(answer.status).toBe(202);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    const { status, results, accepted } = await answer.json<BatchAnswer>();
    expect([status, tally(results)]).toEqual(["partial", { accepted, unavailable: COUNT - accepted }]);
    expect((await workspace.counter.books()).admitted).toBe(accepted);
  });

  test("is a 503 if only a signal that was not stored has no id", async () => {
    const signals = body((n) => (n < 59 ? { id: `m${n}` } : {}));
    expect((await send(await newWorkspace(), signals, 2, down)).status).toBe(503);
  });

  test("is a 202 with the kept signals if the quota refused all of a later slice", async () => {
    const answer = await send(await newWorkspace({ signalLimit: 5 }), body(), 3, down);
    expect(answer.status).toBe(202);
    expect(await answer.json()).toMatchObject({ status: "partial", accepted: 5, held: 5 });
  });

  test("is a 202 that names the unauthorized signals if the key was deactivated meanwhile", async () => {
    const answer = await send(await newWorkspace(), withIds(), 2, deactivated);
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([202, null]);
    const { status, results, accepted } = await answer.json<BatchAnswer>();
    expect([status, tally(results)]).toEqual(["partial", { accepted, unauthorized: COUNT - accepted }]);
  });
});

describe("a call that breaks off before a signal is stored", () => {
  test("is a 503 without results", async () => {
    const workspace = await newWorkspace();
    const answer = await send(workspace, body(), 1, down);
    expect(answer.status).toBe(503);
    expect(await answer.json<Problem>()).not.toHaveProperty("results");
    expect((await workspace.counter.books()).admitted).toBe(0);
  });

  test("is no 202 for the invalid signals of its first slice", async () => {
    const workspace = await newWorkspace();
    const signals = body((n) => (n < 30 ? { event: "" } : {}));
    expect((await send(workspace, signals, 2, down)).status).toBe(503);
    expect((await send(workspace, signals, 2, deactivated)).status).toBe(401);
  });
});

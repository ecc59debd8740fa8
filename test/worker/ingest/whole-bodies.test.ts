/** Design §7: a body is admitted as a whole, in one commit or not at all. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS, MESSAGE_MAX_BYTES } from "../../../src/limits.ts";
import type { AdmitCall, AdmitResult } from "../../../src/quota/protocol.ts";
import { TestCounter, lose } from "../../support/counter.ts";
import { LARGEST_BODIES } from "../../support/largest-bodies.ts";
import { expectLogged } from "../../support/logged.ts";
import { gzip, newWorkspace, type BatchAnswer, type Problem, type TestWorkspace } from "../../support/workspace.ts";

const BULK = "/api/signal-staging/bulk/{key}";
/** Some forty outbox rows. */
const COUNT = 2_000;
const PADDING = "x".repeat(1_000);

const body = (extra: (n: number) => object = () => ({})) =>
  Array.from({ length: COUNT }, (_, n) => ({
    email: `p${n % 50}@example.com`,
    event: "E",
    n,
    padding: PADDING,
    ...extra(n),
  }));

type Admit = (call: AdmitCall) => Promise<AdmitResult>;

/** A call whose Quota Counter is reached through `admit`. */
function sendThrough(workspace: TestWorkspace, admit: Admit, signals: unknown, headers: Record<string, string> = {}) {
  const namespace = { getByName: () => ({ admit }) } as unknown as typeof env.QUOTA_COUNTER;
  return workspace.send(signals, { path: BULK, headers, bindings: { ...env, QUOTA_COUNTER: namespace } });
}

/** Calls `onRow` with each row that the counter inserts, from 1, before it is inserted. */
async function atEachRow(workspace: TestWorkspace, onRow: (nth: number, state: DurableObjectState) => void) {
  await runInDurableObject(workspace.counter, (_, state) => {
    const { sql } = state.storage;
    const exec = sql.exec.bind(sql);
    let rows = 0;
    sql.exec = ((query: string, ...bindings: unknown[]) => {
      if (query.startsWith("INSERT INTO outbox")) onRow(++rows, state);
      return exec(query, ...bindings);
    }) as typeof sql.exec;
  });
}

describe("a body of the largest kind is admitted in one commit, and arrives as sent", () => {
  test.each(LARGEST_BODIES)("$title", async ({ signals, source, idempotencyKey, gzip: isGzip }) => {
    const workspace = await newWorkspace({ signalLimit: 2 * BODY_MAX_SIGNALS });
    const counter = new TestCounter(workspace.id);
    await counter.sendTo(lose);
    const texts = signals();
    const text = `[${texts.join(",")}]`;
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(BODY_MAX_BYTES);
    const answer = await workspace.send(isGzip === true ? await gzip(text) : text, {
      path: source === undefined ? BULK : `/api/signal-staging/webhook/${encodeURIComponent(source)}/{key}`,
      headers: {
        ...(isGzip && { "content-encoding": "gzip" }),
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
    });
    expect(answer.status).toBe(202);
    const { accepted, results } = await answer.json<BatchAnswer>();
    expect(accepted).toBe(texts.length);

    const rows = await counter.admittedInRows();
    // Rows of one commit have the same count of admitted signals.
    expect([
      new Set(rows.map(({ admitted }) => admitted)).size,
      rows.reduce((sum, { count }) => sum + count, 0),
    ]).toEqual([1, texts.length]);
    expect(Math.max(...rows.map(({ bytes }) => bytes))).toBeLessThanOrEqual(MESSAGE_MAX_BYTES);
    // Each row repeats what the signals share.
    const shared = Buffer.byteLength(source ?? "") + (idempotencyKey?.length ?? 0) + 500;
    const size = rows.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(size).toBeLessThan(Buffer.byteLength(text) + 50 * texts.length + shared * rows.length);
    const arrived = await counter.unsettled();
    expect(arrived.map(({ payload }) => payload)).toEqual(texts);
    expect(arrived.map(({ id }) => id)).toEqual(results.map(({ id }) => id));
    expect(arrived.map(({ ordinal }) => ordinal)).toEqual(texts.map((_, n) => n + 1));
    expect(arrived.at(-1)).toMatchObject({
      ...(source !== undefined && { pathSource: source }),
      ...(idempotencyKey !== undefined && { idempotencyKey: `${idempotencyKey}:${texts.length - 1}` }),
    });
  });
});

test("§3.2: the limit is exact in the middle of 10,000 signals", async () => {
  const workspace = await newWorkspace({ signalLimit: 3_000 });
  await new TestCounter(workspace.id).sendTo(lose);
  const signals = Array.from({ length: 10_000 }, (_, n) => ({ event: n % 100 === 99 ? "" : "E" }));
  const { results, ...answer } = await (await workspace.send(signals)).json<BatchAnswer>();
  expect(answer).toEqual({ status: "partial", accepted: 3_000, held: 3_000, rejected: 4_000 });
  let ordinal = 0;
  for (const { index, status, code } of results) {
    const verdict = ++ordinal <= 3_000 ? "accepted" : ordinal <= 6_000 ? "held" : "extra_room_exceeded";
    if (index % 100 === 99) ordinal--;
    expect(code ?? status, String(index)).toBe(index % 100 === 99 ? "event_missing" : verdict);
  }
  const rows = await new TestCounter(workspace.id).admittedInRows();
  expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(6_000);
  expect(await workspace.counter.usage()).toMatchObject({ accepted: 3_000, held: 3_000, rejected: 3_900 });
});

test("the index of a signal for the Idempotency-Key counts rejected signals too", async () => {
  const workspace = await newWorkspace();
  const headers = { "idempotency-key": "once" };
  const signals = [{ event: "a" }, { event: "" }, { event: "c" }];
  await (await workspace.send(signals, { headers })).text();
  const corrected = [{ event: "a" }, { event: "b" }, { event: "c" }];
  const { results } = await (await workspace.send(corrected, { headers })).json<BatchAnswer>();
  expect(await workspace.settled()).toMatchObject({ accepted: 5, processed: 3, duplicates: 2, balanced: true });
  const stored = await Promise.all(results.map(({ id = "" }) => workspace.store.signal(id)));
  expect(stored).toMatchObject(["duplicate", "processed", "duplicate"].map((status) => ({ status })));
});

describe("a body that cannot be admitted is rejected as a whole", () => {
  test("with 503 and without results, if a row in the middle cannot be written; nothing is counted", async () => {
    expectLogged("admit_failed", "commit_failed");
    const workspace = await newWorkspace({ signalLimit: COUNT });
    await atEachRow(workspace, (nth) => {
      if (nth === 20) throw new Error("disk full");
    });
    const answer = await workspace.send(body(), { path: BULK });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
    const problem = await answer.json<Problem>();
    expect([problem.code, problem.results]).toEqual(["unavailable", undefined]);
    expect(await new TestCounter(workspace.id).admittedInRows()).toEqual([]);
    expect(await workspace.counter.usage()).toMatchObject({ accepted: 0, held: 0, rejected: 0 });
    expect((await workspace.send(body(), { path: BULK })).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ accepted: COUNT, processed: COUNT, balanced: true });
  });

  test("with 503 if the object is killed in the middle: none of it is left, and a repetition stores all of it once", async () => {
    expectLogged("admit_failed");
    const workspace = await newWorkspace({ signalLimit: COUNT });
    await atEachRow(workspace, (nth, state) => {
      if (nth === 20) state.abort("killed");
    });
    expect((await workspace.send(body(), { path: BULK })).status).toBe(503);
    expect(await workspace.counter.books()).toMatchObject({ admitted: 0, unsettled: 0 });
    expect((await workspace.send(body(), { path: BULK })).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ accepted: COUNT, processed: COUNT, balanced: true });
  });

  test("with 401 if the key is deactivated meanwhile, also if some of its signals are invalid", async () => {
    const workspace = await newWorkspace();
    const admit: Admit = async (call) => {
      await workspace.counter.deactivate(workspace.key.id);
      return workspace.counter.admit(call) as Promise<AdmitResult>;
    };
    const answer = await sendThrough(
      workspace,
      admit,
      body((n) => (n < 30 ? { event: "" } : {})),
    );
    expect(answer.status).toBe(401);
    expect(await workspace.counter.books()).toMatchObject({ admitted: 0 });
  });
});

describe("a retry after a call that was counted, although its answer was lost", () => {
  const SIGNALS = 300;
  const lost: (workspace: TestWorkspace) => Admit = (workspace) => async (call) => {
    await workspace.counter.admit(call);
    throw new Error("the connection broke");
  };
  const some = (extra: (n: number) => object) => body(extra).slice(0, SIGNALS);
  const anonymous = () => some((n) => ({ email: undefined, n }));
  const idempotent = { "idempotency-key": "once" };

  test.each<[what: string, signals: () => object[], headers: Record<string, string>, processed: number]>([
    ["ids", () => some((n) => ({ messageId: `m${n}` })), {}, SIGNALS],
    ["an Idempotency-Key", anonymous, idempotent, SIGNALS],
    ["neither, within ten minutes", () => some(() => ({})), {}, SIGNALS],
    ["neither and nobody's email or id", anonymous, {}, 2 * SIGNALS],
  ])(
    "counts again; with %s the repetition is as many duplicates as could be recognised",
    async (_, signals, headers, processed) => {
      expectLogged("admit_failed");
      const workspace = await newWorkspace({ signalLimit: 10_000 });
      const first = await sendThrough(workspace, lost(workspace), signals(), headers);
      expect(first.status).toBe(503);
      expect((await workspace.counter.books()).admitted).toBe(SIGNALS);
      const again = await workspace.send(signals(), { path: BULK, headers });
      expect(await again.json()).toMatchObject({ status: "accepted", accepted: SIGNALS });
      const counts = { accepted: 2 * SIGNALS, processed, duplicates: 2 * SIGNALS - processed, balanced: true };
      expect(await workspace.settled()).toMatchObject(counts);
      expect(await workspace.counter.usage()).toMatchObject({ accepted: 2 * SIGNALS });
    },
  );
});

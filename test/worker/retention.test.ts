/** Retention: signals are deleted after the days that the plan says; people, scores and scoring signals stay. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { newId } from "../../src/http/ids.ts";
import { COLD_AFTER_MS, RETENTION_MIN_DAYS, RETENTION_ROWS, RETENTION_SWEEP_MS } from "../../src/limits.ts";
import { recount } from "../../src/store/recount.ts";
import { deleteExpired } from "../../src/store/retention.ts";
import { DAY, deliver } from "./deliver.ts";
import type { Delivered } from "./deliver.ts";
import { expectTimelinesOf } from "./timelines.ts";
import { call, newPlan, newWorkspace, operator } from "./workspace.ts";
import type { TestWorkspace } from "./workspace.ts";

const NOW = Date.now();
const OLD = NOW - (RETENTION_MIN_DAYS + 1) * DAY;
const YOUNG = NOW - (RETENTION_MIN_DAYS - 1) * DAY;

let workspace: TestWorkspace;
let plan: string;
beforeEach(async () => {
  workspace = await newWorkspace();
  ({ plan } = await workspace.operator<{ plan: string }>("GET", ""));
});
afterEach(() => void vi.useRealTimers());

function retain(days: number | null, id = plan) {
  return operator("PUT", `/plans/${id}`, { name: id, signal_limit: 1_000, paid: true, retention_days: days });
}

let ordinal = 0;
/** A signal with an id such as the edge gives it. */
function at(ms: number, payload: Record<string, unknown>, signal: Partial<Delivered> = {}): Delivered & { id: string } {
  return { id: newId("sig", ms), at: ms, ordinal: ++ordinal, payload: { event: "E", ...payload }, ...signal };
}

function send(...signals: Delivered[]) {
  return deliver(workspace.id, signals);
}

function query<T extends Record<string, SqlStorageValue>>(text: string, ...bindings: unknown[]): Promise<T[]> {
  return runInDurableObject(workspace.store, (_, { storage }) => storage.sql.exec<T>(text, ...bindings).toArray());
}

async function stored(): Promise<string[]> {
  return (await query<{ id: string }>("SELECT id FROM signals ORDER BY seq")).map(({ id }) => id);
}

describe("a signal that is older than its plan keeps signals", () => {
  test("is gone, and its person, score and scoring signals are still there", async () => {
    await workspace.operator("POST", "/rules", {
      name: "R",
      event: "E",
      match: "all",
      conditions: [],
      scoring_signal: "s",
      points: 7,
    });
    const identify = {
      type: "identify",
      messageId: "i",
      anonymousId: "visitor-1",
      traits: { email: "jane@example.com", name: "Jane" },
    };
    const old = at(OLD, { email: "jane@example.com" });
    const young = at(YOUNG, { email: "jane@example.com", properties: { other: true } });
    await send(at(OLD - 1, identify), old, young);
    const before = await workspace.operator("GET", "/people?email=jane@example.com");
    const books = await workspace.store.totals();
    await retain(RETENTION_MIN_DAYS);
    await vi.waitFor(async () => expect(await stored()).toEqual([young.id]));
    expect(await workspace.operator("GET", "/people?email=jane@example.com")).toEqual(before);
    expect(before).toMatchObject({ items: [{ name: "Jane", score: 14, identities: [{ value: "visitor-1" }] }] });
    expect(await workspace.store.totals()).toEqual(books);
    const trace = await call(`/operator/workspaces/${workspace.id}/signals/${old.id}`, {
      headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` },
    });
    expect(trace.status).toBe(404);
  });

  test("goes whatever became of it; a held one when its period ends, not before", async () => {
    const twin = { email: "jane@example.com", messageId: "m" };
    const held = at(OLD, { email: "jane@example.com", n: 2 }, { verdict: "held", periodEnd: NOW + DAY });
    const ended = at(OLD, { email: "jane@example.com", n: 3 }, { verdict: "held", periodEnd: OLD + DAY });
    await send(at(OLD, twin), at(OLD + 1, twin), held, ended, at(OLD, {}, { payload: "{broken" }));
    const before = await workspace.store.totals();
    expect(before).toMatchObject({ processed: 1, duplicates: 1, held: 1, purged: 1, deadLettered: 1 });
    await retain(RETENTION_MIN_DAYS);
    await vi.waitFor(async () => expect(await stored()).toEqual([held.id]));
    expect(await workspace.store.totals()).toEqual(before);
  });

  test("is still counted in the signal queue, as one that waits no longer, and shown no more", async () => {
    await send(at(OLD, { type: "track", messageId: "m", anonymousId: "visitor-1" }));
    const groups = () => workspace.operator<{ items: unknown[] }>("GET", "/events");
    expect((await groups()).items).toMatchObject([{ event: "E", count: 1, anonymous: 1 }]);
    await retain(RETENTION_MIN_DAYS);
    await vi.waitFor(async () => expect(await stored()).toEqual([]));
    expect((await groups()).items).toMatchObject([{ event: "E", count: 1, anonymous: 0, sample: { payload: null } }]);
  });

  test("takes its payload in cold storage along, and leaves its neighbours' there", async () => {
    const anonymous = (ms: number, visitor: string) =>
      at(ms, { type: "track", messageId: visitor, anonymousId: visitor, event: "E" });
    const young = anonymous(YOUNG, "visitor-young");
    await send(anonymous(OLD, "visitor-old"), young);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + COLD_AFTER_MS + 1 });
    await runDurableObjectAlarm(workspace.store);
    vi.useRealTimers();
    expect(await cold()).toContain("visitor-old");
    await retain(RETENTION_MIN_DAYS);
    await vi.waitFor(async () => expect(await cold()).not.toContain("visitor-old"));
    expect(await workspace.operator("GET", `/signals/${young.id}`)).toMatchObject({
      payload: { anonymousId: "visitor-young" },
    });
  });

  test("is not forgotten by its person when that is read again from its signals", async () => {
    const traits = { email: "jane@example.com", name: "Jane", title: "CTO" };
    await send(at(OLD, { type: "identify", messageId: "i", anonymousId: "visitor-1", traits }));
    await send(at(YOUNG, { email: "jane@example.com", properties: { title: "CEO" }, title: "CEO" }));
    const facts = async () =>
      (await query("SELECT * FROM people")).map(({ recent_signals: _deletedToo, ...person }) => person);
    const before = await facts();
    await retain(RETENTION_MIN_DAYS);
    await vi.waitFor(async () => expect(await stored()).toHaveLength(1));
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => recount(sql, Number(before[0]?.["id"])));
    expect(await facts()).toEqual(before);
    expect(before).toMatchObject([{ name: "Jane", first_seen: OLD, last_seen: YOUNG }]);
    await expectTimelinesOf(workspace.id);
  });
});

describe("the work", () => {
  test("is done in bounded steps, each by an index, until nothing is left", async () => {
    const signals = Array.from({ length: RETENTION_ROWS + 1 }, (_, n) => at(OLD, { email: "jane@example.com", n }));
    await send(...signals);
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      sql.exec("INSERT INTO retention VALUES (1, ?, 0, 0)", RETENTION_MIN_DAYS);
      deleteExpired(sql, NOW);
      expect(sql.exec("SELECT count(*) AS left FROM signals").one()).toEqual({ left: 1 });
      expect(sql.exec("SELECT next_at FROM retention").one()).toEqual({ next_at: NOW });
      deleteExpired(sql, NOW);
      expect(sql.exec("SELECT count(*) AS left FROM signals").one()).toEqual({ left: 0 });
      const { next_at: nextMs } = sql.exec<{ next_at: number }>("SELECT next_at FROM retention").one();
      expect(nextMs).toBeGreaterThanOrEqual(NOW + RETENTION_SWEEP_MS);
      const steps = sql
        .exec<{ detail: string }>(
          "EXPLAIN QUERY PLAN SELECT seq FROM signals WHERE id < 'sig_x' AND received_at < 1 AND +status <> 'held' ORDER BY id LIMIT 9",
        )
        .toArray();
      expect(steps.map(({ detail }) => detail)).toEqual(["SEARCH signals USING INDEX signals_id (id<?)"]);
    });
  });

  test("goes on as signals grow old, without a call", async () => {
    await retain(RETENTION_MIN_DAYS);
    const young = at(YOUNG, { email: "jane@example.com" });
    await send(young);
    await runDurableObjectAlarm(workspace.store);
    expect(await stored()).toEqual([young.id]);
    vi.useFakeTimers({ toFake: ["Date"], now: NOW + 2 * DAY });
    await runDurableObjectAlarm(workspace.store);
    expect(await stored()).toEqual([]);
  });
});

describe("the plan", () => {
  test("keeps signals for ever unless it says otherwise, and again when it says so no longer", async () => {
    const old = at(OLD, { email: "jane@example.com" });
    await send(old);
    await runDurableObjectAlarm(workspace.store);
    expect(await stored()).toEqual([old.id]);
    await retain(40);
    expect(await workspace.operator("GET", "")).toMatchObject({ retention_days: 40 });
    await retain(null);
    expect(await workspace.operator("GET", "")).toMatchObject({ retention_days: null });
    expect(await query("SELECT days FROM retention")).toEqual([{ days: null }]);
    vi.useFakeTimers({ toFake: ["Date"], now: NOW + 50 * DAY });
    await runDurableObjectAlarm(workspace.store);
    expect(await stored()).toEqual([old.id]);
  });

  test("is the one that the workspace is on: a change of plan takes effect without a signal", async () => {
    const short = await newPlan(1_000);
    await retain(RETENTION_MIN_DAYS, short);
    await send(at(OLD, { email: "jane@example.com" }));
    expect(await workspace.operator("PATCH", "", { plan: short })).toMatchObject({
      plan: short,
      retention_days: RETENTION_MIN_DAYS,
    });
    await vi.waitFor(async () => expect(await stored()).toEqual([]));
  });

  test.each([0, RETENTION_MIN_DAYS - 1, 31.5, 3_651, "90"])("takes no %j days", async (days) => {
    await expect(retain(days as number)).rejects.toThrow("retention_days");
  });

  test("leaves what it was changed to in the audit log", async () => {
    await retain(90);
    const entry = await env.DB.prepare("SELECT action, detail FROM audit_log WHERE target = ? ORDER BY id DESC LIMIT 1")
      .bind(plan)
      .first<{ action: string; detail: string }>();
    expect(entry?.action).toBe("plan.updated");
    expect(JSON.parse(entry?.detail ?? "")).toMatchObject({ retention_days: 90 });
  });
});

/** All lines of the workspace's objects in R2. */
async function cold(): Promise<string> {
  const { objects } = await env.COLD.list({ prefix: `cold/${workspace.id}/` });
  const texts = objects.map(async ({ key }) => {
    const found = await env.COLD.get(key);
    return found === null ? "" : new Response(found.body.pipeThrough(new DecompressionStream("gzip"))).text();
  });
  return (await Promise.all(texts)).join("\n");
}

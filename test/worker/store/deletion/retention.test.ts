/** Retention: signals are deleted after the days that the plan says; people, scores and scoring signals stay. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { newId } from "../../../../src/platform/ids.ts";
import { RETENTION_MIN_DAYS } from "../../../../src/operator/schema-parts.ts";
import { linesOf } from "../../../support/adds-up.ts";
import { expectToAddUp, readStore } from "../../../support/read-store.ts";
import { ring } from "../../../support/cold.ts";
import { DAY, deliver } from "../../../support/deliver.ts";
import type { Delivered } from "../../../support/deliver.ts";
import { textOfBucket } from "../../../support/everything.ts";
import { until } from "../../../support/until.ts";
import { call, newPlan, newWorkspace, operator } from "../../../support/workspace.ts";
import type { TestWorkspace } from "../../../support/workspace.ts";

const NOW = Date.now();
const OLD = NOW - (RETENTION_MIN_DAYS + 1) * DAY;
const YOUNG = NOW - (RETENTION_MIN_DAYS - 1) * DAY;

let workspace: TestWorkspace;
let plan: string;
beforeEach(async () => {
  plan = await newPlan(1_000_000);
  workspace = await newWorkspace({ plan });
});
afterEach(async () => {
  vi.useRealTimers();
  await expectToAddUp(workspace.id, { hasDropped: true });
});

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

function stored(): Promise<string[]> {
  return readStore(workspace.id, ({ signals, held, sql }) => [
    ...[...linesOf(signals as never), ...linesOf(held)].flatMap(({ facts }) => facts.admission.id || []),
    ...[...sql.exec<{ id: string }>("SELECT id FROM dead_letters")].map(({ id }) => id),
  ]);
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
    await until(async () => expect(await stored()).toEqual([young.id]));
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
    await until(async () => expect(await stored()).toEqual([held.id]));
    expect(await workspace.store.totals()).toEqual(before);
  });

  test("is still counted in the signal queue, as one that waits no longer, and shown no more", async () => {
    await send(at(OLD, { type: "track", messageId: "m", anonymousId: "visitor-1" }));
    const groups = () => workspace.operator<{ items: unknown[] }>("GET", "/events");
    expect((await groups()).items).toMatchObject([{ event: "E", count: 1, anonymous: 1 }]);
    await retain(RETENTION_MIN_DAYS);
    await until(async () => expect(await stored()).toEqual([]));
    expect((await groups()).items).toMatchObject([{ event: "E", count: 1, anonymous: 0, sample: { payload: null } }]);
  });

  test("takes its payload in cold storage along, and leaves its neighbours' there", async () => {
    const anonymous = (ms: number, visitor: string) =>
      at(ms, { type: "track", messageId: visitor, anonymousId: visitor, event: "E" });
    const young = anonymous(YOUNG, "visitor-young");
    await send(anonymous(OLD, "visitor-old"), young);
    await ring(workspace.id);
    expect(await textOfBucket(workspace.id)).toContain("visitor-old");
    await retain(RETENTION_MIN_DAYS);
    await until(async () => {
      await runDurableObjectAlarm(workspace.store);
      expect(await textOfBucket(workspace.id)).not.toContain("visitor-old");
    });
    expect(await workspace.operator("GET", `/signals/${young.id}`)).toMatchObject({
      payload: { anonymousId: "visitor-young" },
    });
  });
});

describe("the work of retention", () => {
  test("goes on as signals grow old, without a call", async () => {
    await retain(RETENTION_MIN_DAYS);
    const young = at(YOUNG, { email: "jane@example.com" });
    await send(young);
    await runDurableObjectAlarm(workspace.store);
    expect(await stored()).toEqual([young.id]);
    vi.useFakeTimers({ toFake: ["Date"], now: NOW + 2 * DAY });
    // While the platform rings by itself, to move what is old to cold storage, there is no alarm that could be rung.
    await until(async () => {
      await runDurableObjectAlarm(workspace.store);
      expect(await stored()).toEqual([]);
    });
  });
});

describe("a plan", () => {
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
    await until(async () => expect(await stored()).toEqual([]));
  });

  test.each([0, RETENTION_MIN_DAYS - 1, 31.5, 3_651, "90"])("takes no %j days", async (days) => {
    await expect(retain(days as number)).rejects.toThrow("retention_days");
  });

  test("leaves what it was changed to in the audit log, once", async () => {
    const entries = () =>
      env.DB.prepare("SELECT count(*) AS n FROM audit_log WHERE target = ?").bind(plan).first<number>("n");
    const before = (await entries()) ?? 0;
    for (const days of [90, 90]) await retain(days);
    expect(await entries()).toBe(before + 1);
    const entry = await env.DB.prepare("SELECT action, detail FROM audit_log WHERE target = ? ORDER BY id DESC LIMIT 1")
      .bind(plan)
      .first<{ action: string; detail: string }>();
    expect(entry?.action).toBe("plan.updated");
    expect(JSON.parse(entry?.detail ?? "")).toMatchObject({ retention_days: 90 });
  });
});

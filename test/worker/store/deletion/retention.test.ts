/** A changed plan changes the retention of its stores. retention-steps.test.ts tests the dropped data. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { newId } from "../../../../src/platform/ids.ts";
import { RETENTION_MIN_DAYS } from "../../../../src/limits.ts";
import { linesOf } from "../../../support/adds-up.ts";
import { expectLogged } from "../../../support/logged.ts";
import { expectToAddUp, readStore } from "../../../support/read-store.ts";
import { withBindings } from "../../../support/cold.ts";
import { d1Failing } from "../../../support/faults.ts";
import { DAY, deliver, type Delivered } from "../../../support/deliver.ts";
import { until } from "../../../support/until.ts";
import { newPlan, newWorkspace, operator, type TestWorkspace } from "../../../support/workspace.ts";
import { nextRetentionMs } from "../../../../src/store/state/due.ts";

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

/** Changes the plan in D1 without informing any store. */
function putRetention(days: number | null, id = plan) {
  return operator("PUT", `/plans/${id}`, { name: id, signal_limit: 1_000, paid: true, retention_days: days });
}

/** Rings the store's alarm as if it had not asked D1 for a day. */
async function askAndRing(): Promise<void> {
  await query("UPDATE retention SET next_at = 1");
  await runInDurableObject(workspace.store, (instance) => instance.alarm());
}

let ordinal = 0;
/** A signal with an id as the edge creates it. */
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
    ...[...linesOf(signals), ...linesOf(held)].flatMap(({ facts }) => facts.admission.id || []),
    ...[...sql.exec<{ id: string }>("SELECT id FROM dead_letters")].map(({ id }) => id),
  ]);
}

describe("a plan whose retention changes", () => {
  const days = async () => (await query<{ days: number | null }>("SELECT days FROM retention"))[0]?.days;

  test("reaches the store with the next signal, which writes a row only then", async () => {
    await send(at(OLD, { email: "jane@example.com" }));
    const young = at(YOUNG, { email: "jane@example.com" });
    await putRetention(RETENTION_MIN_DAYS);
    expect(await days()).toBeNull();
    const writes = vi.fn();
    await runInDurableObject(workspace.store, (_, { storage: { sql } }) => {
      const exec = sql.exec.bind(sql);
      sql.exec = ((text: string, ...bindings: SqlStorageValue[]) => {
        if (/^\s*(INSERT INTO|UPDATE) retention/.test(text)) writes(bindings[0]);
        return exec(text, ...bindings);
      }) as typeof sql.exec;
    });
    await send(young);
    await until(async () => expect(await stored()).toEqual([young.id]));
    const later = at(YOUNG, { email: "jane@example.com" });
    await send(later);
    await runInDurableObject(workspace.store, (_, { storage }) => void Reflect.deleteProperty(storage.sql, "exec"));
    expect(await days()).toBe(RETENTION_MIN_DAYS);
    expect(writes.mock.calls.filter(([bound]) => bound === RETENTION_MIN_DAYS)).toHaveLength(1);
    expect(await stored()).toEqual([young.id, later.id]);
  });

  test.each([null, 365])("from %j days to fewer reaches a store without new signals within a day", async (before) => {
    await putRetention(before);
    await send(at(OLD, { email: "jane@example.com" }));
    await runDurableObjectAlarm(workspace.store);
    await putRetention(RETENTION_MIN_DAYS);
    vi.useFakeTimers({ toFake: ["Date"], now: NOW + DAY + 60_000 });
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    expect(await stored()).toEqual([]);
    // The store is empty, so that it does not ask D1.
    expect(await readStore(workspace.id, (state) => nextRetentionMs(state))).toBeNull();
  });

  test("to more days is read before a signal is dropped by the old setting", async () => {
    const old = at(OLD, { email: "jane@example.com" });
    await send(old);
    await workspace.store.configure({ retentionDays: RETENTION_MIN_DAYS });
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    expect(await stored()).toEqual([old.id]);
    expect(await days()).toBeNull();
  });

  test("drops nothing and reports a failing chore while D1 does not answer", async () => {
    expectLogged("chore_failed");
    const old = at(OLD, { email: "jane@example.com" });
    await send(old);
    await putRetention(RETENTION_MIN_DAYS);
    await workspace.store.configure({ retentionDays: RETENTION_MIN_DAYS });
    await withBindings(workspace.id, { DB: d1Failing(/retention_days/, "D1 does not answer") });
    await askAndRing();
    expect(await stored()).toEqual([old.id]);
    const { failingChores: failing } = await workspace.store.health();
    expect(failing).toMatchObject([{ chore: "retention", error: expect.stringContaining("D1 does not answer") }]);
    await withBindings(workspace.id);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
    await askAndRing();
    expect(await stored()).toEqual([]);
  });
});

test("a plan takes effect without a signal when a workspace changes to it", async () => {
  const short = await newPlan(1_000);
  await putRetention(RETENTION_MIN_DAYS, short);
  await send(at(OLD, { email: "jane@example.com" }));
  const changed = await workspace.operator("PATCH", "", { plan: short });
  expect(changed).toMatchObject({ plan: short, retention_days: RETENTION_MIN_DAYS });
  await until(async () => expect(await stored()).toEqual([]));
});

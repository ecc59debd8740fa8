/** POST /operator/workspaces/{id}/reconcile after each loss of docs/operate.md, "What survives what". */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ring } from "../../support/cold.ts";
import { textOfTables } from "../../support/everything.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";
import { call, newPlan, newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const START = Date.UTC(2031, 0, 10, 12);
const DAY_MS = 24 * 3_600_000;
const RULE = { name: "R", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 5 };
const NOTHING = { keys_deactivated: 0, config_version_raised: false, rule_versions_raised: false, payloads_lost: 0 };

beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: START }));
afterEach(() => vi.useRealTimers());

function later(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

const reconcile = (workspace: TestWorkspace) => workspace.operator("POST", "/reconcile");

async function sent(workspace: TestWorkspace, ...names: string[]): Promise<void> {
  for (const name of names) {
    // oxlint-disable-next-line no-await-in-loop
    expect((await workspace.send({ email: `${name}@example.com`, event: "E" })).status).toBe(202);
  }
  await until(async () => expect(await workspace.counter.books()).toMatchObject({ unsettled: 0 }));
}

async function scores(workspace: TestWorkspace): Promise<Record<string, number>> {
  const { items } = await workspace.operator<{ items: { email: string; score: number }[] }>("GET", "/people");
  return Object.fromEntries(items.map(({ email, score }) => [email.split("@")[0] ?? "", score]));
}

const TABLES = [
  "workspaces",
  "workspace_versions",
  "api_keys",
  "mapping_rules",
  "rule_versions",
  "exclusion_versions",
  "audit_log",
] as const;

/** The rows of a workspace in D1. */
async function rowsInD1({ id }: TestWorkspace): Promise<Record<string, Record<string, unknown>[]>> {
  const rows = TABLES.map(async (table) => {
    const of = table === "workspaces" ? "id" : "workspace_id";
    return [table, (await env.DB.prepare(`SELECT * FROM ${table} WHERE ${of} = ?`).bind(id).all()).results] as const;
  });
  return Object.fromEntries(await Promise.all(rows));
}

/** Brings the rows of a workspace back, as Time Travel does. */
async function restoreD1({ id }: TestWorkspace, rows: Awaited<ReturnType<typeof rowsInD1>>): Promise<void> {
  const statements = TABLES.toReversed().map((table) => {
    const of = table === "workspaces" ? "id" : "workspace_id";
    return env.DB.prepare(`DELETE FROM ${table} WHERE ${of} = ?`).bind(id);
  });
  for (const table of TABLES) {
    for (const row of rows[table] ?? []) {
      const columns = Object.keys(row);
      const insert = `INSERT INTO ${table} ("${columns.join('", "')}") VALUES (${columns.map(() => "?").join(", ")})`;
      statements.push(env.DB.prepare(insert).bind(...Object.values(row)));
    }
  }
  await env.DB.batch([env.DB.prepare("PRAGMA defer_foreign_keys = on"), ...statements]);
}

async function everything(workspace: TestWorkspace): Promise<unknown[]> {
  const objects = [workspace.counter, workspace.store, env.DESTINATIONS.getByName(workspace.id)] as DurableObjectStub[];
  const tables = objects.map((stub) => runInDurableObject(stub, (_, { storage }) => textOfTables(storage.sql)));
  return [await rowsInD1(workspace), ...(await Promise.all(tables)), await objectsInR2(workspace)];
}

async function objectsInR2({ id }: TestWorkspace): Promise<string[]> {
  return (await env.COLD.list({ prefix: `cold/${id}/` })).objects.map(({ key }) => key);
}

/** The details of the reconciliations in the audit log. */
async function audited(workspace: TestWorkspace): Promise<unknown[]> {
  const entries = await workspace.audit("workspace.");
  return entries.filter(({ action }) => action === "workspace.reconciled").map(({ detail }) => detail);
}

/** Empties an object, as if the platform had lost it. */
async function loseObject(stub: DurableObjectStub): Promise<void> {
  await runInDurableObject(stub, (_, { storage }) => storage.deleteAll());
  await evictDurableObject(stub);
}

test("a healthy workspace does not change", async () => {
  const workspace = await newWorkspace({ signalLimit: 3 });
  const ended = await workspace.newKey();
  const rule = await workspace.operator<{ id: string }>("POST", "/rules", RULE);
  await workspace.operator("PATCH", `/rules/${rule.id}`, { points: 7 });
  await sent(workspace, "a", "b", "c", "held");
  await workspace.operator("POST", `/keys/${ended.id}/deactivate`);
  await workspace.operator("DELETE", "/people/a@example.com");
  later(2 * DAY_MS);
  await ring(workspace.id);
  expect(await objectsInR2(workspace)).toHaveLength(1);
  // Ends the counter's day, which any call does.
  await workspace.operator("GET", "/usage");
  const before = await everything(workspace);
  expect(await reconcile(workspace)).toEqual(NOTHING);
  expect(await everything(workspace)).toEqual(before);
});

test("with D1 from before changes: keys stay deactivated, D1's plan and rules take effect, and a repetition changes nothing", async () => {
  const workspace = await newWorkspace({ signalLimit: 50 });
  const ended = await workspace.newKey();
  const rule = await workspace.operator<{ id: string }>("POST", "/rules", RULE);
  await sent(workspace, "a");
  const before = await rowsInD1(workspace);
  later(5_000);
  await workspace.operator("POST", `/keys/${ended.id}/deactivate`);
  const deactivatedAt = new Date().toISOString();
  await workspace.operator("PATCH", "", { plan: await newPlan(9) });
  for (const points of [6, 7]) await workspace.operator("PATCH", `/rules/${rule.id}`, { points });
  await sent(workspace, "b");
  await workspace.operator("POST", `/rules/${rule.id}/apply`);
  await ring(workspace.id);
  expect(await scores(workspace)).toEqual({ a: 7, b: 7 });

  await restoreD1(workspace, before);
  later(5_000);
  expect((await workspace.send({ event: "E" }, { key: ended.key })).status).toBe(401);
  const expected = { ...NOTHING, keys_deactivated: 1, config_version_raised: true, rule_versions_raised: true };
  expect(await reconcile(workspace)).toEqual(expected);
  const { items } = await workspace.operator<{ items: { id: string }[] }>("GET", "/keys");
  expect(items.find(({ id }) => id === ended.id)).toMatchObject({ status: "Inactive", deactivated_at: deactivatedAt });
  expect(await workspace.operator("GET", "/usage")).toMatchObject({ signal_limit: 50, accepted: 2 });
  await sent(workspace, "c");
  await workspace.operator("POST", `/rules/${rule.id}/apply`);
  await ring(workspace.id);
  expect(await scores(workspace)).toEqual({ a: 5, b: 5, c: 5 });
  expect(await reconcile(workspace)).toEqual(NOTHING);
  expect(await audited(workspace)).toMatchObject([{ keysDeactivated: 1, configVersionRaised: true }]);
});

test("with D1 from before a rule that no job has applied: rules can be applied to the past again", async () => {
  expectLogged("error");
  const workspace = await newWorkspace();
  const { id } = await workspace.operator<{ id: string }>("POST", "/rules", RULE);
  const before = await rowsInD1(workspace);
  await workspace.operator("POST", "/rules", { ...RULE, points: 7 });
  await sent(workspace, "a");
  await restoreD1(workspace, before);
  expect((await workspace.ask("POST", `/rules/${id}/apply`)).status).toBe(503);
  expect(await reconcile(workspace)).toMatchObject({ ...NOTHING, rule_versions_raised: true });
  await workspace.operator("POST", `/rules/${id}/apply`);
  expect(await reconcile(workspace)).toEqual(NOTHING);
});

test("a Quota Counter that lost everything knows deactivated keys again, and the store ignores none of its new signals", async () => {
  const workspace = await newWorkspace({ signalLimit: 50 });
  const ended = await workspace.newKey();
  await sent(workspace, "a", "b", "c");
  await workspace.operator("POST", `/keys/${ended.id}/deactivate`);
  later(1_000);
  await loseObject(workspace.counter as DurableObjectStub);
  await sent(workspace, "d");
  expect(await reconcile(workspace)).toEqual({ ...NOTHING, keys_deactivated: 1 });
  expect(await audited(workspace)).toMatchObject([{ keysDeactivated: 1, payloadsLost: 0 }]);
  expect((await workspace.send({ event: "E" }, { key: ended.key })).status).toBe(401);
  expect(Object.keys(await scores(workspace)).sort()).toEqual(["a", "b", "c", "d"]);
});

test("a Signal Store that lost everything records new signals, and rules with their next versions apply to them", async () => {
  const workspace = await newWorkspace({ signalLimit: 50 });
  const rule = await workspace.operator<{ id: string }>("POST", "/rules", RULE);
  await sent(workspace, "a");
  await loseObject(workspace.store as DurableObjectStub);
  expect(await reconcile(workspace)).toEqual(NOTHING);
  await workspace.operator("PATCH", `/rules/${rule.id}`, { points: 6 });
  await sent(workspace, "b");
  expect(await scores(workspace)).toEqual({ b: 6 });
});

describe("a bucket that lost objects", () => {
  async function withLostPayloads(...names: string[]): Promise<TestWorkspace> {
    const workspace = await newWorkspace({ signalLimit: 1_000 });
    await sent(workspace, ...names);
    later(2 * DAY_MS);
    await ring(workspace.id);
    for (const key of await objectsInR2(workspace)) await env.COLD.delete(key);
    return workspace;
  }

  test("its payloads are shown as lost, and exports and deletions still end", async () => {
    const workspace = await withLostPayloads("a", "b");
    later(1);
    expect(await reconcile(workspace)).toEqual({ ...NOTHING, payloads_lost: 2 });
    expect(await audited(workspace)).toMatchObject([{ keysDeactivated: 0, payloadsLost: 2 }]);
    const { items } = await workspace.operator<{ items: { id: string }[] }>("GET", "/signals");
    const trace = await workspace.operator("GET", `/signals/${items.at(-1)?.id}`);
    expect(trace).toMatchObject({ payload: null, in_cold_storage: false, payload_lost: true, status: "processed" });
    const authorization = `Bearer ${env.OPERATOR_TOKEN}`;
    const exported = await call(`/operator/workspaces/${workspace.id}/export/signals`, { headers: { authorization } });
    expect([exported.status, (await exported.text()).trim().split("\n").length]).toEqual([200, 2]);
    await workspace.operator("DELETE", "/people/a@example.com");
    // The first step removes the rest of the object from the tables, the second ends the deletion.
    for (let rings = 0; rings < 2; rings++) await ring(workspace.id, { seal: false });
    const deletion = await workspace.operator("GET", "/people/a@example.com/deletion");
    expect(deletion).toMatchObject({ finished_at: expect.any(String) });
    expect(await reconcile(workspace)).toEqual(NOTHING);
  });

  test("a deletion that waits for a missing object ends after reconciliation", async () => {
    expectLogged("chore_failed", "cold_read_failed");
    const workspace = await withLostPayloads("a", "b");
    await workspace.operator("DELETE", "/people/a@example.com");
    await ring(workspace.id, { seal: false });
    const isFinished = async () =>
      (await workspace.operator<{ complete: boolean }>("GET", "/people/a@example.com/deletion")).complete;
    expect(await isFinished()).toBe(false);
    // The pause of a failed job.
    later(60_000);
    expect(await reconcile(workspace)).toMatchObject({ payloads_lost: 2 });
    for (let rings = 0; rings < 2; rings++) await ring(workspace.id, { seal: false });
    expect(await isFinished()).toBe(true);
  });
});

/** POST /operator/workspaces/{id}/restore, as in docs/operate.md. test/support/worker.ts provides the backups. */
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { COLD_UNKNOWN_MS } from "../../../src/store/log/cold.ts";
import { ring } from "../../support/cold.ts";
import { TestCounter, lose } from "../../support/counter.ts";
import { consumeMessages } from "../../support/deliver.ts";
import { until } from "../../support/until.ts";
import { textOf } from "../../support/wire.ts";
import { call, newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const START = Date.UTC(2031, 0, 10, 12);
const DAY_MS = 24 * 3_600_000;

beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: START }));
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** The current moment, which has a backup. Moves the clock five seconds ahead. */
async function moment({ id, counter, store }: TestWorkspace): Promise<string> {
  const now = new Date().toISOString();
  for (const stub of [counter, store, env.DESTINATIONS.getByName(id)]) {
    // oxlint-disable-next-line no-await-in-loop
    await runInDurableObject(stub as DurableObjectStub, (_, { storage }) => storage.getCurrentBookmark());
  }
  later(5_000);
  return now;
}

function later(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

async function sent(workspace: TestWorkspace, ...names: string[]): Promise<void> {
  for (const name of names) {
    // oxlint-disable-next-line no-await-in-loop
    expect((await workspace.send({ email: `${name}@example.com`, event: "E" })).status).toBe(202);
  }
  await workspace.settled();
}

/** A workspace with signals, at a moment that can be restored. */
async function withMoment(...names: string[]): Promise<{ workspace: TestWorkspace; at: string }> {
  const workspace = await newWorkspace({ signalLimit: 1_000 });
  await sent(workspace, ...names);
  return { workspace, at: await moment(workspace) };
}

async function people(workspace: TestWorkspace): Promise<string[]> {
  const { items } = await workspace.operator<{ items: { email: string }[] }>("GET", "/people");
  return items.map(({ email }) => email.split("@")[0] ?? "").sort();
}

async function alarms(workspace: TestWorkspace): Promise<string[]> {
  const health = await workspace.operator<{ alarms: { alarm: string }[] }>("GET", "/health");
  return health.alarms.map(({ alarm }) => alarm);
}

test("a restored workspace has its earlier data and current keys, and reports its losses until they are acknowledged", async () => {
  const { workspace, at } = await withMoment("a", "b");
  const ended = await workspace.newKey();
  await sent(workspace, "c");
  await workspace.operator("POST", `/keys/${ended.id}/deactivate`);

  const restored = await workspace.operator<{ id: string }>("POST", "/restore", { at });
  const losses = { lost: 1, deletions_repeated: 0, revoked: 1, rule_versions_raised: false };
  expect(restored).toEqual({ id: expect.stringMatching(/^rst_/), ...losses });
  expect(await people(workspace)).toEqual(["a", "b"]);
  expect((await workspace.send({ event: "E", email: "x@example.com" }, { key: ended.key })).status).toBe(401);
  await sent(workspace, "d");
  expect(await people(workspace)).toEqual(["a", "b", "d"]);
  expect(await workspace.books()).toMatchObject({ accepted: 4, processed: 3, lost: 1, in_flight: 0, balanced: true });
  const current = await workspace.operator("GET", "/books?period=current");
  expect(current).toMatchObject({ accepted: 4, lost: 1, balanced: true });
  // Lost signals are not charged.
  expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 3 });

  expect(await alarms(workspace)).toEqual(["signals_lost"]);
  const acknowledged = await workspace.operator("POST", `/restores/${restored.id}/acknowledge`);
  expect(acknowledged).toMatchObject({ id: restored.id, state: "done", lost: 1, acknowledged_at: expect.any(String) });
  expect(await alarms(workspace)).toEqual([]);
  expect(await workspace.books()).toMatchObject({ lost: 1, balanced: true });
  const entries = (await workspace.audit("workspace.")).filter(({ target }) => target === restored.id);
  const actions = ["workspace.recovered", "workspace.restore_acknowledged", "workspace.restored"];
  expect(entries.map(({ action }) => action).sort()).toEqual(actions);
});

test("an undo repeats the deletions of people that were requested after the restore", async () => {
  const { workspace, at } = await withMoment("a");
  await sent(workspace, "b", "c");
  const restored = await workspace.operator<{ id: string }>("POST", "/restore", { at });
  later(5_000);
  await workspace.operator("DELETE", "/people/a@example.com");
  const undone = await workspace.operator("POST", "/restore", { undo: restored.id });
  expect(undone).toMatchObject({ deletions_repeated: 1 });
  expect(await people(workspace)).toEqual(["b", "c"]);
});

describe("a refused restore changes nothing", () => {
  test("if accepted signals wait to be recorded: the answer counts them, and `force` continues", async () => {
    const { workspace, at } = await withMoment("a");
    const counter = new TestCounter(workspace.id);
    await counter.sendTo(lose);
    for (const name of ["b", "c"]) await workspace.send({ email: `${name}@example.com`, event: "E" });
    const waits = vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    const detail = expect.stringContaining("2 accepted signals wait to be recorded and would be lost");
    const refused = await workspace.ask("POST", "/restore", { at });
    expect(refused).toMatchObject({ status: 409, body: { code: "signals_wait", detail } });
    expect(waits).toHaveBeenCalled();
    // Calls are accepted immediately.
    expect((await workspace.send({ email: "d@example.com", event: "E" })).status).toBe(202);
    expect(await workspace.operator("POST", "/restore", { at, force: true })).toMatchObject({ lost: 3 });
    expect(await people(workspace)).toEqual(["a"]);
  });

  test("if the platform has no backup of that moment", async () => {
    const workspace = await newWorkspace({ signalLimit: 1_000 });
    await sent(workspace, "a");
    const refused = await workspace.ask("POST", "/restore", { at: new Date(START - DAY_MS).toISOString() });
    const detail = expect.stringContaining("no backup of that time");
    expect(refused).toMatchObject({ status: 409, body: { code: "not_restorable", detail } });
    await sent(workspace, "b");
    expect(await people(workspace)).toEqual(["a", "b"]);
    const { items } = await workspace.operator<{ items: object[] }>("GET", "/restores");
    expect(items).toMatchObject([{ state: "refused", lost: null }]);
    expect(await alarms(workspace)).toEqual([]);
  });

  test("if the first object refuses it, and the workspace continues", async () => {
    const { workspace, at } = await withMoment("a");
    await sent(workspace, "b");
    await runInDurableObject(workspace.store, (_, { storage }) => {
      vi.spyOn(storage, "onNextSessionRestoreBookmark").mockRejectedValue(new Error("the bookmark is too old"));
    });
    const detail = expect.stringContaining("the bookmark is too old");
    const refused = await workspace.ask("POST", "/restore", { at });
    expect(refused).toMatchObject({ status: 409, body: { code: "not_restorable", detail } });
    // No bookmark stays armed for a later start.
    await abortAllDurableObjects();
    await sent(workspace, "c");
    expect(await people(workspace)).toEqual(["a", "b", "c"]);
    expect(await alarms(workspace)).toEqual([]);
  });
});

test("a restore that one object refuses can be completed by repeating the call; until then nothing is recorded", async () => {
  const { workspace, at } = await withMoment("a");
  await sent(workspace, "b");
  await runInDurableObject(workspace.counter, (_, { storage }) => {
    vi.spyOn(storage, "onNextSessionRestoreBookmark").mockRejectedValue(new Error("not now"));
  });
  expect((await workspace.ask("POST", "/restore", { at })).status).toBe(503);
  expect(await alarms(workspace)).toContain("restore_unfinished");
  expect((await workspace.ask("POST", "/recover", {})).status).toBe(503);
  const refused = await workspace.ask("POST", "/restore", { at: new Date(START - 1).toISOString() });
  expect(refused.body).toMatchObject({ code: "restore_unfinished", detail: expect.stringContaining(at) });

  // An hour later calls are accepted again, and wait.
  later(3_600_000);
  expect((await workspace.send({ email: "c@example.com", event: "E" })).status).toBe(202);
  vi.restoreAllMocks();
  expect(await workspace.operator("POST", "/restore", { at })).toMatchObject({ lost: 2 });
  expect(await alarms(workspace)).toEqual(["signals_lost"]);
  await sent(workspace, "d");
  expect(await people(workspace)).toEqual(["a", "d"]);
  expect(await workspace.books()).toMatchObject({ accepted: 4, processed: 2, lost: 2, balanced: true });
});

test("senders get a 503 with Retry-After while a workspace is about to be restored, for at most a minute", async () => {
  const workspace = await newWorkspace({ signalLimit: 1_000 });
  await workspace.counter.close(Date.now() + 60_000);
  const refused = await workspace.send({ event: "E", email: "a@example.com" });
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, expect.stringMatching(/^\d+$/)]);
  later(60_000);
  expect((await workspace.send({ event: "E", email: "a@example.com" })).status).toBe(202);
});

describe("held signals", () => {
  async function withHeld(): Promise<TestWorkspace> {
    const workspace = await newWorkspace({ signalLimit: 2 });
    await sent(workspace, "a", "b", "c");
    expect(await workspace.books()).toMatchObject({ processed: 2, held: 1 });
    return workspace;
  }
  async function release(workspace: TestWorkspace): Promise<unknown> {
    await workspace.operator("PATCH", "", { overages: true });
    const released = await workspace.operator("POST", "/held/release");
    await workspace.settled();
    return released;
  }

  test("released since the restored moment are held again and can be released again", async () => {
    const workspace = await withHeld();
    const at = await moment(workspace);
    expect(await release(workspace)).toEqual({ released: 1, still_held: 0 });
    expect(await workspace.operator("POST", "/restore", { at })).toMatchObject({ lost: 0 });
    expect(await workspace.books()).toMatchObject({ processed: 2, held: 1, balanced: true });
    expect(await release(workspace)).toEqual({ released: 1, still_held: 0 });
    expect(await people(workspace)).toEqual(["a", "b", "c"]);
    expect(await workspace.books()).toMatchObject({ processed: 3, held: 0, lost: 0, balanced: true });
    expect(await workspace.operator("GET", "/usage")).toMatchObject({ accepted: 3, held: 0 });
  });

  test("in transit at that moment are counted once, although store and outbox have them", async () => {
    const workspace = await withHeld();
    await new TestCounter(workspace.id).sendTo(lose);
    await workspace.operator("PATCH", "", { overages: true });
    expect(await workspace.operator("POST", "/held/release")).toMatchObject({ released: 1 });
    const at = await moment(workspace);
    await workspace.send({ email: "lost@example.com", event: "E" });
    expect(await workspace.operator("POST", "/restore", { at, force: true })).toMatchObject({ lost: 1 });
    await runInDurableObject(workspace.counter, (instance) => instance.alarm());
    expect(await workspace.settled()).toMatchObject({ accepted: 4, processed: 3, held: 0, lost: 1, balanced: true });
  });

  test("released before the restored moment stay released", async () => {
    const workspace = await withHeld();
    await release(workspace);
    const at = await moment(workspace);
    await sent(workspace, "d");
    await workspace.operator("POST", "/restore", { at });
    expect(await release(workspace)).toEqual({ released: 0, still_held: 0 });
    expect(await workspace.books()).toMatchObject({ accepted: 4, processed: 3, held: 0, lost: 1, balanced: true });
  });
});

test("destinations are restored too, and the counter and the store learn again which types are wanted", async () => {
  const workspace = await newWorkspace({ signalLimit: 1_000 });
  const destination = { type: "webhook", target: "https://crm.example.com/in", events: ["usage.level"] };
  await workspace.operator("POST", "/destinations", { ...destination, name: "before" });
  const at = await moment(workspace);
  await workspace.operator("POST", "/destinations", { ...destination, name: "since", events: ["dead_letters.added"] });
  await workspace.operator("POST", "/restore", { at });
  const { items } = await workspace.operator<{ items: { name: string }[] }>("GET", "/destinations");
  expect(items.map(({ name }) => name)).toEqual(["before"]);
  const wanted = await runInDurableObject(workspace.counter, (_, { storage: { sql } }) =>
    sql.exec<{ wanted: string }>("SELECT wanted FROM wanted_notifications").one(),
  );
  expect(JSON.parse(wanted.wanted)).toMatchObject({ types: ["usage.level"], destinations: 1 });
});

describe("payloads in R2", () => {
  const objectsOf = async ({ id }: TestWorkspace) =>
    (await env.COLD.list({ prefix: `cold/${id}/` })).objects.map(({ key }) => key);
  const signalId = async (workspace: TestWorkspace) =>
    (await workspace.operator<{ items: { id: string }[] }>("GET", "/signals")).items.at(-1)?.id ?? "";

  /** Moves all payloads to R2. */
  async function moveToCold(workspace: TestWorkspace): Promise<void> {
    later(2 * DAY_MS);
    await ring(workspace.id);
  }

  /** A restored workspace whose payloads moved to R2 after that moment. */
  async function withUnknownObjects() {
    const { workspace, at } = await withMoment("a");
    await moveToCold(workspace);
    const objects = await objectsOf(workspace);
    expect(objects).toHaveLength(1);
    const { id } = await workspace.operator<{ id: string }>("POST", "/restore", { at });
    return { workspace, at, objects, id };
  }

  test("unknown to a restored workspace are kept for an undo and deleted after seven days", async () => {
    const { workspace, at, objects, id } = await withUnknownObjects();
    await ring(workspace.id, { seal: false });
    expect(await objectsOf(workspace)).toEqual(expect.arrayContaining(objects));
    await workspace.operator("POST", "/restore", { undo: id });
    const trace = await workspace.operator("GET", `/signals/${await signalId(workspace)}`);
    expect(trace).toMatchObject({ payload: { event: "E" }, payload_lost: false });

    await workspace.operator("POST", "/restore", { at });
    later(COLD_UNKNOWN_MS + 1);
    await ring(workspace.id, { seal: false });
    expect(await objectsOf(workspace)).not.toEqual(expect.arrayContaining(objects));
  });

  test("unknown to a restored workspace are deleted at once when the operator acknowledges", async () => {
    const { workspace, objects, id } = await withUnknownObjects();
    await workspace.operator("POST", `/restores/${id}/acknowledge`);
    await ring(workspace.id, { seal: false });
    expect(await objectsOf(workspace)).not.toEqual(expect.arrayContaining(objects));
  });

  test("with missing objects are reported as lost, and exports and deletions still work", async () => {
    const workspace = await newWorkspace({ signalLimit: 1_000 });
    await sent(workspace, "a", "b");
    await moveToCold(workspace);
    const at = await moment(workspace);
    for (const key of await objectsOf(workspace)) await env.COLD.delete(key);
    await workspace.operator("POST", "/restore", { at });
    const id = await signalId(workspace);
    const trace = await workspace.operator("GET", `/signals/${id}`);
    expect(trace).toMatchObject({ payload: null, in_cold_storage: false, payload_lost: true, status: "processed" });
    const authorization = `Bearer ${env.OPERATOR_TOKEN}`;
    const exported = await call(`/operator/workspaces/${workspace.id}/export/signals`, { headers: { authorization } });
    expect([exported.status, (await exported.text()).trim().split("\n").length]).toEqual([200, 2]);
    await workspace.operator("DELETE", "/people/a@example.com");
    // The first step removes the rest of the object from the tables, the second ends the deletion.
    for (let rings = 0; rings < 2; rings++) await ring(workspace.id, { seal: false });
    const deletion = await workspace.operator("GET", "/people/a@example.com/deletion");
    expect(deletion).toMatchObject({ finished_at: expect.any(String) });
  });
});

test("signals recorded in the second after the restored moment are kept, because bookmarks may differ slightly", async () => {
  const workspace = await newWorkspace({ signalLimit: 1_000 });
  await sent(workspace, "a");
  const counter = new TestCounter(workspace.id);
  await counter.sendTo(lose);
  await workspace.send({ email: "b@example.com", event: "E" });
  // The counter's backup is older than the store's: the counter considers a recorded signal as waiting.
  await runInDurableObject(workspace.counter, (_, { storage }) => storage.getCurrentBookmark());
  const at = new Date().toISOString();
  await runInDurableObject(env.DESTINATIONS.getByName(workspace.id) as DurableObjectStub, (_, { storage }) =>
    storage.getCurrentBookmark(),
  );
  later(300);
  // A starting counter resends what waits, to the real queue here.
  await abortAllDurableObjects();
  await workspace.counter.books();
  await workspace.settled();
  await runInDurableObject(workspace.store, (_, { storage }) => storage.getCurrentBookmark());
  later(60_000);
  await sent(workspace, "c");
  // The counter has b in its outbox and the store has recorded b: the books count b once.
  expect(await workspace.operator("POST", "/restore", { at })).toMatchObject({ lost: 1 });
  const books = { accepted: 3, processed: 2, duplicates: 0, lost: 1, balanced: true };
  expect(await workspace.settled()).toMatchObject(books);
  expect(await people(workspace)).toEqual(["a", "b"]);
});

describe("a message from before a restore", () => {
  /** A workspace whose messages are held back until the test delivers them. */
  async function withQueue(): Promise<{ workspace: TestWorkspace; queue: string[]; useQueue: () => Promise<void> }> {
    const workspace = await newWorkspace({ signalLimit: 1_000 });
    const queue: string[] = [];
    const counter = new TestCounter(workspace.id);
    const useQueue = () =>
      counter.sendTo(async (messages) => void queue.push(...messages.map(({ body }) => textOf(body))));
    await useQueue();
    return { workspace, queue, useQueue };
  }

  async function queued(workspace: TestWorkspace, queue: string[], name: string): Promise<string> {
    await workspace.send({ email: `${name}@example.com`, event: "E" });
    await until(() => expect(queue.join("")).toContain(`${name}@example.com`));
    return queue.splice(0).join("");
  }

  test.each([
    ["first", (old: string, fresh: string) => [[old], [fresh]]],
    ["last", (old: string, fresh: string) => [[fresh], [old]]],
    ["together with a new one", (old: string, fresh: string) => [[old, fresh]]],
  ])("brings nothing back and settles no new signal if it comes %s, despite a clock set back", async (_, batches) => {
    const { workspace, queue, useQueue } = await withQueue();
    await consumeMessages([await queued(workspace, queue, "a")]);
    const at = await moment(workspace);
    const old = await queued(workspace, queue, "lost");
    vi.setSystemTime(Date.now() - 3_600_000);
    expect(await workspace.operator("POST", "/restore", { at, force: true })).toMatchObject({ lost: 1 });
    await useQueue();
    const fresh = await queued(workspace, queue, "new");
    for (const batch of batches(old, fresh)) {
      // oxlint-disable-next-line no-await-in-loop
      await consumeMessages(batch);
    }
    expect(await people(workspace)).toEqual(["a", "new"]);
    expect(await workspace.counter.books()).toMatchObject({ unsettled: 0 });
    expect(await workspace.books()).toMatchObject({ accepted: 3, processed: 2, lost: 1, in_flight: 0, balanced: true });
  });

  test("does not settle rows that wait again", async () => {
    const { workspace, queue, useQueue } = await withQueue();
    const waiting = await queued(workspace, queue, "waiting");
    const at = await moment(workspace);
    await consumeMessages([waiting]);
    const old = await queued(workspace, queue, "lost");
    await workspace.operator("POST", "/restore", { at, force: true });
    await useQueue();
    await consumeMessages([old]);
    await until(async () => {
      // A starting counter resends what waits.
      await abortAllDurableObjects();
      await useQueue();
      await runInDurableObject(workspace.counter, (instance) => instance.alarm());
      await consumeMessages(queue.splice(0));
      expect(await workspace.counter.books()).toMatchObject({ unsettled: 0 });
    });
    expect(await people(workspace)).toEqual(["waiting"]);
    expect(await workspace.books()).toMatchObject({ accepted: 2, processed: 1, lost: 1, in_flight: 0, balanced: true });
  });
});

test("a repeated call does not restore an object twice", async () => {
  const { workspace, at } = await withMoment();
  await sent(workspace, "a");
  const bookmark = await runInDurableObject(workspace.store, (_, { storage }) =>
    storage.getBookmarkForTime(Date.parse(at)),
  );
  await workspace.store.restoreTo("rst_done", bookmark);
  expect(await people(workspace)).toEqual(["a"]);
});

/** Release of held signals (design §6) and replay of dead letters (design §8): sent again, counted once. */
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { SignalToRecord } from "../../../src/store/protocol/stored-signals.ts";
import { expectLogged } from "../../support/logged.ts";
import { heldIn } from "../../support/read-store.ts";
import { stopClock } from "../../support/clock.ts";
import { TestCounter } from "../../support/counter.ts";
import { consumeMessages } from "../../support/deliver.ts";
import { newPlan, newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

interface Trace {
  status: string;
  verdict: string;
  ordinal: number;
  source: string;
  points: number;
  received_at: string;
}

const form = (n: number) => ({ email: `p${n}@example.com`, event: "Filled Out Form" });

async function withRule(options: Parameters<typeof newWorkspace>[0]): Promise<TestWorkspace> {
  const workspace = await newWorkspace(options);
  const rule = { name: "form", event: "Filled Out Form", scoring_signal: "form", points: 10 };
  await workspace.operator("POST", "/rules", rule);
  return workspace;
}

/** Signals of different people. @returns their ids in order. */
async function sendAll(workspace: TestWorkspace, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 1; n <= count; n++) {
    const answer = await workspace.send(form(n), { path: "/api/signal-staging/webhook/web/{key}" });
    ids.push((await answer.json<{ id: string }>()).id);
  }
  return ids;
}

const release = (workspace: TestWorkspace) =>
  workspace.operator<{ released: number; still_held: number }>("POST", "/held/release");
const replay = (workspace: TestWorkspace, ids?: string[]) =>
  workspace.operator<{ replayed: number }>("POST", "/dead-letters/replay", ids === undefined ? {} : { ids });
const trace = (workspace: TestWorkspace, id = "") => workspace.operator<Trace>("GET", `/signals/${id}`);
const usage = (workspace: TestWorkspace) =>
  workspace.operator<{ accepted: number; held: number; overage: number }>("GET", "/usage");

async function scored(workspace: TestWorkspace): Promise<string[]> {
  const people = await workspace.list<{ email: string; score: number }>("/people");
  return people.flatMap(({ email, score }) => (score === 10 ? [email] : [])).sort();
}

describe("design §6: a release of held signals", () => {
  test("accepts as many as a larger plan has room for, oldest first, scored and counted once", async () => {
    const workspace = await withRule({ signalLimit: 3 });
    const ids = await sendAll(workspace, 6);
    await workspace.settled();
    const before = await trace(workspace, ids[3]);
    await workspace.operator("PATCH", "", { plan: await newPlan(5) });

    expect(await release(workspace)).toEqual({ released: 2, still_held: 1 });
    const books = await workspace.settled();
    expect(books).toMatchObject({ accepted: 6, processed: 5, held: 1, balanced: true });
    expect(await usage(workspace)).toMatchObject({ accepted: 5, held: 1 });
    expect(await scored(workspace)).toEqual([1, 2, 3, 4, 5].map((n) => `p${n}@example.com`));
    expect(await trace(workspace, ids[3])).toMatchObject({
      status: "processed",
      verdict: "accepted",
      ordinal: 4,
      source: "web",
      points: 10,
      received_at: before.received_at,
    });
    expect(await trace(workspace, ids[5])).toMatchObject({ status: "held", points: 0 });
  });

  test("accepts all with overages enabled and meters them as overage", async () => {
    const workspace = await withRule({ signalLimit: 2 });
    await sendAll(workspace, 4);
    await workspace.settled();
    await workspace.operator("PATCH", "", { overages: true });
    expect(await release(workspace)).toEqual({ released: 2, still_held: 0 });
    expect(await workspace.settled()).toMatchObject({ accepted: 4, processed: 4, held: 0, balanced: true });
    expect(await usage(workspace)).toMatchObject({ accepted: 4, held: 0, overage: 2 });
  });

  test("accepts no request without room, and starts only on request", async () => {
    const workspace = await withRule({ signalLimit: 2 });
    await sendAll(workspace, 4);
    await workspace.settled();
    expect(await release(workspace)).toEqual({ released: 0, still_held: 2 });
    await workspace.operator("PATCH", "", { plan: await newPlan(100) });
    expect(await workspace.settled()).toMatchObject({ held: 2, processed: 2 });
  });

  test("keeps Idempotency-Keys: of two signals with the same key one is a duplicate", async () => {
    const workspace = await withRule({ signalLimit: 2 });
    await sendAll(workspace, 2);
    for (const n of [3, 4]) await workspace.send(form(n), { headers: { "idempotency-key": "once" } });
    expect(await workspace.settled()).toMatchObject({ processed: 2, held: 2, duplicates: 0 });
    await workspace.operator("PATCH", "", { overages: true });
    expect(await release(workspace)).toMatchObject({ released: 2 });
    expect(await workspace.settled()).toMatchObject({ processed: 3, held: 0, duplicates: 1, balanced: true });
    expect(await scored(workspace)).toEqual(["p1@example.com", "p2@example.com", "p3@example.com"]);
  });

  test("loses and doubles nothing if both objects are killed right after it", async () => {
    const workspace = await withRule({ signalLimit: 2 });
    await sendAll(workspace, 4);
    await workspace.settled();
    await workspace.operator("PATCH", "", { overages: true });
    await release(workspace);
    await abortAllDurableObjects();
    expect((await release(workspace)).released).toBe(0);
    expect(await workspace.settled()).toMatchObject({ accepted: 4, processed: 4, held: 0, balanced: true });
    expect(await scored(workspace)).toHaveLength(4);
  });

  test("protects signals from the purge, even if the period ends on their way", async () => {
    const workspace = await withRule({ signalLimit: 1 });
    const [, heldId = ""] = await sendAll(workspace, 2);
    await workspace.settled();
    const periodEndMs = (await workspace.counter.usage())?.periodEndMs ?? 0;
    const [held] = await heldIn(workspace.id, periodEndMs);
    await workspace.operator("PATCH", "", { overages: true });
    stopClock(periodEndMs);
    await runInDurableObject(workspace.store, (instance) => instance.alarm());
    expect(await trace(workspace, heldId)).toMatchObject({ status: "purged" });
    const { admission, payload, from, place } = held as NonNullable<typeof held>;
    const released: SignalToRecord = {
      admission: { ...admission, verdict: "accepted", resent: { from, place } },
      payload,
      work: {
        kind: "account",
        account: { externalId: "acme", fields: {}, attributes: {} },
        contentHash: null,
        duplicateWindowMs: 0,
      },
    };
    await workspace.store.record([{ row: 2 ** 52, signals: [released] }]);
    expect(await trace(workspace, heldId)).toMatchObject({ status: "processed" });
    expect(await workspace.books()).toMatchObject({ accepted: 2, processed: 2, purged: 0, balanced: true });
  });
});

describe("design §8: a replay of dead letters", () => {
  /** Makes the store reject signals, as a bug would; each message arrives as one that has failed before. */
  async function rejectInserts(workspace: TestWorkspace): Promise<void> {
    await new TestCounter(workspace.id).sendTo((messages) =>
      consumeMessages(
        messages.map(({ body }) => body),
        { attempts: 2 },
      ),
    );
    await runInDurableObject(workspace.store, (_, { storage }) => {
      storage.sql.exec("CREATE TRIGGER reject BEFORE INSERT ON people BEGIN SELECT raise(ABORT, 'broken'); END");
    });
  }
  function repair(workspace: TestWorkspace): Promise<void> {
    return runInDurableObject(workspace.store, (_, { storage }) => void storage.sql.exec("DROP TRIGGER reject"));
  }

  test("scores all of them after a fix and keeps the books balanced", async () => {
    expectLogged("record_failed");
    const workspace = await withRule({});
    await rejectInserts(workspace);
    const ids = await sendAll(workspace, 3);
    expect(await workspace.settled()).toMatchObject({ accepted: 3, dead_lettered: 3, balanced: true });
    await repair(workspace);
    expect(await replay(workspace)).toEqual({ replayed: 3 });
    expect(await workspace.books()).toMatchObject({ accepted: 3, balanced: true });
    expect(await workspace.settled()).toMatchObject({ accepted: 3, processed: 3, dead_lettered: 0, balanced: true });
    expect(await scored(workspace)).toHaveLength(3);
    expect(await trace(workspace, ids[0])).toMatchObject({ status: "processed", source: "web", ordinal: 1 });
    expect(await usage(workspace)).toMatchObject({ accepted: 3 });
    expect(await replay(workspace)).toEqual({ replayed: 0 });
  });

  test("replays a single one, which becomes a dead letter again if it is still broken", async () => {
    expectLogged("record_failed");
    const workspace = await withRule({});
    await rejectInserts(workspace);
    const [first = "", second = ""] = await sendAll(workspace, 2);
    await workspace.settled();
    expect(await replay(workspace, [first])).toEqual({ replayed: 1 });
    expect(await workspace.settled()).toMatchObject({ accepted: 2, dead_lettered: 2, balanced: true });
    await repair(workspace);
    await replay(workspace, [first]);
    expect(await workspace.settled()).toMatchObject({ processed: 1, dead_lettered: 1, balanced: true });
    expect(await trace(workspace, second)).toMatchObject({ status: "dead" });
  });

  test("keeps Idempotency-Keys: of two signals with the same key one is a duplicate", async () => {
    expectLogged("record_failed");
    const workspace = await withRule({});
    await rejectInserts(workspace);
    for (const n of [1, 2]) await workspace.send(form(n), { headers: { "idempotency-key": "once" } });
    expect(await workspace.settled()).toMatchObject({ dead_lettered: 2 });
    await repair(workspace);
    await replay(workspace);
    expect(await workspace.settled()).toMatchObject({ processed: 1, duplicates: 1, dead_lettered: 0, balanced: true });
  });

  test("ignores other workspaces and signals that are not dead", async () => {
    const [workspace, otherWorkspace] = [await withRule({}), await withRule({})];
    const ids = await sendAll(workspace, 1);
    await workspace.settled();
    expect(await replay(workspace, ids)).toEqual({ replayed: 0 });
    expect(await replay(otherWorkspace, ids)).toEqual({ replayed: 0 });
  });
});

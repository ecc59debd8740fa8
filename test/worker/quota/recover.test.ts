/** Design §2, §5: a Quota Counter that was restored from a backup, and the Signal Store and D1 that have gone on. */
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { readMessage, writeSignal } from "../../../src/wire/message.ts";
import type { Envelope } from "../../../src/wire/admission.ts";
import type { SignalAgain } from "../../../src/quota/protocol.ts";
import { recoverWorkspace } from "../../../src/workspace/recover-workspace.ts";
import { controlDatabase } from "../../../src/control/database.ts";
import { TestCounter, admitCall, lose, newCounter } from "../../support/counter.ts";
import { consumeMessages, deliver } from "../../support/deliver.ts";
import { until } from "../../support/until.ts";
import { newWorkspace } from "../../support/workspace.ts";
import type { TestWorkspace } from "../../support/workspace.ts";
import { signalStore } from "../../../src/workspace/objects.ts";

/** A counter's periods begin on the first of a month: none ends while a test goes on, whenever it is run. */
function stopInPeriod(): void {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2031, 0, 15) });
}

afterEach(() => vi.useRealTimers());

const rowsOf = async (counter: TestCounter) => (await counter.rows()).map(({ row }) => row);

/** All that wait, behind a number. */
async function renumber(counter: TestCounter, behindRow: number): Promise<number> {
  const waiting = await counter.stub.goOnBehind(behindRow);
  return counter.stub.renumber(waiting.map(({ row }) => row));
}

/** A dead letter of this counter's first period, replayed. */
function replayed(id: string): SignalAgain {
  const admitted = { verdict: "held", ordinal: 7, at: 5, period_start: 1, period_end: 9, limit: 2 } as const;
  const envelope: Envelope = { id, key: "key_1", again: { from: "dead", place: 12, ...admitted } };
  const text = writeSignal(envelope, '{"event":"dead"}');
  return { id, periodStartMs: 1, text, bytes: text.length };
}

/** Five rows, of which the first and the third are settled: accepted, held and replayed signals. */
async function withRows(): Promise<TestCounter> {
  const counter = await newCounter({ signalLimit: 4 });
  await counter.sendTo(lose);
  for (const signals of [1, 2, 1, 3]) await counter.counted(signals);
  await counter.stub.replay([replayed("sig_dead")]);
  await counter.stub.settle([1, 3]);
  return counter;
}

describe("rows with numbers that the store has seen", () => {
  beforeEach(stopInPeriod);

  test.each([
    { behindRow: 1_000, renumbered: [1_001, 1_002, 1_003] },
    { behindRow: 2, renumbered: [6, 7, 8] },
    { behindRow: 5, renumbered: [6, 7, 8] },
  ])("get others behind $behindRow and behind all of their own, in order", async ({ behindRow, renumbered }) => {
    const counter = await withRows();
    const before = await counter.unsettled();
    const books = await counter.stub.books();
    expect(await rowsOf(counter)).toEqual([2, 4, 5]);
    expect(await renumber(counter, behindRow)).toBe(3);

    expect(await rowsOf(counter)).toEqual(renumbered);
    const after = await counter.unsettled();
    expect(after.map(({ row }) => row)).toEqual([0, 0, 1, 1, 1, 2].map((which) => renumbered[which]));
    const withoutNumber = after.map((signal, index) => ({
      ...signal,
      row: before[index]?.row,
    }));
    expect(withoutNumber).toEqual(before);
    expect(before.map(({ verdict }) => verdict)).toEqual(["accepted", "accepted", "held", "held", "held", "held"]);
    expect(await counter.stub.books()).toEqual(books);
  });

  test("are sent from the oldest on, before what is admitted then; also after a restart", async () => {
    const counter = await withRows();
    const sent: number[][] = [];
    const record = async (messages: { body: string }[]) => {
      sent.push(messages.flatMap(({ body }) => readMessage(body).rows.map(({ row }) => row.row)));
    };
    await counter.configure({ signalLimit: 100 });
    await counter.sendTo(record);
    await renumber(counter, 10);
    await until(() => expect(sent.at(-1)?.slice(0, 3)).toEqual([11, 12, 13]));
    await counter.counted(1);
    await until(() => expect(sent.at(-1)?.at(-1)).toBe(14));
    await abortAllDurableObjects();
    await counter.sendTo(record);
    await until(() => expect(sent.at(-1)).toEqual([11, 12, 13, 14]));
    await counter.counted(1);
    expect(await rowsOf(counter)).toEqual([11, 12, 13, 14, 15]);
  });

  test("are not settled by what names their old numbers", async () => {
    const counter = await withRows();
    await renumber(counter, 3);
    await counter.stub.settle([1, 2, 3, 4, 5]);
    expect(await rowsOf(counter)).toEqual([6, 7, 8]);
  });

  test("keep their numbers where they are not named; what comes then has others in any case", async () => {
    const counter = await withRows();
    expect((await counter.stub.goOnBehind(1)).map(({ row }) => row)).toEqual([2, 4, 5]);
    expect(await counter.stub.renumber([4, 3, 99])).toBe(1);
    expect(await rowsOf(counter)).toEqual([2, 5, 6]);
    await counter.stub.settle([2, 5, 6]);
    expect(await counter.stub.goOnBehind(100)).toEqual([]);
    expect(await counter.stub.renumber([])).toBe(0);
    await counter.counted(1);
    expect(await rowsOf(counter)).toEqual([101]);
  });

  test("are only those that are not settled: a last one that is settled leaves nothing behind", async () => {
    const counter = await newCounter({ signalLimit: 100 });
    await counter.sendTo(lose);
    for (const signals of [1, 2, 3]) await counter.counted(signals);
    await counter.stub.settle([3]);
    expect(await renumber(counter, 10)).toBe(2);
    await abortAllDurableObjects();
    await counter.sendTo(lose);
    await counter.counted(1);
    const rows = await runInDurableObject(counter.stub, (_, { storage }) =>
      storage.sql.exec<{ row: number }>("SELECT row FROM outbox").toArray(),
    );
    expect(rows.map(({ row }) => row)).toEqual([11, 12, 13]);
    expect(await counter.stub.books()).toEqual({ admitted: 7, unsettled: 4 });
  });

  test("get new numbers all or none", async () => {
    const counter = await withRows();
    const before = await counter.rows();
    const repair = await counter.breakStatement("INSERT OR REPLACE INTO ledger");
    // Within the object: what it throws at a caller would be reported as nobody's.
    const error = await runInDurableObject(counter.stub, (instance) => {
      try {
        return String(instance.renumber([2, 4, 5]));
      } catch (caught) {
        return String(caught);
      }
    });
    expect(error).toContain("disk full");
    await repair();
    expect(await counter.rows()).toEqual(before);
    await counter.counted(1);
    expect(await rowsOf(counter)).toEqual([2, 4, 5, 6]);
  });

  test("leave signals that the counter has forgotten to be counted once, by whoever has seen the latest count", async () => {
    const counter = await newCounter();
    await counter.sendTo(lose);
    await counter.counted(3);
    expect(await counter.stub.countForgotten(5, 2)).toBe(false);
    expect(await counter.stub.books()).toEqual({ admitted: 3, unsettled: 3 });
    expect(await counter.stub.countForgotten(5, 3)).toBe(true);
    await abortAllDurableObjects();
    expect(await counter.stub.books()).toEqual({ admitted: 8, unsettled: 3 });
    expect(await counter.stub.countForgotten(5, 3)).toBe(false);
  });

  test("may be many, and one of them unreadable", async () => {
    const counter = await newCounter({ signalLimit: 1_000 });
    await counter.sendTo(lose);
    await runInDurableObject(counter.stub, async (instance) => {
      for (let call = 0; call < 250; call++) await instance.admit(admitCall(1));
    });
    await runInDurableObject(counter.stub, (_, { storage }) => {
      storage.sql.exec("UPDATE outbox SET body = '\u001dnonsense' WHERE row = 17");
    });
    expect(await renumber(counter, 250)).toBe(250);
    expect(await rowsOf(counter)).toEqual(Array.from({ length: 250 }, (_, n) => 251 + n));
    expect((await counter.unsettled()).map(({ row }) => row)).toEqual(
      Array.from({ length: 250 }, (_, n) => 251 + n).filter((row) => row !== 267),
    );
    expect((await counter.rows())[16]?.body).toBe("\u001dnonsense");
  });
});

describe("POST /operator/workspaces/{id}/recover", () => {
  test("tells both objects again what is to be told of the workspace", async () => {
    const workspace = await newWorkspace();
    const destination = { name: "CRM", type: "webhook", target: "https://crm.example.com/in", events: ["usage.level"] };
    await workspace.operator("POST", "/destinations", destination);
    const nobody = { types: [], thresholds: [] };
    await workspace.counter.wantEvents(nobody);
    await workspace.store.wantEvents(nobody);
    await workspace.operator("POST", "/recover");
    const ofCounter = await runInDurableObject(workspace.counter, (_, { storage: { sql } }) =>
      sql.exec<{ wanted: string }>("SELECT wanted FROM wanted_events").one(),
    );
    expect(JSON.parse(ofCounter.wanted)).toEqual({ types: ["usage.level"], thresholds: [], destinations: 1 });
    const ofStore = await runInDurableObject(workspace.store, (_, { storage: { sql } }) =>
      sql.exec<{ meta: string }>("SELECT meta FROM heads").one(),
    );
    expect(JSON.parse(ofStore.meta)).toMatchObject({
      wanted: { types: ["usage.level"], thresholds: [], destinations: 1 },
    });
  });

  test("takes plan and deactivated keys from D1, renumbers behind what the store has seen, and says so", async () => {
    const workspace = await newWorkspace({ signalLimit: 10 });
    const counter = new TestCounter(workspace.id);
    await counter.sendTo(lose);
    const [ended, other] = [await workspace.newKey(), await workspace.newKey()];
    for (const { id } of [ended, other]) await workspace.operator("POST", `/keys/${id}/deactivate`);
    const event = { email: "a@example.com", event: "Signed Up" };
    await workspace.send(event);
    // The counter is as a backup would have it: of before one of the keys was ended, and before the plan was changed.
    await runInDurableObject(workspace.counter, (_, { storage }) => {
      storage.sql.exec("DELETE FROM revoked_keys WHERE key_id = ?", ended.id);
      storage.sql.exec("UPDATE ledger SET signal_limit = 3");
    });
    await abortAllDurableObjects();
    await counter.sendTo(lose);
    expect((await workspace.send(event, { key: ended.key })).status).toBe(202);

    const totals = { processed: 0, duplicates: 0, held: 0, purged: 0, deadLettered: 0 };
    const known = { recorded: [], refused: [1, 2], totals };
    const seen = { workspace: 0, rules: [] };
    const answers = { highestRow: () => 41, knownRows: () => known, ruleVersions: () => seen, configure: () => {} };
    const bindings = { ...env, SIGNAL_STORE: { getByName: () => answers } } as unknown as Env;
    const by = { actor: "operator", nowMs: Date.now() };
    const done = { renumbered: 2, settled: 0, revoked: 1, counted: 0, rulesPassedOver: false };
    expect(await recoverWorkspace(bindings, controlDatabase(env.DB), workspace.id, by)).toEqual(done);
    expect(await rowsOf(counter)).toEqual([42, 43]);
    for (const { key } of [ended, other]) expect((await workspace.send(event, { key })).status).toBe(401);
    expect(await workspace.counter.usage()).toMatchObject({ signalLimit: 10, accepted: 2 });
    await abortAllDurableObjects();
    // What waits stays so, whoever is first.
    await counter.sendTo(lose);
    expect((await workspace.send(event, { key: ended.key })).status).toBe(401);

    const nothing = { renumbered: 0, settled: 0, revoked: 0, counted: 0, rules_passed_over: false };
    expect(await workspace.operator("POST", "/recover")).toEqual(nothing);
    const { results } = await env.DB.prepare(
      "SELECT actor, target, detail FROM audit_log WHERE workspace_id = ? AND action = 'workspace.recovered' ORDER BY id",
    )
      .bind(workspace.id)
      .all();
    expect(results).toEqual([
      { actor: "operator", target: workspace.id, detail: JSON.stringify(done) },
      { actor: "operator", target: workspace.id, detail: JSON.stringify({ ...done, renumbered: 0, revoked: 0 }) },
    ]);
  });

  /** Rows of the counter as a backup has them, taken when there were these. */
  async function restore(workspace: TestWorkspace, backup: readonly object[]): Promise<void> {
    await runInDurableObject(workspace.counter, (_, { storage: { sql } }) => {
      sql.exec("DELETE FROM outbox");
      for (const row of backup) {
        const entries = Object.entries(row) as [string, SqlStorageValue][];
        sql.exec(
          `INSERT INTO outbox (${entries.map(([name]) => name).join(", ")}) VALUES (${entries.map(() => "?").join(", ")})`,
          ...entries.map(([, value]) => value),
        );
      }
    });
  }
  const backUp = ({ counter }: TestWorkspace) =>
    runInDurableObject(counter, (_, { storage: { sql } }) => ({
      ledger: sql.exec("SELECT * FROM ledger").toArray(),
      outbox: sql.exec("SELECT * FROM outbox").toArray(),
    }));

  test("records nothing twice: neither what was recorded since the backup, nor what is on its way", async () => {
    const workspace = await newWorkspace({ signalLimit: 100 });
    const counter = new TestCounter(workspace.id);
    const bodies: string[] = [];
    const keep = async (messages: { body: string }[]) => void bodies.push(...messages.map(({ body }) => body));
    await counter.sendTo(keep);
    const send = async (n: number) => {
      await workspace.send({ email: `p${n}@example.com`, event: "E" });
      await until(() => expect(bodies.join("")).toContain(`p${n}@`));
    };
    for (const n of [1, 2]) await send(n);
    const { ledger, outbox } = await backUp(workspace);
    await send(3);
    await consumeMessages(bodies.splice(0));
    expect(await workspace.books()).toMatchObject({ processed: 3, in_flight: 0 });

    await restore(workspace, outbox);
    await runInDurableObject(workspace.counter, (_, { storage: { sql } }) => {
      sql.exec("UPDATE ledger SET next_row = ?", (ledger[0]?.["next_row"] ?? 0) as number);
    });
    await abortAllDurableObjects();
    await counter.sendTo(keep);
    await until(() => expect(bodies.join("")).toContain("p2@"));
    bodies.length = 0;
    // Under the number that the third had; and one behind all that the store has seen, which is on its way.
    for (const n of [4, 5]) await send(n);
    const onTheWay = bodies.filter((body) => body.includes("p5@"));
    await consumeMessages(bodies.filter((body) => body.includes("p4@")));
    expect(await workspace.operator("GET", "/health")).toMatchObject({ alarms: [{ alarm: "counter_restored" }] });

    expect(await workspace.operator("POST", "/recover")).toMatchObject({ renumbered: 1, settled: 2 });
    await consumeMessages(onTheWay);
    await until(() => expect(bodies.at(-1)).toContain("p4@"));
    await consumeMessages(bodies);
    const people = await workspace.operator<{ items: { email: string }[] }>("GET", "/people");
    expect(people.items.map(({ email }) => email.slice(0, 2)).sort()).toEqual(["p1", "p2", "p3", "p4", "p5"]);
    expect(await signalStore(env, workspace.id).totals()).toMatchObject({ processed: 5, duplicates: 0 });
    expect(await workspace.counter.books()).toMatchObject({ unsettled: 0 });
    expect(await workspace.operator("GET", "/health")).toMatchObject({ status: "ok" });
  });

  test("leaves a healthy workspace as it is, whatever is on its way", async () => {
    const workspace = await newWorkspace({ signalLimit: 100 });
    const counter = new TestCounter(workspace.id);
    const bodies: string[] = [];
    await counter.sendTo(async (messages) => void bodies.push(...messages.map(({ body }) => body)));
    for (const n of [1, 2, 3]) {
      await workspace.send({ email: `p${n}@example.com`, event: "E" });
      await until(() => expect(bodies.join("")).toContain(`p${n}@`));
    }
    await consumeMessages(bodies.slice(1));
    expect(await workspace.operator("POST", "/recover")).toMatchObject({ renumbered: 0, settled: 0 });
    await consumeMessages(bodies);
    expect(await workspace.books()).toMatchObject({
      accepted: 3,
      processed: 3,
      duplicates: 0,
      in_flight: 0,
      balanced: true,
    });
  });

  test("puts mapping rules of a restored D1 behind those that the store has seen, and signals are processed again", async () => {
    const workspace = await newWorkspace({ signalLimit: 100 });
    const rule = { name: "R", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 5 };
    const { id } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
    const backup = await env.DB.prepare("SELECT version FROM mapping_rules WHERE id = ?")
      .bind(id)
      .first<{ version: number }>();
    for (const points of [6, 7]) await workspace.operator("PATCH", `/rules/${id}`, { points });
    const score = async () =>
      (await workspace.operator<{ items: { score: number }[] }>("GET", "/people")).items.map((person) => person.score);
    await workspace.send({ email: "a@example.com", event: "E" });
    await workspace.settled();
    const apply = async () => {
      await workspace.operator("POST", `/rules/${id}/apply`);
      await until(async () =>
        expect(await workspace.operator("GET", `/rules/${id}/apply`)).toMatchObject({ status: "done" }),
      );
    };
    await apply();
    expect(await score()).toEqual([7]);

    await env.DB.batch([
      env.DB.prepare("UPDATE mapping_rules SET version = ?, points = 5 WHERE id = ?").bind(backup?.version, id),
      env.DB.prepare("UPDATE workspaces SET rules_version = 1 WHERE id = ?").bind(workspace.id),
    ]);
    const late = { id: "sig_late", payload: { email: "b@example.com", event: "E" } };
    expect((await deliver(workspace.id, [late])).retryMessages).toHaveLength(1);
    expect(await workspace.operator("POST", "/recover")).toMatchObject({ rules_passed_over: true });
    expect((await deliver(workspace.id, [late])).retryMessages).toEqual([]);
    expect(await score()).toEqual([5, 7]);
    await apply();
    expect(await score()).toEqual([5, 5]);
    expect(await workspace.operator("POST", "/recover")).toMatchObject({ rules_passed_over: false });
  });
});

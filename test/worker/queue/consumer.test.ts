/** Design §2, §8: the consumer of both signal queues, with failing, repeated and damaged messages. */
import {
  createExecutionContext,
  createMessageBatch,
  evictDurableObject,
  getQueueResult,
  runDurableObjectAlarm,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { deliver as deliverNotifications } from "../../../src/notifications/delivery-consumer.ts";
import { consume, MESSAGE_MAX_ATTEMPTS } from "../../../src/queue/consumer.ts";
import { LINK_ALARM_MS } from "../../../src/store/people/linking.ts";
import { describe, expect, test, vi } from "vitest";
import { signalStore } from "../../../src/use-cases/objects.ts";
import { stopClock } from "../../support/clock.ts";
import { TestCounter, newCounter } from "../../support/counter.ts";
import { MINUTE, consumeMessages, deliver, messageOf } from "../../support/deliver.ts";
import { expectLogged } from "../../support/logged.ts";
import { recordD1 } from "../../support/statements.ts";
import { until } from "../../support/until.ts";
import { callOf, edited, textOf } from "../../support/wire.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";
import { deadIn } from "../../support/read-store.ts";

const PAGE = { cursor: null, limit: 50 };
const RULE = { name: "r", event: "*", scoring_signal: "s", points: 3 };
const NOTHING = { processed: 0, duplicates: 0, held: 0, purged: 0, deadLettered: 0 };

/** Admitted signals with these payloads, in one row each or all in one, as the queue would deliver them. */
async function onTheWay(
  payloads: string[],
  counterOf: () => Promise<TestCounter> = newCounter,
  { inOneRow = false } = {},
): Promise<{ counter: TestCounter; ids: string[]; bodies: string[] }> {
  const counter = await counterOf();
  const bodies: string[] = [];
  await counter.sendTo(async (messages) => bodies.push(...messages.map(({ body }) => textOf(body))));
  const ids = payloads.map((_, index) => `sig_${counter.id}_${index}`);
  const signals = payloads.map((payload, index) => ({ id: ids[index] ?? "", payload }));
  const calls = inOneRow ? [signals] : signals.map((signal) => [signal]);
  for (const call of calls) await counter.admit(0, callOf({ key: "key_1" }, call));
  const carried = () => bodies.join("").split("\u001fsig_").length - 1;
  await until(() => expect(carried()).toBe(payloads.length));
  return { counter, ids, bodies };
}

const good = (name: string) => JSON.stringify({ email: `${name}@example.com`, event: "Signed Up" });

async function statuses(workspaceId: string, ids: string[]) {
  const store = signalStore(env, workspaceId);
  return Promise.all(ids.map(async (id) => (await store.signal(id))?.status));
}

/** Makes the store reject inserts here, also after a restart. */
function reject(workspaceId: string, inserts: string): Promise<void> {
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage }) => {
    storage.sql.exec(`CREATE TRIGGER reject BEFORE INSERT ON ${inserts}
      BEGIN SELECT raise(ABORT, 'cannot be written'); END`);
  });
}

function contents({ store }: TestWorkspace): Promise<unknown[]> {
  return runInDurableObject(store, (_, { storage: { sql } }) => {
    const tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf*'";
    // Buffers would all compare as equal.
    const comparable = (row: Record<string, SqlStorageValue>): unknown[] =>
      Object.values(row).map((value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString("base64") : value));
    return [...sql.exec<{ name: string }>(tables)].map(({ name }) => [
      name,
      [...sql.exec(`SELECT * FROM ${name}`)].map(comparable),
    ]);
  });
}

/** The real bindings, except one object of one workspace, which answers these calls as given. */
function withStore(workspaceId: string, calls: Record<string, (...given: never[]) => unknown>): Env {
  const getByName = (name: string) => {
    const stub = env.SIGNAL_STORE.getByName(name);
    if (name !== workspaceId) return stub;
    return new Proxy(stub, { get: (target, call: string) => calls[call] ?? Reflect.get(target, call) });
  };
  return { ...env, SIGNAL_STORE: { getByName } } as unknown as Env;
}

/** People who become known from here on are linked after their batch, not with it. */
const changeRules = (workspace: TestWorkspace) => workspace.operator("POST", "/rules", { ...RULE, event: "Never" });

const unreachable = () => Promise.reject(new Error("store is unreachable"));

describe("a batch of several workspaces", () => {
  test.each([
    { attempts: 1, delaySeconds: 5 },
    { attempts: 3, delaySeconds: 20 },
    { attempts: 5, delaySeconds: 80 },
  ])("delays only the messages of a failing workspace, after $attempts attempts by $delaySeconds s", async (retry) => {
    expectLogged("batch_failed");
    const [first, failing, third] = [await newCounter(), await newCounter(), await newCounter()];
    const bodies = [first, failing, third, failing].map(({ id }, index) =>
      messageOf(id, [{ id: `sig_${index}`, payload: { email: "a@example.com", event: `e${index}` } }]),
    );
    const bindings = withStore(failing.id, { record: unreachable });
    const result = await consumeMessages(bodies, { attempts: retry.attempts, bindings });
    expect(result.explicitAcks).toEqual(["0", "2"]);
    const { delaySeconds } = retry;
    expect(result.retryMessages).toEqual([
      { msgId: "1", delaySeconds },
      { msgId: "3", delaySeconds },
    ]);
    expect(await statuses(first.id, ["sig_0"])).toEqual(["processed"]);
    expect(await statuses(failing.id, ["sig_1", "sig_3"])).toEqual([undefined, undefined]);
  });
});

describe("a message that somebody else has sent to the queue", () => {
  const batchOf = <Body>(queue: string, bodies: Body[]) =>
    createMessageBatch<Body>(
      queue,
      bodies.map((body, n) => ({ id: String(n), timestamp: new Date(), attempts: 1, body })),
    );

  test.each(["signals", "signals-dlq"])(
    "is dropped from %s, and harms no other message of its batch",
    async (queue) => {
      expectLogged("rows_unreadable");
      const { id } = await newCounter();
      const { buffer } = Uint8Array.from(messageOf(id, [{ id: "sig_0", payload: { event: "e" } }]));
      const batch = batchOf(queue, [{ hello: 1 } as unknown as ArrayBuffer, buffer]);
      await consume(batch, env as Env);
      expect((await getQueueResult(batch, createExecutionContext())).explicitAcks).toEqual(["0", "1"]);
      expect((await statuses(id, ["sig_0"]))[0]).toBeDefined();
    },
  );

  test("harms no other message of the deliveries", async () => {
    expectLogged("delivery_lost");
    const take = vi.fn(() => Promise.resolve(null));
    const bindings = { ...env, DESTINATIONS: { getByName: () => ({ take }) } } as unknown as Env;
    const context = createExecutionContext();
    deliverNotifications(batchOf("deliveries", ["hello", '{"workspaceId":"ws_1","id":"dlv_1"}']), bindings, context);
    await waitOnExecutionContext(context);
    expect(take.mock.calls).toEqual([[{ id: "dlv_1" }]]);
  });
});

test("records ten messages of a workspace at a time, with the highest of their lowest unsettled rows", async () => {
  const { id } = await newCounter();
  const recorded: unknown[] = [];
  const record = async (rows: unknown[], { lowestUnsettledRow }: { lowestUnsettledRow: number }) => {
    recorded.push([rows.length, lowestUnsettledRow]);
    return { outcome: "recorded" };
  };
  const bodies = Array.from({ length: 12 }, (_, n) =>
    edited(messageOf(id, [{ id: `sig_${n}`, payload: { event: "e" } }]), " 0", ` ${n === 3 ? 9 : 5}`),
  );
  expect((await consumeMessages(bodies, { bindings: withStore(id, { record }) })).explicitAcks).toHaveLength(12);
  expect(recorded).toEqual([
    [10, 9],
    [2, 5],
  ]);
});

describe("the rules of a batch of many workspaces", () => {
  /** D1 as the consumer sees it, with its queries; the first sessions fail. */
  function askedD1(failing = 0) {
    const { d1, queries } = recordD1(env.DB);
    let sessions = 0;
    const withSession = () => {
      if (++sessions <= failing) throw new Error("D1 is down");
      return d1;
    };
    return { bindings: { ...env, DB: { withSession } } as unknown as Env, queries };
  }

  async function withRules(count: number) {
    const workspaces = await Promise.all(Array.from({ length: count }, () => newWorkspace()));
    for (const [n, workspace] of workspaces.entries()) {
      await workspace.operator("POST", "/rules", { ...RULE, event: "Form", points: n + 1 });
    }
    return workspaces;
  }

  const batchOf = (workspaces: TestWorkspace[], id: string) =>
    workspaces.map((workspace) => {
      const payload = { event: "Form", email: "a@example.com", n: id };
      return messageOf(workspace.id, [{ id: `sig_${id}_${workspace.id}`, payload }]);
    });
  const scores = (workspaces: TestWorkspace[]) =>
    Promise.all(workspaces.map(async (each) => (await each.list("/people?email=a@example.com"))[0]?.["score"]));

  test("are read with one query for all versions, and one batch for the uncached rules and exclusions", async () => {
    const workspaces = await withRules(5);
    const first = askedD1();
    await consumeMessages(batchOf(workspaces, "1"), { bindings: first.bindings });
    expect(await scores(workspaces)).toEqual([1, 2, 3, 4, 5]);
    expect(first.queries()).toEqual([
      expect.stringMatching(/"rules_version".* from "workspaces"/),
      expect.stringContaining('from "mapping_rules"'),
      expect.stringContaining('from "exclusion_versions"'),
    ]);
    const second = askedD1();
    await consumeMessages(batchOf(workspaces, "2"), { bindings: second.bindings });
    expect(await scores(workspaces)).toEqual([2, 4, 6, 8, 10]);
    expect(second.queries()).toHaveLength(1);
  });

  test("are read per workspace if the common query fails", async () => {
    const workspaces = await withRules(2);
    const { bindings } = askedD1(1);
    const { retryMessages } = await consumeMessages(batchOf(workspaces, "1"), { bindings });
    expect(retryMessages).toEqual([]);
    expect(await scores(workspaces)).toEqual([1, 2]);
  });
});

describe("§8: one bad signal never affects its neighbours", () => {
  test("an account update without its key's payload template stays a dead letter", async () => {
    const template = [{ target: "external_id", path: "id", type: "string" }];
    const accounts = { endpoint_type: "product_org", payload_template: template };
    const workspace = await newWorkspace({ key: accounts });
    const kept = await workspace.newKey(accounts);
    await env.DB.prepare("DELETE FROM payload_templates WHERE id = ?").bind(workspace.key.id).run();
    const update = (id: string, key: string) => ({
      id,
      payload: { id },
      head: { endpoint: "product_org" as const, key, template: 1 },
    });
    const signals = [
      update("sig_1", workspace.key.id),
      update("sig_2", kept.id),
      { id: "sig_3", payload: { email: "a@example.com", event: "e" } },
    ];
    const result = await consumeMessages([messageOf(workspace.id, signals)]);
    expect(result).toMatchObject({ explicitAcks: ["0"], retryMessages: [] });
    const ids = signals.map(({ id }) => id);
    expect(await statuses(workspace.id, ids)).toEqual(["dead", "processed", "processed"]);
    const dead = async () => (await signalStore(env, workspace.id).deadLetters(PAGE)).items;
    const reason =
      "The payload template of its API key is no longer stored. A key keeps its 20 newest versions, until 90 days after its end.";
    const [letter] = await dead();
    expect(letter).toMatchObject({ id: "sig_1", reason });
    const place = (await deadIn(workspace.id))[0]?.place ?? 0;
    const replayed = { ...update("sig_1", workspace.key.id), resent: { from: "dead" as const, place } };
    expect((await deliver(workspace.id, [replayed])).retryMessages).toEqual([]);
    expect(await dead()).toMatchObject([{ id: "sig_1", reason }]);
  });

  test.each([
    { when: "in the middle of its batch", rejected: "people WHEN NEW.email = 'v@example.com'", inOneRow: false },
    { when: "when all else of its batch is written", rejected: "link_jobs", inOneRow: false },
    { when: "in the middle of its row", rejected: "people WHEN NEW.email = 'v@example.com'", inOneRow: true },
    { when: "when all else of its row is written", rejected: "link_jobs", inOneRow: true },
  ])(
    "a signal that the store cannot write, $when: the batch records nothing, then all other signals",
    async (poisoned) => {
      expectLogged("batch_failed", "record_failed");
      const { rejected, inOneRow } = poisoned;
      const workspace = await newWorkspace();
      await workspace.operator("POST", "/rules", RULE);
      await workspace.send({ type: "track", event: "Opened", anonymousId: "visitor-1" });
      await workspace.settled();
      await changeRules(workspace);
      await reject(workspace.id, rejected);
      const before = await contents(workspace);
      const poison = { type: "identify", anonymousId: "visitor-1", traits: { email: "v@example.com" } };
      const payloads = [good("a"), JSON.stringify(poison), good("b")];
      const { ids, bodies } = await onTheWay(payloads, async () => new TestCounter(workspace.id), { inOneRow });

      const first = await consumeMessages(bodies);
      expect(first).toMatchObject({ explicitAcks: [], retryMessages: bodies.map(() => ({ delaySeconds: 5 })) });
      expect(await contents(workspace)).toEqual(before);
      expect(await workspace.books()).toMatchObject({ accepted: 4, processed: 1, in_flight: 3, balanced: true });

      const rows = bodies.flatMap((body) => body.split("\u001d").slice(1));
      const messages = rows.map((row) => `${workspace.id}\u001d${row}`);
      // One repeated message suffices.
      for (const attempts of [[2, 1, 1], 3]) {
        expect((await consumeMessages(messages, { attempts })).retryMessages).toEqual([]);
      }
      expect(await statuses(workspace.id, ids)).toEqual(["processed", "dead", "processed"]);
      const store = signalStore(env, workspace.id);
      expect((await store.signal(ids[1] ?? ""))?.deadReason).toContain("cannot be written");
      const people = (await store.people({}, PAGE)).items.map(({ email, score }) => [email, score]);
      expect(people).toEqual([
        ["b@example.com", 3],
        ["a@example.com", 3],
      ]);
      const books = { accepted: 4, processed: 3, dead_lettered: 1, in_flight: 0, balanced: true };
      expect(await workspace.books()).toMatchObject(books);
    },
  );

  test.each(["nonsense", "", 'ws_x\u001d{"v":0,"row":1,"count":0}', 'ws_x\u001d{"v":1,"row":1,"count":1}\u001e{'])(
    "a message that cannot be read (%j) is dropped, not retried for ever; its neighbours are recorded",
    async (unreadable) => {
      expectLogged("rows_unreadable");
      const { counter, ids, bodies } = await onTheWay([good("a")]);
      const result = await consumeMessages([unreadable, ...bodies]);
      expect(result.retryMessages).toEqual([]);
      expect(result.explicitAcks).toHaveLength(1 + bodies.length);
      expect(await statuses(counter.id, ids)).toEqual(["processed"]);
    },
  );
});

describe("during a deployment", () => {
  const newer = (body: string) => body.replace('"v":1', '"v":2');

  test("a message of the next version is retried until the new consumer gets it; its other rows are recorded at once", async () => {
    expectLogged("rows_newer");
    const { counter, ids, bodies } = await onTheWay([good("a"), good("b")]);
    const [a = "", b = ""] = bodies.flatMap((body) => body.split("\u001d").slice(1));
    const mixed = `${counter.id}\u001d${a}\u001d${newer(b)}`;
    const early = await consumeMessages([mixed]);
    expect(early).toMatchObject({
      explicitAcks: [],
      retryMessages: [{ msgId: "0", delaySeconds: expect.any(Number) }],
    });
    expect(await statuses(counter.id, ids)).toEqual(["processed", undefined]);
    expect(await counter.stub.books()).toEqual({ admitted: 2, unsettled: 1 });
    const alone = await consumeMessages([`${counter.id}\u001d${newer(b)}`]);
    expect(alone).toMatchObject({ explicitAcks: [], retryMessages: [{ msgId: "0" }] });
    // Stands for an old consumer that reads a new message.
    expect(await consumeMessages([mixed.replace('"v":2', '"v":1')], { attempts: 2 })).toMatchObject({
      explicitAcks: ["0"],
    });
    expect(await statuses(counter.id, ids)).toEqual(["processed", "processed"]);
    expect(await counter.stub.books()).toEqual({ admitted: 2, unsettled: 0 });
  });

  test.each(["signals", "signals-dlq"])(
    "acknowledges a message of the next version in queue %s after all attempts, because the outbox has its rows",
    async (queue) => {
      expectLogged("rows_newer");
      const { counter, ids, bodies } = await onTheWay([good("a")]);
      const attempts = MESSAGE_MAX_ATTEMPTS;
      const last = await consumeMessages(bodies.map(newer), { queue, attempts });
      expect(last).toMatchObject({ explicitAcks: ["0"], retryMessages: [] });
      expect(await statuses(counter.id, ids)).toEqual([undefined]);
      expect(await counter.stub.books()).toEqual({ admitted: 1, unsettled: 1 });
    },
  );

  test("a counter with rows of the next version in its outbox sends them and goes on counting", async () => {
    expectLogged("rows_newer");
    const { counter, ids } = await onTheWay([good("a")]);
    await runInDurableObject(counter.stub, (_, { storage }) => {
      storage.sql.exec(`UPDATE outbox SET body = CAST(replace(body, '"v":1', '"v":2') AS BLOB)`);
    });
    await evictDurableObject(counter.stub);
    const bodies: string[] = [];
    await counter.sendTo(async (messages) => bodies.push(...messages.map(({ body }) => textOf(body))));
    await counter.admit(0, callOf({ key: "key_1" }, [{ id: "sig_b", payload: good("b") }]));
    await until(() => expect(bodies.join("")).toContain("sig_b"));
    await consumeMessages(bodies);
    expect(await statuses(counter.id, [...ids, "sig_b"])).toEqual([undefined, "processed"]);
    expect(await counter.stub.books()).toEqual({ admitted: 2, unsettled: 1 });
    await consumeMessages(bodies.map((body) => body.replace('"v":2', '"v":1')));
    expect(await counter.stub.books()).toEqual({ admitted: 2, unsettled: 0 });
  });
});

test("§1.2: acknowledges a message that fails repeatedly, and the outbox sends it again", async () => {
  expectLogged("batch_failed");
  const { counter, ids, bodies } = await onTheWay([good("a")]);
  const bindings = withStore(counter.id, { record: unreachable });
  const last = await consumeMessages(bodies, { attempts: MESSAGE_MAX_ATTEMPTS, bindings });
  expect(last.explicitAcks).toHaveLength(bodies.length);
  expect(last.retryMessages).toEqual([]);
  expect(await counter.stub.books()).toEqual({ admitted: 1, unsettled: 1 });
  await consumeMessages(bodies);
  expect(await statuses(counter.id, ids)).toEqual(["processed"]);
});

describe("the dead letter queue", () => {
  test("records given-up signals with the reason once, and settles them", async () => {
    const { counter, ids, bodies } = await onTheWay([good("a"), good("b")]);
    await consumeMessages(bodies, { queue: "signals-dlq" });
    expect(await counter.stub.books()).toEqual({ admitted: 2, unsettled: 0 });
    await consumeMessages(bodies, { queue: "signals-dlq" });
    expect(await statuses(counter.id, ids)).toEqual(["dead", "dead"]);
    const store = signalStore(env, counter.id);
    expect(await store.totals()).toEqual({ ...NOTHING, deadLettered: 2 });
    expect((await store.deadLetters(PAGE)).items).toMatchObject([
      { reason: expect.stringContaining("all attempts"), payload: good("b") },
      { reason: expect.stringContaining("all attempts"), payload: good("a") },
    ]);
    expect((await store.people({}, PAGE)).items).toEqual([]);
  });

  test("keeps its dead letters dead despite further deliveries, until they are replayed", async () => {
    const { counter, ids, bodies } = await onTheWay([good("a")]);
    for (const queue of ["signals-dlq", "signals", "signals-dlq", "signals"]) await consumeMessages(bodies, { queue });
    expect(await statuses(counter.id, ids)).toEqual(["dead"]);
    expect(await signalStore(env, counter.id).totals()).toEqual({ ...NOTHING, deadLettered: 1 });
    expect(await counter.stub.books()).toEqual({ admitted: 1, unsettled: 0 });
    bodies.length = 0;
    expect(await signalStore(env, counter.id).resend("aud_1", { kind: "replay", ids: null })).toMatchObject({
      sent: 1,
    });
    await until(() => expect(bodies).toHaveLength(1));
    for (const queue of ["signals", "signals-dlq", "signals"]) await consumeMessages(bodies, { queue });
    expect(await statuses(counter.id, ids)).toEqual(["processed"]);
    expect(await signalStore(env, counter.id).totals()).toEqual({ ...NOTHING, processed: 1 });
    expect(await counter.stub.books()).toEqual({ admitted: 1, unsettled: 0 });
  });

  test("keeps the signals before one that still cannot be recorded", async () => {
    expectLogged("batch_failed", "record_failed");
    const { counter, ids, bodies } = await onTheWay([good("a"), good("poison")]);
    await reject(counter.id, `dead_letters WHEN NEW.id = '${ids[1]}'`);
    expect((await consumeMessages(bodies, { queue: "signals-dlq" })).retryMessages).toHaveLength(bodies.length);
    expect(await statuses(counter.id, ids)).toEqual(["dead", undefined]);
    expect(await counter.stub.books()).toEqual({ admitted: 2, unsettled: 2 });
  });
});

describe("every step may be repeated:", () => {
  test("the store's alarm links after a failure of `link`", async () => {
    expectLogged("link_failed");
    const workspace = await newWorkspace();
    await workspace.operator("POST", "/rules", RULE);
    const track = { type: "track", event: "Opened", anonymousId: "visitor-1" };
    await deliver(workspace.id, [{ id: "sig_1", payload: track }]);
    await changeRules(workspace);
    const identify = { type: "identify", anonymousId: "visitor-1", traits: { email: "v@example.com" } };
    const bodies = [messageOf(workspace.id, [{ id: "sig_2", payload: identify, at: Date.now() + MINUTE }])];
    const bindings = withStore(workspace.id, { link: unreachable });
    expect((await consumeMessages(bodies, { bindings })).retryMessages).toEqual([]);
    expect(await statuses(workspace.id, ["sig_1"])).toEqual(["anonymous"]);
    const alarmMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
    expect(alarmMs).toBeLessThanOrEqual(Date.now() + LINK_ALARM_MS);
    stopClock(alarmMs ?? 0);
    expect(await runDurableObjectAlarm(workspace.store)).toBe(true);
    expect(await statuses(workspace.id, ["sig_1"])).toEqual(["processed"]);
    expect((await signalStore(env, workspace.id).people({}, PAGE)).items).toMatchObject([{ score: 3 }]);
  });
});

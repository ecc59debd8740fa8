/** Design §8: duplicates, people, scores, the signal queue, held signals and traces of the Signal Store. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LIST_SCAN_SIGNALS } from "../../../src/limits.ts";
import { signalStore } from "../../../src/use-cases/objects.ts";
import type { ListPage, ListQuery } from "../../../src/platform/list-page.ts";
import type { SignalStatus } from "../../../src/domain/signal/signal.ts";
import type { FindFilter } from "../../../src/store/protocol/stored-signals.ts";
import { expectToAddUp, readStore, heldIn } from "../../support/read-store.ts";
import { DAY, MINUTE, deliver, type Delivered } from "../../support/deliver.ts";
import { allSlices } from "../../support/slices.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";
import { testStored, sealSignalLogs } from "../../support/log.ts";

const PAGE = { cursor: null, limit: 200 };
const NOTHING = { processed: 0, duplicates: 0, held: 0, purged: 0, deadLettered: 0 };
const START = Date.now();

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace();
});
afterEach(async () => {
  vi.useRealTimers();
  await expectToAddUp(workspace.id);
});

const store = () => signalStore(env, workspace.id);

function send(...signals: Delivered[]) {
  return deliver(workspace.id, signals);
}

function newRule(event: string, points: number, conditions: unknown[] = []) {
  const rule = { name: `${event} ${points}`, event, match: "all", conditions, scoring_signal: event, points };
  return workspace.operator<{ id: string }>("POST", "/rules", rule);
}

async function statusOf(...ids: string[]) {
  return (await Promise.all(ids.map(async (id) => (await store().signal(id))?.status))).join(" ");
}

async function personOf(email: string) {
  return (await store().people({ email }, PAGE)).items[0];
}

const form = (fields: object = {}) => ({ email: "jane@example.com", event: "Form", ...fields });

describe("design §8.2: duplicates", () => {
  test.each([
    { what: "neither id nor key", payload: form(), window: 10 * MINUTE },
    {
      what: "neither, whenever they occurred",
      payload: form({ timestamp: new Date(START).toISOString() }),
      window: 10 * MINUTE,
    },
    { what: "a messageId", payload: form({ messageId: "m-1" }), window: 7 * DAY },
    { what: "an id", payload: form({ id: 17 }), window: 7 * DAY },
    { what: "an Idempotency-Key", payload: form(), head: { idem: "k:0" }, window: 7 * DAY },
  ])(
    "with $what are found up to $window ms after the original, and not a millisecond later",
    async ({ payload, head = {}, window }) => {
      const at = (id: string, ms: number): Delivered => ({ id, payload, head, at: START + ms });
      await send(at("sig_1", 0));
      await send(at("sig_2", window));
      await send(at("sig_3", window + 1));
      await send(at("sig_4", 2 * window + 1), at("sig_5", 2 * window + 2));
      const statuses = await statusOf("sig_1", "sig_2", "sig_3", "sig_4", "sig_5");
      expect(statuses).toBe("processed duplicate processed duplicate processed");
      expect((await store().signal("sig_4"))?.duplicateOf).toBe("sig_3");
    },
  );

  test("are counted and traced, without a score, a name or a place in the signal queue", async () => {
    await newRule("Form", 4);
    await send({ id: "sig_1", payload: form(), at: START });
    await send({ id: "sig_2", payload: form(), at: START + 5 });
    expect(await personOf("jane@example.com")).toMatchObject({ score: 4 });
    expect((await store().events(PAGE)).items).toMatchObject([{ event: "Form", count: 1, sample: { id: "sig_1" } }]);
    expect(await store().totals()).toEqual({ ...NOTHING, processed: 1, duplicates: 1 });
    const trace = { status: "duplicate", duplicateOf: "sig_1", email: null, payload: null };
    expect(await store().signal("sig_2")).toMatchObject(trace);
  });

  test("belong to the signal of the batch that was received first", async () => {
    const at = (id: string, minute: number): Delivered => ({ id, payload: form(), at: START + minute * MINUTE });
    await send(at("sig_9", 9), at("sig_0", 0), at("sig_12", 12), at("sig_4", 4));
    expect(await statusOf("sig_0", "sig_4", "sig_9", "sig_12")).toBe("processed duplicate duplicate processed");
  });
});

testStored("a duplicate is found only if the complete hash in the log matches (design §8.2)", async () => {
  const visit = (id: string): Delivered => ({ id, payload: form({ messageId: "m-1" }), at: START });
  await send(visit("sig_1"));
  await readStore(workspace.id, ({ sql, signals, held }) => {
    sealSignalLogs({ signals, held });
    const { hashes } = sql.exec<{ hashes: ArrayBuffer }>("SELECT hashes FROM signals_facts").one();
    const bytes = new Uint8Array(hashes);
    expect(bytes).toHaveLength(8);
    bytes[7] = (bytes[7] ?? 0) ^ 1;
    sql.exec("UPDATE signals_facts SET hashes = ?", bytes as unknown as ArrayBuffer);
  });
  await evictDurableObject(workspace.store);
  await send(visit("sig_2"));
  expect(await statusOf("sig_2")).toBe("processed");
});

describe("counts of the signal queue", () => {
  const names = (count: number, from = 0) =>
    Array.from({ length: count }, (_, n) => ({
      id: `sig_${from + n}`,
      payload: form({ event: `Event ${from + n}` }),
      ordinal: from + n + 1,
    }));
  const rowsOfGroups = () =>
    runInDurableObject(
      workspace.store,
      (_, { storage: { sql } }) =>
        sql.exec<{ count: number }>("SELECT count(*) AS count FROM event_groups").one().count,
    );

  test.each(["in the head", "in its row"])(
    "have the first and the latest signal of a group that waits %s",
    async (where) => {
      for (const ms of [10, 30, 5, 20]) {
        await send({ id: `sig_${ms}`, payload: form({ ms }), at: START + ms });
        if (where === "in its row") await store().events(PAGE);
      }
      const group = { firstSeenMs: START + 5, lastSeenMs: START + 30, sample: { id: "sig_30" } };
      expect((await store().events(PAGE)).items).toMatchObject([group]);
    },
  );

  test("wait in the head, across restarts, until they are read", async () => {
    await newRule("*", 4);
    await send(...names(3));
    await evictDurableObject(workspace.store);
    await send(...names(2, 2));
    expect(await rowsOfGroups()).toBe(0);
    await evictDurableObject(workspace.store);
    const { items } = await store().events(PAGE);
    const counts = items.map(({ event, count }) => `${event}: ${count}`).sort();
    expect(counts).toEqual(["Event 0: 1", "Event 1: 1", "Event 2: 1", "Event 3: 1"]);
    expect(await rowsOfGroups()).toBe(4);
    await send(...names(1, 4));
    expect(await rowsOfGroups()).toBe(4);
    expect((await store().queueGroup("Event 4", "unknown", undefined, PAGE))?.group).toMatchObject({ count: 1 });
  });
});

describe("§8.3, invariant 7: held signals", () => {
  const held = (id: string, payload: unknown, periodEnd: number): Delivered => {
    return { id, payload, verdict: "held", periodStart: START - DAY, periodEnd, at: START };
  };
  const setTime = (now: number) => vi.useFakeTimers({ toFake: ["Date"], now });

  test("never score, link or create a person, and are purged at the end of their period", async () => {
    await newRule("Form", 4);
    const identify = { type: "identify", anonymousId: "a-1", traits: { email: "held@example.com" } };
    await send(held("sig_1", form(), START + DAY), held("sig_2", identify, START + DAY));
    expect(await store().people({}, PAGE)).toMatchObject({ items: [], next: null });
    expect(await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm())).toBe(START + DAY);
    setTime(START + DAY - 1);
    await runDurableObjectAlarm(workspace.store);
    expect(await statusOf("sig_1", "sig_2")).toBe("held held");
    setTime(START + DAY);
    await runDurableObjectAlarm(workspace.store);
    expect(await statusOf("sig_1", "sig_2")).toBe("purged purged");
    expect(await store().totals()).toEqual({ ...NOTHING, purged: 2 });
    expect((await store().events(PAGE)).items).toEqual([]);
  });

  test("are purged at once and leave no content if they arrive after the end of their period", async () => {
    const late = form({ note: "late" });
    await send({ id: "sig_2", payload: late, at: START }, held("sig_1", late, START - 1));
    expect(await statusOf("sig_1", "sig_2")).toBe("purged processed");
    expect(await store().signal("sig_1")).toMatchObject({ payload: null, email: null, verdict: "held" });
    expect((await store().events(PAGE)).items).toMatchObject([{ count: 1, held: 0, sample: { id: "sig_2" } }]);
  });

  const release = async (id: string, periodEnd: number): Promise<Delivered> => {
    const found = (await heldIn(workspace.id, periodEnd)).find(({ admission }) => admission.id === id);
    if (found === undefined) throw new Error(`${id} is not held`);
    const { admission, payload, place } = found;
    const times = { at: admission.receivedAtMs, periodStart: admission.periodStartMs, periodEnd };
    return { id, payload, ordinal: admission.ordinal, ...times, verdict: "accepted", resent: { from: "held", place } };
  };

  test.each(["the release first", "the late delivery first"])(
    "are not held again by a late delivery in the same batch, %s",
    async (order) => {
      const late = held("sig_1", form(), START + DAY);
      await send(late);
      const released = await release("sig_1", START + DAY);
      await send(...(order === "the release first" ? [released, late] : [late, released]));
      await send(late, released);
      expect(await statusOf("sig_1")).toBe("processed");
    },
  );
});

describe("§6, design §8.3: people", () => {
  const identify = (id: string, at: number, traits: object, ids: object = { userId: "u-1" }): Delivered => {
    const payload = { type: "identify", ...ids, traits: { email: "Jane@Example.com ", ...traits } };
    return { id, at: START + at, payload };
  };

  test("take each trait from the signal received last, in any order of delivery", async () => {
    await send(identify("sig_3", 30, { name: "Jane C", title: "CTO" }));
    await send(identify("sig_1", 10, { name: "Jane A", company: "Acme", title: "Dev" }));
    await send(identify("sig_2", 20, { company: { name: "Initech" } }));
    await send({ id: "sig_4", payload: form({ properties: { first_name: "J", last_name: "D" } }), at: START + 40 });
    // A repeated trait counts as received later. Of two signals of one commit, the ordinal decides.
    await send(identify("sig_6", 60, { company: "Initech" }));
    await send(identify("sig_5", 50, { company: "Globex" }));
    await send({ ...identify("sig_8", 70, { title: "Second" }), ordinal: 2 });
    await send({ ...identify("sig_7", 70, { title: "First" }), ordinal: 1 });
    expect(await personOf("jane@example.com")).toMatchObject({
      name: "J D",
      company: "Initech",
      title: "Second",
      firstSeenMs: START + 10,
      lastSeenMs: START + 70,
      identities: [{ kind: "user_id", value: "u-1", linkedAtMs: START + 10 }],
    });
  });

  test("are neither created nor linked without an email trait (§6.2)", async () => {
    const anonymous = { type: "identify", userId: "u-1", traits: { name: "N" }, email: "x@example.com" };
    await send({ id: "sig_1", payload: anonymous });
    await send({ id: "sig_2", payload: { type: "track", event: "e", userId: "u-1" } });
    expect((await store().people({}, PAGE)).items).toEqual([]);
    expect(await statusOf("sig_1", "sig_2")).toBe("processed anonymous");
  });

  test("get the time and the traits of their visitor's earlier signals (§6.1)", async () => {
    const traits = { context: { traits: { title: "CEO" } } };
    const visit = { type: "track", event: "Visit", anonymousId: "a-1", ...traits };
    await send({ id: "sig_1", payload: visit, at: START });
    await send(identify("sig_2", 60_000, { name: "Jane" }, { anonymousId: "a-1" }));
    const jane = { name: "Jane", title: "CEO", firstSeenMs: START, lastSeenMs: START + 60_000 };
    expect(await personOf("jane@example.com")).toMatchObject(jane);
    const person = { email: "jane@example.com", by: "anonymous_id", linkedAtMs: expect.any(Number) };
    expect(await store().signal("sig_1")).toMatchObject({ status: "processed", person });
  });

  test("are found by user id before anonymous id, even if the user id is linked later", async () => {
    await newRule("Visit", 5);
    const ada = { email: "ada@example.com", name: "Ada" };
    await send(identify("sig_1", 0, { name: "Jane" }, { anonymousId: "a-1" }));
    const context = { traits: { name: "Ada L" } };
    const visit = { type: "track", event: "Visit", anonymousId: "a-1", userId: "u-9", context };
    await send({ id: "sig_2", payload: visit, at: START + 9 });
    expect(await personOf("jane@example.com")).toMatchObject({ score: 5, name: "Ada L", lastSeenMs: START + 9 });
    await send(identify("sig_3", 5, ada, { userId: "u-9" }));
    expect(await personOf("jane@example.com")).toMatchObject({ score: 0, name: "Jane", lastSeenMs: START });
    expect(await personOf("ada@example.com")).toMatchObject({ score: 5, name: "Ada L", lastSeenMs: START + 9 });
    expect(await store().signal("sig_2")).toMatchObject({ person: { email: "ada@example.com", by: "user_id" } });
  });

  test("keep odd characters in names and ids", async () => {
    const odd = ["a\u0000b", "a'b\"c", "a\u0301", "\u{1f600}", "a\u2028b", "x".repeat(240)];
    for (const [index, text] of odd.entries()) {
      const ids = { userId: `user ${text}`, anonymousId: `anonymous ${text}` };
      const traits = { email: `o'hara-${index}@example.com`, name: text };
      await send({ id: `sig_i${index}`, payload: { type: "identify", ...ids, traits } });
      await send({ id: `sig_a${index}`, payload: { type: "track", event: text, ...ids } });
      await send({ id: `sig_b${index}`, payload: { type: "track", event: text, ...ids, messageId: "m" } });
      expect((await store().signal(`sig_b${index}`))?.person?.email).toBe(`o'hara-${index}@example.com`);
    }
    expect(await store().totals()).toEqual({ ...NOTHING, processed: 3 * odd.length });
  });

  test("are not created from names with half a surrogate pair, which stay processed", async () => {
    for (const n of [1, 2, 3]) {
      const traits = { email: "a\ud800@example.com", name: "\ud800" };
      const half = { userId: "user \ud800", anonymousId: "visitor \udc00", traits };
      await send({ id: `sig_i${n}`, payload: { type: "identify", ...half, n } });
      await send({ id: `sig_t${n}`, payload: { type: "track", event: "\ud800", ...half, n } });
      await send({ id: `sig_u${n}`, payload: { event: "\udc00", email: "a\ud800@example.com", n } });
    }
    expect(await store().totals()).toEqual({ ...NOTHING, processed: 9 });
    expect((await store().people({}, PAGE)).items).toEqual([]);
  });
});

describe("invariant 1: totals and traces", () => {
  test("show the status of each signal by its id and in lists", async () => {
    const now = { at: START, periodEnd: START + DAY };
    const template = [{ target: "external_id", path: "account", type: "string" }];
    const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template: template });
    const head = { endpoint: "product_org", key: accounts.id, template: 1 } as const;
    await send(
      { id: "sig_processed", payload: form(), ...now, ordinal: 7 },
      { id: "sig_duplicate", payload: form(), ...now, ordinal: 8 },
      { id: "sig_held", payload: form({ n: 1 }), ...now, verdict: "held", ordinal: 9 },
      { id: "sig_anonymous", payload: { event: "e", userId: "u-1" }, ...now },
      { id: "sig_purged", payload: form({ n: 2 }), at: START, verdict: "held", periodEnd: START - 1 },
      { id: "sig_dead", payload: "{", ...now },
      { id: "sig_account", payload: { account: 1 }, ...now, head },
    );
    const statuses: SignalStatus[] = ["processed", "duplicate", "held", "anonymous", "purged", "dead"];
    for (const status of statuses) {
      expect(await store().signal(`sig_${status}`)).toMatchObject({ id: `sig_${status}`, status, keyId: "key_test" });
      expect((await store().signals({ status }, PAGE)).items.map(({ id }) => id)).toContain(`sig_${status}`);
    }
    const details = {
      processed: { ordinal: 7, signalLimit: 1_000, receivedAtMs: START },
      duplicate: { duplicateOf: "sig_processed" },
      held: { verdict: "held", heldUntilMs: START + DAY, payload: JSON.stringify(form({ n: 1 })) },
      dead: { deadReason: expect.stringContaining("JSON"), payload: "{" },
      account: { kind: "account", endpoint: "product_org", payload: JSON.stringify({ account: 1 }) },
    };
    for (const [name, detail] of Object.entries(details)) {
      expect(await store().signal(`sig_${name}`)).toMatchObject(detail);
    }
    expect(await store().signal("sig_nowhere")).toBeNull();
  });
});

test("slices of a list contain each item once, from new to old, even with equal times", async () => {
  async function all<T>(read: (page: ListQuery) => Promise<ListPage<T>>): Promise<T[]> {
    const slices = await allSlices((cursor) => read({ cursor, limit: 3 }));
    expect(slices.slice(0, -1).every(({ items }) => items.length === 3)).toBe(true);
    return slices.flatMap(({ items }) => items);
  }
  const count = 9;
  for (let n = 0; n < count; n++) {
    await send(
      { id: `sig_${n}`, payload: { email: `p${n}@example.com`, event: `e${n}` }, at: START + Math.floor(n / 4) },
      { id: `sig_d${n}`, payload: "{", at: START },
    );
  }
  const down = Array.from({ length: count }, (_, index) => count - 1 - index);
  const ids = async (filter: FindFilter) => (await all((page) => store().signals(filter, page))).map(({ id }) => id);
  const people = await all((page) => store().people({}, page));
  expect(people.map(({ email }) => email)).toEqual(down.map((n) => `p${n}@example.com`));
  expect(await ids({ status: "processed" })).toEqual(down.map((n) => `sig_${n}`));
  const dead = await all((page) => store().deadLetters(page));
  expect(dead.map(({ id }) => id)).toEqual(down.map((n) => `sig_d${n}`));
  const groups = await all((page) => store().events(page));
  expect(groups.map(({ event }) => event)).toEqual(["e8", "e4", "e5", "e6", "e7", "e0", "e1", "e2", "e3"]);
  expect([await ids({ email: "P3@example.com" }), await ids({ event: "e5" })]).toEqual([["sig_3"], ["sig_5"]]);
});

test("a slice with several filters stops after LIST_SCAN_SIGNALS and continues at its cursor", async () => {
  await send({ id: "sig_1", payload: form() }, { id: "sig_2", payload: "{" });
  // Each segment has the event and processed signals, so that none is skipped.
  await send(
    ...Array.from({ length: LIST_SCAN_SIGNALS + 100 }, (_, n) => ({
      id: `sig_n${n}`,
      payload:
        n % 50 === 0 ? { event: "Other", email: "a@example.com", n } : { ...form(), email: null, userId: "u-1", n },
      ordinal: n + 10,
    })),
  );
  const filter = { event: form().event, status: "processed" as const };
  const first = await store().signals(filter, PAGE);
  expect(first).toMatchObject({ items: [], complete: false, next: expect.any(String) });
  const second = await store().signals(filter, { ...PAGE, cursor: first.next });
  expect(second).toMatchObject({ items: [{ id: "sig_1" }], complete: true, next: null });
});

test("a cursor of another list gives an empty slice", async () => {
  await send({ id: "sig_1", payload: form() }, { id: "sig_2", payload: "{" });
  for (const cursor of ["", "x", "{", "null", "0", "[1]"]) {
    const page = { cursor, limit: 3 };
    const pages = [
      store().events(page),
      store().signals({}, page),
      store().people({}, page),
      store().deadLetters(page),
    ];
    for (const answer of pages) expect(await answer).toMatchObject({ items: [], next: null });
  }
});

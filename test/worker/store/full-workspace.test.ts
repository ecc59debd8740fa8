/**
 * A workspace that fills up (design §8: Full), from the sender to the pages: no acknowledged signal is lost, admins are warned in time,
 * and the chores that make room keep working.
 */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import {
  DUPLICATE_WINDOW_WITH_ID_MS,
  DELETION_REMEMBERED_DAYS,
  OUTBOX_MAX_BYTES,
  STORE_MAX_BYTES,
} from "../../../src/limits.ts";
import { STORE_PROBE_MS } from "../../../src/quota/drain.ts";
import type { StoreState } from "../../../src/store/state/store-state.ts";
import { expectLogged } from "../../support/logged.ts";
import { expectToAddUp, readStore } from "../../support/read-store.ts";
import { bucketWith, coldState, ring, withBindings } from "../../support/cold.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { textOf } from "../../support/html.ts";
import { until } from "../../support/until.ts";
import { newPlan, operator, type Problem, type TestWorkspace } from "../../support/workspace.ts";
import { isPlain, testStored } from "../../support/log.ts";
import { FULL_DRAINED_MS } from "../../../src/store/state/due.ts";

/** So far ahead that the platform's own clock rings no alarm. */
const START = Date.now() + DAY_MS;
/** An age that no signal reaches on a plan of the shortest retention. */
const LATER = START + 40 * DAY_MS;
const UNAVAILABLE = 503;
const NO_R2 = bucketWith({
  before: () => {
    throw new Error("R2 is down");
  },
});
const BULK_SIGNALS = 40;
const BULK = { path: "/api/signal-staging/bulk/{key}" };

let members: Members;
let workspace: TestWorkspace;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  members = await newMembers();
  ({ workspace } = members);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

interface Health {
  status: string;
  alarms: { alarm: string }[];
  store: { bytes: number; max_bytes: number };
  outbox: { bytes: number; max_bytes: number; signals: number; oldest_at: string | null };
  duplicates_covered_seconds: number;
}

const health = () => workspace.operator<Health>("GET", "/health");
const see = async (page: string) => textOf(await members.owner.see(`${members.home}/${page}`));
const storeBytes = async () => (await workspace.store.health()).bytes;
const noise = () => Buffer.from(crypto.getRandomValues(new Uint8Array(15_000))).toString("base64");

/** Some 20 KB that do not compress. */
let sent = 0;
const large = (email = `p${++sent}@example.com`) => ({
  email,
  event: "Visit",
  messageId: `m-${++sent}`,
  text: noise(),
});

/** Sets the size limit of the store, and makes R2 fail unless a real bucket is given. */
function limitStore(maxBytes: number, { COLD = NO_R2 } = {}): Promise<void> {
  return withBindings(workspace.id, { STORE_MAX_BYTES: String(maxBytes), COLD });
}

/** Limits the outbox to its current size and `more` bytes. */
function limitOutbox(more: number): Promise<void> {
  return runInDurableObject(workspace.counter, (instance, { storage }) => {
    const limit = { OUTBOX_MAX_BYTES: String(storage.sql.databaseSize + more) };
    Object.assign(instance, { env: { ...env, ...limit } });
  });
}

async function accepted(body: unknown): Promise<string> {
  const answer = await workspace.send(body);
  expect(answer.status).toBe(202);
  return (await answer.json<{ id: string }>()).id;
}

/** A rule for all signals, and old signals of one person that nearly fill the store. */
async function filled(): Promise<void> {
  const rule = { name: "r", event: "*", match: "all", conditions: [], scoring_signal: "s", points: 1 };
  await workspace.operator("POST", "/rules", rule);
  await limitStore(STORE_MAX_BYTES);
  const body = Array.from({ length: BULK_SIGNALS }, () => large("big@example.com"));
  expect((await workspace.send(body, BULK)).status).toBe(202);
  await workspace.settled();
  vi.setSystemTime(LATER);
  await limitStore((await storeBytes()) + 80_000);
}

/** Sends until the store is full, and ten signals more. @returns the ids of all acknowledged signals. */
async function sendUntilFull(): Promise<string[]> {
  const ids: string[] = [];
  while (!(await workspace.counter.backlog()).storeFull) {
    if (ids.length === 200) throw new Error("it does not get full");
    ids.push(await accepted(large()));
    await until(async () => {
      const { storeFull, unsettledSignals } = await workspace.counter.backlog();
      expect(storeFull || unsettledSignals === 0).toBe(true);
    });
  }
  for (let n = 0; n < 10; n++) ids.push(await accepted(large()));
  return ids;
}

/** The counter's next probe. */
async function probe(): Promise<void> {
  vi.setSystemTime(Date.now() + STORE_PROBE_MS);
  expect(await runDurableObjectAlarm(workspace.counter)).toBe(true);
}

async function statusesOf(ids: readonly string[]): Promise<unknown[]> {
  const traces = ids.map((id) => workspace.operator<{ status: string; points: number }>("GET", `/signals/${id}`));
  return (await Promise.all(traces)).map(({ status, points }) => `${status} ${points}`);
}

describe("a full store", () => {
  const ways: [string, () => Promise<void>][] = [
    ["the limit is raised", () => limitStore(STORE_MAX_BYTES)],
    [
      "a person is deleted",
      async () => {
        await workspace.operator("DELETE", "/people/big@example.com");
        expect((await workspace.operator<{ items: [] }>("GET", "/people?email=big@example.com")).items).toEqual([]);
      },
    ],
    [
      "retention is shortened",
      async () => {
        const plan = await newPlan(1_000_000);
        const kept = { name: plan, signal_limit: 1_000_000, paid: true, retention_days: 31 };
        await operator("PUT", `/plans/${plan}`, kept);
        await workspace.operator("PATCH", "", { plan });
        await ring(workspace.id, { seal: false });
      },
    ],
    [
      "payloads move to R2, which was down",
      async () => {
        const { maxBytes } = await workspace.store.health();
        await limitStore(maxBytes, { COLD: env.COLD });
        await ring(workspace.id, { seal: false });
        expect((await coldState(workspace.id)).keys).not.toEqual([]);
      },
    ],
  ];

  test.each(ways.filter(([name]) => !isPlain || !name.includes("R2")))(
    "processes every acknowledged signal once after %s",
    async (_, makeRoom) => {
      const logged = expectLogged("store_full");
      await filled();
      const ids = await sendUntilFull();
      const before = await storeBytes();
      const waiting = (await workspace.counter.backlog()).unsettledSignals;
      expect(waiting).toBeGreaterThan(9);
      const everything = BULK_SIGNALS + ids.length;
      const books = { accepted: everything, processed: everything - waiting, in_flight: waiting, balanced: true };
      expect(await workspace.books()).toMatchObject(books);
      // While the store is full, signals wait and the database does not grow.
      const earlier = logged().length;
      for (const minute of [1, 2]) {
        await probe();
        await until(async () => expect(logged()).toHaveLength(earlier + minute));
        expect(await storeBytes()).toBe(before);
        expect(await workspace.counter.backlog()).toMatchObject({ storeFull: true, unsettledSignals: waiting });
      }
      expect((await statusesOf(ids)).filter((status) => status === "processed 1")).toHaveLength(ids.length - waiting);

      await makeRoom();
      const { bytes, maxBytes } = await workspace.store.health();
      expect(bytes).toBeLessThan(maxBytes - 200_000);
      await probe();
      expect(await workspace.settled()).toMatchObject({ ...books, processed: everything, in_flight: 0 });
      expect(await statusesOf(ids)).toEqual(ids.map(() => "processed 1"));
      expect(await workspace.counter.backlog()).toMatchObject({ storeFull: false, unsettledSignals: 0 });
      expect(await health()).toMatchObject({ outbox: { signals: 0, oldest_at: null } });
      await expectToAddUp(workspace.id, { hasDropped: true });
    },
  );

  test("remembers deleted names only while earlier signals may still wait", async () => {
    expectLogged("chore_failed", "store_full");
    await filled();
    await sendUntilFull();
    await accepted(large("big@example.com"));
    vi.setSystemTime(Date.now() + 1);
    await limitStore(1);
    await workspace.operator("DELETE", "/people/big@example.com");
    const names = () =>
      runInDurableObject(workspace.store, (_, { storage: { sql } }) =>
        sql.exec("SELECT * FROM deleted_names").toArray(),
      );
    for (let day = 0; day < DELETION_REMEMBERED_DAYS + 2; day++) {
      vi.setSystemTime(Date.now() + DAY_MS - STORE_PROBE_MS);
      await probe();
      await until(async () => {
        const { fullAtMs } = await readStore(workspace.id, ({ head }) => head);
        expect(fullAtMs).toBe(Date.now());
      });
    }
    await workspace.operator("DELETE", "/people/stranger@example.com");
    await limitStore(STORE_MAX_BYTES);
    await ring(workspace.id, { seal: false, setNext: true });
    expect(await names()).toHaveLength(2);
    // Names that are still remembered need no alarm.
    const alarmMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
    expect(alarmMs).toBeGreaterThan(Date.now());
    await probe();
    expect(await workspace.settled()).toMatchObject({ purged: 1, in_flight: 0, balanced: true });
    vi.setSystemTime(Date.now() + FULL_DRAINED_MS);
    await ring(workspace.id, { seal: false });
    expect(await names()).toHaveLength(1);
  });

  testStored("moves young payloads at once after its limit was lowered", async () => {
    expectLogged("store_full");
    await withBindings(workspace.id);
    // More than an open segment takes.
    expect((await workspace.send(Array.from({ length: 8 }, () => large()))).status).toBe(202);
    await workspace.settled();
    expect(await coldState(workspace.id)).toMatchObject({ keys: [], warm: { length: expect.any(Number) } });
    await limitStore(await storeBytes(), { COLD: env.COLD });
    const id = await accepted({ email: "small@example.com", event: "Visit" });
    await until(async () => expect(await workspace.counter.backlog()).toMatchObject({ storeFull: true }));
    await until(async () => {
      // Runs the alarm of the store by the fake clock.
      const dueMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
      // An alarm that is due at once is set to the next millisecond, and this clock stands still.
      if (dueMs !== null && dueMs <= Date.now() + 1) await runDurableObjectAlarm(workspace.store);
      expect((await coldState(workspace.id)).warm).toEqual([]);
    });
    await probe();
    await workspace.settled();
    expect(await workspace.operator("GET", `/signals/${id}`)).toMatchObject({ status: "processed" });
  });

  test("applies no rule to stored signals until there is room", async () => {
    expectLogged("chore_failed");
    await filled();
    const rule = { name: "past", event: "Visit", match: "all", conditions: [], scoring_signal: "p", points: 10 };
    const { id } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
    await limitStore(1);
    await workspace.operator("POST", `/rules/${id}/apply`);
    await ring(workspace.id, { seal: false });
    const job = () => workspace.operator("GET", `/rules/${id}/apply`);
    expect(await job()).toMatchObject({ status: "queued", added: 0 });
    await limitStore(STORE_MAX_BYTES);
    await until(async () => {
      await ring(workspace.id, { seal: false });
      expect(await job()).toMatchObject({ status: "done", added: BULK_SIGNALS });
    });
  });
});

describe("the pages and the health answer", () => {
  test("show the used storage and that no signal waits, warn from 80 % of the storage on, and suggest actions", async () => {
    await accepted(large());
    await workspace.settled();
    const { status, store, outbox, duplicates_covered_seconds: covered } = await health();
    expect({ status, covered }).toEqual({ status: "ok", covered: DUPLICATE_WINDOW_WITH_ID_MS / 1_000 });
    expect(store).toEqual({ bytes: await storeBytes(), max_bytes: STORE_MAX_BYTES });
    const empty = { bytes: expect.any(Number), max_bytes: OUTBOX_MAX_BYTES, signals: 0, oldest_at: null };
    expect(outbox).toEqual(empty);
    const text = await see("usage/ledger");
    expect(text).toMatch(/Storage Used \d+(\.\d)? KB of 9 GB \(0\.0%\) Waiting No signals are waiting\./);
    expect(text).toContain("Duplicates Detected within 7 days.");
    expect(text).not.toMatch(/Storage is/);

    await limitStore(Math.floor(store.bytes / 0.8) + 2);
    expect((await health()).status).toBe("ok");
    expect(await see("usage")).not.toContain("Storage is");
    await limitStore(Math.floor(store.bytes / 0.8));
    expect(await health()).toMatchObject({ status: "late", alarms: [{ alarm: "store_filling" }] });
    const warning = await see("usage");
    expect(warning).toContain("Storage is 80% full. Once it is full, signals are accepted but not processed.");
    expect(warning).toMatch(/choose a plan with a shorter retention, delete people .* or ask the operator/);
    expect(await see("")).not.toContain("Storage full");
  });

  test("show how many signals wait, and since when, in a full store", async () => {
    expectLogged("store_full");
    await filled();
    await sendUntilFull();
    vi.setSystemTime(Date.now() + 3 * 60_000);
    const { unsettledSignals, oldestAtMs } = await workspace.counter.backlog();
    expect(await health()).toMatchObject({
      status: "stuck",
      alarms: [{ alarm: "store_full" }],
      outbox: { signals: unsettledSignals, oldest_at: new Date(oldestAtMs ?? 0).toISOString() },
    });
    const text = await see("usage");
    expect(text).toContain("Storage is full: signals are accepted but not processed.");
    expect(text).toContain(`${unsettledSignals} signals are waiting; the oldest arrived 3 minutes ago. None is lost`);
    expect(text).toMatch(/choose a plan with a shorter retention, delete people .* or ask the operator/);
    expect(await see("")).toContain("Storage full");
  });

  test("show how far back duplicates are found if memory is short", async () => {
    const cover = (coveredMs: number) =>
      runInDurableObject(workspace.store, (instance) => {
        const { signals } = (instance as unknown as { state: StoreState }).state;
        const remembersSinceMs = { get: () => Date.now() - coveredMs, configurable: true };
        Object.defineProperty(signals, "remembersSinceMs", remembersSinceMs);
      });
    await cover(3.5 * DAY_MS);
    expect((await health()).duplicates_covered_seconds).toBe(3.5 * 86_400);
    expect(await see("usage/ledger")).toContain("Detected within 3 days instead of 7 days,");
    await cover(5 * 3_600_000);
    expect(await see("usage/ledger")).toContain("Detected within 5 hours instead of 7 days,");
  });
});

describe("senders to a full outbox", () => {
  test("get 503 before the outbox is full, while accepted signals are still processed", async () => {
    expectLogged("store_full");
    await filled();
    const ids = await sendUntilFull();
    await limitOutbox(200_000);
    let rejected: Response | null = null;
    while (rejected === null) {
      expect(ids.length).toBeLessThan(200);
      const answer = await workspace.send(large());
      if (answer.status === UNAVAILABLE) rejected = answer;
      else ids.push((await answer.json<{ id: string }>()).id);
    }
    expect(rejected.headers.get("retry-after")).toBe(String(STORE_PROBE_MS / 1_000));
    expect((await rejected.json<Problem>()).code).toBe("unavailable");
    const { outbox, status, alarms } = await health();
    expect([status, ...alarms.map(({ alarm }) => alarm)]).toEqual(["stuck", "senders_rejected", "store_full"]);
    expect(outbox.bytes).toBeLessThan(outbox.max_bytes + 50_000);
    expect(await workspace.books()).toMatchObject({ accepted: BULK_SIGNALS + ids.length, balanced: true });
    const text = await see("usage");
    expect(text).toContain("Too many signals are waiting: calls are rejected with a 503.");
    expect(text).toContain("Storage is full.");
    const rejections = await see("rejections");
    expect(rejections).toContain("Too many signals are waiting to be stored.");
    expect(rejections).toMatch(/Temporarily unavailable 503 unavailable/);

    await limitStore(STORE_MAX_BYTES);
    await probe();
    const processed = BULK_SIGNALS + ids.length;
    expect(await workspace.settled()).toMatchObject({ processed, in_flight: 0, balanced: true });
    expect(await statusesOf(ids)).toEqual(ids.map(() => "processed 1"));
    expect((await health()).status).toBe("ok");
    await accepted(large());
  });
});

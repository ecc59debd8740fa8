/** Health for monitoring systems: one workspace, all workspaces, and their figures for Prometheus. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { summaryOf } from "../../../src/operator/health-routes.ts";
import {
  HEALTH_PAGE_WORKSPACES,
  healthOfAll,
  healthWithin,
  queueBacklogs,
} from "../../../src/use-cases/read-health.ts";
import { CHORE_REST_MS } from "../../../src/store/chores.ts";
import type { SignalStore } from "../../../src/store/signal-store.ts";
import { deliver } from "../../support/deliver.ts";
import { askOperator, call, newWorkspace, operator, type TestWorkspace } from "../../support/workspace.ts";
import { expectLogged } from "../../support/logged.ts";
import { leaveDeadLetter, leaveWaiting } from "../../support/unhealthy.ts";

// Timers that a test moves end the calls of background work.
expectLogged("drain_failed");

const MINUTE = 60_000;
/** Names that dashboards query. */
const FIGURES = [
  "status",
  "oldest_waiting_seconds",
  "waiting_signals",
  "outbox_bytes",
  "outbox_max_bytes",
  "store_bytes",
  "store_max_bytes",
  "dead_letters",
  "failing_chores",
  "store_alarms",
  "counter_alarms",
  "books_balanced",
  "held_signals",
  "accepted_signals",
  "duplicate_signals",
  "failing_destinations",
  "switched_off_destinations",
];
const QUEUE_FIGURES = ["queue_messages", "queue_bytes", "queue_oldest_seconds"];
const START = Date.UTC(2031, 4, 5, 12);

interface AllHealth {
  status: string;
  says: string;
  workspaces: { asked: number; ok: number; late: number; stuck: number };
  items: { workspace_id: string; status: string; alarms: { alarm: string }[] }[];
  queues: { queue: string; messages: number; bytes: number; oldest_at: string | null }[];
  next_page: number | null;
}

const all = (page = 1) => operator<AllHealth>("GET", `/health?page=${page}`);
const found = async (workspace: TestWorkspace) =>
  (await all()).items.find((item) => item.workspace_id === workspace.id);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Adds this many workspaces before all others, in D1 only. */
async function insertWorkspaces(count: number): Promise<void> {
  const values = Array.from({ length: count }, (_, n) => `('ws_000${n}', 'slug-${n}', 'x', 'free', 0, '', '')`);
  await env.DB.exec(
    `INSERT INTO workspaces (id, slug, name, plan_id, overages, anchor, created_at) VALUES ${values.join(", ")}`,
  );
}

const never = () => new Promise<never>(() => {});
const after = (ms: number, value: unknown) => () => new Promise((done) => setTimeout(done, ms, value));

/** Starts a call while the clock stands still, then lets a minute pass. Returns the answer and the call's duration. */
async function timed<T>(start: () => Promise<T>): Promise<{ answer: T; tookMs: number }> {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: START });
  const asking = start().then((answer) => ({ answer, tookMs: Date.now() - START }));
  await vi.advanceTimersByTimeAsync(MINUTE);
  return asking;
}

describe("GET /operator/health", () => {
  test("is ok and lists nothing while all workspaces are well", async () => {
    await newWorkspace();
    expect(await all()).toMatchObject({ status: "ok", says: "All is well.", items: [], next_page: null });
    expect(await askOperator("GET", "/health?expect=ok")).toMatchObject({ status: 200, body: { status: "ok" } });
  });

  test("lists a workspace with waiting signals, late after ten minutes and stuck after an hour, with the remedy", async () => {
    const [well, waits] = [await newWorkspace(), await newWorkspace()];
    await leaveWaiting(waits);
    expect(await found(waits)).toBeUndefined();

    vi.setSystemTime(START + 10 * MINUTE);
    expect(await found(waits)).toMatchObject({ status: "late", alarms: [{ alarm: "signals_late" }] });
    vi.setSystemTime(START + 60 * MINUTE);
    expect(await found(waits)).toMatchObject({ status: "stuck", alarms: [{ alarm: "signals_stuck" }] });
    expect(await found(well)).toBeUndefined();
    const { status, says, workspaces } = await all();
    expect(status).toBe("stuck");
    expect(says).toContain(": 1 accepted signal waits, the oldest for 60 minutes");
    const expectingOk = await askOperator("GET", "/health?expect=ok");
    expect(expectingOk).toMatchObject({ status: 503, body: { code: "not_ok", detail: `stuck: ${says}` } });
    expect(workspaces.ok + workspaces.stuck).toBe(workspaces.asked);
    expect(await waits.operator("GET", "/health")).toMatchObject({
      status: "stuck",
      outbox: { signals: 1, oldest_at: new Date(START).toISOString() },
      books: { accepted: 1, in_flight: 1, balanced: true },
    });
  });

  test("names a failing chore with start and cause until it succeeds, across restarts", async () => {
    expectLogged("chore_failed");
    const workspace = await newWorkspace();
    await workspace.send({ event: "x" });
    await workspace.settled();
    const retention = async (act: () => void): Promise<void> => {
      await runInDurableObject(workspace.store, (instance: SignalStore, { storage }) => {
        storage.sql.exec("UPDATE retention SET next_at = 1");
        vi.spyOn(storage, "transactionSync").mockImplementation((work) => {
          act();
          return work();
        });
        return instance.alarm();
      });
      vi.restoreAllMocks();
    };
    await retention(() => {
      throw new Error("disk is upset");
    });
    vi.setSystemTime(START + 10 * MINUTE);
    await evictDurableObject(workspace.store);
    expect(await workspace.operator("GET", "/health")).toMatchObject({
      status: "late",
      alarms: [{ alarm: "chore_failing" }],
      failing_chores: [
        { chore: "retention", since: new Date(START).toISOString(), error: expect.stringContaining("upset") },
      ],
    });
    await retention(() => {});
    expect(await workspace.operator("GET", "/health")).toMatchObject({ status: "ok", failing_chores: [] });
  });

  test("names a chore that cannot report its due time; signals are recorded and the alarm stays set", async () => {
    expectLogged("chore_failed");
    const workspace = await newWorkspace();
    const { store } = workspace;
    const rename = (from: string, to: string) =>
      runInDurableObject(store, (_, { storage }) => void storage.sql.exec(`ALTER TABLE ${from} RENAME TO ${to}`));
    const ring = () =>
      runInDurableObject(store, async (instance: SignalStore, { storage }) => {
        await storage.deleteAlarm();
        await instance.alarm();
        return storage.getAlarm();
      });
    await deliver(workspace.id, [{ id: "sig_1", payload: { event: "E" } }]);
    await rename("cold_scrubs", "hidden");
    expect(await ring()).toBe(START + CHORE_REST_MS);
    await deliver(workspace.id, [{ id: "sig_2", payload: { event: "E" } }]);
    expect(await store.signal("sig_2")).toMatchObject({ status: "processed" });
    expect(await workspace.operator("GET", "/health")).toMatchObject({ failing_chores: [{ chore: "cold" }] });
    await rename("hidden", "cold_scrubs");
    vi.setSystemTime(START + CHORE_REST_MS);
    await ring();
    expect(await workspace.operator("GET", "/health")).toMatchObject({ failing_chores: [] });
  });

  test("keeps the alarm if the store could not be read when it rang", async () => {
    expectLogged("chore_failed", "link_failed", "resend_failed");
    const workspace = await newWorkspace();
    await deliver(workspace.id, [{ id: "sig_1", payload: { event: "E" } }]);
    await evictDurableObject(workspace.store);
    await runInDurableObject(workspace.store, async (instance: SignalStore, { storage }) => {
      storage.sql.exec("ALTER TABLE heads RENAME TO hidden");
      await storage.deleteAlarm();
      await instance.alarm().catch(() => {});
      expect(await storage.getAlarm()).toBe(START + CHORE_REST_MS);
      storage.sql.exec("ALTER TABLE hidden RENAME TO heads");
    });
  });

  test("reports dead letters for a day and counts them afterwards", async () => {
    const workspace = await newWorkspace();
    await leaveDeadLetter(workspace);
    expect(await workspace.operator("GET", "/health")).toMatchObject({
      status: "late",
      alarms: [{ alarm: "dead_letters" }],
      dead_letters: { signals: 1, latest_at: new Date(START).toISOString() },
    });
    vi.setSystemTime(START + 24 * 60 * MINUTE);
    expect(await workspace.operator("GET", "/health")).toMatchObject({ status: "ok", dead_letters: { signals: 1 } });
  });

  test("counts the alarms of an hour, and reports an object that wakes up for nothing", async () => {
    const workspace = await newWorkspace();
    await workspace.send({ event: "A", email: "a@example.com" });
    await workspace.settled();
    const metrics = async () => {
      const text = await (
        await call("/operator/metrics", { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } })
      ).text();
      return Number(new RegExp(`store_alarms{workspace="${workspace.id}".*} (\\d+)`).exec(text)?.[1]);
    };
    const wake = (times: number) =>
      runInDurableObject(workspace.store, async (store) => {
        for (let n = 0; n < times; n++) await (store as unknown as { alarm(): Promise<void> }).alarm();
      });
    const before = await metrics();
    await wake(600);
    expect(await metrics()).toBe(before + 600);
    expect(await workspace.operator("GET", "/health")).toMatchObject({ status: "ok" });
    await wake(10);
    expect(await workspace.operator("GET", "/health")).toMatchObject({
      status: "late",
      alarms: [{ alarm: "alarms_idle", says: expect.stringContaining("The Signal Store woke up at least 6") }],
    });
    vi.setSystemTime(START + 61 * MINUTE);
    expect(await workspace.operator("GET", "/health")).toMatchObject({ status: "ok" });
  });

  test("names the objects that do not answer, within five seconds in all", async () => {
    const workspace = await newWorkspace();
    const [kept, backlog] = [await workspace.store.health(), await workspace.counter.backlog()];
    const wanted = { ...backlog, hasDestinations: true };
    const open = { ...wanted, admitted: 1 };
    const objects = (store: () => unknown, counter: () => unknown) => ({
      SIGNAL_STORE: { getByName: () => ({ health: store }) },
      QUOTA_COUNTER: { getByName: () => ({ backlog: counter, books: never }) },
      DESTINATIONS: { getByName: () => ({ failing: never }) },
    });
    const late = (name: string, ms = 5_000) => `${name} (Error: no answer within ${ms} ms)`;
    const cases = [
      [objects(never, after(0, wanted)), late("Signal Store")],
      [objects(after(0, kept), never), late("Quota Counter")],
      [objects(never, never), `${late("Quota Counter")}, ${late("Signal Store")}`],
      [objects(after(2_000, kept), after(0, open)), late("Quota Counter or Signal Store", 3_000)],
      [objects(after(2_000, kept), after(3_000, wanted)), late("Destinations", 2_000)],
    ] as const;
    for (const [bindings, says] of cases) {
      const { answer, tookMs } = await timed(() =>
        healthWithin({ ...env, ...bindings } as object as Env, workspace.id),
      );
      expect(answer.alarms[0]?.says).toContain(`objects do not answer: ${says}. Ask again`);
      expect(tookMs).toBe(5_000);
    }
  });

  describe("with 200 workspaces", () => {
    const asked = Array.from({ length: HEALTH_PAGE_WORKSPACES }, (_, n) => ({
      id: `ws_${n}`,
      slug: `slug-${n}`,
      jurisdiction: "",
    }));
    /** The answer and its duration, with objects that answer each call in this way. */
    const ask = (store: () => Promise<unknown>, counter: () => Promise<unknown>) => {
      vi.spyOn(Math, "random").mockReturnValue(0.25);
      const bindings = {
        ...env,
        SIGNAL_STORE: { getByName: () => ({ health: store }) },
        QUOTA_COUNTER: { getByName: () => ({ backlog: counter }) },
      } as object as Env;
      return timed(async () => summaryOf(await healthOfAll(bindings, asked), [], null));
    };
    const named = ({ items }: Awaited<ReturnType<typeof ask>>["answer"], alarm: string) =>
      items.filter(({ alarms }) => alarms[0]?.alarm === alarm).map(({ slug }) => slug);
    const slugs = (from: number, to: number) => asked.slice(from, to).map(({ slug }) => slug);

    test("is stuck within fifteen seconds and names the workspaces that it could not ask, if all objects hang", async () => {
      const { tookMs, answer } = await ask(never, never);
      expect(tookMs).toBeLessThan(15_000);
      expect(answer).toMatchObject({
        status: "stuck",
        workspaces: { asked: 100, notAsked: 100, ok: 0, late: 0, stuck: 100 },
      });
      expect(answer.says).toContain("do not answer");
      expect(named(answer, "unreachable")).toEqual(slugs(50, 150));
      expect(named(answer, "not_asked")).toEqual([...slugs(0, 50), ...slugs(150, 200)]);
    });

    test("is not ok if it could not ask some workspaces, because the objects are slow", async () => {
      const workspace = await newWorkspace();
      const [store, counter] = [await workspace.store.health(), await workspace.counter.backlog()];
      const { tookMs, answer } = await ask(after(4_900, store), after(0, counter));
      expect(tookMs).toBeLessThan(15_000);
      expect(answer).toMatchObject({
        status: "late",
        workspaces: { asked: 100, notAsked: 100, ok: 100, late: 0, stuck: 0 },
      });
      expect(answer.says).toContain("this one was not asked");
      expect(named(answer, "not_asked")).toEqual([...slugs(0, 50), ...slugs(150, 200)]);
    });
  });

  test("asks a limited number of workspaces per page and links the next page", async () => {
    await insertWorkspaces(HEALTH_PAGE_WORKSPACES);
    const workspace = await newWorkspace();
    const first = await all();
    expect(first).toMatchObject({ workspaces: { asked: HEALTH_PAGE_WORKSPACES }, next_page: 2 });
    const second = await all(2);
    expect(second.next_page).toBeNull();
    await leaveWaiting(workspace);
    vi.setSystemTime(START + 10 * MINUTE);
    expect((await all(2)).items.map((item) => item.workspace_id)).toContain(workspace.id);
    await env.DB.exec("DELETE FROM workspaces WHERE id LIKE 'ws_000%'");
  });
});

describe("the queues", () => {
  test("are in the answer for all workspaces", async () => {
    expect((await all()).queues).toEqual([
      { queue: "signals", messages: 0, bytes: 0, oldest_at: null },
      { queue: "deliveries", messages: 0, bytes: 0, oldest_at: null },
    ]);
  });

  test("show the messages that wait; a queue that does not answer in time or fails is left out", async () => {
    const backlog = { backlogCount: 3, backlogBytes: 120, oldestMessageTimestamp: new Date(START) };
    const backlogs = (signals: () => Promise<unknown>) =>
      timed(() => {
        const bindings = { SIGNALS: { metrics: signals }, DELIVERIES: { metrics: after(0, backlog) } };
        return queueBacklogs(bindings as object as Env);
      });
    const deliveries = [{ queue: "deliveries", messages: 3, bytes: 120, oldestAtMs: START }];
    expect(await backlogs(never)).toEqual({ answer: deliveries, tookMs: 5_000 });
    expect((await backlogs(() => Promise.reject(new Error("overloaded")))).answer).toEqual(deliveries);
  });
});

describe("GET /operator/metrics", () => {
  test("has every figure of every workspace in the OpenMetrics text format", async () => {
    const workspace = await newWorkspace();
    await leaveWaiting(workspace);
    vi.setSystemTime(START + 10 * MINUTE);
    const response = await call("/operator/metrics", { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } });
    expect(response.headers.get("content-type")).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
    const text = new TextDecoder().decode(await response.arrayBuffer());
    expect(text.endsWith("\n# EOF\n")).toBe(true);
    const of = (name: string) =>
      new RegExp(`^signal_ingestion_${name}\\{workspace="${workspace.id}",slug="[^"]+"\\} (\\S+)$`, "m").exec(
        text,
      )?.[1];
    const types = [...text.matchAll(/^# TYPE signal_ingestion_(\w+) (\w+)$/gm)].map(([, name = "", type]) => ({
      name,
      type,
    }));
    const figures = types.filter(({ name }) => name !== "workspaces");
    expect(figures.map(({ name }) => name)).toEqual([...FIGURES, ...QUEUE_FIGURES]);
    for (const name of QUEUE_FIGURES) {
      expect(text).toMatch(new RegExp(`^signal_ingestion_${name}\\{queue="signals"\\} [\\d.]+$`, "m"));
      expect(text).toMatch(new RegExp(`^signal_ingestion_${name}\\{queue="deliveries"\\} [\\d.]+$`, "m"));
    }
    for (const { name, type } of figures.filter((figure) => FIGURES.includes(figure.name))) {
      expect(of(type === "counter" ? `${name}_total` : name), name).toMatch(/^[\d.]+$/);
    }
    expect(of("status")).toBe("1");
    expect(of("waiting_signals")).toBe("1");
    expect(of("oldest_waiting_seconds")).toBe("600");
    expect(of("accepted_signals_total")).toBe("1");
  });
});

/**
 * Releases, replays and deletions that are interrupted at each call: each completes without another request, or
 * reports that it did not begin. No signal is sent or counted twice, and the audit log has the numbers.
 */
import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import { hashOfName } from "../../../src/domain/signal/identity.ts";
import { Destinations } from "../../../src/notifications/destinations.ts";
import { SAFETY_ALARM_MS } from "../../../src/limits.ts";
import { Outbox } from "../../../src/quota/outbox.ts";
import { CHORE_REST_MS } from "../../../src/store/chores.ts";
import { stepResends } from "../../../src/store/resend-jobs.ts";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { deletePerson } from "../../../src/use-cases/delete-person.ts";
import { releaseHeldSignals, replayDeadLetters } from "../../../src/use-cases/signal-operations.ts";
import { TestCounter, type SendBatch } from "../../support/counter.ts";
import { DAY, consumeMessages } from "../../support/deliver.ts";
import { textOfTables } from "../../support/everything.ts";
import { Interruption, type Harm } from "../../support/interruption.ts";
import { expectLogged } from "../../support/logged.ts";
import { newMembers } from "../../support/members.ts";
import { crossed } from "../../support/destination-harness.ts";
import { until } from "../../support/until.ts";
import { newPlan, newWorkspace, type NewWorkspace, type TestWorkspace } from "../../support/workspace.ts";
import { openState } from "../../support/log.ts";

// Each call of a binding fails once.
expectLogged();

const HARMS: readonly Harm[] = ["fails", "is the last before a crash"];
/** More than a page of 200. */
const SIGNALS = 201;
/** More calls than any of the operations makes. */
const MOST_CALLS = 20;
/** No work may wait longer for an alarm that is set. */
const SOON_MS = 120_000;
const JANE = "jane.doe@example.com";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** With a rule that scores each form with one point. */
async function withRule(options: NewWorkspace = {}): Promise<TestWorkspace> {
  const workspace = await newWorkspace(options);
  const rule = { name: "R", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 1 };
  await workspace.operator("POST", "/rules", rule);
  return workspace;
}

async function send(workspace: TestWorkspace, count: number, from = 0): Promise<void> {
  const signals = Array.from({ length: count }, (_, n) => ({ event: "E", email: JANE, n: from + n }));
  const answer = await workspace.send(signals, { path: "/api/signal-staging/webhook/batch/{key}" });
  expect(answer.status).toBe(202);
}

async function scoreOf(workspace: TestWorkspace): Promise<number | undefined> {
  return (await workspace.list<{ score: number }>(`/people?email=${JANE}`))[0]?.score;
}

/** The entries of an action in the audit log, oldest first. */
async function entries(workspace: TestWorkspace, action: string) {
  return (await workspace.audit(action)).map(({ target, detail }) => ({ target, detail }));
}

/** Rings the alarms of the store and of the counter that are due soon, as the platform would. */
async function ringDueAlarms(workspace: TestWorkspace): Promise<void> {
  const dueMs = await runInDurableObject(workspace.store, (_, { storage }) => storage.getAlarm());
  if (dueMs !== null && dueMs <= Date.now() + SOON_MS) await runDurableObjectAlarm(workspace.store);
  await runDurableObjectAlarm(workspace.counter);
}

/** Whether the store knows of a job that sends signals again. */
function hasJob(workspace: TestWorkspace): Promise<boolean> {
  return runInDurableObject(
    workspace.store,
    (_, { storage: { sql } }) => sql.exec("SELECT 1 FROM resend_jobs").toArray().length > 0,
  );
}

/** Waits until the job of a single call has ended. If it has not begun, begins it again. */
async function finishes(
  workspace: TestWorkspace,
  action: string,
  numbers: Record<string, number>,
  again: () => Promise<unknown>,
): Promise<void> {
  if (await hasJob(workspace)) {
    await until(async () => {
      await ringDueAlarms(workspace);
      expect(await entries(workspace, action)).toEqual([{ target: workspace.id, detail: numbers }]);
    });
    return;
  }
  const before = await entries(workspace, action);
  expect(before.every(({ detail }) => Object.keys(detail).length === 0)).toBe(true);
  await again();
  expect((await entries(workspace, action)).at(-1)?.detail).toEqual(numbers);
}

/** Operations that send signals again. */
const OPERATIONS = {
  release: { action: "held.released", path: "/held/release", numbers: { released: SIGNALS, still_held: 0 } },
  replay: { action: "dead_letters.replayed", path: "/dead-letters/replay", numbers: { replayed: SIGNALS } },
};

/** A workspace with signals to send, and their ids. */
async function withSignalsFor(method: "release" | "replay"): Promise<{ workspace: TestWorkspace; ids: string[] }> {
  const workspace = await withRule({ plan: await newPlan(SIGNALS) });
  if (method === "replay") {
    await sendToDeadLetters(workspace, SIGNALS);
    const rows = await runInDurableObject(workspace.store, (_, { storage: { sql } }) =>
      sql.exec<{ id: string }>("SELECT id FROM dead_letters").toArray(),
    );
    return { workspace, ids: rows.map(({ id }) => id) };
  }
  await send(workspace, 2 * SIGNALS);
  await workspace.settled();
  await workspace.operator("PATCH", "", { overages: true });
  return { workspace, ids: [] };
}

describe.each(HARMS)("after a call that took effect %s,", (harm) => {
  test.each([
    // Of the Worker: version, configuration, counter, usage, entry, store. Of the store: two pages, audit log.
    ["release", 2 * SIGNALS, 10],
    // Of the Worker: entry, store. Of the store: two pages, their number, audit log.
    ["replay", SIGNALS, 7],
  ] as const)(
    "a %s sends each signal once, and the audit log has the number",
    async (method, processed, allCalls) => {
      const { action, path, numbers } = OPERATIONS[method];
      let calls = 0;
      for (let isReached = true; isReached && calls < MOST_CALLS; calls++) {
        /* oxlint-disable no-await-in-loop -- one history after the other */
        const { workspace } = await withSignalsFor(method);
        const interruption = new Interruption(calls, harm);
        await interruption.run(workspace.id, (bindings) => {
          const context = workspace.context({ env: bindings, db: controlDatabase(bindings.DB) });
          return method === "release" ? releaseHeldSignals(context) : replayDeadLetters(context, null);
        });
        isReached = interruption.hasHappened;
        await finishes(workspace, action, numbers, () => workspace.operator("POST", path, {}));
        const settled = { processed, held: 0, dead_lettered: 0, balanced: true };
        expect(await workspace.settled()).toMatchObject(settled);
        const usage = await workspace.operator("GET", "/usage");
        expect(usage).toMatchObject({ accepted: processed, held: 0, overage: processed - SIGNALS });
        expect(await scoreOf(workspace)).toBe(processed);
        /* oxlint-enable no-await-in-loop */
      }
      expect(calls).toBe(allCalls);
    },
    120_000,
  );

  test("a deletion removes the person from the store and Destinations, or reports that it did not begin", async () => {
    let calls = 0;
    for (let isReached = true; isReached && calls < MOST_CALLS; calls++) {
      /* oxlint-disable no-await-in-loop -- one history after the other */
      const { workspace, home, member } = await newMembers();
      await keepEventOf(workspace, JANE);
      await send(workspace, 2);
      await workspace.settled();
      // The store takes its binding of Destinations when it first forwards.
      await abortAllDurableObjects();
      const interruption = new Interruption(calls, harm);
      await interruption.run(workspace.id, (bindings) =>
        deletePerson(workspace.context({ env: bindings, db: controlDatabase(bindings.DB) }), JANE),
      );
      isReached = interruption.hasHappened;
      const [entry] = await entries(workspace, "person.deleted");
      if (entry === undefined || (await workspace.store.deletionById(entry.target)) === null) {
        if (entry !== undefined) {
          for (const path of [`deletions/${entry.target}`, `${JANE}/deletion`]) {
            expect(await member.see(`${home}/people/${path}`)).toContain("The deletion did not begin");
          }
        }
        expect(await scoreOf(workspace)).toBeDefined();
        await workspace.operator("DELETE", `/people/${JANE}`);
      }
      await until(async () => {
        await ringDueAlarms(workspace);
        const [last] = (await entries(workspace, "person.deleted")).slice(-1);
        expect(last?.detail).toEqual({});
        const receipt = await workspace.store.deletionById(last?.target ?? "");
        expect(receipt).toMatchObject({ people: 1, signals: 2, finishedAtMs: expect.any(Number) as number });
      });
      expect(await tablesOf(env.DESTINATIONS.getByName(workspace.id))).not.toContain(JANE);
      expect(await tablesOf(workspace.store)).not.toContain(JANE);
      expect(await workspace.settled()).toMatchObject({ processed: 2, balanced: true });
      /* oxlint-enable no-await-in-loop */
    }
    // Of the Worker: D1, store. Of the store: Destinations.
    expect(calls).toBe(4);
  }, 120_000);
});

/** Makes all signals dead letters. */
const toDeadLetters: SendBatch = (messages) =>
  consumeMessages(
    messages.map(({ body }) => body),
    { queue: "signals-dlq" },
  );

async function sendToDeadLetters(workspace: TestWorkspace, count: number): Promise<void> {
  await new TestCounter(workspace.id).sendTo(toDeadLetters);
  await send(workspace, count);
  expect(await workspace.settled()).toMatchObject({ dead_lettered: count, balanced: true });
  await abortAllDurableObjects();
}

/** Makes Destinations keep a person's notification, because its receiver does not answer. */
async function keepEventOf(workspace: TestWorkspace, email: string): Promise<void> {
  const body = {
    name: "CRM",
    type: "webhook",
    target: "https://crm.example/",
    notifications: ["person.score_crossed"],
  };
  await workspace.operator("POST", "/destinations", body);
  const destinations = env.DESTINATIONS.getByName(workspace.id);
  await destinations.raise([crossed(email)]);
  expect(await tablesOf(destinations)).toContain(email);
}

function tablesOf(object: DurableObjectStub): Promise<string> {
  return runInDurableObject(object, (_, { storage }) => textOfTables(storage.sql));
}

describe("a job that restarts before it stores its progress", () => {
  /** Restarts all objects after the counter has sent a page and before it answers the store. */
  async function loseAnswer(method: "release" | "replay", page: number, begin: () => Promise<unknown>): Promise<void> {
    const original = QuotaCounter.prototype[method] as (...given: unknown[]) => unknown;
    let isSent = false;
    vi.spyOn(QuotaCounter.prototype, method).mockImplementation(function (this: QuotaCounter, ...given: unknown[]) {
      const answer = original.apply(this, given);
      if ((given[0] as { page: number }).page < page) return answer;
      isSent = true;
      return new Promise(() => {});
    } as never);
    void begin().catch(() => undefined);
    await until(() => expect(isSent).toBe(true));
    await abortAllDurableObjects();
    vi.restoreAllMocks();
  }

  test.each([
    ["release", 1, "all"],
    ["release", 2, "all"],
    ["replay", 1, "all"],
    ["replay", 2, "all"],
    ["replay", 1, "ids"],
    ["replay", 2, "ids"],
  ] as const)("counts the signals of the lost answer (%s, page %i, %s)", async (method, page, chosenBy) => {
    const { action, path, numbers } = OPERATIONS[method];
    const { workspace, ids } = await withSignalsFor(method);
    await loseAnswer(method, page, () => workspace.operator("POST", path, chosenBy === "ids" ? { ids } : {}));
    await workspace.settled();
    await until(async () => {
      await ringDueAlarms(workspace);
      expect(await entries(workspace, action)).toEqual([{ target: workspace.id, detail: numbers }]);
    });
    expect(await workspace.settled()).toMatchObject({ held: 0, dead_lettered: 0, balanced: true });
  });
});

describe("a resumed job", () => {
  /** Releases while calls of the counter fail after one page. @returns the workspace in that state. */
  async function interruptedRelease(): Promise<TestWorkspace> {
    const { workspace } = await withSignalsFor("release");
    // oxlint-disable-next-line typescript/unbound-method -- it is called with the counter
    const original = QuotaCounter.prototype.release;
    vi.spyOn(QuotaCounter.prototype, "release").mockImplementation(function (this: QuotaCounter, ...given) {
      if (given[0].batch > 1) throw new Error("the counter does not answer");
      return original.apply(this, given);
    });
    const progress = { released: 200, still_held: 1, under_way: true };
    expect(await workspace.operator("POST", "/held/release")).toEqual(progress);
    expect(await entries(workspace, "held.released")).toEqual([{ target: workspace.id, detail: {} }]);
    vi.restoreAllMocks();
    return workspace;
  }

  const released = async (workspace: TestWorkspace) => (await entries(workspace, "held.released"))[0]?.detail;

  test("retries a minute after the counter did not answer, and counts as failing until then", async () => {
    const workspace = await interruptedRelease();
    const failing = async () => (await workspace.store.health()).failingChores.map(({ chore }) => chore);
    expect(await failing()).toEqual(["resend"]);
    await ringDueAlarms(workspace);
    expect([await released(workspace), await failing()]).toEqual([{}, ["resend"]]);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + CHORE_REST_MS });
    await ringDueAlarms(workspace);
    expect([await released(workspace), await failing()]).toEqual([{ released: SIGNALS, still_held: 0 }, []]);
  });

  test("stops a release when overages are switched off", async () => {
    const workspace = await interruptedRelease();
    await workspace.operator("PATCH", "", { overages: false });
    await workspace.operator("PATCH", "", { plan: await newPlan(10 * SIGNALS) });
    await abortAllDurableObjects();
    await ringDueAlarms(workspace);
    expect(await released(workspace)).toEqual({ released: 200, still_held: 1 });
    expect(await workspace.settled()).toMatchObject({ held: 1, balanced: true });
    // A new release uses the current terms.
    expect(await workspace.operator("POST", "/held/release")).toEqual({ released: 1, still_held: 0 });
  });

  test("stops a release when the billing period ends", async () => {
    const workspace = await interruptedRelease();
    const { periodEndMs = 0 } = (await workspace.counter.usage()) ?? {};
    await workspace.settled();
    vi.useFakeTimers({ toFake: ["Date"], now: periodEndMs });
    // The held signals are purged later than the release continues.
    await runInDurableObject(workspace.store, async (_, { storage }) => {
      storage.sql.exec("UPDATE resend_jobs SET due_at = 0");
      await stepResends(openState(storage, workspace.id), env, workspace.id, Date.now() + 1_000);
    });
    expect(await released(workspace)).toEqual({ released: 200, still_held: 1 });
    expect(await workspace.counter.usage()).toMatchObject({ accepted: 0, overage: 0 });
  });

  test("leaves out dead letters that were added after the job began", async () => {
    const workspace = await withRule();
    await sendToDeadLetters(workspace, SIGNALS);
    vi.spyOn(QuotaCounter.prototype, "replay").mockImplementation(() => {
      throw new Error("the counter does not answer");
    });
    expect(await workspace.operator("POST", "/dead-letters/replay", {})).toEqual({ replayed: 0, under_way: true });
    vi.restoreAllMocks();
    await new TestCounter(workspace.id).sendTo(toDeadLetters);
    await send(workspace, 1, SIGNALS);
    expect(await workspace.settled()).toMatchObject({ dead_lettered: SIGNALS + 1 });
    await abortAllDurableObjects();
    await ringDueAlarms(workspace);
    expect(await workspace.settled()).toMatchObject({ processed: SIGNALS, dead_lettered: 1, balanced: true });
    expect((await entries(workspace, "dead_letters.replayed"))[0]?.detail).toEqual({ replayed: SIGNALS });
  });

  test("waits while the outbox is full, and continues a replay when there is room", async () => {
    const workspace = await withRule();
    await sendToDeadLetters(workspace, 2);
    const full = vi.spyOn(Outbox.prototype, "isFull", "get").mockReturnValue(true);
    expect(await workspace.operator("POST", "/dead-letters/replay", {})).toEqual({ replayed: 0, under_way: true });
    // A later call joins the waiting replay; for other dead letters it runs separately.
    expect(await workspace.operator("POST", "/dead-letters/replay", {})).toEqual({ replayed: 0, under_way: true });
    expect((await workspace.store.health()).failingChores).toEqual([]);
    full.mockRestore();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + SAFETY_ALARM_MS });
    await ringDueAlarms(workspace);
    expect(await workspace.settled()).toMatchObject({ processed: 2, dead_lettered: 0, balanced: true });
    const [first, second] = await entries(workspace, "dead_letters.replayed");
    expect(first?.detail).toEqual({ replayed: 2 });
    expect(second?.detail).toEqual({ joined: expect.stringMatching(/^aud_/) as string });
  });

  test("ends a release when no room is left, before a new release", async () => {
    const workspace = await withRule({ plan: await newPlan(2) });
    await send(workspace, 4);
    await workspace.settled();
    await workspace.operator("PATCH", "", { plan: await newPlan(3) });
    expect(await workspace.operator("POST", "/held/release")).toEqual({ released: 1, still_held: 1 });
    expect(await workspace.operator("POST", "/held/release")).toMatchObject({ released: 0 });
    expect((await entries(workspace, "held.released")).map(({ detail }) => detail["released"])).toEqual([1, 0]);
  });
});

describe("a deletion in D1", () => {
  test("stores only the hash of the email, and clears rows older than 31 days in all workspaces", async () => {
    const [workspace, otherWorkspace] = [await withRule(), await newWorkspace()];
    const old = new Date(Date.now() - 32 * DAY).toISOString();
    await env.DB.prepare("INSERT INTO deletions (id, workspace_id, requested_at, email_hash) VALUES (?, ?, ?, 'x')")
      .bind(`del_old_${otherWorkspace.id}`, otherWorkspace.id, old)
      .run();
    const { id } = await workspace.operator<{ id: string }>("DELETE", `/people/${JANE}`);
    const { results } = await env.DB.prepare("SELECT id, email_hash FROM deletions WHERE workspace_id IN (?, ?)")
      .bind(workspace.id, otherWorkspace.id)
      .all();
    expect(results).toEqual([{ id, email_hash: hashOfName({ kind: "email", value: JANE }) }]);
  });

  test("names the receipt of the running deletion in the audit log", async () => {
    const workspace = await withRule();
    await send(workspace, 1);
    await workspace.settled();
    vi.spyOn(Destinations.prototype, "deletePerson").mockImplementation(() => {
      throw new Error("Destinations do not answer");
    });
    const first = await workspace.operator<{ id: string; complete: boolean }>("DELETE", `/people/${JANE}`);
    const second = await workspace.operator<{ id: string }>("DELETE", `/people/${JANE}`);
    expect([first.complete, second.id]).toEqual([false, first.id]);
    expect((await entries(workspace, "person.deleted")).map(({ target }) => target)).toEqual([first.id, first.id]);
    vi.restoreAllMocks();
    await abortAllDurableObjects();
    await until(async () => {
      await ringDueAlarms(workspace);
      expect((await workspace.store.deletionById(first.id))?.finishedAtMs).toEqual(expect.any(Number));
    });
    expect(await tablesOf(workspace.store)).not.toContain(JANE);
  });
});

/** Notifications are forwarded from the object that raised them to Destinations: none is lost or invented. */
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { notificationTypes } from "../../../src/domain/notifications/notification.ts";
import { RaisedNotifications } from "../../../src/notifications/raised-notifications.ts";
import { newId } from "../../../src/platform/ids.ts";
import { ring } from "../../support/cold.ts";
import { consumeMessages, deliver, messageOf, type Delivered } from "../../support/deliver.ts";
import { crossed } from "../../support/destination-harness.ts";
import type { Fault } from "../../support/faults.ts";
import { assertForSoLong } from "../../support/for-so-long.ts";
import { expectLogged } from "../../support/logged.ts";
import { TestDestinations, ofType } from "../../support/raised.ts";
import { until } from "../../support/until.ts";
import { newWorkspace } from "../../support/workspace.ts";
import { wanting } from "../../support/wanting.ts";

afterEach(() => {
  vi.useRealTimers();
});

const EMAILS = ["ann@example.com", "bob@example.com", "cyd@example.com"];

/** A workspace that wants all notifications, and has a rule of 5 points. */
async function begin(thresholds: number[] = []) {
  const workspace = await newWorkspace({ key: null });
  const rule = { name: "r", event: "E", match: "all", conditions: [], scoring_signal: "s", points: 5 };
  await workspace.operator("POST", "/rules", rule);
  await workspace.store.wantNotifications(wanting({ types: [...notificationTypes], thresholds }));
  return { workspaceId: workspace.id, destinations: new TestDestinations(workspace.id) };
}

const signal = (n: number, who = n): Delivered => ({
  id: `sig_${n}`,
  ordinal: n + 1,
  payload: { event: "E", email: EMAILS[who % EMAILS.length], n },
});

const store = (workspaceId: string) => env.SIGNAL_STORE.getByName(workspaceId);
const waiting = (workspaceId: string) =>
  runInDurableObject(
    store(workspaceId),
    (_, { storage: { sql } }) => sql.exec("SELECT 1 FROM raised_notifications").toArray().length,
  );
const alarmMs = (workspaceId: string) => runInDurableObject(store(workspaceId), (_, { storage }) => storage.getAlarm());

async function forwarded(workspaceId: string): Promise<void> {
  await until(async () => expect(await waiting(workspaceId)).toBe(0));
}

test("recording does not wait while Destinations does not answer; later notifications share the next call", async () => {
  const { workspaceId, destinations } = await begin();
  const open = destinations.hold();
  await deliver(workspaceId, [signal(0)]);
  await deliver(workspaceId, [signal(1)]);
  await deliver(workspaceId, [signal(2)]);
  expect(await waiting(workspaceId)).toBe(3);
  await until(() => expect(destinations.calls).toBe(1));
  open();
  await forwarded(workspaceId);
  expect(destinations.calls).toBe(2);
  expect(destinations.taken).toHaveLength(3);
});

test.each<Fault>(["before", "after"])(
  "a call that fails %s it takes effect is repeated with the same ids, and only by the alarm",
  async (fault) => {
    expectLogged("raise_failed");
    const { workspaceId, destinations } = await begin();
    destinations.faults = [fault];
    await deliver(workspaceId, [signal(0)]);
    await until(() => expect(destinations.calls).toBe(1));
    const dueMs = await alarmMs(workspaceId);
    expect(dueMs ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(Date.now() + 5_000);
    await deliver(workspaceId, [signal(1)]);
    expect(destinations.calls).toBe(1);
    vi.useFakeTimers({ toFake: ["Date"], now: dueMs ?? 0 });
    await ring(workspaceId);
    vi.useRealTimers();
    await forwarded(workspaceId);
    expect(destinations.taken).toHaveLength(fault === "before" ? 2 : 3);
    expect(destinations.notifications).toHaveLength(2);
    // After the success, notifications are forwarded at once again.
    await deliver(workspaceId, [signal(2)]);
    await forwarded(workspaceId);
  },
);

test("the alarm forwards after the object was killed before it could", async () => {
  const { workspaceId, destinations } = await begin();
  destinations.gate = new Promise(() => {});
  await deliver(workspaceId, [signal(0)]);
  expect(await alarmMs(workspaceId)).not.toBeNull();
  await abortAllDurableObjects();
  destinations.gate = Promise.resolve();
  await ring(workspaceId);
  await forwarded(workspaceId);
  expect(ofType(destinations.notifications, "person.scored")).toMatchObject([
    { scoring_signals: [{ signal_id: "sig_0" }] },
  ]);
});

test("a batch that arrives while the alarm of a restarted object forwards leaves an alarm set", async () => {
  const { workspaceId, destinations } = await begin();
  destinations.gate = new Promise(() => {});
  await deliver(workspaceId, [signal(0)]);
  await until(() => expect(destinations.calls).toBe(1));
  await abortAllDurableObjects();
  const open = destinations.hold();
  const rung = runInDurableObject(store(workspaceId), async (instance, { storage }) => {
    await storage.deleteAlarm();
    await instance.alarm();
  });
  await until(() => expect(destinations.calls).toBe(2));
  const beforeMs = Date.now();
  await deliver(workspaceId, [signal(1)]);
  const nextMs = await alarmMs(workspaceId);
  open();
  await rung;
  await forwarded(workspaceId);
  expect(nextMs).toBeGreaterThan(beforeMs);
  expect(destinations.notifications).toHaveLength(2);
});

test("a deletion follows the notifications in progress, and later ones do not name the person", async () => {
  const { workspaceId, destinations } = await begin();
  const open = destinations.hold();
  await deliver(workspaceId, [signal(0)]);
  await deliver(workspaceId, [signal(3), signal(1)]);
  await store(workspaceId).deletePerson("del_1", EMAILS[0] ?? "");
  open();
  await forwarded(workspaceId);
  expect(destinations.calls).toBe(2);
  expect(JSON.stringify(destinations.taken.slice(1))).not.toContain(EMAILS[0]);
  expect(JSON.stringify(destinations.taken)).toContain(EMAILS[1]);
  expect(destinations.deleted).toEqual([EMAILS[0]]);
});

const inObject = (act: (sql: SqlStorage) => void) =>
  runInDurableObject(store(newId("ws")), (_, { storage: { sql } }) => act(sql));

test.each(["the same object", "a restarted object"])(
  "%s forwards nothing of a deleted person that waited, and everything of a later person with that email",
  (which) =>
    inObject((sql) => {
      const [ann, bob] = ["ann@example.com", "bob@example.com"];
      const first = new RaisedNotifications(sql);
      first.raise([crossed(ann), crossed(bob)]);
      first.raise([crossed(ann)]);
      first.raiseDeletion({ receiptId: "del_1", email: ann, atMs: 1 });
      first.raise([crossed(ann)]);
      const raised = which === "the same object" ? first : new RaisedNotifications(sql);
      const taken: unknown[] = [];
      for (let next = raised.next(); next !== null; next = raised.next()) {
        taken.push(next.deletion?.email ?? next.notifications.map(({ data }) => Reflect.get(data, "email")));
        raised.forwarded(next.lastRow);
      }
      expect(taken).toEqual([[bob], ann, [ann]]);
    }),
);

test("notifications that are larger than a call leave alone, in order", () =>
  inObject((sql) => {
    const raised = new RaisedNotifications(sql);
    const all = ["a".repeat(500_000), "b".repeat(500_000), "c"].map((name) => crossed(`${name}@example.com`));
    raised.raise(all);
    const taken: string[][] = [];
    for (let next = raised.next(); next !== null && taken.length < 9; next = raised.next()) {
      taken.push(next.notifications.map(({ id }) => id));
      raised.forwarded(next.lastRow);
    }
    expect(taken).toEqual(all.map(({ id }) => [id]));
  }));

test("a deletion reads none of the notifications that wait", () =>
  inObject((sql) => {
    const raised = new RaisedNotifications(sql);
    raised.raise([crossed("ann@example.com")]);
    const exec = vi.spyOn(sql, "exec");
    raised.raiseDeletion({ receiptId: "del_1", email: "ann@example.com", atMs: 1 });
    expect(exec.mock.calls.map(([query]) => query.slice(0, 6))).toEqual(["INSERT"]);
  }));

const RAISED = /^(INSERT INTO|UPDATE|DELETE FROM) (people|heads|raised_notifications|timelines)\b/;

async function kill(workspaceId: string): Promise<void> {
  await runInDurableObject(store(workspaceId), (_, ctx) => ctx.abort("killed")).catch(() => {});
}

/** One write of recording or forwarding fails; if it is recording's, the object ends there. */
async function breakWriting(workspaceId: string, at: number): Promise<void> {
  await runInDurableObject(store(workspaceId), (_, { storage: { sql } }) => {
    const exec = sql.exec.bind(sql);
    let writes = 0;
    sql.exec = ((query: string, ...bindings: unknown[]) => {
      if (RAISED.test(query) && writes++ === at) throw new Error("broken");
      return exec(query, ...bindings);
    }) as typeof sql.exec;
  });
}

test("with a crash at every write and call, in any order, repetition and split, each scoring signal and crossing arrives once", async () => {
  expectLogged();
  const plan = fc.record({
    signals: fc.array(fc.nat(2), { minLength: 1, maxLength: 14 }),
    order: fc.array(fc.nat(1_000), { minLength: 14, maxLength: 14 }),
    waves: fc.array(
      fc.record({
        sizes: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 2 }),
        faults: fc.array(fc.constantFrom<Fault[]>("none", "none", "before", "after"), { maxLength: 4 }),
        brokenAt: fc.option(fc.nat(8)),
        meanwhile: fc.constantFrom("nothing", "alarm", "restart", "kill"),
      }),
      { minLength: 1, maxLength: 6 },
    ),
  });
  await assertForSoLong(
    fc.asyncProperty(plan, async ({ signals, order, waves }) => {
      const { workspaceId, destinations } = await begin([5, 15]);
      const all = signals.map((who, n) => signal(n, who));
      const queue = [...all, ...all.slice(0, 3)].toSorted((a, b) => placeOf(a) - placeOf(b));
      function placeOf({ ordinal = 0 }: Delivered): number {
        return order[ordinal % order.length] ?? 0;
      }
      for (let number = 0; queue.length > 0; number++) {
        const wave = waves[number % waves.length];
        if (wave === undefined) throw new Error("no wave");
        destinations.faults = [...wave.faults];
        if (wave.meanwhile === "restart") await kill(workspaceId);
        if (wave.brokenAt !== null) await breakWriting(workspaceId, wave.brokenAt);
        const meanwhile = async () => {
          if (wave.meanwhile === "alarm") await ring(workspaceId).catch(() => {});
          if (wave.meanwhile === "kill") await kill(workspaceId);
        };
        const consume = async (some: Delivered[]) => {
          if (some.length === 0) return;
          while ((await consumeMessages([messageOf(workspaceId, some)])).retryMessages.length > 0);
        };
        await Promise.all([...wave.sizes.map((size) => consume(queue.splice(0, size))), meanwhile()]);
      }
      destinations.faults = [];
      await kill(workspaceId);
      await ring(workspaceId);
      await forwarded(workspaceId);
      const notified = ofType(destinations.notifications, "person.scored").flatMap(({ scoring_signals: some }) => some);
      expect(notified.map(({ signal_id: id }) => id).sort()).toEqual(all.map(({ id }) => id).sort());
      const crossings = ofType(destinations.notifications, "person.score_crossed").map(
        (crossing) => `${crossing.email} ${crossing.threshold}`,
      );
      const expected = EMAILS.flatMap((email, who) => {
        const score = 5 * signals.filter((index) => index === who).length;
        return [5, 15].filter((threshold) => score >= threshold).map((threshold) => `${email} ${threshold}`);
      });
      expect(crossings.sort()).toEqual(expected.sort());
    }),
    { numRuns: 60, limitMs: 20_000 },
  );
});

/** Destinations: creation, changes, pauses, secrets, deletion, and the data shown about them. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import { RETRY_DELAYS_MS, RETRY_JITTER } from "../../../src/domain/notifications/attempts.ts";
import { DELIVERY_LEASE_MS, DESTINATIONS_MAX } from "../../../src/limits.ts";
import { Deliveries, WAITING_MAX_DELIVERIES } from "../../../src/notifications/deliveries.ts";
import { OLD_SECRETS_MAX } from "../../../src/notifications/roster.ts";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { SignalStore } from "../../../src/store/signal-store.ts";
import { newId } from "../../../src/platform/ids.ts";
import { type DestinationsContext, deleteDestination } from "../../../src/use-cases/manage-destinations.ts";
import { d1Failing } from "../../support/faults.ts";
import {
  Receiver,
  listen,
  DAY,
  HOUR,
  MINUTE,
  type DestinationHarness,
  crossed,
  loseMessages,
  scored,
  stopClock,
  newHarnessInEachTest,
} from "../../support/destination-harness.ts";
import { expectLogged } from "../../support/logged.ts";
import { until } from "../../support/until.ts";

const SLACK = "https://hooks.slack.example.com/services/T000/B000/aVerySecretPath";

const fails = () => new Response("no", { status: 500 });

let harness: DestinationHarness;
let receiver: Receiver;

newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});

/** The body of a rejected call. */
async function rejected(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
  const answer = await harness.workspace.ask(method, path, body);
  expect(answer.status).toBeGreaterThanOrEqual(400);
  return answer.body;
}

describe("a new destination", () => {
  test("shows its secret once, in the Standard Webhooks format", async () => {
    const { secret, ...shown } = await harness.create(receiver);
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(await harness.destination(shown.id)).toEqual(shown);
    expect(JSON.stringify(await harness.workspace.operator("GET", "/destinations"))).not.toContain("whsec_");
  });

  // The rules for URLs have unit tests.
  test.each(["https://signals.example/in", "http://localhost:9000/in"])(
    "is rejected with the URL %s, as is a change to this URL",
    async (target) => {
      const wanted = { name: "CRM", type: "webhook", target, notifications: ["person.scored"] };
      const expected = { code: "validation_failed", errors: [{ path: "target", message: expect.any(String) }] };
      expect(await rejected("POST", "/destinations", wanted)).toMatchObject(expected);
      const { id } = await harness.create(receiver);
      expect(await rejected("PATCH", `/destinations/${id}`, { target })).toMatchObject(expected);
      expect(await harness.destination(id)).toMatchObject({ target: receiver.url });
    },
  );

  test("is rejected above the limit of a workspace, also for concurrent calls", async () => {
    const made = await Promise.allSettled(Array.from({ length: DESTINATIONS_MAX + 5 }, () => harness.create(receiver)));
    expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(DESTINATIONS_MAX);
    const wanted = { name: "CRM", type: "webhook", target: receiver.url, notifications: ["person.scored"] };
    expect(await rejected("POST", "/destinations", wanted)).toMatchObject({ code: "too_many_destinations" });
  });

  test("cannot have a type that the deployment does not support", async () => {
    const wanted = { name: "Ops", type: "email", target: "ops@example.com", notifications: ["usage.level"] };
    const expected = { errors: [{ path: "type", message: "this deployment sends no email" }] };
    expect(await rejected("POST", "/destinations", wanted)).toMatchObject(expected);
  });
});

test.each([{ target: "https://a.example.com/" }, { name: "CRM" }])(
  "a change of an unknown destination to %j is a 404",
  async (change) => {
    expect(await harness.workspace.ask("PATCH", "/destinations/dst_none", change)).toMatchObject({ status: 404 });
  },
);

describe("the sources' list of wanted types", () => {
  const latestWanted = () => {
    const calls = [SignalStore.prototype, QuotaCounter.prototype].map((of) => vi.spyOn(of, "wantNotifications"));
    return () => calls.map(({ mock }) => mock.lastCall?.[0]);
  };
  const both = (types: string[], thresholds: number[], destinations = 1, accountThresholds: number[] = []) =>
    [1, 2].map(() => ({ types, thresholds, accountThresholds, destinations }));

  test("is updated before a change of a destination is answered", async () => {
    const wanted = latestWanted();
    const { id } = await harness.create(receiver, { notifications: ["person.score_crossed", "usage.level"] });
    expect(wanted()).toEqual(both(["usage.level"], []));
    await harness.workspace.operator("PUT", "/thresholds", { thresholds: [100, 50] });
    expect(wanted()).toEqual(both(["person.score_crossed", "usage.level"], [50, 100]));
    await harness.workspace.operator("PATCH", `/destinations/${id}`, { notifications: ["person.scored"] });
    expect(wanted()).toEqual(both(["person.scored"], [50, 100]));
    await harness.workspace.operator("POST", `/destinations/${id}/pause`);
    expect(wanted()).toEqual(both([], [50, 100]));
    await harness.workspace.operator("POST", `/destinations/${id}/resume`);
    expect(wanted()).toEqual(both(["person.scored"], [50, 100]));
    await harness.workspace.operator("DELETE", `/destinations/${id}`);
    expect(wanted()).toEqual(both([], [50, 100], 0));
  });

  test("has the thresholds for accounts; a change of people's thresholds keeps them", async () => {
    const wanted = latestWanted();
    const set = (body: object) => harness.workspace.operator("PUT", "/thresholds", body);
    const notifications = ["account.score_crossed", "account.score_fell", "person.score_fell"];
    await harness.create(receiver, { notifications });
    expect(wanted()).toEqual(both([], []));
    const changed = await set({ thresholds: [], account_thresholds: [500, 200] });
    expect(changed).toEqual({ thresholds: [], account_thresholds: [200, 500] });
    expect(wanted()).toEqual(both(["account.score_crossed", "account.score_fell"], [], 1, [200, 500]));
    const kept = { thresholds: [50], account_thresholds: [200, 500] };
    expect(await set({ thresholds: [50] })).toEqual(kept);
    expect(await harness.workspace.operator("GET", "/thresholds")).toEqual(kept);
    expect(wanted()).toEqual(both(notifications, [50], 1, [200, 500]));
    await set({ thresholds: [50], account_thresholds: [] });
    expect(wanted()).toEqual(both(["person.score_fell"], [50]));
  });

  test("follows the later of two concurrent changes", async () => {
    const { id } = await harness.create(receiver);
    const wanted = latestWanted();
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const inform = vi.spyOn(SignalStore.prototype, "wantNotifications").mockImplementationOnce(() => answered as never);
    const change = (type: string) =>
      harness.workspace.operator("PATCH", `/destinations/${id}`, { notifications: [type] });
    const first = change("usage.level");
    await until(() => expect(inform).toHaveBeenCalledTimes(1));
    const second = change("key.silent");
    await harness.shows(id, { notifications: ["key.silent"] });
    answer();
    await Promise.all([first, second]);
    expect(wanted()).toEqual(both(["key.silent"], []));
  });

  test("is updated by the alarm if a source could not be reached", async () => {
    expectLogged("sources_not_informed");
    stopClock();
    const reached = vi
      .spyOn(SignalStore.prototype, "wantNotifications")
      .mockRejectedValueOnce(new Error("not now") as never);
    await harness.create(receiver, { notifications: ["person.scored"] });
    await harness.pass(60_000);
    await until(() => expect(reached).toHaveBeenCalledTimes(2));
    expect(reached.mock.lastCall?.[0]).toEqual(both(["person.scored"], [])[0]);
    await harness.pass(60_000);
    await harness.pass(60_000);
    expect(reached).toHaveBeenCalledTimes(2);
  });
});

describe("a pause", () => {
  test("skips notifications raised during it and delivers those that waited before it", async () => {
    stopClock();
    const notifications = ["person.score_crossed", "person.scored"];
    const { id } = await harness.create(receiver, { notifications });
    receiver.answer = fails;
    const [waits, early, gathered] = [
      crossed("waits@example.com"),
      scored("early@example.com"),
      scored("gathered@example.com"),
    ];
    await harness.raise(waits, early);
    await until(() => expect(receiver.received).toHaveLength(2));
    await harness.raise(gathered);
    await harness.workspace.operator("POST", `/destinations/${id}/pause`);
    const missed = [crossed("missed@example.com"), scored("missed@example.com")];
    await harness.raise(...missed);
    receiver.answer = () => new Response("ok");
    await harness.pass(HOUR);
    expect(receiver.received).toHaveLength(2);
    await harness.workspace.operator("POST", `/destinations/${id}/resume`);
    await harness.pass(2_000);
    await harness.shows(id, { waiting: 0 });
    const later = receiver.ids().slice(2);
    expect(later.toSorted()).toEqual([waits.id, early.id, gathered.id].toSorted());
  });

  test("of more than a month ends the waiting deliveries, so that personal data is not kept longer", async () => {
    stopClock();
    const { id } = await harness.create(receiver);
    receiver.answer = fails;
    await harness.raise(crossed());
    await harness.attempted(id, 1);
    await harness.workspace.operator("POST", `/destinations/${id}/pause`);
    await harness.pass(29 * DAY);
    expect(await harness.destination(id)).toMatchObject({ waiting: 1 });
    await harness.pass(2 * DAY);
    expect(await harness.destination(id)).toMatchObject({ waiting: 0 });
    expect(await harness.deliveries(id)).toEqual([]);
  });

  test("lets a test through, once, with any result", async () => {
    stopClock();
    const { id } = await harness.create(receiver);
    await harness.workspace.operator("POST", `/destinations/${id}/pause`);
    receiver.answer = fails;
    await harness.workspace.operator("POST", `/destinations/${id}/test`);
    expect(await harness.attempted(id, 1)).toMatchObject({ type: "destination.test", state: "failed", due_at: null });
    expect(receiver.received[0]?.body).toMatchObject({ type: "destination.test" });
    await harness.pass(HOUR);
    expect(receiver.received).toHaveLength(1);
    expect(await harness.destination(id)).toMatchObject({ state: "paused", failing_since: null });
  });
});

describe("a delivery", () => {
  test("is repeated on demand under the same id, and makes waiting deliveries due now", async () => {
    stopClock();
    const { id } = await harness.create(receiver);
    receiver.answer = fails;
    await harness.raise(crossed());
    const { id: delivery } = await harness.attempted(id, 1);
    await harness.pass(6_000);
    await harness.attempted(id, 2);
    receiver.answer = () => new Response("ok");
    const again = `/destinations/${id}/deliveries/${delivery}/again`;
    await harness.workspace.operator("POST", again);
    expect(await harness.attempted(id, 3)).toMatchObject({ state: "delivered" });
    const { created_at } = await harness.attempted(id, 3);
    const repeated = { state: "waiting", end_reason: null, due_at: created_at };
    expect(await harness.workspace.operator("POST", again)).toMatchObject(repeated);
    expect(await harness.attempted(id, 4)).toMatchObject({ state: "delivered" });
    expect(new Set(receiver.ids()).size).toBe(1);
    await harness.workspace.operator("POST", `/destinations/${id}/pause`);
    expect(await rejected("POST", again)).toMatchObject({ code: "destination_not_active" });
  });

  test("is deleted with its destination", async () => {
    stopClock();
    receiver.answer = fails;
    const { id } = await harness.create(receiver);
    await harness.raise(crossed());
    await harness.attempted(id, 1);
    await harness.workspace.operator("DELETE", `/destinations/${id}`);
    await harness.pass(HOUR);
    expect(receiver.received).toHaveLength(1);
    const left = await runInDurableObject(harness.object, (_, { storage: { sql } }) =>
      ["deliveries", "notifications"].map((table) => sql.exec(`SELECT * FROM ${table}`).toArray().length),
    );
    expect(left).toEqual([0, 0]);
  });

  test("is given up when too many wait: oldest first, except an attempt in progress, with a visible count", async () => {
    stopClock();
    const { id } = await harness.create(receiver);
    const { sent } = loseMessages();
    await harness.raise(crossed("first@example.com"));
    for (const due of sent()) expect(await harness.object.take(due)).not.toBeNull();
    vi.setSystemTime(Date.now() + 1);
    for (let n = 0; n < WAITING_MAX_DELIVERIES + 2; n += 1_000) {
      await harness.raise(...Array.from({ length: 1_000 }, (_, index) => crossed(`p${n + index}@example.com`)));
    }
    const { waiting, dropped } = await harness.destination(id);
    expect(waiting).toBe(WAITING_MAX_DELIVERIES);
    expect(dropped).toBe(1_001);
    const oldest = await runInDurableObject(harness.object, (_, { storage: { sql } }) =>
      sql.exec("SELECT end_reason FROM deliveries ORDER BY id LIMIT 2").toArray(),
    );
    expect(oldest).toEqual([{ end_reason: null }, { end_reason: "too_many" }]);
  });
});

test("notifications whose transaction fails are not counted as waiting", async () => {
  receiver.answer = fails;
  const { id } = await harness.create(receiver);
  vi.spyOn(Deliveries.prototype, "giveUpAboveLimits").mockImplementationOnce(() => {
    throw new Error("The disk is full.");
  });
  const isRejected = await runInDurableObject(harness.object, (object) => {
    try {
      object.raise([crossed()]);
      return false;
    } catch {
      return true;
    }
  });
  expect(isRejected).toBe(true);
  expect(await harness.destination(id)).toMatchObject({ waiting: 0 });
});

describe("a change", () => {
  test("of the URL sends waiting deliveries to the new target at once, and starts without failures", async () => {
    stopClock();
    const moved = new Receiver();
    listen(receiver, moved);
    receiver.answer = fails;
    moved.answer = fails;
    const { id } = await harness.create(receiver);
    await harness.raise(crossed());
    for (const [index, delayMs] of RETRY_DELAYS_MS.slice(0, 5).entries()) {
      await harness.attempted(id, index + 1);
      await harness.pass(delayMs * (1 + RETRY_JITTER));
    }
    await harness.attempted(id, 6);
    await harness.pass(MINUTE);
    await harness.workspace.operator("PATCH", `/destinations/${id}`, { target: moved.url });
    await harness.attempted(id, 7);
    expect([receiver.received.length, moved.received.length]).toEqual([6, 1]);
    expect(await harness.destination(id)).toMatchObject({ failing_since: new Date(Date.now()).toISOString() });
    // So does a resumption.
    for (const change of ["pause", "resume"]) await harness.workspace.operator("POST", `/destinations/${id}/${change}`);
    await harness.attempted(id, 8);
  });

  test("of the URL leaves a late 410 of the target before without effect", async () => {
    stopClock();
    const after = new Receiver();
    listen(receiver, after);
    const { id } = await harness.create(receiver);
    receiver.answer = async () => {
      await harness.workspace.operator("PATCH", `/destinations/${id}`, { target: after.url });
      return new Response("gone", { status: 410 });
    };
    const notification = crossed();
    await harness.raise(notification);
    await until(() => expect(receiver.received).toHaveLength(1));
    await until(async () => {
      await harness.pass(DELIVERY_LEASE_MS);
      expect(after.ids()).toEqual([notification.id]);
    });
    await harness.shows(id, { waiting: 0, state: "active", failing_since: null });
  });

  test("of the wanted types keeps the waiting deliveries", async () => {
    stopClock();
    receiver.answer = fails;
    const { id } = await harness.create(receiver, { notifications: ["person.scored"] });
    const notification = scored("jane@example.com");
    await harness.raise(notification);
    await harness.attempted(id, 1);
    await harness.workspace.operator("PATCH", `/destinations/${id}`, { notifications: ["usage.level"] });
    receiver.answer = () => new Response("ok");
    await harness.pass(10_000);
    expect(await harness.attempted(id, 2)).toMatchObject({ notification_id: notification.id, state: "delivered" });
  });
});

test("a test does not wait for the pause of a failing destination, and its 410 does not switch the destination off", async () => {
  stopClock();
  receiver.answer = () => new Response("later", { status: 503, headers: { "retry-after": "3600" } });
  const { id } = await harness.create(receiver);
  await harness.raise(crossed());
  await harness.attempted(id, 1);
  receiver.answer = () => new Response("gone", { status: 410 });
  const { id: testId } = await harness.workspace.operator<{ id: string }>("POST", `/destinations/${id}/test`);
  const tested = async () => (await harness.deliveries(id)).find((delivery) => delivery.id === testId);
  await until(async () => expect(await tested()).toMatchObject({ state: "failed", end_reason: "attempts_failed" }));
  expect(await harness.destination(id)).toMatchObject({ state: "active", waiting: 1 });
});

describe("a Slack-compatible webhook", () => {
  test("receives a sentence with a link; its URL's path appears in no list, activity log entry or log line", async () => {
    const slack = new Receiver("hooks.slack.example.com", "/services/T000/B000/aVerySecretPath");
    listen(slack);
    const lines: string[] = [];
    vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
    const created = await harness.create(SLACK, { type: "slack" });
    expect(created.secret).toBeUndefined();
    await harness.raise(crossed());
    await until(() => expect(slack.received).toHaveLength(1));
    expect(slack.received[0]?.text).toMatch(
      /^\{"text":"`jane@example.com` has crossed 50 points: 40 → 52\. <https:[^|]+\|Show>"\}$/,
    );
    expect(slack.received[0]?.headers.get("webhook-signature")).toBeNull();
    slack.answer = () => {
      throw new Error(`cannot reach ${SLACK}`);
    };
    await harness.raise(crossed("joe@example.com"));
    await until(() => expect(slack.received).toHaveLength(2));
    await harness.workspace.operator("PATCH", `/destinations/${created.id}`, { target: SLACK });
    await harness.attempted(created.id, 1);
    const shown = [
      await harness.workspace.operator("GET", "/destinations"),
      await harness.deliveries(created.id),
      await harness.workspace.audit(),
      lines,
    ];
    expect(JSON.stringify(shown)).toContain("destination.created");
    expect(JSON.stringify(shown)).not.toMatch(/aVerySecret|B000/);
    expect(created.target).toBe("https://hooks.slack.example.com/…Path");
  });
});

test("nothing is sent to the service itself, even if a destination's host later leads to it", async () => {
  const ownReceiver = new Receiver();
  listen(ownReceiver);
  const id = newId("dst");
  const pagesUrl = `${new URL(ownReceiver.url).origin}/w/acme`;
  const wanted = { id, name: "own", type: "webhook" as const, target: ownReceiver.url, headers: [], notifications: [] };
  await harness.object.create({ ...wanted, pagesUrl });
  await harness.object.sendTest(id, "x");
  const { attempts } = await harness.attempted(id, 1);
  expect(attempts[0]?.error).toBe("Its address is not one that notifications are sent to.");
  expect(ownReceiver.received).toEqual([]);
});

describe("a secret", () => {
  let id: string;
  let first: string;

  beforeEach(async () => {
    stopClock();
    const created = await harness.create(receiver);
    [id, first] = [created.id, created.secret ?? ""];
  });

  async function rotate(overlap: string): Promise<string> {
    const at = `/destinations/${id}/rotate-secret`;
    return (await harness.workspace.operator<{ secret: string }>("POST", at, { overlap })).secret;
  }

  /** Which of these secrets sign the next delivery. */
  async function signing(...secrets: string[]): Promise<boolean[]> {
    const before = receiver.received.length;
    await harness.workspace.operator("POST", `/destinations/${id}/test`);
    await until(() => expect(receiver.received).toHaveLength(before + 1));
    return secrets.map((secret) => {
      try {
        return receiver.verify(secret) !== undefined;
      } catch {
        return false;
      }
    });
  }

  test("still signs until its overlap ends, even after a second rotation", async () => {
    const [second, third] = [await rotate("24h"), await rotate("24h")];
    expect(await signing(first, second, third)).toEqual([true, true, true]);
    await harness.pass(25 * HOUR);
    expect(await signing(first, second, third)).toEqual([false, false, true]);
  });

  test("ends with the shortest overlap of all later rotations", async () => {
    const second = await rotate("7d");
    const third = await rotate("1h");
    await harness.pass(2 * HOUR);
    expect(await signing(first, second, third)).toEqual([false, false, true]);
    const fourth = await rotate("1h");
    const fifth = await rotate("7d");
    await harness.pass(2 * HOUR);
    expect(await signing(third, fourth, fifth)).toEqual([false, true, true]);
  });

  test("ends at once, with all earlier secrets, in a rotation without overlap", async () => {
    const second = await rotate("24h");
    const third = await rotate("none");
    expect(await signing(first, second, third)).toEqual([false, false, true]);
  });

  test("does not make deliveries grow when it is rotated repeatedly", async () => {
    for (let n = 0; n < 3 * OLD_SECRETS_MAX; n++) await rotate("24h");
    await signing();
    expect(receiver.received.at(-1)?.headers.get("webhook-signature")?.split(" ")).toHaveLength(1 + OLD_SECRETS_MAX);
  });
});

test("every change of a destination is in the activity log, without secrets", async () => {
  const { id, secret = "" } = await harness.create(receiver);
  const at = `/destinations/${id}`;
  await harness.workspace.operator("PATCH", at, { name: "CRM, new", notifications: ["usage.level"] });
  await harness.workspace.operator("POST", `${at}/test`);
  const { id: delivery } = await harness.attempted(id, 1);
  await harness.workspace.operator("POST", `${at}/deliveries/${delivery}/again`);
  const rotated = await harness.workspace.operator<{ secret: string }>("POST", `${at}/rotate-secret`, {
    overlap: "1h",
  });
  await harness.workspace.operator("POST", `${at}/pause`);
  await harness.workspace.operator("POST", `${at}/resume`);
  await harness.workspace.operator("PUT", "/thresholds", { thresholds: [50] });
  await harness.workspace.operator("PATCH", `/keys/${harness.workspace.key.id}`, { silent_after_days: 3 });
  await harness.workspace.operator("DELETE", at);
  const entries = await harness.workspace.audit();
  expect(entries.map(({ action }) => action).filter((action) => !/workspace|key\.created/.test(action))).toEqual([
    "destination.created",
    "destination.updated",
    "destination.tested",
    "delivery.repeated",
    "destination.secret_rotated",
    "destination.paused",
    "destination.resumed",
    "thresholds.changed",
    "key.silence_changed",
    "destination.deleted",
  ]);
  for (const hidden of [secret, rotated.secret]) expect(JSON.stringify(entries)).not.toContain(hidden.slice(6, 20));
});

describe("a deletion that fails half-way", () => {
  const deletions = () => harness.workspace.audit("destination.deleted");
  const entryOf = (id: string) => ({ action: "destination.deleted", target: id, detail: { name: "CRM" } });
  const isListed = async (id: string) => (await harness.object.find(id)) !== null;
  const deletion = (bindings: Partial<Env>, d1 = env.DB): DestinationsContext => ({
    ...harness.workspace.context({ env: { ...env, ...bindings }, db: controlDatabase(d1) }),
    slug: "slug",
    origin: "https://signals.example",
  });

  test("removes nothing if the activity log cannot be written, and succeeds when repeated", async () => {
    const { id } = await harness.create(receiver);
    const failing = deletion({}, d1Failing(/audit_log/, "D1 does not answer"));
    await expect(deleteDestination(failing, id)).rejects.toThrow("Failed query");
    expect(await deleteDestination(deletion({}), newId("dst"))).toBe(false);
    expect([await isListed(id), await deletions()]).toEqual([true, []]);
    expect(await deleteDestination(deletion({}), id)).toBe(true);
    expect([await isListed(id), await deletions()]).toEqual([false, [entryOf(id)]]);
  });

  test("leaves an audit entry if the destination cannot be removed, and succeeds when repeated", async () => {
    const { id } = await harness.create(receiver);
    const object = env.DESTINATIONS.getByName(harness.workspace.id);
    const remove = () => Promise.reject(new Error("the object does not answer"));
    const failing = { getByName: () => ({ find: (wanted: string) => object.find(wanted), remove }) };
    const halfDone = deletion({ DESTINATIONS: failing as unknown as typeof env.DESTINATIONS });
    await expect(deleteDestination(halfDone, id)).rejects.toThrow("the object does not answer");
    expect([await isListed(id), await deletions()]).toEqual([true, [entryOf(id)]]);
    expect(await deleteDestination(deletion({}), id)).toBe(true);
    expect([await isListed(id), await deletions()]).toEqual([false, [entryOf(id), entryOf(id)]]);
  });
});

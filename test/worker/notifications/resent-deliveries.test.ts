/** "Deliver again everything that failed since": which deliveries it sends, counts, limits, and what it must not bring back. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import { RETRY_DELAYS_MS } from "../../../src/domain/notifications/attempts.ts";
import type { Notification } from "../../../src/domain/notifications/notification.ts";
import { DELIVERIES_KEPT, DELIVERY_LEASE_MS } from "../../../src/limits.ts";
import type { DueDelivery } from "../../../src/notifications/destination-calls.ts";
import { WAITING_MAX_BYTES, WAITING_MAX_DELIVERIES } from "../../../src/notifications/deliveries.ts";
import {
  type DestinationHarness,
  HOUR,
  MINUTE,
  type Receiver,
  crossed,
  loseMessages,
  newHarnessInEachTest,
  scored,
  stopClock,
} from "../../support/destination-harness.ts";
import { until } from "../../support/until.ts";

let harness: DestinationHarness;
let receiver: Receiver;
let id: string;
let secret: string;

beforeEach(stopClock);
newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});
beforeEach(async () => {
  const created = await harness.create(receiver, { notifications: ["person.score_crossed", "person.scored"] });
  [id, secret] = [created.id, created.secret ?? ""];
});

const at = (path = "") => `/destinations/${id}${path}`;
const ask = (sinceMs: number, query = "") =>
  harness.workspace.ask("POST", at(`/deliveries/again${query}`), { since: new Date(sinceMs).toISOString() });
const dryRun = async (sinceMs = 0) => (await ask(sinceMs, "?dry_run=true")).body;
const again = async (sinceMs = 0) => (await ask(sinceMs)).body;
const counts = (resent: number, others: object = {}) => ({
  resent,
  not_resent: { person_deleted: 0, too_many_waiting: 0, not_kept: 0, ...others },
});

/** Raises these notifications, and one that is answered with 410: all of them fail. Then the destination is resumed. */
async function fail(...notifications: Notification[]): Promise<Notification[]> {
  const { queue } = loseMessages();
  const last = crossed("last@example.com");
  for (const notification of [...notifications, last]) {
    vi.setSystemTime(Date.now() + 1);
    await harness.raise(notification);
  }
  queue.mockRestore();
  vi.setSystemTime(Date.now() + 10 * MINUTE);
  const [delivery] = await harness.deliveries(id);
  const due = { destinationId: id, id: delivery?.id ?? "", attempt: 1 };
  await harness.object.take(due);
  const gone = { atMs: Date.now(), tookMs: 1, status: 410, error: "It answered 410 Gone.", answer: null };
  await harness.object.report(due, { ...gone, retryAfterMs: null });
  expect(await harness.destination(id)).toMatchObject({ state: "disabled", waiting: 0 });
  await harness.workspace.operator("POST", at("/resume"));
  // The object still counts deliveries as under way that it passed to the queue before.
  await harness.pass(DELIVERY_LEASE_MS);
  return [...notifications, last];
}

/** Runs SQL in the object. */
function sql(...statements: string[]): Promise<unknown[][]> {
  return runInDurableObject(harness.object, (_, { storage }) =>
    statements.map((statement) => storage.sql.exec(statement).toArray()),
  );
}

const allArrived = () => harness.shows(id, { waiting: 0 });

test("all failed deliveries are sent again, oldest first, under the same ids, and once if it is asked for twice", async () => {
  const notifications = await fail(...Array.from({ length: 6 }, (_, n) => crossed(`p${n}@example.com`)));
  const ids = (await harness.deliveries(id)).map((delivery) => delivery.id).toReversed();
  const order: string[] = [];
  const sendBatch = env.DELIVERIES.sendBatch.bind(env.DELIVERIES);
  vi.spyOn(env.DELIVERIES, "sendBatch").mockImplementation((messages) => {
    const batch = [...messages];
    order.push(...batch.map(({ body }) => (JSON.parse(body as string) as DueDelivery).id));
    return sendBatch(batch);
  });
  expect(await dryRun()).toEqual(counts(7));
  expect(order).toEqual([]);
  expect(await again()).toEqual(counts(7));
  expect(await again()).toEqual(counts(0));
  await allArrived();
  expect(order).toEqual(ids);
  expect(receiver.ids().toSorted()).toEqual(notifications.map((notification) => notification.id).toSorted());
  expect((await harness.deliveries(id)).map(({ state, attempts }) => [state, attempts.length])).toEqual([
    ["delivered", 2],
    ...Array.from({ length: 6 }, () => ["delivered", 1]),
  ]);
  expect(await again()).toEqual(counts(0));
});

test("`since` is compared with the time of the failure; delivered, waiting and test deliveries are not sent again", async () => {
  await fail(crossed("early@example.com"));
  const failedMs = Date.now() - DELIVERY_LEASE_MS;
  expect([await dryRun(failedMs), await dryRun(failedMs + 1)]).toEqual([counts(2), counts(0)]);
  vi.setSystemTime(Date.now() + 5 * HOUR);
  const sinceMs = Date.now();
  receiver.answer = () => new Response("no", { status: 500 });
  const waits = crossed("waits@example.com", sinceMs - HOUR);
  await harness.raise(waits);
  await harness.workspace.operator("POST", at("/test"));
  await until(async () =>
    expect((await harness.deliveries(id)).every((found) => found.attempts.length > 0 || found.state === "failed")).toBe(
      true,
    ),
  );
  expect([await dryRun(sinceMs), await again(sinceMs)]).toEqual([counts(0), counts(0)]);
  expect(await harness.workspace.audit("delivery.repeated")).toEqual([]);
  expect(await dryRun(0)).toEqual(counts(2));
  vi.setSystemTime(Date.now() + HOUR);
  // Was raised before `since`, and is given up after it.
  const [last] = (await fail()).slice(-1);
  receiver.answer = () => new Response("ok");
  expect(await again(sinceMs)).toEqual(counts(2));
  const before = receiver.received.length;
  await allArrived();
  await until(() => expect(receiver.received).toHaveLength(before + 2));
  expect(receiver.ids().slice(before).toSorted()).toEqual([waits.id, last?.id].toSorted());
});

test.each(["alone", "with all that failed"])(
  "a delivery that was given up and is sent again %s has all retries, and keeps its latest attempts",
  async (how) => {
    await fail();
    const before = { atMs: 0, tookMs: 1, status: 503, error: "It answered 503.", answer: null, retryAfterMs: null };
    const attempts = JSON.stringify(Array.from({ length: 20 }, () => before));
    await sql(`UPDATE deliveries SET failed = ${RETRY_DELAYS_MS.length}, attempts = '${attempts}'`);
    receiver.answer = () => new Response("no", { status: 500 });
    const [found] = await harness.deliveries(id);
    if (how === "alone") await harness.workspace.operator("POST", at(`/deliveries/${found?.id}/again`));
    else expect(await again()).toEqual(counts(1));
    await until(async () => {
      const [after] = await harness.deliveries(id);
      const statuses = [...Array.from({ length: 19 }, () => 503), 500];
      expect(after?.attempts.map(({ status }) => status)).toEqual(statuses);
      expect(after).toMatchObject({ state: "waiting", due_at: expect.any(String) });
    });
  },
);

test("deliveries are listed newest first, in pages without gaps", async () => {
  await fail(crossed("one@example.com"), crossed("two@example.com"));
  const listed: string[] = [];
  let cursor = "";
  for (let next: string | null = ""; next !== null; cursor = `&cursor=${next}`) {
    const path = at(`/deliveries?limit=2${cursor}`);
    const page: { items: { id: string }[]; next: string | null } = await harness.workspace.operator("GET", path);
    listed.push(...page.items.map((delivery) => delivery.id));
    next = page.next;
  }
  expect(listed).toHaveLength(3);
  expect(listed).toEqual(listed.toSorted().toReversed());
});

test("nothing of a deleted person comes back, and the answer says so", async () => {
  const gone = "gone@example.com";
  await fail(crossed(gone), scored(gone, "stays@example.com"), scored(gone));
  await harness.workspace.operator("DELETE", `/people/${gone}`);
  expect(await dryRun()).toEqual(counts(3 - 1, { person_deleted: 1 }));
  expect(await again()).toEqual(counts(2, { person_deleted: 1 }));
  await allArrived();
  expect(receiver.received.map(({ text }) => text).join()).not.toContain(gone);
  expect(receiver.received).toHaveLength(2);
});

test("a paused and a switched-off destination reject, and the deliveries stay as they are", async () => {
  await fail(crossed());
  await harness.workspace.operator("POST", at("/pause"));
  expect(await ask(0)).toMatchObject({ status: 409, body: { code: "destination_not_active" } });
  expect(await dryRun()).toEqual(counts(2));
  await harness.workspace.operator("POST", at("/resume"));
  receiver.answer = () => new Response("no such hook", { status: 410 });
  await harness.raise(crossed());
  await harness.shows(id, { state: "disabled" });
  expect(await ask(0)).toMatchObject({ status: 409, body: { code: "destination_not_active" } });
  expect(receiver.received).toHaveLength(1);
  id = "dst_none";
  expect([(await ask(0)).status, (await ask(0, "?dry_run=true")).status]).toEqual([404, 404]);
});

test("deliveries are signed with the secret of the moment, and do not wait for the pause of a failing destination", async () => {
  await fail(crossed());
  receiver.answer = () => new Response("later", { status: 503, headers: { "retry-after": "3600" } });
  await harness.raise(crossed("waits@example.com"));
  await harness.attempted(id, 1);
  await harness.shows(id, { failing_since: expect.any(String) });
  const rotated = await harness.workspace.operator<{ secret: string }>("POST", at("/rotate-secret"), {
    overlap: "none",
  });
  receiver.answer = () => new Response("ok");
  expect(await again()).toEqual(counts(2));
  await until(() => expect(receiver.received).toHaveLength(3));
  expect(receiver.verify(rotated.secret)).toMatchObject({ type: "person.score_crossed" });
  expect(() => receiver.verify(secret)).toThrow("No matching signature");
});

test("deliveries that are no longer stored are counted by the hour in which they failed, oldest first", async () => {
  const failedMs = Date.now();
  await fail(...Array.from({ length: DELIVERIES_KEPT + 30 }, (_, n) => crossed(`p${n}@example.com`)));
  const newest = (await harness.deliveries(id)).map((found) => found.id);
  await harness.pass(2 * HOUR);
  expect(await dryRun(failedMs)).toEqual(counts(DELIVERIES_KEPT, { not_kept: 31 }));
  expect((await harness.deliveries(id)).map((found) => found.id)).toEqual(newest);
  expect(await dryRun(failedMs + 2 * HOUR)).toEqual(counts(0));
  loseMessages();
  expect(await again(failedMs)).toEqual(counts(DELIVERIES_KEPT, { not_kept: 31 }));
  await harness.pass(31 * 24 * HOUR);
  expect(await dryRun()).toEqual(counts(0));
  expect(await sql("SELECT * FROM failed_not_kept")).toEqual([[]]);
});

test("only as many deliveries as may wait are sent again; a repeated call sends the others", async () => {
  const sent = vi.spyOn(env.DELIVERIES, "sendBatch");
  await fail(crossed("first@example.com"), crossed("second@example.com"));
  await sql(`UPDATE deliveries SET bytes = ${WAITING_MAX_BYTES / 2 + 1}`);
  sent.mockClear();
  expect(await again()).toEqual(counts(1, { too_many_waiting: 2 }));
  await allArrived();
  expect(receiver.received[0]?.body.data).toMatchObject({ email: "first@example.com" });
  expect(await again()).toEqual(counts(1, { too_many_waiting: 1 }));
  await allArrived();

  sent.mockResolvedValue(undefined as never);
  const columns =
    "notification_id, type, lane, notifications, 1, 'failed', end_reason, attempt, failed, attempts, answers_hidden, created_ms, ended_ms";
  await sql(
    `WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n LIMIT ${WAITING_MAX_DELIVERIES + 4})
      INSERT INTO deliveries (destination_id, id, ${columns.replace("1,", "bytes,").replace("'failed'", "state")})
      SELECT destination_id, 'dlv_' || n, ${columns} FROM deliveries, n WHERE id = (SELECT max(id) FROM deliveries)`,
  );
  expect(await again()).toMatchObject({ resent: WAITING_MAX_DELIVERIES, not_resent: { too_many_waiting: 5 } });
  expect(await harness.destination(id)).toMatchObject({ waiting: WAITING_MAX_DELIVERIES });
});

/** Deletes people from waiting, gathered and delivered notifications. */
import { runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, test, vi } from "vitest";
import {
  notificationTypes,
  exampleNotification,
  type Notification,
} from "../../../src/domain/notifications/notification.ts";
import { DELETION_REMEMBERED_DAYS } from "../../../src/limits.ts";
import { newId } from "../../../src/platform/ids.ts";
import {
  type Receiver,
  DAY,
  HOUR,
  type DestinationHarness,
  crossed,
  scored,
  stopClock,
  newHarnessInEachTest,
} from "../../support/destination-harness.ts";
import { until } from "../../support/until.ts";

const EMAIL = "gone@example.com";

let harness: DestinationHarness;
let receiver: Receiver;

beforeEach(stopClock);
newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});

function deletePerson(email = EMAIL): Promise<unknown> {
  return harness.workspace.operator("DELETE", `/people/${encodeURIComponent(email)}`);
}

/** Everything that the object stores, as text. */
function stored(): Promise<string> {
  return runInDurableObject(harness.object, (_, { storage: { sql } }) => {
    const tables = sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'").toArray();
    const ours = tables.filter(({ name }) => !name.startsWith("_cf_"));
    return JSON.stringify(ours.map(({ name }) => sql.exec(`SELECT * FROM "${name}"`).toArray()));
  });
}

test("a deletion removes the person from waiting, gathered and delivered notifications and from answers, and keeps other people's data", async () => {
  const notifications = ["person.score_crossed", "person.scored"];
  const { id } = await harness.create(receiver, { notifications });
  receiver.answer = () => new Response("noted: /people/gone%40example.com");
  await harness.raise(crossed(EMAIL), scored(EMAIL, "stays@example.com"));
  await harness.shows(id, { waiting: 0 });
  receiver.answer = () => new Response(`not now, ${EMAIL}`, { status: 500 });
  await harness.raise(crossed(EMAIL), crossed("stays@example.com"));
  await until(async () =>
    expect((await harness.deliveries(id)).filter((delivery) => delivery.attempts.length > 0)).toHaveLength(4),
  );
  await harness.raise(scored(EMAIL), scored("stays@example.com", EMAIL));
  expect(await stored()).toContain(EMAIL);

  await deletePerson();

  expect(await stored()).not.toMatch(/gone(@|%40)example/);
  receiver.answer = () => new Response("ok");
  const before = receiver.received.length;
  await harness.pass(2_000);
  await harness.pass(HOUR);
  await harness.shows(id, { waiting: 0 });
  const later = receiver.received.slice(before).map(({ text }) => text);
  expect(later.join()).not.toContain(EMAIL);
  expect(later).toHaveLength(2);
  expect(later.filter((text) => text.includes("stays@example.com"))).toHaveLength(2);
  const ends = (await harness.deliveries(id)).map((delivery) => delivery.end_reason);
  expect(ends.filter((reason) => reason === "person_deleted")).toHaveLength(1);
});

test("a deletion removes the person from waiting notifications of each type", async () => {
  await harness.create(receiver, { notifications: [...notificationTypes] });
  receiver.answer = () => new Response("not now", { status: 500 });
  const texts = notificationTypes.map((type) =>
    JSON.stringify({ ...exampleNotification(type), id: newId("ntf") }).replaceAll(/jane@example.com|acme-42/g, EMAIL),
  );
  await harness.raise(...texts.map((text) => JSON.parse(text) as Notification));
  expect(await stored()).toContain(EMAIL);
  await deletePerson();
  expect(await stored()).not.toContain(EMAIL);
});

test("a deletion removes notifications of an account that is named by the person's address in capitals", async () => {
  const types = ["account.score_crossed", "account.score_fell"] as const;
  await harness.create(receiver, { notifications: [...types] });
  receiver.answer = () => new Response("not now", { status: 500 });
  const named = { external_id: "Gone@Example.com", name: null, threshold: 20, score: 30, score_before: 10 };
  const data = [
    named,
    { ...named, external_id: "acme-42", name: " GONE@example.com" },
    { ...named, external_id: "stays" },
  ];
  const time = Date.now();
  await harness.raise(...types.flatMap((type) => data.map((each) => ({ id: newId("ntf"), type, time, data: each }))));
  await deletePerson();
  expect(await stored()).not.toMatch(/gone@example/i);
  expect((await stored()).match(/stays/g)).toHaveLength(2);
});

test("a notification raised before a deletion and forwarded after it is dropped; later signals create a new person", async () => {
  await harness.create(receiver, { notifications: ["person.score_crossed", "person.scored"] });
  const [late, lateScored] = [crossed(EMAIL), scored(EMAIL, "stays@example.com")];
  vi.setSystemTime(Date.now() + 1_000);
  await deletePerson();
  // The call of an earlier deletion may arrive late.
  await until(async () => expect(await stored()).toContain("email_hash"));
  await harness.object.deletePerson(EMAIL, 0);
  await harness.raise(late, lateScored, crossed(EMAIL));
  await until(() => expect(receiver.received).toHaveLength(1));
  expect(receiver.received[0]?.body.data).toMatchObject({ scoring_signals: [{ email: "stays@example.com" }] });
  vi.setSystemTime(Date.now() + 1_000);
  await harness.raise(crossed(EMAIL));
  await until(() => expect(receiver.received).toHaveLength(2));
  expect(receiver.received[1]?.body.data).toMatchObject({ email: EMAIL });
  expect(await stored()).not.toContain(late.id);
  await harness.pass(DELETION_REMEMBERED_DAYS * DAY + 2_000);
  expect(await stored()).not.toContain("email_hash");
});

test("a deletion keeps a person whose address contains the deleted address", async () => {
  await harness.create(receiver);
  receiver.answer = () => new Response("no", { status: 500 });
  await harness.raise(crossed(`not-${EMAIL}`), crossed('quoted"name@example.com'));
  await until(() => expect(receiver.received).toHaveLength(2));
  await deletePerson();
  expect(await stored()).toContain(`not-${EMAIL}`);
  await deletePerson('quoted"name@example.com');
  expect(await stored()).not.toContain("quoted");
});

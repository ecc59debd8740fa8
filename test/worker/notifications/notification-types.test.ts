/** Each type of the catalogue is raised by what its label says, and reaches a receiver that wants no other type. */
import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";
import { notificationTypes, type NotificationType } from "../../../src/domain/notifications/notification.ts";
import { MISFIT_KEPT_DAYS, MISFIT_NOTICE_DAYS } from "../../../src/limits.ts";
import { PROCESSING_LATE_MS } from "../../../src/quota/quota-counter.ts";
import { REJECTION_BURST_CALLS } from "../../../src/quota/rejected-calls.ts";
import { consumeMessages, deliver, messageOf } from "../../support/deliver.ts";
import {
  DAY,
  HOUR,
  type DestinationHarness,
  type Receiver,
  newHarnessInEachTest,
  stopClock,
} from "../../support/destination-harness.ts";
import { applyRule } from "../../support/rules.ts";
import { until } from "../../support/until.ts";
import { newPlan, type TestWorkspace } from "../../support/workspace.ts";

const JANE = "jane@example.com";
const KEY_DAYS = 3;
const THRESHOLD = 50;

let harness: DestinationHarness;
let receiver: Receiver;

beforeEach(stopClock);
newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});

/** Creates a rule for the event of the same name. @returns its id. */
async function newRule({ workspace }: DestinationHarness, event: string, points: number): Promise<string> {
  const rule = { name: event, event, scoring_signal: event, points };
  return (await workspace.operator<{ id: string }>("POST", "/rules", rule)).id;
}

/** Delivers a signal of a person with each event, in this order. */
async function happened({ id }: TestWorkspace, ...events: string[]): Promise<void> {
  const signals = events.map((event) => ({ id: `sig_${event}`, payload: { event, email: JANE } }));
  await deliver(id, signals);
}

/** Makes Jane a member of an account and scores her with these points, one signal after the other. */
async function score({ workspace }: DestinationHarness, ...points: number[]): Promise<void> {
  for (const each of points) await newRule(harness, `event ${each}`, each);
  const member = { type: "identify", userId: "jane", traits: { email: JANE, company: { id: "acme" } } };
  await deliver(workspace.id, [{ id: "sig_member", payload: member }]);
  for (const each of points) await happened(workspace, `event ${each}`);
}

/** What makes each type true. A new type needs an entry, which the compiler and the test demand. */
const RAISE: Record<NotificationType, (made: DestinationHarness) => Promise<unknown>> = {
  "person.score_crossed": (made) => score(made, THRESHOLD),
  "person.score_fell": (made) => score(made, THRESHOLD, -1),
  "account.score_crossed": (made) => score(made, THRESHOLD),
  "account.score_fell": (made) => score(made, THRESHOLD, -1),
  "person.scored": (made) => score(made, 1),
  "people.rescored": async (made) => {
    await happened(made.workspace, "Visit");
    await applyRule(made.workspace, await newRule(made, "Visit", 1));
  },
  "usage.level": async ({ workspace }) => {
    await workspace.operator("PATCH", "", { plan: await newPlan(1) });
    await workspace.send({ event: "Visit", email: JANE });
  },
  "period.closed": async ({ workspace }) => {
    await workspace.send({ event: "Visit", email: JANE });
    vi.setSystemTime(Date.now() + 31 * DAY);
    await workspace.operator("GET", "/usage");
  },
  "key.expiring": async (made) => {
    await made.workspace.newKey({ expires_at: new Date(Date.now() + KEY_DAYS * DAY).toISOString() });
    await made.pass((KEY_DAYS - 1) * DAY + HOUR);
  },
  "key.silent": async (made) => {
    await made.workspace.operator("PATCH", `/keys/${made.workspace.key.id}`, { silent_after_days: KEY_DAYS });
    await made.pass(KEY_DAYS * DAY + HOUR);
  },
  "key.usage_level": async ({ workspace }) => {
    await workspace.operator("PATCH", `/keys/${workspace.key.id}`, { signal_limit: 1 });
    await workspace.send({ event: "Visit", email: JANE });
  },
  "key.public": ({ workspace }) =>
    workspace.send({ event: "Visit", email: JANE }, { headers: { origin: "https://www.example.com" } }),
  "rejections.burst": async ({ workspace }) => {
    for (let calls = 0; calls < REJECTION_BURST_CALLS; calls++) await workspace.send("no JSON");
  },
  "dead_letters.added": ({ workspace }) => {
    const message = messageOf(workspace.id, [{ id: "sig_1", payload: { event: "Visit", email: JANE } }]);
    return consumeMessages([message], { queue: "signals-dlq" });
  },
  "misfits.expiring": async (made) => {
    const key = await made.workspace.newKey({ payload_template: [{ target: "event", path: "none" }], misfits: "keep" });
    await made.workspace.send({ what: "Visit" }, { key: key.key });
    await made.workspace.settled();
    await made.pass((MISFIT_KEPT_DAYS - MISFIT_NOTICE_DAYS) * DAY + HOUR);
    await runDurableObjectAlarm(made.workspace.store);
  },
  "processing.late": async ({ workspace }) => {
    vi.spyOn(env.SIGNALS, "sendBatch").mockResolvedValue(undefined as never);
    await workspace.send({ event: "Visit", email: JANE });
    vi.setSystemTime(Date.now() + PROCESSING_LATE_MS);
    await runDurableObjectAlarm(workspace.counter);
  },
};

test.each(notificationTypes)("%s is raised and delivered", async (type) => {
  await harness.create(receiver, { notifications: [type] });
  await harness.workspace.operator("PUT", "/thresholds", {
    thresholds: [THRESHOLD],
    account_thresholds: [THRESHOLD],
  });
  await RAISE[type](harness);
  const [delivered] = await until(() => {
    expect(receiver.received).not.toEqual([]);
    return receiver.received;
  });
  expect(delivered?.body).toMatchObject({ type, workspace: harness.workspace.id });
});

/** Health of failing and switched-off destinations, for operators (docs/operate.md). */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { expect, test, vi } from "vitest";
import { Destinations } from "../../../src/notifications/destinations.ts";
import {
  type Receiver,
  type DestinationHarness,
  DAY,
  HOUR,
  crossed,
  stopClock,
  newHarnessInEachTest,
} from "../../support/destination-harness.ts";
import { until } from "../../support/until.ts";
import { call, operator } from "../../support/workspace.ts";
import { wanting } from "../../support/wanting.ts";

let harness: DestinationHarness;
let receiver: Receiver;

newHarnessInEachTest((made) => {
  ({ harness, receiver } = made);
});

interface Health {
  status: string;
  alarms: { alarm: string; says: string }[];
  failing_destinations: {
    id: string;
    name: string;
    since: string;
    switched_off: string | null;
    switched_off_at: string | null;
  }[];
}

const health = () => harness.workspace.operator<Health>("GET", "/health");

async function figure(name: string): Promise<string | undefined> {
  const response = await call("/operator/metrics", { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } });
  const line = `^signal_ingestion_${name}\\{workspace="${harness.workspace.id}",slug="[^"]+"\\} (\\S+)$`;
  return new RegExp(line, "m").exec(await response.text())?.[1];
}

test("health names a destination that has failed for an hour, with the remedy, until an attempt succeeds", async () => {
  stopClock();
  receiver.answer = () => new Response("no", { status: 500 });
  const { id } = await harness.create(receiver);
  await harness.raise(crossed());
  await harness.attempted(id, 1);
  expect(await health()).toMatchObject({
    status: "ok",
    alarms: [],
    failing_destinations: [{ id, name: "CRM", since: expect.any(String), switched_off: null, switched_off_at: null }],
  });
  expect([await figure("failing_destinations"), await figure("switched_off_destinations")]).toEqual(["1", "0"]);

  await harness.pass(HOUR);
  await harness.attempted(id, 2);
  const named = expect.stringContaining(`"CRM" (${id}) has not been reached for 60 minutes.`);
  expect(await health()).toMatchObject({ status: "late", alarms: [{ alarm: "destination_failing", says: named }] });
  const { items } = await operator<{ items: { workspace_id: string; alarms: object[] }[] }>("GET", "/health");
  expect(items.find((item) => item.workspace_id === harness.workspace.id)?.alarms).toMatchObject([{ says: named }]);

  receiver.answer = () => new Response("thanks");
  await harness.pass(HOUR);
  await until(async () => expect(await health()).toMatchObject({ status: "ok", failing_destinations: [] }));
});

test("health names a switched-off destination for a week and counts it until it is resumed", async () => {
  stopClock();
  receiver.answer = () => new Response("no", { status: 500 });
  const { id } = await harness.create(receiver);
  await harness.raise(crossed());
  await harness.attempted(id, 1);
  const since = new Date().toISOString();
  receiver.answer = () => new Response("no such hook", { status: 410 });
  await harness.pass(6_000);
  await harness.shows(id, { state: "disabled" });
  expect(await health()).toMatchObject({
    status: "late",
    alarms: [{ alarm: "destination_off", says: expect.stringContaining(`"CRM" (${id}) was switched off`) }],
    failing_destinations: [{ id, since, switched_off: "gone", switched_off_at: new Date().toISOString() }],
  });
  await harness.pass(7 * DAY);
  expect(await health()).toMatchObject({ status: "ok", alarms: [], failing_destinations: [{ id }] });
  expect(await figure("switched_off_destinations")).toBe("1");
  await harness.workspace.operator("POST", `/destinations/${id}/resume`);
  expect(await figure("switched_off_destinations")).toBe("0");
});

test("health never names a paused destination", async () => {
  stopClock();
  receiver.answer = () => new Response("no", { status: 500 });
  const { id } = await harness.create(receiver);
  await harness.raise(crossed());
  await harness.attempted(id, 1);
  await harness.workspace.operator("POST", `/destinations/${id}/pause`);
  await harness.pass(2 * HOUR);
  expect(await health()).toMatchObject({ status: "ok", failing_destinations: [] });
});

test("health does not ask a workspace without destinations, because the call would create the object", async () => {
  const asked = vi.spyOn(Destinations.prototype, "failing");
  expect(await health()).toMatchObject({ failing_destinations: [] });
  expect(asked).not.toHaveBeenCalled();
  await harness.create(receiver);
  await health();
  expect(asked).toHaveBeenCalledOnce();
});

test("a counter that knows only the previous version's wanted types also reports whether there are destinations", async () => {
  const { counter } = harness.workspace;
  await runInDurableObject(counter, (instance) => instance.wantNotifications(wanting({ types: ["usage.level"] })));
  expect((await counter.backlog()).hasDestinations).toBe(true);
  await runInDurableObject(counter, (instance) => instance.wantNotifications(wanting({ types: [] })));
  expect((await counter.backlog()).hasDestinations).toBe(false);
});

/** Notifications go over real HTTP to receivers that answer, fail, hang, redirect, are gone, or never stop sending. */
import { once } from "node:events";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { VISIT_RULE, type BenchRule } from "../bench/rules.ts";
import { Receiver } from "./support/receiver.ts";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { Service } from "../support/service.ts";

interface Delivery {
  id: string;
  state: "waiting" | "delivered" | "failed";
  end_reason: string | null;
  attempts: { ms: number; status: number | null; error: string | null; answer: string | null }[];
}

let service: Service;
let workspaces = 0;
const open: Receiver[] = [];

beforeAll(async () => {
  service = await Service.make({ vars: { SIGN_IN: "local" } });
});

afterAll(() => service?.remove());

afterEach(() => open.splice(0).forEach((receiver) => receiver.close()));

async function newReceiver(answer?: Receiver["answer"]): Promise<Receiver> {
  const receiver = await Receiver.listen();
  if (answer !== undefined) receiver.answer = answer;
  open.push(receiver);
  return receiver;
}

function newWorkspace(rules: BenchRule[] = []): Promise<ProvisionedWorkspace> {
  return service.api.provision({ slug: `notifications-${workspaces++}`, rules });
}

async function send({ key }: ProvisionedWorkspace, signals: object[]): Promise<void> {
  const response = await service.post(`signal-staging/bulk/${key}`, signals);
  expect(response.status, await response.text()).toBe(202);
}

async function deliveries({ home }: ProvisionedWorkspace, destination: string): Promise<Delivery[]> {
  return (await service.api.get<{ items: Delivery[] }>(`${home}/destinations/${destination}/deliveries?limit=200`))
    .items;
}

/** The result of the only attempt of a test delivery. */
async function tested(workspace: ProvisionedWorkspace, destination: string): Promise<Delivery> {
  const { id } = await service.api.post<Delivery>(`${workspace.home}/destinations/${destination}/test`);
  const find = async () => (await deliveries(workspace, destination)).find((delivery) => delivery.id === id);
  await expect.poll(async () => (await find())?.state).not.toBe("waiting");
  const delivery = await find();
  if (delivery === undefined) throw new Error("the test is gone");
  return delivery;
}

test("a threshold crossing arrives within seconds, and the library verifies its signature", async () => {
  const [workspace, receiver] = [await newWorkspace([{ ...VISIT_RULE, points: 50 }]), await newReceiver()];
  await service.api.call("PUT", `${workspace.home}/thresholds`, { thresholds: [50] });
  await receiver.subscribe(service.api, workspace);
  await send(workspace, [{ email: "jane@example.com", event: "Visit" }]);
  await expect.poll(() => receiver.received.length).toBe(2);
  expect(receiver.ofType("person.score_crossed")[0]?.body).toMatchObject({
    workspace: workspace.id,
    data: { email: "jane@example.com", threshold: 50, score: 50, score_before: 0 },
  });
  expect(receiver.ofType("person.scored")[0]?.body?.data).toMatchObject({
    scoring_signals: [{ email: "jane@example.com", points: 50, score: 50 }],
  });
  expect(receiver.forged).toEqual([]);
});

test("a receiver gets its custom header, and the target of its redirect gets nothing", async () => {
  const elsewhere = await newReceiver();
  const receiver = await newReceiver((response, nth) => {
    response.writeHead(nth === 1 ? 200 : 308, { location: elsewhere.url }).end();
  });
  const workspace = await newWorkspace();
  const id = await receiver.subscribe(service.api, workspace);
  const headers = [{ name: "Authorization", value: "Bearer of-the-receiver" }];
  await service.api.call("PATCH", `${workspace.home}/destinations/${id}`, { headers });
  expect([await tested(workspace, id), await tested(workspace, id)]).toMatchObject([
    { state: "delivered" },
    { state: "failed", attempts: [{ status: 308, error: "It answered 308, a redirect, which is not followed." }] },
  ]);
  expect(receiver.received.map(({ authorization }) => authorization)).toEqual(
    headers.concat(headers).map(({ value }) => value),
  );
  expect([receiver.forged, elsewhere.received]).toEqual([[], []]);
});

test("a hanging receiver fails after ten seconds and delays no other destination", async () => {
  const [hanging, swift] = [await newReceiver(() => undefined), await newReceiver()];
  const workspace = await newWorkspace([VISIT_RULE]);
  const [id] = [
    await hanging.subscribe(service.api, workspace, ["person.scored"]),
    await swift.subscribe(service.api, workspace, ["person.scored"]),
  ];
  await send(workspace, [{ email: "jane@example.com", event: "Visit" }]);
  await expect.poll(() => swift.received.length).toBe(1);
  expect((await deliveries(workspace, id))[0]?.attempts).toEqual([]);
  await expect.poll(async () => (await deliveries(workspace, id))[0]?.attempts.length).toBe(1);
  const attempt = (await deliveries(workspace, id))[0]?.attempts[0];
  expect(attempt).toMatchObject({ status: null, error: "No answer within 10 seconds." });
  expect(attempt?.ms).toBeGreaterThanOrEqual(9_900);
});

test("the first KB of a 10 MB answer is kept, and the rest is not read", async () => {
  let written = 0;
  const receiver = await newReceiver(async (response) => {
    const chunk = Buffer.from("x".repeat(64 * 1024));
    const closed = new AbortController();
    response.once("close", () => closed.abort());
    while (written < 10 * 1024 * 1024 && !response.destroyed) {
      written += chunk.length;
      if (!response.write(chunk)) await once(response, "drain", { signal: closed.signal }).catch(() => undefined);
    }
    response.end();
  });
  const workspace = await newWorkspace();
  const delivery = await tested(workspace, await receiver.subscribe(service.api, workspace));
  expect(delivery).toMatchObject({ state: "delivered", attempts: [{ status: 200, answer: "x".repeat(1_024) }] });
  await expect.poll(() => written).toBeLessThan(10 * 1024 * 1024);
});

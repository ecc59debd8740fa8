/** Events go over real HTTP to receivers that answer, fail, hang, redirect, are gone, or never stop sending. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { VISIT_RULE } from "../bench/rules.ts";
import { Receiver } from "./support/receiver.ts";
import type { BenchRule } from "../bench/rules.ts";
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
  return service.api.provision({ slug: `events-${workspaces++}`, rules });
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

test("a threshold crossing is notified within seconds, and the library verifies its signature", async () => {
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

test("after a rotation both secrets verify until the overlap ends", async () => {
  const [workspace, receiver] = [await newWorkspace(), await newReceiver()];
  const id = await receiver.subscribe(service.api, workspace);
  const old = receiver.secret;
  const { secret } = await service.api.post<{ secret: string }>(`${workspace.home}/destinations/${id}/rotate-secret`, {
    overlap: "1h",
  });
  await tested(workspace, id);
  receiver.secret = secret;
  await tested(workspace, id);
  expect(secret).not.toBe(old);
  expect(receiver.received.map(({ signatures }) => signatures)).toEqual([2, 2]);
  await service.api.post(`${workspace.home}/destinations/${id}/rotate-secret`, { overlap: "none" });
  expect(receiver.forged).toEqual([]);
  await tested(workspace, id);
  expect(receiver.received.at(-1)?.signatures).toBe(1);
  expect(receiver.forged).toHaveLength(1);
});

test("a Slack-compatible webhook receives a sentence with a link", async () => {
  const [workspace, receiver] = [await newWorkspace([VISIT_RULE]), await newReceiver()];
  await receiver.subscribe(service.api, workspace, ["person.scored"], "slack");
  await send(workspace, [{ email: "b&c@example.com", event: "Visit" }]);
  await expect.poll(() => receiver.received.length).toBe(1);
  expect(JSON.parse(receiver.received[0]?.text ?? "")).toEqual({
    text: `1 scoring signal, +1 points: \`b&amp;c@example.com\`. <${service.origin}/w/${workspace.slug}/people/b%26c%40example.com|Show>`,
  });
});

test("a failed delivery is repeated with the same id and body, and reports the failure", async () => {
  const receiver = await newReceiver((response, nth) => {
    response.statusCode = nth === 1 ? 500 : 200;
    response.end(nth === 1 ? "not now <b>" : "ok");
  });
  const workspace = await newWorkspace([VISIT_RULE]);
  const id = await receiver.subscribe(service.api, workspace, ["person.scored"]);
  await send(workspace, [{ email: "jane@example.com", event: "Visit" }]);
  await expect.poll(() => receiver.received.length).toBe(2);
  expect(receiver.received[0]).toEqual(receiver.received[1]);
  await expect.poll(async () => (await deliveries(workspace, id))[0]?.state).toBe("delivered");
  const attempts = (await deliveries(workspace, id))[0]?.attempts;
  expect(attempts).toMatchObject([
    { status: 500, error: "It answered 500.", answer: "not now <b>" },
    { status: 200, error: null, answer: "ok" },
  ]);
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
    { state: "failed", attempts: [{ status: 308 }] },
  ]);
  expect(receiver.received.map(({ authorization }) => authorization)).toEqual(
    headers.concat(headers).map(({ value }) => value),
  );
  expect([receiver.forged, elsewhere.received]).toEqual([[], []]);
});

test("a redirect counts as a failure, says so, and is not followed", async () => {
  const elsewhere = await newReceiver();
  const receiver = await newReceiver((response) => {
    response.writeHead(307, { location: elsewhere.url }).end();
  });
  const workspace = await newWorkspace();
  const delivery = await tested(workspace, await receiver.subscribe(service.api, workspace));
  expect(delivery).toMatchObject({ state: "failed", attempts: [{ status: 307 }] });
  expect(delivery.attempts[0]?.error).toMatch(/redirect, which is not followed/);
  expect(elsewhere.received).toEqual([]);
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

test("a 410 answer switches the destination off, and the other destinations are notified", async () => {
  const gone = await newReceiver((response) => void response.writeHead(410).end("no such hook"));
  const otherReceiver = await newReceiver();
  const workspace = await newWorkspace([VISIT_RULE]);
  const id = await gone.subscribe(service.api, workspace, ["person.scored"]);
  await otherReceiver.subscribe(service.api, workspace, ["usage.level"]);
  await send(workspace, [{ email: "jane@example.com", event: "Visit" }]);
  await expect.poll(() => otherReceiver.received.length).toBe(1);
  expect(otherReceiver.received[0]?.body).toMatchObject({
    type: "destination.disabled",
    data: { destination_id: id, destination_name: "Receiver", reason: "gone" },
  });
  expect(await service.api.get<{ waiting: number }>(`${workspace.home}/destinations/${id}`)).toMatchObject({
    state: "disabled",
    disabled_reason: "gone",
    waiting: 0,
  });
  expect(await deliveries(workspace, id)).toMatchObject([{ state: "failed", end_reason: "switched_off" }]);
  await send(workspace, [{ email: "joe@example.com", event: "Visit" }]);
  await expect.poll(async () => (await service.api.books(workspace.id)).balanced).toBe(true);
  expect(gone.received).toHaveLength(1);
});

test("a destination that was switched off is resumed, and gets everything that failed, with the same ids and bodies", async () => {
  const receiver = await newReceiver((response) => void response.writeHead(500).end());
  const workspace = await newWorkspace([VISIT_RULE]);
  const id = await receiver.subscribe(service.api, workspace, ["person.scored"]);
  const destination = `${workspace.home}/destinations/${id}`;
  for (const email of ["jane@example.com", "joe@example.com"]) {
    const before = receiver.received.length;
    await send(workspace, [{ email, event: "Visit" }]);
    await expect.poll(() => receiver.received.length).toBeGreaterThan(before);
  }
  receiver.answer = (response) => void response.writeHead(410).end();
  const [first] = (await deliveries(workspace, id)).slice(-1);
  await service.api.post(`${destination}/deliveries/${first?.id}/again`);
  const ends = async () => (await deliveries(workspace, id)).map(({ end_reason: reason }) => reason);
  await expect.poll(ends).toEqual(["switched_off", "switched_off"]);

  receiver.answer = (response) => void response.end("thanks");
  await service.api.post(`${destination}/resume`);
  const before = receiver.received.length;
  const since = new Date(Date.now() - 3_600_000).toISOString();
  const repeat = () => service.api.post(`${destination}/deliveries/again`, { since });
  const none = { person_deleted: 0, too_many_waiting: 0, not_kept: 0 };
  expect(await repeat()).toEqual({ requeued: 2, not_requeued: none });
  expect(await repeat()).toEqual({ requeued: 0, not_requeued: none });
  const states = async () => (await deliveries(workspace, id)).map(({ state }) => state);
  await expect.poll(states, { timeout: 90_000 }).toEqual(["delivered", "delivered"]);
  const contents = (received: readonly { id: string; text: string }[]) =>
    new Set(received.map(({ id: eventId, text }) => eventId + text));
  expect(receiver.received).toHaveLength(before + 2);
  expect(contents(receiver.received.slice(before))).toEqual(contents(receiver.received.slice(0, before)));
  expect(receiver.forged).toEqual([]);
}, 120_000);

test("10,000 scoring signals are notified once to each of two destinations, with at most one delivery a second", async () => {
  const [first, second] = [await newReceiver(), await newReceiver()];
  const workspace = await newWorkspace([VISIT_RULE]);
  const ids = [
    await first.subscribe(service.api, workspace, ["person.scored"]),
    await second.subscribe(service.api, workspace, ["person.scored"]),
  ];
  const signals = Array.from({ length: 10_000 }, (_, n) => ({
    email: `p${n % 100}@example.com`,
    event: "Visit",
    properties: { n },
  }));
  const arrivals = [first, second].map((receiver) => {
    const times: number[] = [];
    receiver.answer = (response) => {
      times.push(Date.now());
      response.end();
    };
    return times;
  });
  const sentMs = Date.now();
  await send(workspace, signals);
  const notified = ({ received }: Receiver): string[] =>
    received.flatMap(({ body }) =>
      ((body?.data["scoring_signals"] as { signal_id: string }[] | undefined) ?? []).map((signal) => signal.signal_id),
    );
  for (const receiver of [first, second]) {
    await expect.poll(() => notified(receiver).length, { timeout: 120_000, interval: 250 }).toBe(10_000);
    expect(new Set(notified(receiver)).size).toBe(10_000);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(receiver.received.length);
  }
  const digest = (receiver: Receiver) =>
    createHash("sha256").update(notified(receiver).toSorted().join()).digest("hex");
  expect(digest(first)).toBe(digest(second));
  // Deliveries leave a second apart, but may arrive closer together.
  for (const times of arrivals) {
    const seconds = ((times.at(-1) ?? 0) - sentMs) / 1_000;
    expect(times.length).toBeLessThanOrEqual(Math.ceil(seconds) + 1);
  }
  for (const id of ids)
    await expect
      .poll(async () => (await service.api.get<{ waiting: number }>(`${workspace.home}/destinations/${id}`)).waiting)
      .toBe(0);
}, 180_000);

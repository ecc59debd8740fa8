/** Events go over real HTTP to receivers that answer, fail, hang, redirect, are gone, or never stop sending. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { BenchRule } from "../bench/rules.ts";
import { Receiver } from "./support/receiver.ts";
import { EventService, type Delivery, type EventWorkspace } from "./support/service.ts";

const RULE: BenchRule = {
  name: "visits",
  event: "Visit",
  match: "all",
  conditions: [],
  scoring_signal: "visit",
  points: 1,
};

let service: EventService;
const open: Receiver[] = [];

beforeAll(async () => {
  service = await EventService.start();
});

afterAll(() => service?.stop());

afterEach(async () => {
  await Promise.all(open.splice(0).map((receiver) => receiver.close()));
});

async function newReceiver(answer?: Receiver["answer"]): Promise<Receiver> {
  const receiver = await Receiver.listen();
  if (answer !== undefined) receiver.answer = answer;
  open.push(receiver);
  return receiver;
}

/** The result of the only attempt of a test delivery. */
async function tested(workspace: EventWorkspace, destination: string): Promise<Delivery> {
  const { id } = await workspace.test(destination);
  const find = async () => (await workspace.deliveries(destination)).find((delivery) => delivery.id === id);
  await expect.poll(async () => (await find())?.state).not.toBe("waiting");
  const delivery = await find();
  if (delivery === undefined) throw new Error("the test is gone");
  return delivery;
}

test("a threshold crossing is notified within seconds, and the library verifies its signature", async () => {
  const [workspace, receiver] = [await service.newWorkspace([{ ...RULE, points: 50 }]), await newReceiver()];
  await workspace.call("PUT", "/thresholds", { thresholds: [50] });
  await workspace.tell(receiver);
  await workspace.send([{ email: "jane@example.com", event: "Visit" }]);
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
  const [workspace, receiver] = [await service.newWorkspace(), await newReceiver()];
  const id = await workspace.tell(receiver);
  const old = receiver.secret;
  const { secret } = await workspace.call<{ secret: string }>("POST", `/destinations/${id}/rotate-secret`, {
    overlap: "1h",
  });
  await tested(workspace, id);
  receiver.secret = secret;
  await tested(workspace, id);
  expect(secret).not.toBe(old);
  expect(receiver.received.map(({ signatures }) => signatures)).toEqual([2, 2]);
  await workspace.call("POST", `/destinations/${id}/rotate-secret`, { overlap: "none" });
  expect(receiver.forged).toEqual([]);
  await tested(workspace, id);
  expect(receiver.received.at(-1)?.signatures).toBe(1);
  expect(receiver.forged).toHaveLength(1);
});

test("a Slack-compatible webhook receives a sentence with a link", async () => {
  const [workspace, receiver] = [await service.newWorkspace([RULE]), await newReceiver()];
  await workspace.tell(receiver, ["person.scored"], "slack");
  await workspace.send([{ email: "b&c@example.com", event: "Visit" }]);
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
  const workspace = await service.newWorkspace([RULE]);
  const id = await workspace.tell(receiver, ["person.scored"]);
  await workspace.send([{ email: "jane@example.com", event: "Visit" }]);
  await expect.poll(() => receiver.received.length).toBe(2);
  expect(receiver.received[0]).toEqual(receiver.received[1]);
  await expect.poll(async () => (await workspace.deliveries(id))[0]?.state).toBe("delivered");
  const attempts = (await workspace.deliveries(id))[0]?.attempts;
  expect(attempts).toMatchObject([
    { status: 500, error: "It answered 500.", answer: "not now <b>" },
    { status: 200, error: null, answer: "ok" },
  ]);
});

test("a redirect counts as a failure, says so, and is not followed", async () => {
  const elsewhere = await newReceiver();
  const receiver = await newReceiver((response) => {
    response.writeHead(307, { location: elsewhere.url }).end();
  });
  const workspace = await service.newWorkspace();
  const delivery = await tested(workspace, await workspace.tell(receiver));
  expect(delivery).toMatchObject({ state: "failed", attempts: [{ status: 307 }] });
  expect(delivery.attempts[0]?.error).toMatch(/redirect, which is not followed/);
  expect(elsewhere.received).toEqual([]);
});

test("a hanging receiver fails after ten seconds and delays no other destination", async () => {
  const [hanging, swift] = [await newReceiver(() => undefined), await newReceiver()];
  const workspace = await service.newWorkspace([RULE]);
  const [id] = [await workspace.tell(hanging, ["person.scored"]), await workspace.tell(swift, ["person.scored"])];
  await workspace.send([{ email: "jane@example.com", event: "Visit" }]);
  await expect.poll(() => swift.received.length).toBe(1);
  expect((await workspace.deliveries(id))[0]?.attempts).toEqual([]);
  await expect.poll(async () => (await workspace.deliveries(id))[0]?.attempts.length).toBe(1);
  const attempt = (await workspace.deliveries(id))[0]?.attempts[0];
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
  const workspace = await service.newWorkspace();
  const delivery = await tested(workspace, await workspace.tell(receiver));
  expect(delivery).toMatchObject({ state: "delivered", attempts: [{ status: 200, answer: "x".repeat(1_024) }] });
  await expect.poll(() => written).toBeLessThan(10 * 1024 * 1024);
});

test("a 410 answer switches the destination off, and the other destinations are notified", async () => {
  const gone = await newReceiver((response) => void response.writeHead(410).end("no such hook"));
  const otherReceiver = await newReceiver();
  const workspace = await service.newWorkspace([RULE]);
  const id = await workspace.tell(gone, ["person.scored"]);
  await workspace.tell(otherReceiver, ["usage.level"]);
  await workspace.send([{ email: "jane@example.com", event: "Visit" }]);
  await expect.poll(() => otherReceiver.received.length).toBe(1);
  expect(otherReceiver.received[0]?.body).toMatchObject({
    type: "destination.disabled",
    data: { destination_id: id, destination_name: "Receiver", reason: "gone" },
  });
  expect(await workspace.destination(id)).toMatchObject({ state: "disabled", disabled_reason: "gone", waiting: 0 });
  expect(await workspace.deliveries(id)).toMatchObject([{ state: "failed", end_reason: "switched_off" }]);
  await workspace.send([{ email: "joe@example.com", event: "Visit" }]);
  await expect.poll(async () => (await workspace.call<{ balanced: boolean }>("GET", "/books")).balanced).toBe(true);
  expect(gone.received).toHaveLength(1);
});

test("10,000 scoring signals are notified once to each of two destinations, with at most one delivery a second", async () => {
  const [first, second] = [await newReceiver(), await newReceiver()];
  const workspace = await service.newWorkspace([RULE]);
  const ids = [await workspace.tell(first, ["person.scored"]), await workspace.tell(second, ["person.scored"])];
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
  await workspace.send(signals);
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
  for (const id of ids) await expect.poll(async () => (await workspace.destination(id)).waiting).toBe(0);
}, 180_000);

/**
 * Deliveries across `kill -9`, at random moments and at critical ones: when a receiver has a request and has not
 * answered, and when it has just answered. Every scoring signal is notified, and only under one id.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import { Receiver, type Received } from "../notifications/support/receiver.ts";
import { Service, chances } from "../support/service.ts";

const ROUNDS = 6;
const SIGNALS_A_ROUND = 60;
const PEOPLE = 12;
const THRESHOLD = 10;
/** A delivery that was taken and not reported is due again after this time. */
const LEASE_MS = 1_500;
const VARS = { SIGN_IN: "local", DELIVERY_LEASE_MS: String(LEASE_MS) };

const random = chances("kill -9 while notifications are delivered");
let service: Service;
let receiver: Receiver;
let workspace: ProvisionedWorkspace;

beforeAll(async () => {
  service = await Service.makeShifted(VARS);
  receiver = await Receiver.listen();
  workspace = await service.api.provision({ rules: [VISIT_RULE] });
  await service.api.call("PUT", `${workspace.home}/thresholds`, { thresholds: [THRESHOLD] });
  await receiver.subscribe(service.api, workspace, ["person.scored", "person.score_crossed"]);
});

afterAll(async () => {
  await service.remove();
  receiver.close();
});

/** Whether the service dies at the receiver's next request: before its answer, or just after. */
function killAt(moment: "sent" | "answered", nth: number): Promise<void> {
  let killed = false;
  return new Promise((resolve) => {
    const kill = async () => {
      killed = true;
      await service.kill();
      resolve();
    };
    const until = receiver.received.length + nth;
    receiver.answer = async (response, count) => {
      const isIt = !killed && count >= until;
      if (isIt && moment === "sent") return kill();
      response.end();
      if (isIt) await kill();
    };
  });
}

async function sendUntilKilled(round: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; ; n++) {
    // The kill may wait for another delivery, which needs another signal.
    if (n >= SIGNALS_A_ROUND) await sleep(100);
    const signal = { email: `p${Math.floor(random() * PEOPLE)}@example.com`, event: "Visit", properties: { round, n } };
    try {
      const answer = await service.post(`signal-staging/webhook/${workspace.key}`, signal);
      if (answer.status === 202) ids.push((JSON.parse(await answer.text()) as { id: string }).id);
    } catch {
      return ids;
    }
  }
}

function scoringSignals({ body }: Received): string[] {
  const made = body?.type === "person.scored" ? body.data["scoring_signals"] : [];
  return (made as { signal_id: string }[]).map((signal) => signal.signal_id);
}

test("after kill -9 at every step every scoring signal and crossing arrives under one id, and no two bodies share one", async () => {
  const sent: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const moment = (["sent", "answered", "any"] as const)[round % 3] ?? "any";
    const dead =
      moment === "any"
        ? sleep(100 + random() * 2_500).then(() => service.kill())
        : killAt(moment, 1 + Math.floor(random() * 2));
    const [ids] = await Promise.all([sendUntilKilled(round), dead]);
    sent.push(...ids);
    receiver.answer = (response) => void response.end();
    await service.start();
  }
  expect(sent.length).toBeGreaterThan(ROUNDS);
  const notified = () => new Set(receiver.received.flatMap(scoringSignals));
  await expect.poll(() => sent.filter((id) => !notified().has(id)), { timeout: 60_000, interval: 500 }).toEqual([]);
  await expect.poll(() => waiting(), { timeout: 30_000, interval: 500 }).toBe(0);
  expect(receiver.forged).toEqual([]);

  const bodies = new Map<string, Set<string>>();
  const idsOf = new Map<string, Set<string>>();
  for (const message of receiver.received) {
    bodies.set(message.id, (bodies.get(message.id) ?? new Set()).add(message.text));
    for (const signal of scoringSignals(message)) idsOf.set(signal, (idsOf.get(signal) ?? new Set()).add(message.id));
  }
  expect([...bodies.values()].filter(({ size }) => size > 1)).toEqual([]);
  expect([...idsOf].filter(([, ids]) => ids.size > 1)).toEqual([]);

  const items = await service.api.list<{ email: string; score: number }>(`${workspace.home}/people`);
  const over = items.filter(({ score }) => score >= THRESHOLD).map(({ email }) => email);
  const crossings = receiver.received.filter(({ body }) => body?.type === "person.score_crossed");
  const crossingIds = Map.groupBy(crossings, ({ body }) => String(body?.data["email"]));
  expect([...crossingIds.keys()].toSorted()).toEqual(over.toSorted());
  for (const [email, those] of crossingIds) expect(new Set(those.map(({ id }) => id)).size, email).toBe(1);
}, 600_000);

async function waiting(): Promise<number> {
  const items = await service.api.list<{ waiting: number }>(`${workspace.home}/destinations`);
  return items.reduce((sum, destination) => sum + destination.waiting, 0);
}

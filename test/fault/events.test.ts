/**
 * Events across `kill -9`: each event is notified once, whichever object was about to raise, hand on or deliver it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { BenchRule } from "../bench/rules.ts";
import { Receiver } from "../events/support/receiver.ts";
import { Service, chances } from "./support/service.ts";
import { note } from "../support/note.ts";

const ROUNDS = 8;
const CONNECTIONS = 8;
const SHORTEST_ROUND_MS = 100;
const LONGEST_ROUND_MS = 800;
const PEOPLE = 20;
/**
 * The receivers are on this machine. Signals are processed and events raised and delivered while more signals come.
 */
const VARS = { SIGN_IN: "local", DRAIN_PACE_MS: "50" };
const THRESHOLDS = [1, 10];
const RULE: BenchRule = {
  name: "visits",
  event: "Visit",
  match: "all",
  conditions: [],
  scoring_signal: "visit",
  points: 1,
};
/** A message lost with the queue is due again after a lease, and an event on its way to be raised after a minute. */
const PATIENCE = { timeout: 150_000, interval: 250 };

const random = chances("kill -9 while events are raised");
let service: Service;
let receiver: Receiver;
let workspace = { id: "", key: "" };
let sent = 0;

beforeAll(async () => {
  service = await Service.make(VARS);
  receiver = await Receiver.listen();
  const { workspaceId, key } = await service.api.provision(100, [RULE]);
  workspace = { id: workspaceId, key };
  await service.api.call("PATCH", `workspaces/${workspaceId}`, { overages: true });
  await service.api.call("PUT", `workspaces/${workspaceId}/thresholds`, { thresholds: THRESHOLDS });
  const events = ["person.scored", "person.score_crossed", "usage.level"];
  const { secret } = await service.api.post<{ secret: string }>(`workspaces/${workspaceId}/destinations`, {
    name: "Receiver",
    type: "webhook",
    target: receiver.url,
    events,
  });
  receiver.secret = secret;
});

afterAll(async () => {
  await service.remove();
  await receiver.close();
});

/** Posts signals until the runtime is gone. */
async function postUntilKilled(ms: number): Promise<void> {
  const killed = new AbortController();
  const sender = async () => {
    while (!killed.signal.aborted) {
      const n = sent++;
      const signal = { email: `p${n % PEOPLE}@example.com`, event: "Visit", properties: { n } };
      const answer = service.post(`signal-staging/webhook/${workspace.key}`, JSON.stringify(signal));
      await answer.then((response) => response.text()).catch(() => {});
    }
  };
  const senders = Promise.all(Array.from({ length: CONNECTIONS }, sender));
  await sleep(ms);
  killed.abort();
  await service.kill();
  await senders;
}

/** In how many different messages each item was notified; a message may arrive more than once. */
function notifiedCounts<T>(type: string, of: (data: Record<string, unknown>) => T[]): Map<T, number> {
  const messages = new Map(receiver.ofType(type).map(({ id, body }) => [id, body?.data ?? {}] as const));
  const counts = new Map<T, number>();
  for (const item of [...messages.values()].flatMap(of)) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}

const scored = () =>
  notifiedCounts("person.scored", (data) =>
    (data["scoring_signals"] as { signal_id: string }[]).map((signal) => signal.signal_id),
  );

test("after kill -9 at any moment each scoring signal, crossing and usage level is notified in one message", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    await postUntilKilled(SHORTEST_ROUND_MS + random() * (LONGEST_ROUND_MS - SHORTEST_ROUND_MS));
    await service.start(0, VARS);
  }
  const path = `workspaces/${workspace.id}`;
  const books = () => service.api.get<{ in_flight: number; processed: number }>(`${path}/books`);
  await expect.poll(async () => (await books()).in_flight, PATIENCE).toBe(0);
  const { processed } = await books();
  expect(processed).toBeGreaterThan(PEOPLE * Math.max(...THRESHOLDS));
  await expect.poll(() => scored().size, PATIENCE).toBe(processed);
  const signals = await service.api.list<{ id: string }>(`${path}/signals`);
  expect([...scored().keys()].sort()).toEqual(signals.map(({ id }) => id).sort());
  expect(new Set(scored().values())).toEqual(new Set([1]));

  const crossed = () =>
    notifiedCounts("person.score_crossed", ({ email, threshold }) => [`${String(email)} ${String(threshold)}`]);
  await expect.poll(() => crossed().size, PATIENCE).toBe(PEOPLE * THRESHOLDS.length);
  expect(new Set(crossed().values())).toEqual(new Set([1]));
  const levels = () => notifiedCounts("usage.level", ({ level }) => [level]);
  await expect.poll(() => levels().size, PATIENCE).toBe(3);
  expect([...levels()]).toEqual(
    expect.arrayContaining([
      ["80", 1],
      ["100", 1],
      ["200", 1],
    ]),
  );
  expect(receiver.forged).toEqual([]);
  note(
    `kill -9: ${ROUNDS} rounds, ${processed} scoring signals, each told in one of ${receiver.received.length} messages`,
  );
}, 300_000);

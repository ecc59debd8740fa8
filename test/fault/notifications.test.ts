/**
 * Notifications across `kill -9`: each arrives once, even if the object that raises, forwards or delivers it is killed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import { Receiver } from "../notifications/support/receiver.ts";
import { postUntilKilled } from "./support/until-killed.ts";
import { Service, chances } from "../support/service.ts";
import { note } from "../support/amount.ts";

const ROUNDS = 8;
const CONNECTIONS = 8;
const SHORTEST_ROUND_MS = 100;
const LONGEST_ROUND_MS = 800;
const PEOPLE = 20;
const THRESHOLDS = [1, 10];
/** A message lost with the queue is due again after a lease, and a notification that is being forwarded after a minute. */
const PATIENCE = { timeout: 150_000, interval: 250 };

const random = chances("kill -9 while notifications are raised");
let service: Service;
let receiver: Receiver;
let workspace: ProvisionedWorkspace;
let sent = 0;

beforeAll(async () => {
  service = await Service.makeShifted({ SIGN_IN: "local" });
  receiver = await Receiver.listen();
  workspace = await service.api.provision({ signalLimit: 100, rules: [VISIT_RULE] });
  await service.api.call("PATCH", workspace.home, { overages: true });
  await service.api.call("PUT", `${workspace.home}/thresholds`, { thresholds: THRESHOLDS });
  await receiver.subscribe(service.api, workspace, ["person.scored", "person.score_crossed", "usage.level"]);
});

afterAll(async () => {
  await service.remove();
  receiver.close();
});

function nextSignals(): object[] {
  const n = sent++;
  return [{ email: `p${n % PEOPLE}@example.com`, event: "Visit", properties: { n } }];
}

/** The number of different messages that reported each item; a message may arrive more than once. */
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

test("after kill -9 at any moment each scoring signal, crossing and usage level arrives in one message", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const ms = SHORTEST_ROUND_MS + random() * (LONGEST_ROUND_MS - SHORTEST_ROUND_MS);
    const posting = postUntilKilled(service, workspace, { connections: CONNECTIONS, next: nextSignals });
    await Promise.all([posting, sleep(ms).then(() => service.kill())]);
    await service.start();
  }
  const { processed } = await service.api.settled(workspace.id);
  expect(processed).toBeGreaterThan(PEOPLE * Math.max(...THRESHOLDS));
  await expect.poll(() => scored().size, PATIENCE).toBe(processed);
  const signals = await service.api.list<{ id: string }>(`${workspace.home}/signals`);
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
  note(`kill -9: ${ROUNDS} rounds, ${processed} scoring signals, each in one of ${receiver.received.length} messages`);
}, 300_000);

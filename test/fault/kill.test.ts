/** Invariants 1, 2 and 4 across `kill -9`: the runtime of the built Worker is killed while signals arrive. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import { amount, note } from "../support/amount.ts";
import { Service, chances } from "../support/service.ts";
import { expectProcessed, postUntilKilled } from "./support/until-killed.ts";

const CONNECTIONS = 32;
/** Rounds of load, each ended by a kill at a random moment: `npm run test:longer -- crash --rounds 100`. */
const ROUNDS = Number(process.env["CRASH_ROUNDS"] ?? amount(1, 5));
/** Every n-th call is a batch of this size. */
const BATCH_EVERY = 5;
const SHORTEST_ROUND_MS = 150;
const LONGEST_ROUND_MS = 900;
const SLOWEST_ROUND_MS = 15_000;
const PEOPLE = 20;

const random = chances("kill -9 under load");
let service: Service;
let workspace: ProvisionedWorkspace;
let [calls, sent] = [0, 0];

/** The signals of a call, all different: mostly one, sometimes several. */
function nextSignals(): object[] {
  return Array.from({ length: calls++ % BATCH_EVERY === 0 ? BATCH_EVERY : 1 }, () => {
    const n = sent++;
    return { email: `p${n % PEOPLE}@example.com`, event: "Visit", properties: { n } };
  });
}

beforeAll(async () => {
  service = await Service.makeShifted();
  workspace = await service.api.provision({ rules: [VISIT_RULE] });
});

afterAll(() => service.remove());

test(
  "§1.2: after kill -9 at any moment every signal answered with 202 is in exactly one place and has scored once",
  async () => {
    const answered: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const ids: string[] = [];
      const kill = async () => {
        const until = Date.now() + SLOWEST_ROUND_MS;
        await sleep(SHORTEST_ROUND_MS + random() * (LONGEST_ROUND_MS - SHORTEST_ROUND_MS));
        // On a slow machine the kill is later, because each person needs a signal.
        while (ids.length < 2 * PEOPLE && Date.now() < until) await sleep(20);
        await service.kill();
      };
      await Promise.all([
        kill(),
        postUntilKilled(service, workspace, { connections: CONNECTIONS, next: nextSignals, ids }),
      ]);
      answered.push(...ids);
      await service.start();
    }
    expect(answered.length).toBeGreaterThan(ROUNDS * CONNECTIONS);
    note(`kill -9: ${ROUNDS} rounds, ${answered.length} signals answered with 202`);
    const signals = await expectProcessed(service, workspace, answered);
    const people = await service.api.list<{ email: string; score: number }>(`${workspace.home}/people`);
    const byEmail = Map.groupBy(signals, ({ email }) => email);
    expect(people.length).toBe(PEOPLE);
    for (const { email, score } of people) expect([email, score]).toEqual([email, byEmail.get(email)?.length]);
  },
  60_000 + ROUNDS * 20_000,
);

test("§3.1: a key whose deactivation returned is still rejected after kill -9", async () => {
  await service.api.deactivate(workspace.id, workspace.keyId);
  await service.kill();
  await service.start();
  const late = await service.post(`signal-staging/webhook/${workspace.key}`, {
    email: "late@example.com",
    event: "Late",
  });
  await late.body?.cancel();
  expect(late.status).toBe(401);
});

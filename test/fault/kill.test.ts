/** Invariants 1, 2 and 4 across `kill -9`: the built Worker on real files, its runtime killed while signals come in. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { BenchRule } from "../bench/rules.ts";
import { Service, chances } from "./service.ts";
import type { Books } from "../../src/dev/operator-client.ts";

const CONNECTIONS = 16;
/** Rounds of load, each ended by a kill at a moment that nobody chose. */
const ROUNDS = 4;
const SHORTEST_ROUND_MS = 150;
const LONGEST_ROUND_MS = 900;
const PEOPLE = 20;

const random = chances("kill -9 under load");
let service: Service;
let workspaceId = "";
let key = "";

let sent = 0;

/** Posts signals, all different, until the runtime is gone; the ids of those that were answered with 202. */
async function postUntilKilled(ms: number): Promise<string[]> {
  const ids: string[] = [];
  const killed = new AbortController();
  const sender = async () => {
    while (!killed.signal.aborted) {
      const n = sent++;
      const body = JSON.stringify({ email: `p${n % PEOPLE}@example.com`, event: "Visit", properties: { n } });
      let answer: Response;
      let text: string;
      try {
        answer = await service.post(`signal-staging/webhook/${key}`, body);
        text = await answer.text();
      } catch (error) {
        if (killed.signal.aborted) return;
        throw error;
      }
      expect(answer.status, text).toBe(202);
      ids.push((JSON.parse(text) as { id: string }).id);
    }
  };
  const senders = Promise.all(Array.from({ length: CONNECTIONS }, sender));
  await Promise.race([sleep(ms), senders]);
  killed.abort();
  await service.kill();
  await senders;
  return ids;
}

beforeAll(async () => {
  service = await Service.make();
  const rule: BenchRule = {
    name: "visits",
    event: "Visit",
    match: "all",
    conditions: [],
    scoring_signal: "visit",
    points: 1,
  } as const;
  ({ workspaceId, key } = await service.api.provision(1_000_000, [rule]));
}, 60_000);

afterAll(() => service.remove());

test("§1.2: after kill -9 at any moment every signal answered with 202 is in exactly one place, and the books balance", async () => {
  const answered: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    answered.push(...(await postUntilKilled(SHORTEST_ROUND_MS + random() * (LONGEST_ROUND_MS - SHORTEST_ROUND_MS))));
    await service.start();
  }
  expect(answered.length).toBeGreaterThan(ROUNDS * CONNECTIONS);

  await expect
    .poll(async () => (await service.api.get<Books>(`workspaces/${workspaceId}/books`)).in_flight, {
      timeout: 40_000,
      interval: 200,
    })
    .toBe(0);
  const books = await service.api.get<Books>(`workspaces/${workspaceId}/books`);
  const signals = await service.api.list<{ id: string; status: string }>(`workspaces/${workspaceId}/signals`);
  const places = new Map(signals.map(({ id, status }) => [id, status]));
  expect(places.size).toBe(signals.length);
  expect(answered.filter((id) => places.get(id) !== "processed").length).toBe(0);
  // What was counted and killed before it could be answered is there as well.
  expect(books).toMatchObject({ accepted: signals.length, processed: signals.length, balanced: true });
  const people = await service.api.list<{ score: number }>(`workspaces/${workspaceId}/people`);
  expect(people.reduce((sum, { score }) => sum + score, 0)).toBe(signals.length);
}, 120_000);

test("§3.1: a key whose deactivation had returned is still refused after kill -9", async () => {
  const keys = `workspaces/${workspaceId}/keys`;
  const [active] = await service.api.list<{ id: string }>(keys);
  await service.api.post(`${keys}/${active?.id}/deactivate`);
  await service.kill();
  await service.start();
  const response = await service.post(
    `signal-staging/webhook/${key}`,
    JSON.stringify({ email: "late@example.com", event: "Late" }),
  );
  await response.body?.cancel();
  expect(response.status).toBe(401);
});

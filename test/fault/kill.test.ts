/**
 * Invariants 1, 2 and 4 across `kill -9`: the built Worker on real files, whose runtime is killed while signals come
 * in.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { amount } from "../support/amount.ts";
import type { BenchRule } from "../bench/rules.ts";
import { Service, chances } from "./support/service.ts";
import type { BooksAnswer } from "../../src/dev/operator-client.ts";
import { note } from "../support/note.ts";

const CONNECTIONS = 32;
/** Rounds of load, each ended by a kill at a random moment: `npm run test:crash -- --rounds 100`. */
const ROUNDS = Number(process.env["CRASH_ROUNDS"] ?? amount(1, 5));
/** Every n-th call is a batch of this size. */
const BATCH_EVERY = 5;
const SHORTEST_ROUND_MS = 150;
const LONGEST_ROUND_MS = 900;
const SLOWEST_ROUND_MS = 15_000;
const PEOPLE = 20;

const random = chances("kill -9 under load");
let service: Service;
let workspaceId = "";
let key = "";

let [calls, sent] = [0, 0];

interface Sent {
  email: string;
  event: string;
  properties: { n: number };
}

/** Signals, all different: mostly one, sometimes several. */
function nextSignals(): Sent[] {
  return Array.from({ length: calls++ % BATCH_EVERY === 0 ? BATCH_EVERY : 1 }, () => {
    const n = sent++;
    return { email: `p${n % PEOPLE}@example.com`, event: "Visit", properties: { n } };
  });
}

/** Posts signals until the runtime is gone. @returns the ids answered with 202. */
async function postUntilKilled(ms: number): Promise<string[]> {
  const ids: string[] = [];
  const killed = new AbortController();
  const sender = async () => {
    while (!killed.signal.aborted) {
      const signals = nextSignals();
      const [only] = signals;
      const several = signals.length > 1;
      let answer: Response;
      let text: string;
      try {
        const route = `signal-staging/webhook/${key}${several ? "/batch" : ""}`;
        answer = await service.post(route, JSON.stringify(several ? signals : only));
        text = await answer.text();
      } catch (error) {
        if (killed.signal.aborted) return;
        throw error;
      }
      expect(answer.status, text).toBe(202);
      const answered = JSON.parse(text) as { id: string; results?: { id: string }[] };
      ids.push(...(answered.results ?? [answered]).map(({ id }) => id));
    }
  };
  const senders = Promise.all(Array.from({ length: CONNECTIONS }, sender));
  const until = Date.now() + SLOWEST_ROUND_MS;
  await Promise.race([sleep(ms), senders]);
  // On a slow machine the kill is later, because the comparison needs a signal of each person.
  while (ids.length < 2 * PEOPLE && Date.now() < until) await Promise.race([sleep(20), senders]);
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
});

afterAll(() => service.remove());

test(
  "§1.2: after kill -9 at any moment every signal answered with 202 is in exactly one place and has scored once",
  async () => {
    const answered: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      answered.push(...(await postUntilKilled(SHORTEST_ROUND_MS + random() * (LONGEST_ROUND_MS - SHORTEST_ROUND_MS))));
      await service.start();
    }
    expect(answered.length).toBeGreaterThan(ROUNDS * CONNECTIONS);

    await expect
      .poll(async () => (await service.api.get<BooksAnswer>(`workspaces/${workspaceId}/books`)).in_flight, {
        timeout: 40_000,
        interval: 200,
      })
      .toBe(0);
    const books = await service.api.get<BooksAnswer>(`workspaces/${workspaceId}/books`);
    const signals = await service.api.list<{ id: string; status: string; email: string }>(
      `workspaces/${workspaceId}/signals`,
    );
    const places = new Map(signals.map(({ id, status }) => [id, status]));
    expect(places.size).toBe(signals.length);
    const lost = answered.filter((id) => places.get(id) !== "processed").length;
    note(`kill -9: ${ROUNDS} rounds, ${answered.length} signals answered with 202, ${lost} of them lost`);
    expect(lost).toBe(0);
    // Signals that were counted but not answered before the kill exist as well.
    expect(books).toMatchObject({ accepted: signals.length, processed: signals.length, balanced: true });
    const people = await service.api.list<{ email: string; score: number }>(`workspaces/${workspaceId}/people`);
    const byEmail = Map.groupBy(signals, ({ email }) => email);
    expect(people.length).toBe(PEOPLE);
    for (const { email, score } of people) expect([email, score]).toEqual([email, byEmail.get(email)?.length]);
  },
  60_000 + ROUNDS * 20_000,
);

test("§3.1: a key whose deactivation returned is still refused after kill -9", async () => {
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

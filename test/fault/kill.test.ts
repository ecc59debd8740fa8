/** Invariants 1, 2 and 4 across `kill -9`: the built Worker on real files, its runtime killed while signals come in. */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { build } from "../bench/build.ts";
import type { BuiltWorker } from "../bench/build.ts";
import { OperatorApi } from "../bench/operator-api.ts";
import type { BenchRule } from "../bench/rules.ts";
import { applySql, start } from "../bench/start.ts";
import type { RunningWorker } from "../bench/start.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const TOKEN = "fault-operator";
const CONNECTIONS = 16;
/** Rounds of load, each ended by a kill at a moment that nobody chose. */
const ROUNDS = 4;
const SHORTEST_ROUND_MS = 150;
const LONGEST_ROUND_MS = 900;
const PEOPLE = 20;

const scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-fault-"));
const stateDir = path.join(scratch, "state");
let built: BuiltWorker;
let running: RunningWorker | undefined;
let workspaceId = "";
let key = "";

async function startAgain(): Promise<RunningWorker> {
  running = await start(built, {
    stateDir,
    // Here nothing but the kill may end a call.
    vars: { OPERATOR_TOKEN: TOKEN, REQUEST_RATE_PER_SECOND: "100000", REQUEST_BURST: "100000" },
  });
  return running;
}

/** At once and whole: nothing is flushed, nobody says goodbye. */
async function kill(): Promise<void> {
  if (running?.pid === undefined) throw new Error("no runtime to kill");
  process.kill(running.pid, "SIGKILL");
  await running.stop();
  running = undefined;
}

async function operator<T>(method: string, route: string): Promise<T> {
  const url = `${running?.origin}/operator/workspaces/${workspaceId}${route}`;
  const response = await fetch(url, { method, headers: { authorization: `Bearer ${TOKEN}` } });
  if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

async function everyItem<T>(route: string): Promise<T[]> {
  const items: T[] = [];
  for (let cursor = ""; ;) {
    const page: { items: T[]; next: string | null } = await operator("GET", `${route}?limit=200${cursor}`);
    items.push(...page.items);
    if (page.next === null) return items;
    cursor = `&cursor=${encodeURIComponent(page.next)}`;
  }
}

let sent = 0;

/** Posts signals, all different, until the runtime is gone; the ids of those that were answered with 202. */
async function postUntilKilled(ms: number): Promise<string[]> {
  const url = `${running?.origin}/api/signal-staging/webhook/${key}`;
  const ids: string[] = [];
  const killed = new AbortController();
  const sender = async () => {
    while (!killed.signal.aborted) {
      const n = sent++;
      const body = JSON.stringify({ email: `p${n % PEOPLE}@example.com`, event: "Visit", properties: { n } });
      let answer: Response;
      let text: string;
      try {
        answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
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
  await kill();
  await senders;
  return ids;
}

beforeAll(async () => {
  built = await build(path.join(ROOT, "wrangler.toml"), path.join(scratch, "worker"));
  const worker = await startAgain();
  await applySql(worker, "DB", path.join(ROOT, "migrations/d1"));
  const rule: BenchRule = {
    name: "visits",
    event: "Visit",
    match: "all",
    conditions: [],
    scoring_signal: "visit",
    points: 1,
  } as const;
  ({ workspaceId, key } = await new OperatorApi(worker.origin, TOKEN).provision(1_000_000, [rule]));
}, 60_000);

afterAll(async () => {
  await running?.stop();
  rmSync(scratch, { recursive: true, force: true });
});

interface Books {
  accepted: number;
  processed: number;
  duplicates: number;
  dead_lettered: number;
  in_flight: number;
  balanced: boolean;
}

test("§1.2: after kill -9 at any moment every signal answered with 202 is in exactly one place, and the books balance", async () => {
  const answered: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    answered.push(
      ...(await postUntilKilled(SHORTEST_ROUND_MS + Math.random() * (LONGEST_ROUND_MS - SHORTEST_ROUND_MS))),
    );
    await startAgain();
  }
  expect(answered.length).toBeGreaterThan(ROUNDS * CONNECTIONS);

  await expect
    .poll(async () => (await operator<Books>("GET", "/books")).in_flight, { timeout: 40_000, interval: 200 })
    .toBe(0);
  const books = await operator<Books>("GET", "/books");
  const signals = await everyItem<{ id: string; status: string }>("/signals");
  const places = new Map(signals.map(({ id, status }) => [id, status]));
  expect(places.size).toBe(signals.length);
  expect(answered.filter((id) => places.get(id) !== "processed").length).toBe(0);
  // What was counted and killed before it could be answered is there as well.
  expect(books).toMatchObject({ accepted: signals.length, processed: signals.length, balanced: true });
  const people = await everyItem<{ score: number }>("/people");
  expect(people.reduce((sum, { score }) => sum + score, 0)).toBe(signals.length);
}, 120_000);

test("§3.1: a key whose deactivation had returned is still refused after kill -9", async () => {
  const [active] = await everyItem<{ id: string }>("/keys");
  await operator("POST", `/keys/${active?.id}/deactivate`);
  await kill();
  const { origin } = await startAgain();
  const body = JSON.stringify({ email: "late@example.com", event: "Late" });
  const response = await fetch(`${origin}/api/signal-staging/webhook/${key}`, { method: "POST", body });
  await response.body?.cancel();
  expect(response.status).toBe(401);
});

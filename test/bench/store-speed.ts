/**
 * The speed of processing: in an empty workspace, in a large one, compared with the straightforward Worker; and for a
 * lone signal.
 */
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { DRAIN_PACE_MS } from "../../src/limits.ts";
import type { Bencher } from "./bencher.ts";
import type { Contestant } from "./contestants.ts";
import { newSignals } from "./growth-costs.ts";
import { emailOf } from "./growth-traffic.ts";
import type { FilledWorkspace, Filler } from "./growth-workspaces.ts";
import type { LoadGenerator, LoadResult } from "./load.ts";
import { median } from "./median.ts";
import type { StorePart } from "./store-figures.ts";

export const SPEED_ROUNDS = 7;
const ROUND_SIGNALS = 10_000;
const BATCH = 100;
const CONNECTIONS = 8;
/** It handles one signal at a time and is fastest with this number of connections. */
const STRAIGHTFORWARD_SIGNALS = 2_000;
const STRAIGHTFORWARD_CONNECTIONS = 2;
const MIN_SPEED = 0.9;

const LONE_SIGNALS = 15;
/** A signal that comes this long after the previous one leaves the outbox at once instead of waiting for a batch. */
export const QUIET_MS = DRAIN_PACE_MS + 200;
const POLL_MS = 2;
const MAX_FIRST_MS = 150;

const PeopleAnswer = z.object({ items: z.array(z.object({ score: z.number() })) });

/** In turn, so that a slow phase of the machine affects all of them; the first round warms up. */
export async function measureSpeed(
  bencher: Bencher,
  large: FilledWorkspace,
  empty: readonly FilledWorkspace[],
  straightforward: Contestant,
  generator: LoadGenerator,
): Promise<StorePart> {
  const costs = {
    empty: [] as number[],
    large: [] as number[],
    unlinked: [] as number[],
    straightforward: [] as number[],
  };
  for (const [round, small] of empty.entries()) {
    const measured = {
      empty: await process(bencher, small),
      large: await process(bencher, large),
      unlinked: await process(bencher, large, "unlinked"),
      straightforward: await processStraightforward(straightforward, generator),
    };
    if (round === 0) continue;
    for (const kind of ["empty", "large", "unlinked", "straightforward"] as const) costs[kind].push(measured[kind]);
  }
  const [inEmpty, inLarge] = [median(costs.empty), median(costs.large)];
  const [unlinked, there] = [median(costs.unlinked), median(costs.straightforward)];
  return {
    title: "Processing, CPU from the first call to the last settled row, 20 rules",
    figures: [
      { name: "Processing a signal in an empty workspace", value: inEmpty, unit: "µs" },
      { name: "Processing a signal in the large workspace", value: inLarge, unit: "µs" },
      { name: "Speed there, to the empty one's", value: inEmpty / inLarge, unit: "×", atLeast: MIN_SPEED },
      { name: "Processing there where no visitor becomes known", value: unlinked, unit: "µs" },
      { name: "Speed where none does, to the empty one's", value: inEmpty / unlinked, unit: "×", atLeast: MIN_SPEED },
      { name: "The straightforward Worker, which takes them one by one", value: there, unit: "µs" },
      { name: "Speed in the large workspace, to the straightforward Worker's", value: there / inLarge, unit: "×" },
    ],
    notes: [
      `Medians of ${empty.length - 1} rounds of ${ROUND_SIGNALS.toLocaleString("en")} signals in calls of ${BATCH}. ` +
        `Empty: ${list(costs.empty)}; large: ${list(costs.large)}, ${list(costs.unlinked)}; ` +
        `straightforward: ${list(costs.straightforward)}.`,
    ],
  };
}

/** From a call after a quiet moment to its 202, and until the person has the score. */
export async function measureLone(bencher: Bencher, workspace: FilledWorkspace): Promise<StorePart> {
  const [answered, scored]: [number[], number[]] = [[], []];
  for (let index = 0; index < LONE_SIGNALS; index++) {
    const email = emailOf((index * 7_919 + 17) % workspace.size.people);
    const before = await scoreOf(bencher, workspace, email);
    await sleep(QUIET_MS);
    const properties = { stage: "stage 7", lone: `${workspace.sent}` };
    const body = JSON.stringify({ email, event: "Came Alone", source: "website", properties });
    const startedAt = performance.now();
    answered.push((await send(bencher, workspace, [body])).p50Ms);
    while ((await scoreOf(bencher, workspace, email)) === before) await sleep(POLL_MS);
    scored.push(performance.now() - startedAt);
  }
  return {
    title: "A lone signal after a quiet moment, p50",
    figures: [
      { name: "To the 202", value: median(answered), unit: "ms" },
      { name: "Until its score is there", value: median(scored), unit: "ms" },
    ],
    notes: [],
  };
}

/** The first signal that the store records after a start: it reads its head and builds the memory of duplicates. */
export async function measureFirst(
  startFiller: () => Promise<Filler>,
  large: FilledWorkspace,
  warm: FilledWorkspace,
): Promise<StorePart> {
  const [first, second]: [number[], number[]] = [[], []];
  for (let start = 0; start < 5; start++) {
    const filler = await startFiller();
    try {
      // Loads the code first, so that only the store's start is measured.
      for (let index = 0; index < 20; index++) await recordOne(filler, warm);
      first.push(await recordOne(filler, large));
      second.push(await recordOne(filler, large));
    } finally {
      await filler.stop();
    }
  }
  return {
    title: "The first recording after a start",
    figures: [
      { name: "The first recording", value: median(first), unit: "ms", atMost: MAX_FIRST_MS },
      { name: "The one after it", value: median(second), unit: "ms" },
    ],
    notes: [`First: ${list(first)} ms.`],
  };
}

export function send(bencher: Bencher, workspace: FilledWorkspace, signals: readonly string[]): Promise<LoadResult> {
  const path = `/api/signal-staging/webhook/${workspace.key}`;
  workspace.sent += signals.length;
  const [only = ""] = signals;
  const body = `[${signals.join(",")}]`;
  return bencher.load([
    signals.length === 1 ? { method: "POST", path, body: only } : { method: "POST", path: `${path}/batch`, body },
  ]);
}

/** Undefined for an unknown email. */
export async function scoreOf(bencher: Bencher, { id }: FilledWorkspace, email: string): Promise<number | undefined> {
  const people = await bencher.api.get(`workspaces/${id}/people?email=${encodeURIComponent(email)}`);
  return PeopleAnswer.parse(people).items[0]?.score;
}

async function recordOne(filler: Filler, workspace: FilledWorkspace): Promise<number> {
  const from = workspace.sent++;
  const startedAt = performance.now();
  await filler.record({ ...workspace.order, from, to: from + 1, batch: 1 });
  return performance.now() - startedAt;
}

/** Microseconds per signal. */
async function process(
  bencher: Bencher,
  workspace: FilledWorkspace,
  traffic = workspace.order.traffic,
): Promise<number> {
  const path = `/api/signal-staging/webhook/${workspace.key}/batch`;
  const calls = Array.from({ length: ROUND_SIGNALS / BATCH }, () => ({
    method: "POST" as const,
    path,
    body: `[${newSignals(workspace, BATCH, traffic).join(",")}]`,
  }));
  const before = bencher.running.cpuMicroseconds();
  await bencher.load(calls, CONNECTIONS);
  await bencher.settle(workspace);
  return (bencher.running.cpuMicroseconds() - before) / ROUND_SIGNALS;
}

async function processStraightforward(contestant: Contestant, generator: LoadGenerator): Promise<number> {
  const { running, key } = contestant;
  const before = running.cpuMicroseconds();
  const { requests } = await generator.run({
    origin: running.origin,
    path: `/api/signal-staging/webhook/${key}`,
    connections: STRAIGHTFORWARD_CONNECTIONS,
    until: { requests: STRAIGHTFORWARD_SIGNALS },
    signalsPerRequest: 1,
    expected: [202],
    addresses: 1,
  });
  contestant.accepted += requests;
  await contestant.settle();
  return (running.cpuMicroseconds() - before) / requests;
}

function list(values: readonly number[]): string {
  return values.map((value) => value.toFixed(0)).join(", ");
}

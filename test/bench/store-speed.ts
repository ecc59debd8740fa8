/**
 * The speed of processing: in an empty workspace, in a large one, compared with the straightforward Worker; and for a
 * lone signal. Also long operations in a large workspace: links, a rule on the whole past, a deletion, an export; and
 * reads, which must be short.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { DRAIN_PACE_MS } from "../../src/limits.ts";
import type { Bencher } from "./bencher.ts";
import type { Contestant } from "./contestants.ts";
import { median, type StoreFigure, type StorePart } from "./figures.ts";
import { emailOf, rulesOf } from "./growth-traffic.ts";
import { VARS, type FilledWorkspace, type Filler } from "./growth-workspaces.ts";
import { MAX_PAGE_MS, batchCalls, measurePages, READS } from "./growth.ts";
import type { LoadGenerator, LoadResult } from "./load.ts";
import { until } from "./operator-api.ts";
import { HEAVY_PERSON, mixedPayloadOf, pointsOf, SPREAD_VISITOR, spreadNumbers } from "./store-traffic.ts";

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
const QUIET_MS = DRAIN_PACE_MS + 200;
const POLL_MS = 2;
const MAX_FIRST_MS = 150;

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
    await until(async () => (await scoreOf(bencher, workspace, email)) !== before, POLL_MS);
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

function send(bencher: Bencher, workspace: FilledWorkspace, signals: readonly string[]): Promise<LoadResult> {
  const path = `/api/signal-staging/webhook/${workspace.key}`;
  workspace.sent += signals.length;
  const [only = ""] = signals;
  const body = `[${signals.join(",")}]`;
  return bencher.load([
    signals.length === 1 ? { method: "POST", path, body: only } : { method: "POST", path: `${path}/batch`, body },
  ]);
}

/** Undefined for an unknown email. */
async function scoreOf(bencher: Bencher, { id }: FilledWorkspace, email: string): Promise<number | undefined> {
  const people = `workspaces/${id}/people?email=${encodeURIComponent(email)}`;
  return (await bencher.api.get<{ items: { score: number }[] }>(people)).items[0]?.score;
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
  const calls = batchCalls(workspace, ROUND_SIGNALS, BATCH, traffic);
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

const RULES = 500;
const READ_CALLS = 31;
const LINKED_SIGNALS = 10_000;
const CALL_SIGNALS = 1_000;
const EXPORTED_SIGNALS = 100_000;
const MAX_SECONDS = 2;
const MAX_RULE_SECONDS = 5;

/** @param segments that what was filled in is kept in. */
export async function measureLinking(
  bencher: Bencher,
  workspace: FilledWorkspace,
  segments: number,
): Promise<StorePart> {
  const { order } = workspace;
  const signal = { type: "track", anonymousId: "c1f6a7de-0c1f-4f0a-9f2e-6d7f7f6f1a77", event: "Came Back" };
  const sent = Array.from({ length: LINKED_SIGNALS }, (_, n) =>
    JSON.stringify({ ...signal, messageId: `one-${n}`, properties: { stage: `stage ${n % 60}`, page: `/docs/${n}` } }),
  );
  for (let from = 0; from < sent.length; from += CALL_SIGNALS)
    await send(bencher, workspace, sent.slice(from, from + CALL_SIGNALS));
  await bencher.settle(workspace);
  const together = await link(bencher, workspace, signal.anonymousId, "one@example.com", sent);

  const spread = spreadNumbers(SPREAD_VISITOR, order).map((n) => mixedPayloadOf(n, order));
  const apart = await link(bencher, workspace, SPREAD_VISITOR.id, "spread@example.com", spread);
  const figure = (name: string, { seconds, cpuSeconds }: typeof apart): StoreFigure[] => [
    { name, value: seconds, unit: "s", atMost: MAX_SECONDS },
    { name: `${name}, CPU`, value: cpuSeconds, unit: "s" },
  ];
  return {
    title: "Linking, from the identify call until all have scored",
    figures: [
      ...figure(`${LINKED_SIGNALS.toLocaleString("en")} signals of one visitor`, together),
      ...figure(
        `${spread.length.toLocaleString("en")} signals, spread over ${segments.toLocaleString("en")} segments, in R2`,
        apart,
      ),
    ],
    notes: [],
  };
}

export async function measureReads(bencher: Bencher, workspace: FilledWorkspace): Promise<StorePart> {
  for (const rule of rulesOf(RULES).slice(workspace.size.rules))
    await bencher.api.post(`workspaces/${workspace.id}/rules`, rule);
  const figures: StoreFigure[] = [];
  for (const read of READS) {
    const calls = Array.from({ length: READ_CALLS }, (_, index) => ({
      method: "GET" as const,
      path: `/operator/workspaces/${workspace.id}/${read.path(workspace, index)}`,
      token: VARS.OPERATOR_TOKEN,
    }));
    const { p50Ms } = await bencher.load(calls);
    figures.push({ name: `Operator API: ${read.name}`, value: p50Ms, unit: "ms", atMost: MAX_PAGE_MS });
  }
  const pages = await measurePages(workspace, bencher.running.origin, VARS.OPERATOR_TOKEN, (calls) =>
    bencher.load(calls),
  );
  for (const { name, p50Ms } of pages)
    figures.push({ name: `Page: ${name}`, value: p50Ms, unit: "ms", atMost: MAX_PAGE_MS });
  return { title: `Reads with ${RULES} rules, p50`, figures, notes: [] };
}

/** A rule that reads every signal's payload and matches one in sixty. */
export async function measureRule(bencher: Bencher, { id }: FilledWorkspace): Promise<StorePart> {
  const { id: ruleId } = await bencher.api.post<{ id: string }>(`workspaces/${id}/rules`, {
    name: "On the past",
    event: "*",
    conditions: [{ path: "properties.stage", operator: "equals", value: "stage 33" }],
    scoring_signal: "Reached stage 33",
    points: 1,
  });
  const path = `workspaces/${id}/rules/${ruleId}/apply`;
  const jobNow = () => bencher.api.get<{ status: string; scanned: number; matched: number; added: number }>(path);
  const cost = await timed(bencher, async () => {
    await bencher.api.post(path);
    await until(async () => (await jobNow()).status === "done");
  });
  const job = await jobNow();
  return {
    title: "A rule on the whole past",
    figures: [
      { name: "A rule on the whole past, CPU", value: cost.cpuSeconds, unit: "s", atMost: MAX_RULE_SECONDS },
      { name: "A rule on the whole past", value: cost.seconds, unit: "s" },
      { name: "Signals that it has given a score", value: job.added, unit: "signals", atLeast: 1 },
    ],
    notes: [
      `It looked at ${job.scanned.toLocaleString("en")} signals, and matched ${job.matched.toLocaleString("en")}.`,
    ],
  };
}

export async function measureDeletion(bencher: Bencher, workspace: FilledWorkspace): Promise<StorePart> {
  const person = `workspaces/${workspace.id}/people/${encodeURIComponent(HEAVY_PERSON.email)}`;
  const signals = spreadNumbers(HEAVY_PERSON, workspace.order).length;
  const receipt = () =>
    bencher.api.get<{ complete: boolean; signals: number; cold_objects: number }>(`${person}/deletion`);
  const startedAt = performance.now();
  await bencher.api.call("DELETE", person);
  await until(async () => (await receipt()).signals >= signals);
  const inStore = (performance.now() - startedAt) / 1_000;
  await until(async () => (await receipt()).complete);
  const complete = (performance.now() - startedAt) / 1_000;
  const { cold_objects: objects } = await receipt();
  return {
    title: `Deletion of a person with ${signals.toLocaleString("en")} signals`,
    figures: [
      { name: "Deletion, until only R2 is waited for", value: inStore, unit: "s", atMost: MAX_SECONDS },
      { name: "Deletion, until the receipt says complete", value: complete, unit: "s" },
    ],
    notes: [`Copies were in ${objects} objects of R2.`],
  };
}

export async function measureExport(bencher: Bencher, { id, size }: FilledWorkspace): Promise<StorePart> {
  const wanted = Math.min(EXPORTED_SIGNALS, size.signals);
  const cost = await timed(bencher, async () => {
    const response = await fetch(`${bencher.running.origin}/operator/workspaces/${id}/export/signals`, {
      headers: { authorization: `Bearer ${VARS.OPERATOR_TOKEN}` },
    });
    if (!response.ok || response.body === null) throw new Error(`the export: ${response.status}`);
    let lines = 0;
    for await (const chunk of response.body) {
      for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines++;
      if (lines >= wanted) break;
    }
    if (lines < wanted) throw new Error(`the export: ${lines} lines`);
  });
  return {
    title: `An export of ${wanted.toLocaleString("en")} signals, payloads in R2`,
    figures: [
      { name: "Export", value: cost.seconds, unit: "s" },
      { name: "Export, CPU", value: cost.cpuSeconds, unit: "s" },
    ],
    notes: [],
  };
}

/** Identifies a visitor and waits until the person has all points of the visitor's signals. */
async function link(
  bencher: Bencher,
  workspace: FilledWorkspace,
  anonymousId: string,
  email: string,
  sent: readonly string[],
): Promise<{ seconds: number; cpuSeconds: number }> {
  const points = sent.reduce((sum, payload) => sum + pointsOf(payload), 0);
  await sleep(QUIET_MS);
  return timed(bencher, async () => {
    const identify = { type: "identify", messageId: `identify-${anonymousId}`, anonymousId, traits: { email } };
    await send(bencher, workspace, [JSON.stringify(identify)]);
    await until(async () => (await scoreOf(bencher, workspace, email)) === points);
  });
}

async function timed(bencher: Bencher, act: () => Promise<void>): Promise<{ seconds: number; cpuSeconds: number }> {
  const [startedAt, cpu] = [performance.now(), bencher.running.cpuMicroseconds()];
  await act();
  return {
    seconds: (performance.now() - startedAt) / 1_000,
    cpuSeconds: (bencher.running.cpuMicroseconds() - cpu) / 1_000_000,
  };
}

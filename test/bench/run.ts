/**
 * The bench: this service next to a bare Worker and a straightforward one, on this machine, in one run.
 * `node test/bench/run.ts [--rounds 5] [--seconds 2] [--only <scenario>,…]`; fails on any answer but the expected one.
 * `node test/bench/run.ts growth [--rounds 31] [--signals 1000000]`: this service alone, small and large; see growth.ts.
 * `node test/bench/run.ts startup [--rounds 5]`: the CPU time of starting; see startup.ts.
 * `node test/bench/run.ts destinations [--rounds 5]`: this service alone, with two destinations and without; see destinations.ts.
 * `node test/bench/run.ts lapses`: a night in which the points of 10,000 people lapse; see lapses.ts.
 * `node test/bench/run.ts steps`: the steps of the store that take longest, each with its largest input; see steps.ts.
 * `node test/bench/run.ts file [--signals 1000000]`: the file of a workspace, written and read; see file.ts.
 * `node test/bench/run.ts profile [--only <scenario>] [--out <file>.cpuprofile]`: what takes the time; see profile.ts.
 * `node test/bench/run.ts store [--signals 1000000]`: what its Signal Store writes, keeps and takes; see store.ts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { SERVICE_CONFIG, benchWorker, build, type BuiltWorker } from "./build.ts";
import { BULK_BODIES, EDGE_MAX_GROWTH_BYTES, measureBulkMemory, type BulkMemory } from "./bulk-memory.ts";
import { LARGEST_BODIES } from "../support/largest-bodies.ts";
import { measureLargestCall, type LargestCall, tooLarge } from "./largest-calls.ts";
import {
  startService,
  startStraightforward,
  startYardstick,
  type BuiltWorkers,
  type Contestant,
} from "./contestants.ts";
import { MAX_PAGE_MS, tooSlow, MAX_RATIO, measureGrowth, sizesOf, tooDear } from "./growth.ts";
import { LoadGenerator } from "./load.ts";
import {
  reportBulkMemory,
  reportCpu,
  reportFigures,
  reportGrowth,
  reportHead,
  reportLargestCalls,
  reportLatencies,
  reportPages,
  reportProfile,
  reportStore,
} from "./report.ts";
import { SCENARIOS, measure, type Effort, type Figures, type Scenario } from "./scenarios.ts";
import { STARTUP_MAX_RATIO, measureStartup } from "./startup.ts";
import { missed } from "./figures.ts";
import { measureStore } from "./store.ts";
import { measureDestinations } from "./destinations.ts";
import { measureLapses } from "./lapses.ts";
import { measureSteps } from "./steps.ts";
import { measureFile } from "./file.ts";
import { measureProfile } from "./profile.ts";

const BULK_MEMORY = "bulk-memory";
const NAMES = [...SCENARIOS.map(({ name }) => name), BULK_MEMORY];

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    signals: { type: "string", default: "1000000" },
    rounds: { type: "string" },
    seconds: { type: "string", default: "2" },
    only: { type: "string" },
    out: { type: "string" },
  },
});
const isGrowth = positionals[0] === "growth";
// The cost of processing varies by a third between rounds.
const effort: Effort = { rounds: Number(flags.rounds ?? (isGrowth ? 31 : 5)), seconds: Number(flags.seconds) };
if (!(effort.rounds >= 1 && effort.seconds > 0)) throw new Error("--rounds and --seconds take positive numbers");
const only = flags.only?.split(",");
if (only?.some((name) => !NAMES.includes(name))) throw new Error(`--only takes some of ${NAMES.join(",")}`);
const chosen = (name: string): boolean => only?.includes(name) ?? true;

const scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-bench-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));

const failures: string[] = [];
try {
  if (isGrowth) await growth();
  else if (positionals[0] === "store") await store();
  else if (positionals[0] === "destinations") await destinations();
  else if (positionals[0] === "startup") await startup();
  else if (positionals[0] === "lapses") await lapses();
  else if (positionals[0] === "steps") await steps();
  else if (positionals[0] === "file") await file();
  else if (positionals[0] === "profile") await profile();
  else await all();
} catch (error) {
  failures.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
}
for (const failure of failures) console.error(`FAILED ${failure}`);
process.exit(failures.length === 0 ? 0 : 1);

async function growth(): Promise<void> {
  const signals = Number(flags.signals);
  const measured = await measureGrowth({ rounds: effort.rounds, signals }, scratch, failures);
  console.log(reportGrowth(measured.growth, sizesOf(signals), MAX_RATIO));
  console.log(reportPages(measured.pages, MAX_PAGE_MS));
  failures.push(...tooDear(measured.growth), ...tooSlow(measured.pages));
}

async function store(): Promise<void> {
  const parts = await measureStore(Number(flags.signals), scratch, failures, (part) => console.log(reportStore(part)));
  failures.push(...missed(parts));
}

async function destinations(): Promise<void> {
  const part = await measureDestinations(effort.rounds, scratch, failures);
  console.log(reportStore(part));
  failures.push(...missed([part]));
}

async function lapses(): Promise<void> {
  const part = await measureLapses(scratch);
  console.log(reportStore(part));
  failures.push(...missed([part]));
}

async function steps(): Promise<void> {
  const part = await measureSteps(scratch);
  console.log(reportStore(part));
  failures.push(...missed([part]));
}

async function file(): Promise<void> {
  const part = await measureFile(Number(flags.signals), scratch, failures);
  console.log(reportStore(part));
  failures.push(...missed([part]));
}

async function profile(): Promise<void> {
  const [wanted = "settled"] = only ?? [];
  const scenario = SCENARIOS.find(({ name }) => name === wanted);
  if (scenario === undefined) throw new Error("the profile takes one scenario");
  console.log(reportProfile(scenario, await measureProfile(scenario, effort, scratch, flags.out)));
}

async function startup(): Promise<void> {
  const { bare, straightforward, service } = await measureStartup(effort.rounds, scratch);
  const shown = [bare, straightforward, service].map((ms) => `${ms.toFixed(1)} ms`);
  console.log(`CPU of starting: bare ${shown[0]}, straightforward ${shown[1]}, this service ${shown[2]}.`);
  const ratio = service / bare;
  if (!(ratio <= STARTUP_MAX_RATIO))
    failures.push(`starting takes ${ratio.toFixed(1)} times as long as the bare Worker`);
}

async function all(): Promise<void> {
  const workers = await buildAll();
  console.log(reportHead(effort, workers.service.gzippedBytes));
  const measured = await compare(workers);
  console.log(reportFigures(measured));
  console.log(reportCpu(measured));
  console.log(reportLatencies(measured));
  if (chosen(BULK_MEMORY)) {
    await bulkMemory(workers);
    await largestCalls();
  }
}

async function buildAll(): Promise<BuiltWorkers> {
  return {
    service: await buildIn("service", SERVICE_CONFIG),
    bare: await buildIn("bare", benchWorker("bare.toml")),
    oneRow: await buildIn("one-row", benchWorker("one-row.toml")),
    straightforward: await buildIn("straightforward", benchWorker("straightforward.toml")),
    sink: await buildIn("sink", benchWorker("sink.toml")),
  };
}

function buildIn(name: string, config: string, entry?: string): Promise<BuiltWorker> {
  return build(config, path.join(scratch, "build", name), entry);
}

async function compare(workers: BuiltWorkers): Promise<{ scenario: Scenario; figures: Figures }[]> {
  const scenarios = SCENARIOS.filter(({ name }) => chosen(name));
  if (scenarios.length === 0) return [];
  const state = path.join(scratch, "state");
  const contestants: Contestant[] = [];
  const generator = new LoadGenerator();
  try {
    contestants.push(await startYardstick("bare", workers.bare, state));
    contestants.push(await startYardstick("one-row", workers.oneRow, state));
    contestants.push(await startStraightforward(workers, state));
    contestants.push(await startService("service", workers, state), await startService("admission", workers, state));
    const measured = [];
    for (const scenario of scenarios) {
      console.error(`… ${scenario.title}`);
      measured.push({ scenario, figures: await measure(scenario, contestants, generator, effort, failures) });
    }
    for (const contestant of contestants)
      failures.push(...(await contestant.audit()).map((wrong) => `${contestant.name}: ${wrong}`));
    return measured;
  } finally {
    generator.stop();
    await Promise.all(contestants.map(({ running }) => running.stop()));
  }
}

async function bulkMemory(workers: BuiltWorkers): Promise<void> {
  // A counter that stores nothing.
  const edge = await buildIn("edge", SERVICE_CONFIG, benchWorker("edge.ts"));
  const ofEdge = await measureBulks("edge", { ...workers, service: edge });
  const ofAll = await measureBulks("whole", workers);
  console.log(
    reportBulkMemory([
      { whose: "edge alone", maxGrowthBytes: EDGE_MAX_GROWTH_BYTES, measured: ofEdge },
      { whose: "whole service", maxGrowthBytes: null, measured: ofAll },
    ]),
  );
  for (const { title, hasBound, growthBytes } of ofEdge) {
    if (hasBound && growthBytes > EDGE_MAX_GROWTH_BYTES)
      failures.push(`${BULK_MEMORY}: the edge grew by ${growthBytes} bytes: ${title}`);
  }
}

/** The Quota Counter alone. */
async function largestCalls(): Promise<void> {
  const measured: LargestCall[] = [];
  for (const [index, body] of LARGEST_BODIES.entries()) {
    console.error(`… the largest body, Quota Counter: ${body.title}`);
    measured.push(await measureLargestCall(body, path.join(scratch, "largest-calls", String(index))));
  }
  console.log(reportLargestCalls(measured));
  failures.push(...measured.flatMap(tooLarge));
}

/** Each in a separate instance, because the heap of earlier load would hide the growth. */
async function measureBulks(whose: "edge" | "whole", workers: BuiltWorkers): Promise<BulkMemory[]> {
  const measured: BulkMemory[] = [];
  for (const [index, bulk] of BULK_BODIES.entries()) {
    console.error(`… the largest body, ${whose}: ${bulk.title}`);
    const stateDir = path.join(scratch, BULK_MEMORY, whose, String(index));
    // Nothing is stored, so that there is nothing to await or audit.
    const service = await startService(whose === "edge" ? "admission" : "service", workers, stateDir);
    try {
      measured.push(await measureBulkMemory(service, bulk));
      if (whose === "whole") failures.push(...(await service.audit()).map((wrong) => `${BULK_MEMORY}: ${wrong}`));
    } finally {
      await service.running.stop();
    }
  }
  return measured;
}

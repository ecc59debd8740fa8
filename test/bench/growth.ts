/**
 * `npm run bench -- growth`: the cost of a workspace with a million stored signals compared with workspaces of a
 * thousand, filled beforehand and measured in turn. Fails if the large one costs more than MAX_RATIO times a small
 * one.
 */
import { execFileSync } from "node:child_process";
import path from "node:path";
import { Bencher } from "./bencher.ts";
import { build } from "./build.ts";
import { measurePages } from "./growth-pages.ts";
import type { PageTime } from "./growth-pages.ts";
import { PROCESSED_SIGNALS, READS, ingestCalls, processingCalls } from "./growth-costs.ts";
import type { WorkspaceSize } from "./fill-order.ts";
import { VARS, fillWorkspaces } from "./growth-workspaces.ts";
import type { FilledWorkspace } from "./growth-workspaces.ts";
import { LoadGenerator } from "./load.ts";
import type { LoadCall } from "./load.ts";
import { median } from "./median.ts";
import { start } from "./start.ts";

export interface GrowthOptions {
  rounds: number;
  /** Signals of the large workspace, which has a tenth as many people. */
  signals: number;
}

/** Costs by size, in the order of the sizes. */
export interface Growth {
  name: string;
  unit: "ms a call" | "µs a signal";
  costs: number[];
}

export const MAX_RATIO = 1.3;
/** Calls per kind and round. */
const READ_CALLS = 30;

/** Small, small with as many rules as the large one (which shows the cost of rules), large. */
export function sizesOf(signals: number): WorkspaceSize[] {
  return [
    { signals: 1_000, people: 100, rules: 5 },
    { signals: 1_000, people: 100, rules: 500 },
    { signals, people: signals / 10, rules: 500 },
  ];
}

export async function measureGrowth(
  { rounds, signals }: GrowthOptions,
  scratch: string,
  failures: string[],
): Promise<{ growth: Growth[]; pages: PageTime[] }> {
  const bench = import.meta.dirname;
  const service = await build(path.join(bench, "../../wrangler.toml"), path.join(scratch, "build/service"));
  const filler = await build(path.join(bench, "workers/fill.toml"), path.join(scratch, "build/fill"));
  const stateDir = path.join(scratch, "state");
  const sizes = sizesOf(signals);
  const large = sizes.length - 1;
  // A new small workspace for each round and the warm-up, because a few rounds of signals would make it larger.
  const small = Array.from({ length: rounds + 1 }, () => sizes.slice(0, large)).flat();
  console.error(`… filling a workspace with ${signals.toLocaleString("en")} signals, and ${small.length} small ones`);
  const workspaces = await fillWorkspaces(service, filler, stateDir, [...small, ...sizes.slice(large)]);
  const ofRound = (round: number): FilledWorkspace[] => [
    ...workspaces.slice(round * large, (round + 1) * large),
    ...workspaces.slice(-1),
  ];

  const running = await start(service, { stateDir, vars: VARS });
  const generator = new LoadGenerator();
  const bencher = new Bencher("growth", running, generator, failures);
  const measured = new Map<string, { unit: Growth["unit"]; rounds: number[][] }>();
  let pages: PageTime[] = [];
  try {
    // Otherwise the system would write a gigabyte during the next measurement.
    execFileSync("sync");
    for (let round = 0; round <= rounds; round++) {
      console.error(round === 0 ? "… warming up" : `… round ${round} of ${rounds}`);
      for (const { name, unit, measure } of measuresOf(bencher, round)) {
        const costs: number[] = [];
        for (const workspace of ofRound(round)) costs.push(await measure(workspace));
        const all = measured.get(name) ?? { unit, rounds: [] };
        if (round > 0) all.rounds.push(costs);
        measured.set(name, all);
      }
    }
    console.error("… pages");
    for (const workspace of workspaces.slice(-1)) {
      pages = await measurePages(workspace, running.origin, VARS.OPERATOR_TOKEN, (calls) => bencher.load(calls));
    }
    for (const workspace of workspaces) failures.push(...(await bencher.audit(workspace)));
  } finally {
    generator.stop();
    await running.stop();
  }
  const growth = [...measured].map(([name, all]) => ({
    name,
    unit: all.unit,
    costs: sizes.map((_, index) => median(all.rounds.map((costs) => costs[index] ?? Number.NaN))),
  }));
  return { growth, pages };
}

/** Costs above the limit. */
export function tooDear(growth: Growth[]): string[] {
  return growth.flatMap(({ name, costs }) => {
    const ratio = ratiosOf(costs).reduce((most, candidate) => Math.max(most, candidate), 0);
    return ratio <= MAX_RATIO ? [] : [`growth: ${name}: ${ratio.toFixed(2)} times, more than ${MAX_RATIO}`];
  });
}

/** The ratios of the large one to each small one. */
export function ratiosOf(costs: number[]): number[] {
  return costs.slice(0, -1).map((cost) => (costs.at(-1) ?? Number.NaN) / cost);
}

interface Measure {
  name: string;
  unit: Growth["unit"];
  measure: (workspace: FilledWorkspace) => Promise<number>;
}

function measuresOf(bencher: Bencher, round: number): Measure[] {
  return [
    ...READS.map((read): Measure => {
      const callsOf = (workspace: FilledWorkspace): LoadCall[] =>
        Array.from({ length: READ_CALLS }, (_, index) => ({
          method: "GET",
          path: `/operator/workspaces/${workspace.id}/${read.path(workspace, round * READ_CALLS + index)}`,
          token: VARS.OPERATOR_TOKEN,
        }));
      return {
        name: read.name,
        unit: "ms a call",
        measure: async (level) => (await bencher.load(callsOf(level))).p50Ms,
      };
    }),
    {
      name: "Ingest, to the 202",
      unit: "ms a call",
      measure: async (workspace) => {
        const { p50Ms } = await bencher.load(ingestCalls(workspace));
        await bencher.settle(workspace);
        return p50Ms;
      },
    },
    {
      name: "Processing, CPU from the call to the settled row",
      unit: "µs a signal",
      measure: async (workspace) => {
        const before = bencher.running.cpuMicroseconds();
        await bencher.load(processingCalls(workspace));
        await bencher.settle(workspace);
        return (bencher.running.cpuMicroseconds() - before) / PROCESSED_SIGNALS;
      },
    },
  ];
}

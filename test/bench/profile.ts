/**
 * `npm run bench -- profile`: the functions of this service that take most processor time. Edge, counter, consumer and
 * store run in one isolate, so one profile has all of them.
 */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { SERVICE_CONFIG, benchWorker, build, buildReadable, type BuiltWorker } from "./build.ts";
import { startService } from "./contestants.ts";
import { inspect } from "./inspector.ts";
import { LoadGenerator } from "./load.ts";
import { once, type Effort, type Scenario } from "./scenarios.ts";

const INTERVAL_MICROSECONDS = 200;
/** The first sample after a pause of the isolate comes with the time of the pause. */
const SAMPLE_MAX_MICROSECONDS = 2 * INTERVAL_MICROSECONDS;
const FUNCTIONS_SHOWN = 10;
const MAIN_MODULE = "index.js";

interface CallFrame {
  functionName: string;
  /** The script: the bundle, or a module of the runtime; empty: native code. */
  url: string;
  lineNumber: number;
}

export interface Profile {
  nodes: { id: number; callFrame: CallFrame; children?: number[] }[];
  samples: number[];
  timeDeltas: number[];
}

export interface Cost {
  name: string;
  /** Microseconds. */
  self: number;
  /** With the functions that it calls. */
  total: number;
}

export interface Profiled {
  signals: number;
  functions: Cost[];
  /** By folder of the sources; packages and the runtime are one each. */
  folders: Cost[];
  busyMicroseconds: number;
}

/** @param out the file for the profile, which developer tools open as a flame graph; undefined: none. */
export async function measureProfile(
  scenario: Scenario,
  effort: Effort,
  scratch: string,
  out: string | undefined,
): Promise<Profiled> {
  const service = await buildReadable(SERVICE_CONFIG, path.join(scratch, "build", "readable"));
  const sink = await build(benchWorker("sink.toml"), path.join(scratch, "build", "sink"));
  const name = scenario.contestants.includes("service") ? "service" : "admission";
  const contestant = await startService(name, { service, sink }, path.join(scratch, "state"), {}, true);
  const generator = new LoadGenerator();
  const failures: string[] = [];
  const run = async (): Promise<void> => {
    const { result } = await once(scenario, contestant, generator, effort.seconds);
    failures.push(...Object.keys(result.failures));
  };
  try {
    // Lets the runtime compile what runs often.
    await run();
    const before = contestant.accepted;
    const profile = await inspect(contestant.running.miniflare, "worker", async (ask) => {
      await ask("Profiler.enable");
      await ask("Profiler.setSamplingInterval", { interval: INTERVAL_MICROSECONDS });
      await ask("Profiler.start");
      await run();
      return ((await ask("Profiler.stop")) as { profile: Profile }).profile;
    });
    if (failures.length > 0) throw new Error(`unexpected answers: ${failures.join(", ")}`);
    if (out !== undefined) await writeFile(out, JSON.stringify(profile));
    return summarise(profile, service, contestant.accepted - before);
  } finally {
    generator.stop();
    await contestant.running.stop();
  }
}

function summarise({ nodes, samples, timeDeltas }: Profile, worker: BuiltWorker, signals: number): Profiled {
  const sources = sourcesByLine(worker);
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const own = new Map<number, number>();
  for (const [index, id] of samples.entries()) {
    const worked = Math.min(timeDeltas[index] ?? 0, SAMPLE_MAX_MICROSECONDS);
    own.set(id, (own.get(id) ?? 0) + worked);
  }

  const functions = new Map<string, Cost>();
  const folders = new Map<string, Cost>();
  let busyMicroseconds = 0;
  /** @param open what the node is called from, so that recursion counts once. @returns the total. */
  const visit = (id: number, open: ReadonlySet<string>): number => {
    const node = byId.get(id);
    if (node === undefined || isIdle(node.callFrame)) return 0;
    const { callFrame, children = [] } = node;
    const isOfWorker = callFrame.url === MAIN_MODULE;
    const source = isOfWorker ? (sources[callFrame.lineNumber] ?? "") : callFrame.url || "(native)";
    const names = [
      [functions, `${callFrame.functionName || "(anonymous)"} ${source}`],
      [folders, isOfWorker ? folderOf(source) : "runtime"],
    ] as const;
    const within = new Set([...open, ...names.map(([, name]) => name)]);
    const self = own.get(id) ?? 0;
    const total = children.reduce((sum, child) => sum + visit(child, within), self);
    busyMicroseconds += self;
    for (const [costs, name] of names) {
      const cost = costs.get(name) ?? { name, self: 0, total: 0 };
      cost.self += self;
      if (!open.has(name)) cost.total += total;
      costs.set(name, cost);
    }
    return total;
  };
  const [root] = nodes;
  if (root !== undefined) for (const child of root.children ?? []) visit(child, new Set());
  return {
    signals,
    functions: largest(functions).slice(0, FUNCTIONS_SHOWN),
    folders: largest(folders),
    busyMicroseconds,
  };
}

function largest(costs: ReadonlyMap<string, Cost>): Cost[] {
  return [...costs.values()].toSorted((a, b) => b.self - a.self);
}

export function isIdle({ functionName }: CallFrame): boolean {
  return functionName === "(idle)" || functionName === "(program)";
}

/** The bundle names the file of the following lines in a comment. */
function sourcesByLine({ modules }: BuiltWorker): string[] {
  let source = "";
  return (modules[0]?.contents ?? "").split("\n").map((line) => {
    source = /^\/\/ ((?:src|node_modules)\/\S+)$/.exec(line)?.[1] ?? source;
    return source;
  });
}

function folderOf(source: string): string {
  if (!source.startsWith("src/")) return "packages";
  return path.dirname(source).split("/").slice(0, 3).join("/");
}

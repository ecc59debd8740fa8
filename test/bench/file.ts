/**
 * `npm run bench -- file`: the file of a workspace with a million signals. It is written by one service and read by another. A
 * profile shows how long a step keeps everything else waiting. Fails if a target is missed.
 */
import { execFileSync } from "node:child_process";
import path from "node:path";
import { WorkspaceFile } from "../../src/dev/workspace-file.ts";
import { SERVICE_CONFIG, benchWorker, build, type BuiltWorker } from "./build.ts";
import type { StoreFigure, StorePart } from "./figures.ts";
import { fillWorkspaces, VARS, type FilledWorkspace } from "./growth-workspaces.ts";
import { inspect } from "./inspector.ts";
import { OperatorApi } from "./operator-api.ts";
import { isIdle, type Profile } from "./profile.ts";
import { createTables, start, type RunningWorker } from "./start.ts";

const RULES = 20;
const MAX_PAUSE_S = 300;
const MAX_STEP_MS = 50;
const INTERVAL_MICROSECONDS = 200;
const PAUSE_MICROSECONDS = 5 * INTERVAL_MICROSECONDS;

export async function measureFile(signals: number, scratch: string, failures: string[]): Promise<StorePart> {
  const service = await build(SERVICE_CONFIG, path.join(scratch, "build/service"));
  const filler = await build(SERVICE_CONFIG, path.join(scratch, "build/fill"), benchWorker("fill.ts"));
  console.error(`… filling a workspace with ${signals.toLocaleString("en")} signals`);
  const source = path.join(scratch, "source");
  const size = { signals, people: signals / 10, rules: RULES };
  const [workspace] = await fillWorkspaces(service, filler, source, [size]);
  if (workspace === undefined) throw new Error("the workspace was not made");
  // Otherwise the system would write a gigabyte during the next measurement.
  execFileSync("sync");
  const folder = path.join(scratch, "file");
  const written = await withService(service, source, (running) => measureExport(running, workspace, folder));
  const read = await withService(service, path.join(scratch, "target"), (running) =>
    measureImport(running, workspace, folder, failures),
  );
  return {
    title: `The file of a workspace with ${signals.toLocaleString("en")} signals`,
    figures: [...written, ...read],
    notes: ["Both ends of each service share one process: edge, objects, D1 and R2."],
  };
}

async function withService<T>(
  service: BuiltWorker,
  stateDir: string,
  measure: (running: RunningWorker) => Promise<T>,
): Promise<T> {
  const running = await start(service, { stateDir, vars: VARS, inspected: true });
  try {
    return await measure(running);
  } finally {
    await running.stop();
  }
}

async function measureExport(running: RunningWorker, { id }: FilledWorkspace, folder: string): Promise<StoreFigure[]> {
  const api = new OperatorApi(running.origin, VARS.OPERATOR_TOKEN);
  // The first call loads code.
  await api.list("workspaces");
  const file = new WorkspaceFile({ origin: running.origin, token: VARS.OPERATOR_TOKEN });
  return figuresOf("Export", await observed(running, () => file.export(id, folder)));
}

async function measureImport(
  running: RunningWorker,
  { id, size }: FilledWorkspace,
  folder: string,
  failures: string[],
): Promise<StoreFigure[]> {
  await createTables(running);
  const api = new OperatorApi(running.origin, VARS.OPERATOR_TOKEN);
  await api.call("PUT", "plans/bench-0", { name: "bench-0", signal_limit: 1_000_000_000, paid: true });
  const file = new WorkspaceFile({ origin: running.origin, token: VARS.OPERATOR_TOKEN });
  const effects = await observed(running, () => file.import(folder, { "without-deletions": true }));
  const [copy] = await api.list<{ id: string }>("workspaces");
  const books = await api.books(copy?.id ?? id);
  if (!books.balanced || books.accepted !== size.signals) failures.push(`file: the copy has ${JSON.stringify(books)}`);
  return figuresOf("Import", effects);
}

interface Effects {
  seconds: number;
  longestMs: number;
  grownBytes: number;
}

function figuresOf(name: string, { seconds, longestMs, grownBytes }: Effects): StoreFigure[] {
  return [
    { name: `${name}, time`, value: seconds, unit: "s", atMost: MAX_PAUSE_S },
    { name: `${name}, longest step`, value: longestMs, unit: "ms", atMost: MAX_STEP_MS },
    { name: `${name}, growth of memory`, value: grownBytes / 1e6, unit: "MB" },
  ];
}

async function observed(running: RunningWorker, act: () => Promise<void>): Promise<Effects> {
  running.forgetPeak();
  const before = running.residentBytes();
  return inspect(running.miniflare, "worker", async (ask) => {
    await ask("Profiler.enable");
    await ask("Profiler.setSamplingInterval", { interval: INTERVAL_MICROSECONDS });
    await ask("Profiler.start");
    const startedAt = performance.now();
    await act();
    const seconds = (performance.now() - startedAt) / 1_000;
    const { profile } = (await ask("Profiler.stop")) as { profile: Profile };
    return { seconds, longestMs: longestStep(profile) / 1_000, grownBytes: running.peakBytes() - before };
  });
}

/** The longest time in microseconds in which the isolate does not pause. */
function longestStep({ nodes, samples, timeDeltas }: Profile): number {
  const idle = new Set(nodes.filter(({ callFrame }) => isIdle(callFrame)).map(({ id }) => id));
  let [longest, current] = [0, 0];
  for (const [index, id] of samples.entries()) {
    const delta = timeDeltas[index] ?? 0;
    // A sample after a pause comes with the time of the pause.
    current = idle.has(id) || delta > PAUSE_MICROSECONDS ? 0 : current + delta;
    longest = Math.max(longest, current);
  }
  return longest;
}

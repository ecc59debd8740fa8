/**
 * `npm run bench -- store`: the cost, writes and storage of the Signal Store with a million stored signals of 100,000
 * people, each figure next to its target. Fails if a target is missed, or if the books do not balance. The traffic:
 * store-traffic.ts.
 */
import { execFileSync } from "node:child_process";
import path from "node:path";
import { DAY_MS } from "../../src/domain/duration.ts";
import { Bencher } from "./bencher.ts";
import { build } from "./build.ts";
import type { BuiltWorker } from "./build.ts";
import { startStraightforward } from "./contestants.ts";
import { Filler, VARS, provision } from "./growth-workspaces.ts";
import type { FilledWorkspace, WantedWorkspace } from "./growth-workspaces.ts";
import type { TrafficName } from "./fill-order.ts";
import { LoadGenerator } from "./load.ts";
import { start } from "./start.ts";
import type { StorePart } from "./store-figures.ts";
import { measureDeletion, measureExport, measureLinking, measureReads, measureRule } from "./store-large.ts";
import { COUNTED_SIGNALS, countRows, measureHostile, sizeCold, sizeHere } from "./store-rows.ts";
import { SPEED_ROUNDS, measureFirst, measureLone, measureSpeed } from "./store-speed.ts";
import { SIGNALS_A_DAY, mixedRules } from "./store-traffic.ts";

const RULES = 20;
const PEOPLE_PER_SIGNAL = 0.1;
const MOST_NEW_SIGNALS = 100_000;
const MOST_LARGE_SIGNALS = 2_000;
/** One outbox row each, because the consumer gets ten messages at a time. */
const LARGE_BATCH = 10;

interface Workspaces {
  large: FilledWorkspace;
  warm: FilledWorkspace;
  new: FilledWorkspace;
  sized: FilledWorkspace;
  empty: FilledWorkspace[];
}

/** @param onPart gets each part as soon as it is known. */
export async function measureStore(
  signals: number,
  scratch: string,
  failures: string[],
  onPart: (part: StorePart) => void,
): Promise<StorePart[]> {
  const bench = import.meta.dirname;
  const buildIn = (name: string, config: string): Promise<BuiltWorker> =>
    build(path.join(bench, config), path.join(scratch, "build", name));
  const service = await buildIn("service", "../../wrangler.toml");
  const filler = await buildIn("fill", "workers/fill.toml");
  const straightforward = await buildIn("straightforward", "workers/straightforward.toml");
  const stateDir = path.join(scratch, "state");
  const parts: StorePart[] = [];
  const note = (part: StorePart): void => {
    parts.push(part);
    onPart(part);
  };
  const startFiller = (): Promise<Filler> => Filler.start(service, filler, stateDir);
  const workspaces = await provisionAll(service, stateDir, signals);

  const segments = await fillAndCount(workspaces, startFiller, note);
  for (const [title, workspace] of [
    ["Nothing that comes twice", workspaces.new],
    ["Signals of 64 KB", workspaces.sized],
  ] as const) {
    console.error(`… ${title}`);
    note(await withFiller(startFiller, (bencher) => measureHostile(bencher, workspace, title)));
  }
  console.error("… first recordings");
  note(await measureFirst(startFiller, workspaces.large, workspaces.warm));
  // Otherwise the system would write during the next measurement.
  execFileSync("sync");

  const { large, empty } = workspaces;
  const running = await start(service, { stateDir, vars: VARS });
  const generator = new LoadGenerator();
  const comparison = await startStraightforward({ straightforward }, path.join(scratch, "straightforward"));
  const bencher = new Bencher("store", running, generator, failures);
  try {
    for (const [title, measure] of [
      ["processing", () => measureSpeed(bencher, large, empty, comparison, generator)],
      ["lone signals", () => measureLone(bencher, large)],
      ["linking", () => measureLinking(bencher, large, segments)],
      ["reads", () => measureReads(bencher, large)],
      ["a rule on the past", () => measureRule(bencher, large)],
      ["an export", () => measureExport(bencher, large)],
      ["a deletion", () => measureDeletion(bencher, large)],
    ] as const) {
      console.error(`… ${title}`);
      note(await measure());
    }
    for (const stopped of [large, workspaces.warm, workspaces.new, workspaces.sized, ...empty])
      failures.push(...(await bencher.audit(stopped)));
    failures.push(...(await comparison.audit()).map((wrong) => `${comparison.name}: ${wrong}`));
  } finally {
    generator.stop();
    await Promise.all([running.stop(), comparison.running.stop()]);
  }
  return parts;
}

async function provisionAll(service: BuiltWorker, stateDir: string, signals: number): Promise<Workspaces> {
  // Later traffic continues at the same pace, up to now.
  const endMs = Date.now() - (COUNTED_SIGNALS / SIGNALS_A_DAY) * DAY_MS;
  const wanted = (traffic: TrafficName, filled: number, people = filled * PEOPLE_PER_SIGNAL): WantedWorkspace => ({
    size: { signals: filled, people, rules: RULES },
    traffic,
    rules: mixedRules(RULES),
    startMs: endMs - (Math.max(filled, 1) / SIGNALS_A_DAY) * DAY_MS,
    endMs,
  });
  const [large, warm, brandNew, sized, ...empty] = await provision(service, stateDir, [
    wanted("mixed", signals),
    wanted("mixed", 0, 100),
    wanted("new", Math.min(MOST_NEW_SIGNALS, signals)),
    wanted("large", Math.min(MOST_LARGE_SIGNALS, signals)),
    ...Array.from({ length: SPEED_ROUNDS + 1 }, () => wanted("mixed", 0, signals * PEOPLE_PER_SIGNAL)),
  ]);
  if (large === undefined || warm === undefined || brandNew === undefined || sized === undefined)
    throw new Error("not all workspaces were made");
  sized.order.batch = LARGE_BATCH;
  return { large, warm, new: brandNew, sized, empty };
}

/** @returns the number of segments that it has filled. */
async function fillAndCount(
  { large }: Workspaces,
  startFiller: () => Promise<Filler>,
  note: (part: StorePart) => void,
): Promise<number> {
  const { signals } = large.size;
  console.error(`… filling a workspace with ${signals.toLocaleString("en")} signals`);
  return withFiller(startFiller, async (filler) => {
    await filler.record(large.order);
    const filled = await filler.size(large);
    const size = sizeHere(filled, signals);
    await filler.cool(large);
    size.figures.push(...sizeCold(await filler.size(large), signals));
    note(size);
    console.error("… counting rows");
    note(await countRows(filler, large));
    return filled.segments;
  });
}

async function withFiller<T>(startFiller: () => Promise<Filler>, act: (filler: Filler) => Promise<T>): Promise<T> {
  const filler = await startFiller();
  try {
    return await act(filler);
  } finally {
    await filler.stop();
  }
}

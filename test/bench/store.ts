/**
 * `npm run bench -- store`: the cost, writes and storage of the Signal Store with a million stored signals of 100,000
 * people, each figure next to its target. Fails if a target is missed, or if the books do not balance. The traffic:
 * store-traffic.ts.
 */
import path from "node:path";
import { execFileSync } from "node:child_process";
import { DAY_MS } from "../../src/domain/duration.ts";
import { Bencher } from "./bencher.ts";
import { SERVICE_CONFIG, benchWorker, build, type BuiltWorker } from "./build.ts";
import { startStraightforward } from "./contestants.ts";
import type { StoreFigure, StorePart } from "./figures.ts";
import type { StoreSize, TrafficName, Written } from "./fill-order.ts";
import { Filler, provision, VARS, type FilledWorkspace, type WantedWorkspace } from "./growth-workspaces.ts";
import { LoadGenerator } from "./load.ts";
import { start } from "./start.ts";
import {
  measureDeletion,
  measureExport,
  measureLinking,
  measureReads,
  measureRule,
  measureFirst,
  measureLone,
  measureSpeed,
  SPEED_ROUNDS,
} from "./store-speed.ts";
import { mixedRules, SIGNALS_A_DAY } from "./store-traffic.ts";

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
  const buildTo = (name: string): string => path.join(scratch, "build", name);
  const service = await build(SERVICE_CONFIG, buildTo("service"));
  const filler = await build(SERVICE_CONFIG, buildTo("fill"), benchWorker("fill.ts"));
  const straightforward = await build(benchWorker("straightforward.toml"), buildTo("straightforward"));
  const stateDir = path.join(scratch, "state");
  const parts: StorePart[] = [];
  const note = (part: StorePart): void => {
    parts.push(part);
    onPart(part);
  };
  const startFiller = (): Promise<Filler> => Filler.start(filler, stateDir);
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

/** Signals per recording and in total: enough to seal many segments. */
const BATCHES = [
  { batch: 1, signals: 2_000, maxRows: 3.5 },
  { batch: 20, signals: 10_000, maxRows: 1.9 },
  { batch: 100, signals: 20_000, maxRows: 1.7 },
  { batch: 1_000, signals: 30_000, maxRows: 1.5 },
];
/** Signals per count. */
const COUNTED_SIGNALS = BATCHES.reduce((sum, { signals }) => sum + signals, 0);

const MAX_BYTES = 166;
const MAX_BYTES_COLD = 60;
/** Number of statements listed in a note. */
const STATEMENTS_NAMED = 8;
const MAX_ROW_BYTES = 1_500_000;
/** The workspace is filled in this many parts. After the first half the process may grow by at most this amount. */
const HOSTILE_PARTS = 10;
const MAX_GROWTH_MB = 64;
const MEGABYTE = 1024 * 1024;

/** Counts the rows of further traffic. The alarm rings as in production, and counts. */
async function countRows(filler: Filler, workspace: FilledWorkspace): Promise<StorePart> {
  const part: StorePart = { title: "Rows written in the Signal Store, a signal", figures: [], notes: [] };
  for (const { batch, signals, maxRows } of BATCHES) {
    const from = workspace.sent;
    workspace.sent += signals;
    const written = await filler.record({ ...workspace.order, from, to: workspace.sent, batch, alarms: true });
    const name = batch === 1 ? "Alone" : `In batches of ${batch.toLocaleString("en")}`;
    part.figures.push({ name, value: rowsOf(written) / signals, unit: "rows", atMost: maxRows });
    part.notes.push(`${name}: ${rowNote(written, signals)}.`);
  }
  return part;
}

function sizeHere(size: StoreSize, signals: number): StorePart {
  const note = `Of that values alone, a signal: ${tableNote(size, signals)}.`;
  return {
    title: "Bytes at rest, a signal",
    figures: [
      { name: "With payloads in the store", value: size.databaseBytes / signals, unit: "bytes", atMost: MAX_BYTES },
    ],
    notes: [note],
  };
}

function sizeCold(size: StoreSize, signals: number): StoreFigure[] {
  return [
    {
      name: "With payloads in R2: in the store",
      value: size.databaseBytes / signals,
      unit: "bytes",
      atMost: MAX_BYTES_COLD,
    },
    { name: "With payloads in R2: there", value: size.coldBytes / signals, unit: "bytes" },
  ];
}

/** Signals that share nothing, or of the maximum size: each has a bounded cost. */
async function measureHostile(filler: Filler, workspace: FilledWorkspace, title: string): Promise<StorePart> {
  const { order } = workspace;
  const { signals } = order.size;
  const resident: number[] = [];
  let rows = 0;
  const step = signals / HOSTILE_PARTS;
  for (let from = 0; from < signals; from += step) {
    rows += rowsOf(await filler.record({ ...order, from, to: from + step }));
    resident.push(filler.running.residentBytes());
  }
  const size = await filler.size(workspace);
  const half = resident[HOSTILE_PARTS / 2 - 1] ?? Number.NaN;
  const last = resident.at(-1) ?? Number.NaN;
  return {
    title: `${title}, ${signals.toLocaleString("en")} of them`,
    figures: [
      { name: `${title}: rows written, each`, value: rows / signals, unit: "rows" },
      { name: `${title}: bytes at rest, each`, value: size.databaseBytes / signals, unit: "bytes" },
      { name: `${title}: the longest row`, value: size.longestRow.bytes, unit: "bytes", atMost: MAX_ROW_BYTES },
      {
        name: `${title}: resident memory, second half`,
        value: Math.max(0, last - half) / MEGABYTE,
        unit: "MB",
        atMost: MAX_GROWTH_MB,
      },
    ],
    notes: [
      `The longest row is in ${size.longestRow.table}.`,
      `Resident after each tenth, in MB: ${resident.map((bytes) => Math.round(bytes / MEGABYTE)).join(", ")}.`,
    ],
  };
}

function rowsOf({ recording, linking, chores, alarms }: Written): number {
  return recording + linking + chores + alarms;
}

function rowNote(written: Written, signals: number): string {
  const each = (rows: number): string => (rows / signals).toFixed(3);
  const parts = (["recording", "linking", "chores", "alarms"] as const).map((part) => `${part} ${each(written[part])}`);
  const statements = Object.entries(written.statements)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, STATEMENTS_NAMED)
    .map(([statement, rows]) => `${statement} ${each(rows)}`);
  return `${parts.join(", ")}; most of it ${statements.join(", ")}`;
}

function tableNote({ tables }: StoreSize, signals: number): string {
  return Object.entries(tables)
    .filter(([, bytes]) => bytes / signals >= 0.5)
    .toSorted(([, a], [, b]) => b - a)
    .map(([table, bytes]) => `${table} ${(bytes / signals).toFixed(1)}`)
    .join(", ");
}

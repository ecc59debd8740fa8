/**
 * Rows and bytes that the Signal Store writes and keeps: rows written per signal, counted exactly by the filler, in a
 * workspace that is already large; stored bytes; and both for extreme traffic. The speed of the machine has no
 * effect.
 */
import type { StoreSize, Written } from "./fill-order.ts";
import type { FilledWorkspace, Filler } from "./growth-workspaces.ts";
import type { StoreFigure, StorePart } from "./store-figures.ts";

/** Signals per recording and in total: enough to seal many segments. */
const BATCHES = [
  { batch: 1, signals: 2_000, maxRows: 3.5 },
  { batch: 20, signals: 10_000, maxRows: 1.9 },
  { batch: 100, signals: 20_000, maxRows: 1.7 },
  { batch: 1_000, signals: 30_000, maxRows: 1.5 },
];
/** Signals per count. */
export const COUNTED_SIGNALS = BATCHES.reduce((sum, { signals }) => sum + signals, 0);

const MAX_BYTES = 150;
const MAX_BYTES_COLD = 60;
/** Number of statements listed in a note. */
const STATEMENTS_NAMED = 8;
const MAX_ROW_BYTES = 1_500_000;
/** The workspace is filled in this many parts. After the first half the process may grow by at most this amount. */
const HOSTILE_PARTS = 10;
const MAX_GROWTH_MB = 64;
const MEGABYTE = 1024 * 1024;

/** Counts the rows of further traffic. The alarm rings as in production, and counts. */
export async function countRows(filler: Filler, workspace: FilledWorkspace): Promise<StorePart> {
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

export function sizeHere(size: StoreSize, signals: number): StorePart {
  const note = `Of that values alone, a signal: ${tableNote(size, signals)}.`;
  return {
    title: "Bytes at rest, a signal",
    figures: [
      { name: "With payloads in the store", value: size.databaseBytes / signals, unit: "bytes", atMost: MAX_BYTES },
    ],
    notes: [note],
  };
}

export function sizeCold(size: StoreSize, signals: number): StoreFigure[] {
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
export async function measureHostile(filler: Filler, workspace: FilledWorkspace, title: string): Promise<StorePart> {
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

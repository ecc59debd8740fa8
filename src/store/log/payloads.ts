/** Payloads of lines, wherever they are: open, in a segment, or in R2. */
import type { ColdObjects } from "./cold-objects.ts";
import type { Log } from "./log.ts";
import { unpackPayloads } from "./packing.ts";
import type { Segment, SegmentRow } from "./segment.ts";

/** Objects that are read at a time: the platform opens six connections. */
const COLD_READS_AT_ONCE = 6;

/** Payloads by line, null where there is none; lines that cannot be had now are missing. */
export type Payloads = ReadonlyMap<number, string | null>;

/** Most bytes that one call of R2 reads: segments that lie together in an object come together. */
const MOST_BYTES_AT_ONCE = 4_000_000;

interface WantedLines {
  segment: Segment;
  seqs: readonly number[];
}

/** Payloads of lines, with as few calls of R2 as can be. Never throws. */
export async function readPayloads(log: Log, objects: ColdObjects, wanted: Iterable<WantedLines>): Promise<Payloads> {
  const payloads: Payload[] = [];
  const cold: WantedLines[] = [];
  for (const one of wanted) {
    const here = log.payloadsOf(one.segment);
    if (here === null) cold.push(one);
    else payloads.push(...wantedOf(one, here));
  }
  const reads = together(cold);
  while (reads.length > 0) {
    const some = reads.splice(0, COLD_READS_AT_ONCE);
    // oxlint-disable-next-line no-await-in-loop -- only so many at a time
    const found = await Promise.all(some.map((group) => readCold(log, objects, group)));
    payloads.push(...found.flat());
  }
  return new Map(payloads);
}

type Payload = readonly [seq: number, payload: string | null];

function wantedOf({ segment, seqs }: WantedLines, lines: readonly (string | null)[]): Payload[] {
  return seqs.map((seq) => [seq, lines[seq - segment.firstSeq] ?? null] as const);
}

/** Groups of segments that are in the same object, and near each other in it. */
function together(cold: readonly WantedLines[]): WantedLines[][] {
  const groups: WantedLines[][] = [];
  let [key, from]: [string | null, number] = [null, 0];
  for (const one of [...cold].sort((a, b) => placeOf(a).cold_offset - placeOf(b).cold_offset).sort(byObject)) {
    const { cold: object, cold_offset: offset, cold_bytes: bytes } = placeOf(one);
    if (object === key && offset + bytes - from <= MOST_BYTES_AT_ONCE) groups.at(-1)?.push(one);
    else {
      groups.push([one]);
      [key, from] = [object, offset];
    }
  }
  return groups;
}

function byObject(one: WantedLines, other: WantedLines): number {
  return (placeOf(one).cold ?? "").localeCompare(placeOf(other).cold ?? "");
}

async function readCold(log: Log, objects: ColdObjects, group: readonly WantedLines[]): Promise<Payload[]> {
  const payloads: Payload[] = [];
  const places = group.map(placeOf);
  const from = Math.min(...places.map((place) => place.cold_offset));
  const to = Math.max(...places.map((place) => place.cold_offset + place.cold_bytes));
  const bytes = await objects.read(places[0]?.cold ?? "", from, to - from);
  for (const one of group) {
    const { cold_offset: offset, cold_bytes: length } = placeOf(one);
    if (bytes !== null) {
      const here = unpackPayloads(bytes.subarray(offset - from, offset - from + length), one.segment.lines);
      payloads.push(...wantedOf(one, here));
      continue;
    }
    // A segment that was not read may have been moved meanwhile, into another object, which is then asked once.
    const now = log.segmentOf(one.segment.firstSeq);
    const moved = now?.row?.cold ?? null;
    if (now?.row === null || now?.row === undefined || moved === null || moved === placeOf(one).cold) continue;
    // oxlint-disable-next-line no-await-in-loop -- rare
    const again = await objects.read(moved, now.row.cold_offset, now.row.cold_bytes);
    if (again !== null) payloads.push(...wantedOf({ segment: now, seqs: one.seqs }, unpackPayloads(again, now.lines)));
  }
  return payloads;
}

function placeOf({ segment }: WantedLines): SegmentRow {
  if (segment.row === null) throw new Error("open lines are not in cold storage");
  return segment.row;
}

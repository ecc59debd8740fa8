/** Reads payloads of lines from the head, from segments, or from R2. */
import type { ColdObjects } from "./cold.ts";
import type { Log } from "./log.ts";
import { unpackPayloads } from "./packing.ts";
import type { Segment, SegmentRow } from "./segment.ts";

/** The platform opens six connections at a time. */
const COLD_READS_AT_ONCE = 6;
/** Maximum bytes of one call of R2. Neighbouring segments of an object are read together. */
const COLD_READ_MAX_BYTES = 4_000_000;

/** Payloads by line number; null: the line has none. Lines that cannot be read now are missing. */
export type Payloads = ReadonlyMap<number, string | null>;

type Payload = readonly [seq: number, payload: string | null];

interface WantedLines {
  segment: Segment;
  seqs: readonly number[];
}

interface ColdLines extends WantedLines {
  row: SegmentRow;
}

/** Reads payloads with as few calls of R2 as possible. Never throws. */
export async function readPayloads(log: Log, objects: ColdObjects, wanted: Iterable<WantedLines>): Promise<Payloads> {
  const payloads: Payload[] = [];
  const cold: ColdLines[] = [];
  for (const lines of wanted) {
    const stored = log.payloadsOf(lines.segment);
    if (stored !== null) payloads.push(...pick(lines, stored));
    else if (lines.segment.row !== null) cold.push({ ...lines, row: lines.segment.row });
  }
  const reads = groupNeighbours(cold);
  while (reads.length > 0) {
    const batch = reads.splice(0, COLD_READS_AT_ONCE);
    // oxlint-disable-next-line no-await-in-loop -- limits the connections
    const found = await Promise.all(batch.map((group) => readCold(log, objects, group)));
    payloads.push(...found.flat());
  }
  return new Map(payloads);
}

function pick({ segment, seqs }: WantedLines, payloads: readonly (string | null)[]): Payload[] {
  return seqs.map((seq) => [seq, payloads[seq - segment.firstSeq] ?? null] as const);
}

function groupNeighbours(cold: readonly ColdLines[]): ColdLines[][] {
  const groups: ColdLines[][] = [];
  let [object, from]: [string | null, number] = [null, 0];
  const sorted = cold.toSorted(
    (a, b) => (a.row.cold ?? "").localeCompare(b.row.cold ?? "") || a.row.cold_offset - b.row.cold_offset,
  );
  for (const lines of sorted) {
    const { cold: key, cold_offset: offset, cold_bytes: bytes } = lines.row;
    if (key === object && offset + bytes - from <= COLD_READ_MAX_BYTES) groups.at(-1)?.push(lines);
    else {
      groups.push([lines]);
      [object, from] = [key, offset];
    }
  }
  return groups;
}

async function readCold(log: Log, objects: ColdObjects, group: readonly ColdLines[]): Promise<Payload[]> {
  const from = Math.min(...group.map(({ row }) => row.cold_offset));
  const to = Math.max(...group.map(({ row }) => row.cold_offset + row.cold_bytes));
  const bytes = await objects.read(group[0]?.row.cold ?? "", from, to - from);
  if (bytes === null) {
    const payloads: Payload[] = [];
    // oxlint-disable-next-line no-await-in-loop -- rare, and limits the connections
    for (const lines of group) payloads.push(...(await readMoved(log, objects, lines)));
    return payloads;
  }
  return group.flatMap((lines) => {
    const start = lines.row.cold_offset - from;
    return pick(lines, unpackPayloads(bytes.subarray(start, start + lines.row.cold_bytes), lines.segment.lines));
  });
}

/** A segment that could not be read may have moved to another object meanwhile. Tries that object once. */
async function readMoved(log: Log, objects: ColdObjects, { segment, seqs, row }: ColdLines): Promise<Payload[]> {
  const now = log.segmentOf(segment.firstSeq);
  const place = now?.row ?? null;
  if (now === null || place === null || place.cold === null || place.cold === row.cold) return [];
  const bytes = await objects.read(place.cold, place.cold_offset, place.cold_bytes);
  return bytes === null ? [] : pick({ segment: now, seqs }, unpackPayloads(bytes, now.lines));
}

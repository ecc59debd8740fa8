/** Lines by their numbers, segment by segment, so that each is read once. */
import { isDropped } from "./line-remains.ts";
import type { Facts } from "./line.ts";
import type { Segment } from "./segment.ts";

export interface LinesOfSegment {
  segment: Segment;
  seqs: number[];
}

/** The segments of lines, each with those that it has, in ascending order. @param segmentOf null where a line is gone. */
export function* linesBySegment(
  seqs: Iterable<number>,
  segmentOf: (seq: number) => Segment | null,
): Generator<LinesOfSegment> {
  const sorted = [...new Set(seqs)].sort((one, other) => one - other);
  let found: LinesOfSegment | null = null;
  for (const seq of sorted) {
    if (found !== null && seq <= found.segment.lastSeq) {
      found.seqs.push(seq);
      continue;
    }
    if (found !== null) yield found;
    const segment = segmentOf(seq);
    found = segment && { segment, seqs: [seq] };
  }
  if (found !== null) yield found;
}

/** Facts of lines by their numbers; those that retention has deleted are missing. */
export function factsByNumber(lines: Iterable<LinesOfSegment>): Map<number, Facts> {
  const facts = new Map<number, Facts>();
  for (const { segment, seqs } of lines) {
    for (const seq of seqs) {
      const found = segment.facts(seq);
      if (!isDropped(found)) facts.set(seq, found);
    }
  }
  return facts;
}

/** The end of held signals (spec §3.2, §8.3): deleted at the end of their billing period, never counted as processed. */
import { purged } from "../log/line.ts";
import type { Lines } from "../log/lines.ts";
import type { Segment } from "../log/segment.ts";
import type { StoreState } from "../state/store-state.ts";
import { Blanking } from "./blanking.ts";

/** Rows that one purge turn deletes, so that an alarm never blocks the store for long. */
export const PURGE_ROWS = 2_000;

/**
 * When the held ones of some open lines end, and how many lines have been looked at for it. Lines are replaced as one where
 * any changes.
 */
const openEnds = new WeakMap<Lines, { seen: number; endMs: number }>();

/** Deletes names and payloads of held signals whose period has ended; it looks at PURGE_ROWS lines, or a segment more. */
export function purgeHeld(state: StoreState, nowMs: number): void {
  const { held } = state;
  const blanking = new Blanking(state);
  const purge = (segment: Segment): number => {
    blanking.blank(held, segment, dueLines(segment, nowMs), purged);
    return segment.length;
  };
  let left = PURGE_ROWS;
  if (openEndMs(state) <= nowMs) left -= purge(held.open());
  while (left > 0) {
    const [row] = held.rows("instr(statuses, 'h') > 0 AND period_end <= ? ORDER BY period_end LIMIT 1", nowMs);
    if (row === undefined) break;
    left -= purge(held.sealed(row));
    // Others of the segment may end later, or have been released: the row is made to say so.
    held.summariseAgain(row.first_seq);
  }
  blanking.write();
  state.signals.flush();
  held.flush();
}

/** When the next held signals end, in milliseconds since 1970; null when there are none. */
export function nextPurgeMs(state: StoreState): number | null {
  const { at } = state.sql
    .exec<{ at: number | null }>("SELECT min(period_end) AS at FROM held_segments WHERE instr(statuses, 'h') > 0")
    .one();
  const nextMs = Math.min(at ?? Number.POSITIVE_INFINITY, openEndMs(state));
  return nextMs === Number.POSITIVE_INFINITY ? null : nextMs;
}

/** Numbers of the lines whose period has ended: a segment may hold signals of several periods. */
function dueLines(segment: Segment, nowMs: number): number[] {
  return segment.seqs().filter((seq) => {
    const { status, admission } = segment.facts(seq);
    return status === "held" && admission.periodEndMs <= nowMs;
  });
}

function openEndMs({ held }: StoreState): number {
  const { lines } = held.open();
  const known = openEnds.get(lines) ?? { seen: 0, endMs: Number.POSITIVE_INFINITY };
  for (; known.seen < lines.length; known.seen++) {
    const { status, admission } = lines.facts(known.seen);
    if (status === "held") known.endMs = Math.min(known.endMs, admission.periodEndMs);
  }
  openEnds.set(lines, known);
  return known.endMs;
}

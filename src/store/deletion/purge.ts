/** The end of held signals (spec §3.2, §8.3): deleted at the end of their billing period, never counted as processed. */
import { RULE_STEP_SEGMENTS } from "../../limits.ts";
import { afterPurge } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import type { StoreState } from "../state/store-state.ts";
import { Blanking } from "./blanking.ts";

/** Rows purged per step, so that an alarm never blocks the store for long. */
export const PURGE_ROWS = 2_000;

/**
 * Deletes names and payloads of held signals whose period has ended; it looks at PURGE_ROWS lines, or a segment more, and at
 * RULE_STEP_SEGMENTS segments at most: a segment of large signals has few lines.
 */
export function purgeHeld(state: StoreState, nowMs: number): void {
  const { held } = state;
  const blanking = new Blanking(state);
  for (let [left, segments] = [PURGE_ROWS, 0]; left > 0 && segments < RULE_STEP_SEGMENTS; segments++) {
    const segment = held.ended(nowMs);
    if (segment === null) break;
    blanking.blank(held, segment, dueLines(segment, nowMs), afterPurge);
    left -= segment.length;
    // Updates the row of a sealed segment, because its other lines may end later or have been released.
    if (segment.row !== null) held.summariseAgain(segment.firstSeq);
  }
  blanking.write();
  state.signals.flush();
  held.flush();
}

/** When the next held signals end, in milliseconds since 1970; null when there are none. */
export function nextPurgeMs({ held }: StoreState): number | null {
  return held.nextEndMs();
}

/** Numbers of the lines whose period has ended: a segment may hold signals of several periods. */
function dueLines(segment: Segment, nowMs: number): number[] {
  return segment.seqs().filter((seq) => {
    const { status, admission } = segment.facts(seq);
    return status === "held" && admission.periodEndMs <= nowMs;
  });
}

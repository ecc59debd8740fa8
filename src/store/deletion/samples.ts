/** The sample of each group of the signal queue, where the line that it was keeps nothing any more. */
import { keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Sample } from "../state/event-group-changes.ts";
import { isLater } from "../receipt.ts";
import type { Receipt } from "../receipt.ts";
import type { StoreState } from "../state/store-state.ts";

/** Signals of an event, the latest, among which a sample is looked for in place of one that was deleted. */
export const SAMPLE_MAX_SIGNALS = 1_000;
/** Segments, expanded one by one, in which a sample is looked for: some 20 ms. */
const SAMPLE_MAX_SEGMENTS = 64;
/** Groups for which one step looks for another sample; those beyond keep one that has no payload any more. */
const SAMPLE_MAX_GROUPS = 40;

/** A line that keeps nothing any more; a negative number is one of the log of held signals. */
export interface GoneLine {
  event: string;
  source: string;
  seq: number;
}

interface Candidate extends Sample {
  receipt: Receipt;
}

/**
 * Gives groups a new sample where one of these lines was theirs: the latest line of the group that still has a payload. Only
 * the latest lines are looked at; if none of them is the group's, nothing changes.
 */
export function replaceSamples(state: StoreState, gone: readonly GoneLine[]): void {
  const groups = Map.groupBy(gone, ({ event, source }) => `${source.length} ${source}${event}`);
  let looks = SAMPLE_MAX_GROUPS;
  for (const lines of groups.values()) {
    const [{ event, source } = { event: "", source: "" }] = lines;
    const [stored] = state.sql.exec<{ sample_seq: number }>(
      "SELECT sample_seq FROM event_groups WHERE event = ? AND source = ?",
      event,
      source,
    );
    if (!lines.some(({ seq }) => seq === stored?.sample_seq)) continue;
    if (looks-- === 0) return;
    const sample = later(latestOf(state.signals, event, source), latestOf(state.held, event, source));
    if (sample === null) continue;
    state.sql.exec(
      "UPDATE event_groups SET sample_id = ?, sample_seq = ? WHERE event = ? AND source = ?",
      sample.id,
      sample.seq,
      event,
      source,
    );
  }
}

function latestOf(log: Log, event: string, source: string): Candidate | null {
  let [segments, lines] = [0, 0];
  for (const segment of log.walkBack(Number.MAX_SAFE_INTEGER, { event, source })) {
    for (const seq of segment.seqsWith("event", event).toReversed()) {
      const facts = segment.facts(seq);
      if (facts.kind === "signal" && facts.event === event && facts.source === source && keepsPayload(facts)) {
        const { id, receivedAtMs, ordinal } = facts.admission;
        return { id, seq: log.name === "held" ? -seq : seq, receipt: { receivedAtMs, ordinal } };
      }
      if (++lines >= SAMPLE_MAX_SIGNALS) return null;
    }
    if (++segments >= SAMPLE_MAX_SEGMENTS) return null;
  }
  return null;
}

function later(one: Candidate | null, other: Candidate | null): Candidate | null {
  if (one === null || other === null) return one ?? other;
  return isLater(other.receipt, one.receipt) ? other : one;
}

/**
 * Removes all content of lines except their place in the books and their event's name. Facts, payloads, lists, books
 * and groups change together. Facts change at once; `write` writes the sums.
 */
import { scrubCold } from "../log/cold.ts";
import { type Facts, keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";
import {
  changeStatus,
  countedSignal,
  groupKey,
  groupOf,
  type Sample,
  standingOf,
  updateGroups,
} from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { VisitorLists } from "../people/timelines.ts";

export interface Blanked {
  seq: number;
  /** The line's facts as they were. */
  facts: Facts;
}

export class Blanking {
  readonly #state: StoreState;
  readonly #lists = new VisitorLists();
  readonly #gone: GoneLine[] = [];
  /** Number of cold objects with a copy of one of the lines, without those already queued for rewriting. */
  coldObjects = 0;

  constructor(state: StoreState) {
    this.#state = state;
  }

  /**
   * Removes content from lines of a segment.
   *
   * @param become the remaining content of a line. @returns the previous lines, without those that were already
   * empty.
   */
  blank(log: Log, segment: Segment, seqs: Iterable<number>, become: (facts: Facts) => Facts): Blanked[] {
    const lines = Array.from(seqs, (seq) => ({ seq, facts: segment.facts(seq) })).filter(({ facts }) =>
      keepsPayload(facts),
    );
    if (lines.length === 0) return [];
    const changes = new Map<number, Facts>();
    for (const { seq, facts } of lines) {
      const after = become(facts);
      changes.set(seq, after);
      changeStatus(this.#state.books, countedSignal(facts), standingOf(facts), standingOf(after));
      this.#leave(log, seq, facts);
    }
    if (segment.coldObject === null) log.blank(segment, changes.keys());
    else this.coldObjects += scrubCold(this.#state.sql, [segment]);
    log.rewrite(segment, changes);
    return lines;
  }

  write(): void {
    const { sql } = this.#state;
    // Replace samples last, so that a removed one cannot be chosen again.
    updateGroups(this.#state);
    this.#lists.write(sql);
    replaceSamples(this.#state, this.#gone);
  }

  #leave(log: Log, seq: number, facts: Facts): void {
    if (log.name === "signals") this.#lists.drop(seq, facts);
    const group = groupOf(facts);
    if (group !== null) this.#gone.push({ ...group, seq: log.name === "held" ? -seq : seq });
  }
}

// The sample of each group of the signal queue, where the line that it was keeps nothing any more.

/** Latest signals of an event among which a replacement for a deleted sample is searched. */
export const SAMPLE_MAX_SIGNALS = 1_000;
/** Segments unpacked one by one to find a sample: some 20 ms. */
const SAMPLE_MAX_SEGMENTS = 64;
/** Groups per step that get a new sample; further ones keep a sample without payload. */
const SAMPLE_MAX_GROUPS = 40;

/** An emptied line; a negative number belongs to the log of held signals. */
interface GoneLine {
  event: string;
  source: string;
  seq: number;
}

interface Candidate extends Sample {
  receipt: ReceivedOrder;
}

/**
 * Replaces the samples of groups that were among these lines by the group's latest line with a payload. Only the
 * latest lines are searched; without a match nothing changes.
 */
function replaceSamples(state: StoreState, gone: readonly GoneLine[]): void {
  const groups = Map.groupBy(gone, groupKey);
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

/** @param source of the group; empty where those of its signals tell whose they are, which segments do not know. */
function latestOf(log: Log, event: string, source: string): Candidate | null {
  let [segments, lines] = [0, 0];
  for (const segment of log.walkBack(Number.MAX_SAFE_INTEGER, { event, source: source || undefined })) {
    for (const seq of segment.seqsWith("event", event).toReversed()) {
      const facts = segment.facts(seq);
      const group = groupOf(facts);
      if (group?.event === event && group.source === source && keepsPayload(facts)) {
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

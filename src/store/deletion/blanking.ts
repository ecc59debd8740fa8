/**
 * Lines of which nothing may be kept but their place in the books, and the name of their event: facts, payloads, lists,
 * books and groups change together. Facts change at once; `write` writes what they add up to.
 */
import { scrubCold } from "../log/cold.ts";
import { type Facts, keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";
import { EventGroupChanges, type Sample, updateGroups } from "../state/event-group-changes.ts";
import { changeStatus, countedSignal, groupOf, type SignalCounts, standingOf } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { VisitorLists } from "../people/visitor-lists.ts";

export interface Blanked {
  seq: number;
  /** The line's facts as they were. */
  facts: Facts;
}

export class Blanking {
  readonly #state: StoreState;
  readonly #groups = new EventGroupChanges();
  readonly #lists = new VisitorLists();
  readonly #gone: GoneLine[] = [];
  /** How many objects of cold storage have a copy of one of the lines, but for those that were to be rewritten already. */
  coldObjects = 0;

  constructor(state: StoreState) {
    this.#state = state;
  }

  /** What counts the signals that this is about. `write` writes the groups. */
  get counts(): SignalCounts {
    return { books: this.#state.books, groups: this.#groups };
  }

  /**
   * Takes from lines of a segment what must not be kept.
   *
   * @param become what is left of a line.
   * @returns the lines as they were, without those that keep nothing already.
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
      changeStatus(this.counts, countedSignal(facts), standingOf(facts), standingOf(after));
      this.#leave(log, seq, facts);
    }
    if (segment.coldObject === null) log.blank(segment, changes.keys());
    else this.coldObjects += scrubCold(this.#state.sql, [segment]);
    log.rewrite(segment, changes);
    return lines;
  }

  write(): void {
    const { sql } = this.#state;
    this.#groups.write(this.#state);
    // Samples are replaced last: one that is gone must not come back.
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

/** Signals of an event, the latest, among which a sample is looked for in place of one that was deleted. */
export const SAMPLE_MAX_SIGNALS = 1_000;
/** Segments, expanded one by one, in which a sample is looked for: some 20 ms. */
const SAMPLE_MAX_SEGMENTS = 64;
/** Groups for which one step looks for another sample; those beyond keep one that has no payload any more. */
const SAMPLE_MAX_GROUPS = 40;

/** A line that keeps nothing any more; a negative number is one of the log of held signals. */
interface GoneLine {
  event: string;
  source: string;
  seq: number;
}

interface Candidate extends Sample {
  receipt: ReceivedOrder;
}

/**
 * Gives groups a new sample where one of these lines was theirs: the latest line of the group that still has a payload. Only
 * the latest lines are looked at; if none of them is the group's, nothing changes.
 */
function replaceSamples(state: StoreState, gone: readonly GoneLine[]): void {
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

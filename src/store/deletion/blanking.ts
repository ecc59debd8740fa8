/**
 * Lines of which nothing may be kept but their place in the books, and the name of their event: facts, payloads, lists,
 * books and groups change together. Facts change at once; `write` writes what they add up to.
 */
import { scrubCold } from "../log/cold-removals.ts";
import type { Facts } from "../log/line.ts";
import { keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { EventGroupChanges, updateGroups } from "../state/event-group-changes.ts";
import { changeStatus, countedSignal, standingOf } from "../state/status-change.ts";
import type { SignalCounts } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { replaceSamples } from "./samples.ts";
import type { GoneLine } from "./samples.ts";
import { VisitorLists } from "./visitor-lists.ts";

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
    const { kind, event, source } = facts;
    if (log.name === "signals") this.#lists.remove(seq, facts);
    if (kind === "signal" && event !== null) {
      this.#gone.push({ event, source: source ?? "", seq: log.name === "held" ? -seq : seq });
    }
  }
}

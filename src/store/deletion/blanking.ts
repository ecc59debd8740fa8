/**
 * Lines of which nothing may be kept but their place in the books, and the name of their event: facts, payloads, lists,
 * books and groups change together. Facts change at once; `write` writes what they add up to.
 */
import { scrubCold } from "../log/cold.ts";
import type { Facts } from "../log/line.ts";
import { keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { COLUMN_OF, countInBooks } from "../record/books.ts";
import { EventGroupChanges, settleGroups } from "../record/event-groups.ts";
import type { StoreState } from "../state.ts";
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
      this.#count(facts, after);
      this.#leave(log, seq, facts);
    }
    const { row } = segment;
    if (row === null || row.cold === null) log.blank(segment, changes.keys());
    else this.coldObjects += scrubCold(this.#state.sql, [row]);
    log.rewrite(segment, changes);
    return lines;
  }

  write(): void {
    const { sql } = this.#state;
    this.#groups.write(this.#state);
    // Samples are settled last: one that is gone must not come back.
    settleGroups(this.#state);
    this.#lists.write(sql);
    replaceSamples(this.#state, this.#gone);
  }

  #count({ admission, status, kind, event, source }: Facts, after: Facts): void {
    const { totals } = this.#state.books;
    if (status === "released" || after.status === "released") return;
    const [from, to] = [COLUMN_OF[status], COLUMN_OF[after.status]];
    if (from !== to) {
      countInBooks(totals, admission.periodStartMs, from, -1);
      countInBooks(totals, admission.periodStartMs, to, 1);
    }
    if (kind !== "signal" || event === null) return;
    // What is left of the line is of no group: its source is forgotten.
    const by = { count: -1, held: -Number(status === "held"), anonymous: -Number(status === "anonymous") };
    this.#groups.count(event, source ?? "", by, admission.receivedAtMs);
  }

  #leave(log: Log, seq: number, facts: Facts): void {
    const { kind, event, source } = facts;
    if (log.name === "signals") this.#lists.remove(seq, facts);
    if (kind === "signal" && event !== null) {
      this.#gone.push({ event, source: source ?? "", seq: log.name === "held" ? -seq : seq });
    }
  }
}

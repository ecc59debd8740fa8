/**
 * Removes the content of lines. Their places in the books and the names of their events stay. Facts and payloads change at once;
 * `flush` writes timelines, groups and samples.
 */
import { isLater } from "../../wire/message.ts";
import { keepsPayload, type SignalFacts } from "../log/line.ts";
import type { LinesOfPortion, NumberedLine, SignalLog } from "../log/signal-log.ts";
import { VisitorLists } from "../people/identities.ts";
import {
  changeStatus,
  countedSignal,
  groupKey,
  groupOf,
  countedStatusOf,
  updateGroups,
  type GroupName,
} from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";

/** A new sample is searched among these latest signals and portions of an event: some 20 ms. */
const SAMPLE_MAX_SIGNALS = 1_000;
const SAMPLE_MAX_PORTIONS = 64;
/** Groups per step that get a new sample. Other groups keep a sample without a payload. */
const SAMPLE_MAX_GROUPS = 40;

export class Blanking {
  readonly #state: StoreState;
  readonly #lists = new VisitorLists();
  /** Groups of blanked lines, with the lines as samples. */
  readonly #blanked = new Map<string, { group: GroupName; seqs: Set<number> }>();
  /** Number of objects in R2 that had no deleted payload before. */
  coldObjects = 0;

  constructor(state: StoreState) {
    this.#state = state;
  }

  /** Returns the lines that had content, as they were. @param reduce returns the facts that are left. */
  blank(
    log: SignalLog,
    { portion, seqs }: LinesOfPortion,
    reduce: (facts: SignalFacts) => SignalFacts,
  ): NumberedLine[] {
    const lines = seqs.map((seq) => ({ seq, facts: portion.facts(seq) })).filter(({ facts }) => keepsPayload(facts));
    if (lines.length === 0) return [];
    const changes = new Map<number, SignalFacts>();
    for (const { seq, facts } of lines) {
      const after = reduce(facts);
      const group = groupOf(facts);
      changes.set(seq, after);
      changeStatus(this.#state.head, countedSignal(facts), countedStatusOf(facts), countedStatusOf(after));
      if (log.name === "signals") this.#lists.drop(seq, facts);
      if (group === null) continue;
      const key = groupKey(group);
      const ofGroup = this.#blanked.get(key) ?? { group, seqs: new Set() };
      ofGroup.seqs.add(sampleSeq(log, seq));
      this.#blanked.set(key, ofGroup);
    }
    this.coldObjects += log.rewrite(portion, changes);
    return lines;
  }

  flush(): void {
    updateGroups(this.#state);
    this.#lists.flush(this.#state.sql);
    this.#replaceSamples();
  }

  /** Replaces samples that are now empty by the latest line of their group with a payload. */
  #replaceSamples(): void {
    const { sql, signals, held } = this.#state;
    let searches = SAMPLE_MAX_GROUPS;
    for (const { group, seqs } of this.#blanked.values()) {
      const [row] = sql.exec<{ sample_seq: number }>(
        "SELECT sample_seq FROM event_groups WHERE event = ? AND source = ?",
        group.event,
        group.source,
      );
      if (row === undefined || !seqs.has(row.sample_seq)) continue;
      if (searches-- === 0) return;
      const [processed, waiting] = [findSample(signals, group), findSample(held, group)];
      const isHeld =
        processed === null || (waiting !== null && isLater(waiting.facts.admission, processed.facts.admission));
      const sample = isHeld ? waiting : processed;
      if (sample === null) continue;
      sql.exec(
        "UPDATE event_groups SET sample_id = ?, sample_seq = ? WHERE event = ? AND source = ?",
        sample.facts.admission.id,
        sample.seq,
        group.event,
        group.source,
      );
    }
  }
}

/** Null: none of the latest lines has a payload. `seq` is as `sample_seq` in the table `event_groups`: negative for a held line. */
function findSample(log: SignalLog, { event, source }: GroupName): NumberedLine | null {
  let [portions, lines] = [0, 0];
  // The signals of a group without a source have sources that name persons, so the walk cannot filter by source.
  for (const portion of log.walk({ before: Number.MAX_SAFE_INTEGER }, { event, source: source || undefined })) {
    for (const seq of portion.seqs.toReversed()) {
      const facts = portion.facts(seq);
      if (groupOf(facts)?.source === source && keepsPayload(facts)) return { facts, seq: sampleSeq(log, seq) };
      if (++lines >= SAMPLE_MAX_SIGNALS) return null;
    }
    if (++portions >= SAMPLE_MAX_PORTIONS) return null;
  }
  return null;
}

function sampleSeq(log: SignalLog, seq: number): number {
  return log.name === "held" ? -seq : seq;
}

/** Counts the times and traits of persons again from the lines that are left, where they came from lines taken from them. */
import { isDropped } from "../log/line-remains.ts";
import { deletedUntilMs } from "../state/deleted-until.ts";
import type { StoreState } from "../state/store-state.ts";
import type { People } from "./people.ts";
import { allEntries } from "./timelines.ts";
import { personList } from "./visitor-keys.ts";

/** Writes what has changed, then counts again, from what is stored now, and writes that. */
export function writeAndRecount(state: StoreState, people: People): void {
  people.write();
  if (people.toRecount.size === 0) return;
  const { sql, signals } = state;
  for (const personId of people.toRecount) {
    const entries = allEntries(sql, personList(personId), people.recentOf(personId));
    const oldest = signals.firstSeq;
    const seqs = entries.map(({ seq }) => seq).filter((seq) => seq >= oldest);
    people.recount(personId, linesOf(state, seqs), deletedUntilMs(sql));
  }
  people.toRecount.clear();
  people.write();
}

/** Receipts and traits of lines, one after the other: somebody may have a hundred thousand. */
function* linesOf({ signals }: StoreState, seqs: readonly number[]) {
  for (const { segment, seqs: here } of signals.segmentsOf(seqs)) {
    for (const seq of here) {
      const facts = segment.facts(seq);
      if (!isDropped(facts)) yield { receipt: facts.admission, traits: facts.traits };
    }
  }
}

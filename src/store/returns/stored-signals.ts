/** Stored signals that are to be sent through the queue once more: held ones that are released, dead letters replayed. */
import type { Facts } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import type { StoredSignal } from "../protocol/signals-to-record.ts";
import { admissionOf } from "../record/dead-letters.ts";
import type { DeadLetterRow } from "../record/dead-letters.ts";
import type { StoreState } from "../state/store-state.ts";

interface HeldLine {
  seq: number;
  facts: Facts;
  segment: Segment;
}

/** Where a page begins, and the last place from which a signal is taken. */
export interface PlacesToRead {
  cursor: number;
  last: number;
}

/**
 * Held signals of the billing period that ends then, by ordinal: the oldest first. Segments are in order of recording, which
 * is nearly that of the ordinals: they are read by their first ordinal, until none that is left can have an earlier one.
 *
 * @param places the cursor is the ordinal before.
 */
export function heldSignals(
  { held }: StoreState,
  periodEndMs: number,
  { cursor, last: lastPlace }: PlacesToRead,
  limit: number,
): StoredSignal[] {
  const isWanted = ({ status, admission }: Facts, seq: number): boolean =>
    status === "held" && seq <= lastPlace && admission.periodEndMs === periodEndMs && admission.ordinal > cursor;
  let first = linesOf(held.open(), isWanted).slice(0, limit);
  for (const { firstOrdinal, read } of held.byOrdinal(periodEndMs, cursor)) {
    const last = first[limit - 1];
    if (last !== undefined && last.facts.admission.ordinal < firstOrdinal) break;
    first = [...first, ...linesOf(read(), isWanted)].sort(byOrdinal).slice(0, limit);
  }
  return first.map(({ seq, facts, segment }) => ({
    admission: facts.admission,
    payload: held.payloadsOf(segment)?.[seq - segment.firstSeq] ?? missing(),
    from: "held",
    place: seq,
    cursor: facts.admission.ordinal,
  }));
}

function linesOf(segment: Segment, isWanted: (facts: Facts, seq: number) => boolean): HeldLine[] {
  return segment
    .seqs()
    .map((seq) => ({ seq, facts: segment.facts(seq), segment }))
    .filter(({ facts, seq }) => isWanted(facts, seq))
    .sort(byOrdinal);
}

function byOrdinal(one: HeldLine, other: HeldLine): number {
  return one.facts.admission.ordinal - other.facts.admission.ordinal;
}

/** Dead letters, in the order in which they were recorded. */
export function deadSignals({ sql }: StoreState, { cursor, last }: PlacesToRead, limit: number): StoredSignal[] {
  const rows = sql.exec<DeadLetterRow>(
    "SELECT * FROM dead_letters WHERE status = 'dead' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
    cursor,
    last,
    limit,
  );
  return rows.toArray().map(toStored);
}

/** The dead letters among these signals. */
export function deadSignalsById({ sql }: StoreState, ids: string[]): StoredSignal[] {
  const rows = sql.exec<DeadLetterRow>(
    "SELECT * FROM dead_letters WHERE id IN (SELECT value FROM json_each(?)) AND status = 'dead'",
    JSON.stringify(ids),
  );
  return rows
    .toArray()
    .map(toStored)
    .sort((one, other) => one.place - other.place);
}

function toStored(row: DeadLetterRow): StoredSignal {
  return {
    admission: admissionOf(row),
    payload: row.payload ?? missing(),
    from: "dead",
    place: row.seq,
    cursor: row.seq,
  };
}

function missing(): never {
  throw new Error("a signal that may come again has lost its payload");
}

/** Scores of a person's signals, read from the list of their signals, including dropped signals. */
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { Facts } from "../log/line.ts";
import { readEntries, latestEntries } from "../people/timelines.ts";
import type { Entry, Scored } from "../people/timelines.ts";
import { keyOf, personList } from "../people/visitors.ts";
import type { ScoringSignal } from "../protocol/people-and-accounts.ts";
import type { StoreState } from "../state/store-state.ts";

/** Entries that are read at a time. */
const ENTRIES_AT_ONCE = 1_000;

export interface ListedPerson {
  id: number;
  /** The latest entries of the person's list, as their row has them. */
  recent: string;
}

export type ScoredEntry = Entry & { scored: Scored };

export function isScored(entry: Entry): entry is ScoredEntry {
  return entry.scored !== null;
}

/** An entry with those outcomes that count: a rule may have scored the person before. */
export function counting({ once, outcomes }: StoreState, personId: number, entry: Entry): Entry {
  const { seq, scored } = entry;
  if (scored === null) return entry;
  const counts = scored.outcomes.filter((id) => once.counts(personId, scored, outcomes.get(id)));
  if (counts.length === scored.outcomes.length) return entry;
  return { seq, scored: counts.length === 0 ? null : { ...scored, outcomes: counts } };
}

/**
 * Signals of a person, latest first, with the number of signals read; `entry` is null if the signal has no score.
 * Reads at most `look`.
 */
export function* latestScored(
  state: StoreState,
  { id, recent }: ListedPerson,
  { before, look }: { before: number; look: number },
): Generator<{ looked: number; seq: number; entry: ScoredEntry | null }> {
  let end = before;
  for (let looked = 0; looked < look;) {
    const limit = Math.min(ENTRIES_AT_ONCE, look - looked);
    const entries = latestEntries(state.sql, personList(id), recent, { before: end, limit });
    for (const one of entries) {
      const entry = counting(state, id, one);
      yield { looked: ++looked, seq: entry.seq, entry: isScored(entry) ? entry : null };
    }
    const last = entries.at(-1);
    if (last === undefined || entries.length < limit) return;
    end = last.seq;
  }
}

/** Entries after a line, ascending: at most one row of the list, and some of the person's row. */
export function nextEntries(
  sql: SqlStorage,
  { id, recent }: ListedPerson,
  after: number,
): { entries: Entry[]; last: number | null } {
  const rows = sql
    .exec<{ first_seq: number; entries: string }>(
      `SELECT first_seq, entries FROM timelines WHERE list = ?1 AND first_seq >= ifnull(
         (SELECT max(first_seq) FROM timelines WHERE list = ?1 AND first_seq <= ?2), 0) ORDER BY first_seq LIMIT 3`,
      keyOf(personList(id)),
      after + 1,
    )
    .toArray();
  // The row that contains `after` may end there, so the next row is read too.
  const whole = rows.slice(0, 2);
  const end = rows[2]?.first_seq ?? Number.POSITIVE_INFINITY;
  const entries = [...whole.flatMap((row) => readEntries(row.entries)), ...readEntries(recent)]
    .filter(({ seq }) => seq > after && seq < end)
    .sort((one, other) => one.seq - other.seq);
  return { entries, last: end === Number.POSITIVE_INFINITY ? null : end - 1 };
}

/** The scoring signals of an entry: it may have scored by several rules. */
export function toScoringSignals(state: StoreState, { scored }: ScoredEntry): ScoringSignal[] {
  return scored.outcomes.map((verdict) => ({
    ...state.outcomes.get(verdict),
    signalId: scored.signalId,
    atMs: scored.atMs,
  }));
}

/** The matches of a line that count. */
export function countedOf({ once, outcomes }: StoreState, facts: Facts): RuleMatch[] {
  const { owner, admission } = facts;
  if (owner === null) return [];
  const occasion = { signalId: admission.id, atMs: admission.receivedAtMs };
  return outcomes.of(facts).filter((match) => once.counts(owner.personId, occasion, match));
}

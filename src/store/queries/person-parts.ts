/** Parts of a person that lists, pages and exports share: columns, ids and scores. */
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { Facts } from "../log/line.ts";
import { latestEntries, type Entry, type Scored } from "../people/timelines.ts";
import { personList, visitorOfKey } from "../people/identities.ts";
import type { Identity, PersonSummary, ScoringSignal } from "../protocol/people-and-accounts.ts";
import type { StoreState } from "../state/store-state.ts";

/** Entries of a timeline that are read at a time. */
const ENTRIES_AT_ONCE = 1_000;

/** A person in lists. */
export type PersonRow = PersonSummary & { id: number; lastDay: number };

export const PERSON_COLUMNS = `id, email, ${TRAIT_NAMES.join(", ")}, score, first_seen AS firstSeenMs, last_seen AS lastSeenMs,
  last_day AS lastDay, ids_dropped AS idsDropped`;

export function toPersonSummary({ id: _id, lastDay: _day, ...summary }: PersonRow): PersonSummary {
  return summary;
}

/** The latest ids of a person, the latest first. Ids whose last owner is somebody else are left out. */
export function latestIdentities(sql: SqlStorage, personId: number, limit: number): Identity[] {
  const rows = sql.exec<{ key: ArrayBuffer; at: number }>(
    `SELECT key, "at" FROM identities AS mine WHERE person_id = ? AND NOT EXISTS (SELECT 1 FROM identities AS later
       WHERE later.key = mine.key AND (later."at", later.ordinal) > (mine."at", mine.ordinal))
     ORDER BY "at" DESC, ordinal DESC, key DESC LIMIT ?`,
    personId,
    limit,
  );
  return rows.toArray().map(({ key, at: linkedAtMs }) => ({ ...visitorOfKey(key), linkedAtMs }));
}

export type ScoredEntry = Entry & { scored: Scored };

export function isScored(entry: Entry): entry is ScoredEntry {
  return entry.scored !== null;
}

/** An entry with the outcomes that count: a rule may score a person only once. */
export function counting({ once, outcomes }: StoreState, personId: number, entry: Entry): Entry {
  const { seq, scored } = entry;
  if (scored === null) return entry;
  const counts = scored.outcomes.filter((id) => once.counts(personId, scored, outcomes.get(id)));
  return { seq, scored: counts.length === 0 ? null : { ...scored, outcomes: counts } };
}

/** The matches of a line that count. */
export function countedMatches({ once, outcomes }: StoreState, facts: Facts): RuleMatch[] {
  const { owner, admission } = facts;
  if (owner === null) return [];
  const occasion = { signalId: admission.id, atMs: admission.receivedAtMs };
  return outcomes.of(facts).filter((match) => once.counts(owner.personId, occasion, match));
}

/** The scoring signals of an entry, one for each rule. */
export function toScoringSignals(state: StoreState, { scored }: ScoredEntry): ScoringSignal[] {
  const { signalId, atMs } = scored;
  return scored.outcomes.map((id) => ({ ...state.outcomes.get(id), signalId, atMs }));
}

/**
 * The signals of a person, the latest first, `look` at most. Retention may have dropped them. `entry` is null if the signal has no
 * score; `looked` counts the signals.
 */
export function* latestScored(
  state: StoreState,
  { id, recent }: { id: number; recent: string },
  { before, look }: { before: number; look: number },
): Generator<{ looked: number; seq: number; entry: ScoredEntry | null }> {
  let end = before;
  for (let looked = 0; looked < look;) {
    const limit = Math.min(ENTRIES_AT_ONCE, look - looked);
    const entries = latestEntries(state.sql, personList(id), recent, { before: end, limit });
    for (const stored of entries) {
      const entry = counting(state, id, stored);
      yield { looked: ++looked, seq: entry.seq, entry: isScored(entry) ? entry : null };
    }
    const last = entries.at(-1);
    if (last === undefined || entries.length < limit) return;
    end = last.seq;
  }
}

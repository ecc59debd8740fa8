/**
 * What a rule that is no more has scored on signals that retention has dropped: only the lists of persons still say so.
 * They are gone through person by person, and row by row of a person's list, so that every step may break off anywhere.
 */
import { countScores } from "./rule-news.ts";
import { People } from "../people/people.ts";
import { readEntries } from "../people/timeline-text.ts";
import type { Scored } from "../people/timeline-text.ts";
import { keyOf, personList } from "../people/visitor-keys.ts";
import type { StoreState } from "../state/store-state.ts";
import { countIn, countReplaced } from "./rule-jobs.ts";
import type { RuleJobRow } from "./rule-jobs.ts";

/**
 * Removes verdicts from the next entries of lists, `limit` of them or a row more. The caller writes the job.
 *
 * @param verdicts what is to be removed.
 * @returns whether there are no more.
 */
export function removeDroppedScores(
  state: StoreState,
  job: RuleJobRow,
  verdicts: ReadonlySet<number>,
  limit: number,
): boolean {
  const people = new People(state, verdicts);
  const remove = (personId: number, text: string): number => {
    const changes = new Map<number, { before: Scored; after: Scored | null }>();
    const entries = readEntries(text);
    for (const { seq, scored } of entries) {
      if (scored === null || seq > job.last_seq || !hasOneOf(scored.verdicts, verdicts)) continue;
      // A line that is still there has been seen to by the job's earlier steps.
      if (hasOneOf(state.signals.read(seq)?.verdicts ?? [], verdicts)) continue;
      const left = scored.verdicts.filter((id) => !verdicts.has(id));
      changes.set(seq, { before: scored, after: left.length === 0 ? null : { ...scored, verdicts: left } });
    }
    countIn(job, people.rescore(personId, changes));
    return entries.length;
  };
  const isLast = takeRows(state.sql, job, limit, remove);
  countReplaced(job, people.write());
  countScores(job, people.news);
  return isLast;
}

/** Takes row by row. @param take returns how many entries the row has. @returns whether there are no more rows. */
function takeRows(
  sql: SqlStorage,
  job: RuleJobRow,
  limit: number,
  take: (personId: number, entries: string) => number,
): boolean {
  for (let left = limit; left > 0;) {
    const personId = job.person_id ?? 0;
    const [row] = sql.exec<{ first_seq: number; entries: string }>(
      "SELECT first_seq, entries FROM timelines WHERE list = ? AND first_seq > ? ORDER BY first_seq LIMIT 1",
      keyOf(personList(personId)),
      job.position,
    );
    if (row !== undefined) {
      left -= take(personId, row.entries);
      job.position = row.first_seq;
      continue;
    }
    const [next] = sql.exec<{ id: number; recent: string }>(
      "SELECT id, recent FROM people WHERE id > ? ORDER BY id LIMIT 1",
      personId,
    );
    if (next === undefined) return true;
    // The entries in the person's own row come first: they may move to the rows of the list, never back.
    left -= 1 + take(next.id, next.recent);
    [job.person_id, job.position] = [next.id, 0];
  }
  return false;
}

function hasOneOf(verdicts: readonly number[], wanted: ReadonlySet<number>): boolean {
  return verdicts.some((id) => wanted.has(id));
}

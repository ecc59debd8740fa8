/**
 * Counts the times and traits of persons again from the lines that are left, where they came from lines taken from them. A
 * step counts so many lines; what is left is a job for each person, written in the transaction that took the lines.
 *
 * The latest lines come first. At any moment a person's times and traits are those of some of their lines: what is recorded
 * or linked meanwhile counts as ever, a line that is counted twice changes nothing, and where another is taken that they are
 * known from, the job begins anew.
 */
import { RULE_STEP_SEGMENTS } from "../../limits.ts";
import { isDropped } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import { deletedUntilMs } from "../state/store-state.ts";
import type { StoreState } from "../state/store-state.ts";
import type { LineOfPerson } from "./people.ts";
import { People } from "./people.ts";
import { endReplacement } from "./scoring.ts";
import type { Replacement } from "./scoring.ts";
import { firstEntries, latestEntries } from "./timelines.ts";
import { personList } from "./visitors.ts";

/** Lines that a step counts, some 20 ms, in RULE_STEP_SEGMENTS segments at most. */
export const RECOUNT_STEP_LINES = 5_000;

/** A person who is being counted again. Lines before `before` are still to be counted; null: it has not begun. */
interface Recount {
  [column: string]: SqlStorageValue;
  person_id: number;
  before: number | null;
}

/** Writes the changes, then recounts from the stored rows and writes the result. */
export function writeAndRecount(state: StoreState, people: People): void {
  people.write();
  if (people.toRecount.size === 0) return;
  const step = new RecountStep(state, people);
  for (const personId of people.toRecount) step.take({ person_id: personId, before: null });
  people.toRecount.clear();
  people.write();
}

export function hasRecounts(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM recounts LIMIT 1").toArray().length > 0;
}

/** Takes the next step of counting. */
export function stepRecounts(state: StoreState): void {
  const people = new People(state);
  const step = new RecountStep(state, people);
  const jobs = state.sql.exec<Recount>("SELECT person_id, before FROM recounts LIMIT ?", RULE_STEP_SEGMENTS).toArray();
  for (const job of jobs) step.take(job);
  people.write();
  state.signals.flush();
}

class RecountStep {
  readonly #state: StoreState;
  readonly #people: People;
  /** Remaining budget of rows to read. */
  #left = { lines: RECOUNT_STEP_LINES, segments: RULE_STEP_SEGMENTS };

  constructor(state: StoreState, people: People) {
    this.#state = state;
    this.#people = people;
  }

  /** Counts as many of a person's lines as the step still can, and stores how far it has come. */
  take(job: Recount): void {
    const { sql } = this.#state;
    const before = this.#people.emailOf(job.person_id) === null ? 0 : this.#count(job);
    if (before === 0) sql.exec("DELETE FROM recounts WHERE person_id = ?", job.person_id);
    else sql.exec("INSERT OR REPLACE INTO recounts (person_id, before) VALUES (?, ?)", job.person_id, before);
  }

  /** Returns the line before which there are lines left to be counted; 0: there are none; null: it has not begun. */
  #count({ person_id: personId, before }: Recount): number | null {
    const { sql, signals } = this.#state;
    const people = this.#people;
    const limit = this.#left.lines;
    if (limit <= 0 || this.#left.segments <= 0) return before;
    const list = personList(personId);
    const end = before ?? Number.MAX_SAFE_INTEGER;
    const entries = latestEntries(sql, list, people.recentOf(personId), { before: end, limit });
    const oldest = signals.firstSeq;
    const there = entries.filter(({ seq }) => seq >= oldest);
    const lines: LineOfPerson[] = [];
    let left = there.length < limit ? 0 : (there.at(-1)?.seq ?? 0);
    let segment: Segment | null = null;
    for (const { seq } of there) {
      if (segment === null || seq < segment.firstSeq) {
        if (this.#left.segments <= 0) {
          left = seq + 1;
          break;
        }
        this.#left.segments--;
        segment = signals.segmentOf(seq);
      }
      this.#left.lines--;
      const facts = segment?.facts(seq);
      if (facts !== undefined && !isDropped(facts)) lines.push({ receipt: facts.admission, traits: facts.traits });
    }
    if (before !== null) people.countAgain(personId, lines);
    else {
      // The first line is looked at already now: mostly it is the oldest, and the times are what they will be.
      const first = left === 0 ? undefined : firstEntries(sql, list)[0];
      const facts = first && signals.read(first.seq);
      if (facts) lines.push({ receipt: facts.admission, traits: facts.traits });
      people.beginRecount(personId, lines, deletedUntilMs(sql));
    }
    return left;
  }
}

/** Replacements that a step goes on with; all of them share REPLACE_STEP_ENTRIES. */
const REPLACEMENTS_AT_ONCE = 50;

export function hasReplacements(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM replacements LIMIT 1").toArray().length > 0;
}

/** Takes the next step. */
export function stepReplacements(state: StoreState, nowMs: number): void {
  const { sql } = state;
  const replacements = sql.exec<{ person_id: number; rule_id: string; behind_seq: number }>(
    "SELECT person_id, rule_id, behind_seq FROM replacements LIMIT ?",
    REPLACEMENTS_AT_ONCE,
  );
  const people = new People(state);
  for (const { person_id: personId, rule_id: ruleId, behind_seq: behind } of replacements.toArray()) {
    const replacement: Replacement = { personId, ruleId, behind };
    if (!people.goOnReplacing(replacement)) endReplacement(sql, personId, ruleId);
  }
  people.write();
  state.raised.raise(people.news?.crossedEvents(nowMs) ?? []);
  state.signals.flush();
}

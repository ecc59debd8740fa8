/**
 * The deletion of a person, with everything that is linked to them (docs/signal-store.md): a job in steps, each
 * one transaction. The first step takes the person away, so that from then on they are named nowhere and what comes is
 * somebody new's. What is left is read off the tables: identities, then the list of the person's lines, then held
 * signals and dead letters, each page by page. The store's alarm sees to it, and ends the job when R2 holds no copy.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { ERASURE_REMEMBERED_DAYS } from "../../limits.ts";
import { forgetInEvents } from "../events/forget.ts";
import { isScrubbing } from "../log/cold-removals.ts";
import { rememberName, hashOfName } from "../people/erased-names.ts";
import { readEntries } from "../people/timeline-text.ts";
import { insertEntries } from "../people/timelines.ts";
import { personList } from "../people/visitor-keys.ts";
import type { ErasureReceipt } from "../protocol/data-care.ts";
import type { StoreState } from "../state/store-state.ts";
import { ErasureWork } from "./erasure-work.ts";
import type { ErasureRow } from "./erasure-work.ts";

/** Rows that one step of a person's deletion takes: a person of fewer signals is gone when the call returns. */
export const ERASURE_ROWS = 2_000;
/** So long after a store was last noted as full, what waited for room has been recorded: 5 GB a day are 60 signals a second. */
export const FULL_DRAINED_MS = 86_400_000;

const REMEMBERED_MS = ERASURE_REMEMBERED_DAYS * DAY_MS;

/**
 * Begins to delete, with the first step. While a deletion of the same person is under way, that one goes on, and looks
 * again for what has come since; unless somebody new has the email by now.
 */
export function erasePerson(state: StoreState, id: string, email: string, nowMs: number): void {
  const { sql } = state;
  const last = findRow(sql, email);
  const [person] = sql.exec<{ id: number; recent: string }>("SELECT id, recent FROM people WHERE email = ?", email);
  if (last?.finished_at === null && person === undefined) lookAgain(sql, last, email, nowMs);
  else {
    if (person !== undefined) takeAway(sql, person, nowMs);
    sql.exec(
      `INSERT INTO erasures (id, email_hash, requested_at, asked_at, email, person_id, step, position, people, identities,
         signals, anonymous, held, dead_letters, scoring_signals, cold_objects)
       VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, 0, ?7, 0, 0, 0, 0, 0, 0, 0)`,
      id,
      hashOfName({ kind: "email", value: email }),
      nowMs,
      email,
      person?.id ?? null,
      person === undefined ? "held" : "identities",
      Number(person !== undefined),
    );
  }
  forgetInEvents(state, email);
  rememberName(sql, { kind: "email", value: email }, nowMs);
  stepErasure(state, nowMs);
}

/** The receipt of the latest deletion of an email. Null when the person was not deleted, or that is long ago. */
export function findErasure(sql: SqlStorage, email: string): ErasureReceipt | null {
  const row = findRow(sql, email);
  return row === undefined ? null : toReceipt(row);
}

/** The receipt by its own id. Null when there is none, or none any more. */
export function findErasureById(sql: SqlStorage, id: string): ErasureReceipt | null {
  const [row] = sql.exec<ErasureRow>("SELECT * FROM erasures WHERE id = ?", id);
  return row === undefined ? null : toReceipt(row);
}

/** When a deletion is to go on, in milliseconds since 1970; null when none is under way. */
export function nextErasureMs({ sql, books }: StoreState, nowMs: number): number | null {
  const inR2 = sql.exec("SELECT 1 FROM erasures WHERE finished_at IS NULL AND email IS NULL LIMIT 1").toArray();
  if (nextJob(sql) !== undefined || (inR2.length > 0 && !isScrubbing(sql))) return nowMs;
  const oldest = sql.exec<{ at: number | null }>("SELECT min(at) AS at FROM erased_names").one().at;
  return oldest === null ? null : Math.max(oldest + REMEMBERED_MS, books.fullAtMs + FULL_DRAINED_MS);
}

/** Takes the job that waits longest one step further, and ends those that were waiting for cold storage only. */
export function stepErasure(state: StoreState, nowMs: number): void {
  const { sql } = state;
  if (state.books.fullAtMs + FULL_DRAINED_MS <= nowMs) {
    sql.exec(
      "DELETE FROM erased_names WHERE hash IN (SELECT hash FROM erased_names WHERE at <= ? LIMIT ?)",
      nowMs - REMEMBERED_MS,
      ERASURE_ROWS,
    );
  }
  sql.exec("DELETE FROM erasures WHERE finished_at <= ?", nowMs - REMEMBERED_MS);
  const job = nextJob(sql);
  if (job !== undefined) new ErasureWork(state, job, nowMs).run(ERASURE_ROWS);
  if (isScrubbing(sql)) return;
  sql.exec("UPDATE erasures SET finished_at = ? WHERE finished_at IS NULL AND email IS NULL", nowMs);
}

/**
 * Takes the person away. Their number is never used again: lines that still name it are nobody's, and ids that are still
 * theirs too.
 */
function takeAway(sql: SqlStorage, { id, recent }: { id: number; recent: string }, nowMs: number): void {
  insertEntries(sql, personList(id), readEntries(recent));
  sql.exec("DELETE FROM people WHERE id = ?", id);
  // Lines of their ids that were about to be linked are looked through first: see ErasureWork.
  sql.exec(
    `UPDATE link_jobs SET due_at = ?
     WHERE key IN (SELECT key FROM identities WHERE person_id = ?)`,
    nowMs + DAY_MS,
    id,
  );
}

/** Begins the search anew, for what the names of the person have brought since. */
function lookAgain(sql: SqlStorage, job: ErasureRow, email: string, nowMs: number): void {
  sql.exec("UPDATE erased_names SET at = ? WHERE at = ?", nowMs, job.asked_at);
  const isAtThePerson = job.step === "identities" || job.step === "lines";
  sql.exec(
    "UPDATE erasures SET email = ?, asked_at = ?, step = ?, position = ? WHERE id = ?",
    email,
    nowMs,
    isAtThePerson ? job.step : "held",
    isAtThePerson ? job.position : 0,
    job.id,
  );
}

function findRow(sql: SqlStorage, email: string): ErasureRow | undefined {
  const hash = hashOfName({ kind: "email", value: email });
  return sql
    .exec<ErasureRow>("SELECT * FROM erasures WHERE email_hash = ? ORDER BY requested_at DESC, id DESC LIMIT 1", hash)
    .toArray()[0];
}

/** Of the jobs with something left to delete, the one that waits longest. */
function nextJob(sql: SqlStorage): ErasureRow | undefined {
  return sql
    .exec<ErasureRow>(
      "SELECT * FROM erasures WHERE finished_at IS NULL AND email IS NOT NULL ORDER BY requested_at LIMIT 1",
    )
    .toArray()[0];
}

function toReceipt(row: ErasureRow): ErasureReceipt {
  return {
    id: row.id,
    requestedAtMs: row.requested_at,
    finishedAtMs: row.finished_at,
    people: row.people,
    identities: row.identities,
    signals: row.signals,
    anonymous: row.anonymous,
    held: row.held,
    deadLetters: row.dead_letters,
    scoringSignals: row.scoring_signals,
    coldObjects: row.cold_objects,
  };
}

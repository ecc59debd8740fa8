/**
 * The deletion of a person, with everything that is linked to them (docs/signal-store.md): a job in steps, each
 * one transaction. The first step takes the person away, so that from then on they are named nowhere and what comes is
 * somebody new's. What is left is read off the tables: identities, then the list of the person's lines, then held
 * signals and dead letters, a portion at a time. The store's alarm sees to it, and ends the job when R2 holds no copy.
 */
import { hashOfName } from "../../domain/signal/hash-name.ts";
import { DAY_MS } from "../../domain/duration.ts";
import { DELETION_REMEMBERED_DAYS } from "../../limits.ts";
import { deleteFromEvents } from "../events/deleted-in-events.ts";
import type { DeletionReceipt, ForgottenDeletion } from "../protocol/data-care.ts";
import { isScrubbing } from "../log/cold-removals.ts";
import { readEntries } from "../people/timeline-text.ts";
import { AFTER_DELETION } from "../people/link-jobs.ts";
import { insertEntries } from "../people/timelines.ts";
import { personList } from "../people/visitor-keys.ts";
import type { StoreState } from "../state/store-state.ts";
import { freeMomentMs, rememberHash, rememberName } from "../people/deleted-names.ts";
import { findJob, findJobById, insertJob, lookAgain, nextJob, toReceipt } from "./deletion-job.ts";
import { DeletionStep } from "./deletion-step.ts";

/** Lines that one step of a person's deletion is the work of: a person of few signals is gone when the call returns. */
export const DELETION_STEP_LINES = 2_000;
/** So long after a store was last noted as full, what waited for room has been recorded: 5 GB a day are 60 signals a second. */
export const FULL_DRAINED_MS = 86_400_000;

/** Deletions that only R2 may keep from their end. */
const IS_DONE_HERE = "finished_at IS NULL AND email IS NULL AND hand_over = 0";
const REMEMBERED_MS = DELETION_REMEMBERED_DAYS * DAY_MS;

/**
 * Begins to delete, with the first step. While a deletion of the same person is under way, that one goes on, and looks
 * again for what has come since; unless somebody new has the email by now.
 */
export function beginDeletion(state: StoreState, id: string, email: string, nowMs: number): void {
  const { sql } = state;
  const askedAtMs = freeMomentMs(sql, nowMs);
  const last = findJob(sql, email);
  const [person] = sql.exec<{ id: number; recent: string }>("SELECT id, recent FROM people WHERE email = ?", email);
  if (last?.finished_at === null && person === undefined) lookAgain(sql, last, email, askedAtMs);
  else {
    if (person !== undefined) takeAway(sql, person);
    const emailHash = hashOfName({ kind: "email", value: email });
    insertJob(sql, { id, email, emailHash, personId: person?.id ?? null }, askedAtMs);
  }
  deleteFromEvents(state, email);
  rememberName(sql, { kind: "email", value: email }, askedAtMs);
  handOverDeletion(state, email, askedAtMs);
  stepDeletions(state, nowMs);
}

/** Notes that Destinations have deleted the person. The deletion has ended if nothing else was left to do. */
export function handedOver({ sql }: StoreState, receiptId: string, nowMs: number): void {
  sql.exec("UPDATE deletions SET hand_over = 0 WHERE id = ?", receiptId);
  endDeletions(sql, nowMs);
}

/** Whether all that is left of the latest deletion of an email is for Destinations to do. */
export function waitsForDestinations(sql: SqlStorage, email: string): boolean {
  const job = findJob(sql, email);
  return job?.hand_over === 1 && job.email === null && !isScrubbing(sql);
}

/** Has Destinations delete the person too, behind the events that were raised before. One that waits already is enough. */
function handOverDeletion({ sql, raised }: StoreState, email: string, atMs: number): void {
  const { id, hand_over: waits } = findJob(sql, email) ?? {};
  if (id === undefined || waits === 1) return;
  sql.exec("UPDATE deletions SET hand_over = 1 WHERE id = ?", id);
  raised.raiseDeletion({ receiptId: id, email, atMs });
}

/**
 * Begins deletions again that a restore has undone, as of now: what is on its way since then may still come for as long as a
 * deletion is remembered. Those that the store knows change nothing.
 */
export function repeatDeletions(state: StoreState, forgotten: readonly ForgottenDeletion[], nowMs: number): void {
  const { sql } = state;
  const unknown = forgotten.filter(({ id }) => findJobById(sql, id) === undefined);
  if (unknown.length === 0) return;
  const emails = new Map<string, string>();
  const hashes = new Set(unknown.map(({ emailHash }) => emailHash));
  for (const { email } of sql.exec<{ email: string }>("SELECT email FROM people")) {
    const hash = hashOfName({ kind: "email", value: email });
    if (hashes.has(hash)) emails.set(hash, email);
  }
  for (const { id, requestedAtMs, emailHash } of unknown) {
    const beginsAtMs = Math.max(requestedAtMs, nowMs);
    const email = emails.get(emailHash);
    if (email !== undefined) {
      beginDeletion(state, id, email, beginsAtMs);
      continue;
    }
    const askedAtMs = freeMomentMs(sql, beginsAtMs);
    rememberHash(sql, { hash: emailHash, sinceMs: 0 }, askedAtMs);
    insertJob(sql, { id, email: "", emailHash, personId: null }, askedAtMs);
  }
}

/** The receipt of the latest deletion of an email. Null when the person was not deleted, or that is long ago. */
export function findDeletion(sql: SqlStorage, email: string): DeletionReceipt | null {
  const job = findJob(sql, email);
  return job === undefined ? null : toReceipt(job);
}

/** The receipt by its own id. Null when there is none, or none any more. */
export function findDeletionById(sql: SqlStorage, id: string): DeletionReceipt | null {
  const job = findJobById(sql, id);
  return job === undefined ? null : toReceipt(job);
}

/** When a deletion is to go on, in milliseconds since 1970; null when none is under way. */
export function nextDeletionMs({ sql, books }: StoreState, nowMs: number): number | null {
  const inR2 = sql.exec(`SELECT 1 FROM deletions WHERE ${IS_DONE_HERE} LIMIT 1`).toArray();
  if (nextJob(sql) !== undefined || (inR2.length > 0 && !isScrubbing(sql))) return nowMs;
  const oldest = sql.exec<{ at: number | null }>("SELECT min(at) AS at FROM deleted_names").one().at;
  return oldest === null ? null : Math.max(oldest + REMEMBERED_MS, books.fullAtMs + FULL_DRAINED_MS);
}

/** Takes the job that waits longest one step further, and ends those that were waiting for cold storage only. */
export function stepDeletions(state: StoreState, nowMs: number): void {
  const { sql } = state;
  if (state.books.fullAtMs + FULL_DRAINED_MS <= nowMs) {
    sql.exec(
      "DELETE FROM deleted_names WHERE hash IN (SELECT hash FROM deleted_names WHERE at <= ? LIMIT ?)",
      nowMs - REMEMBERED_MS,
      DELETION_STEP_LINES,
    );
  }
  sql.exec("DELETE FROM deletions WHERE finished_at <= ?", nowMs - REMEMBERED_MS);
  const job = nextJob(sql);
  if (job !== undefined) new DeletionStep(state, job, nowMs).run(DELETION_STEP_LINES);
  endDeletions(sql, nowMs);
}

/** Ends the deletions of which nothing is left here, in R2 or with Destinations. */
function endDeletions(sql: SqlStorage, nowMs: number): void {
  if (!isScrubbing(sql)) sql.exec(`UPDATE deletions SET finished_at = ? WHERE ${IS_DONE_HERE}`, nowMs);
}

/**
 * Takes the person away. Their number is never used again: lines that still name it are nobody's, and ids that are still
 * theirs too.
 */
function takeAway(sql: SqlStorage, { id, recent }: { id: number; recent: string }): void {
  insertEntries(sql, personList(id), readEntries(recent));
  sql.exec("DELETE FROM people WHERE id = ?", id);
  // Lines of their ids that were about to be linked are looked through first, however long that takes: see DeletionStep.
  sql.exec(
    `UPDATE link_jobs SET due_at = ?
     WHERE key IN (SELECT key FROM identities WHERE person_id = ?)`,
    AFTER_DELETION,
    id,
  );
}

/**
 * Deletes a person with all linked data (design §15): a job in steps, one transaction each. The first step
 * removes the person, so that nothing names them and later signals make a new person. The next steps process the
 * tables in portions: identities, the list of the person's lines, held signals and dead letters. The store's alarm
 * continues the job, and ends it when R2 holds no copy.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { withoutPerson } from "../../domain/events/workspace-event.ts";
import { hashOfName } from "../../domain/signal/identity.ts";
import { DELETION_REMEMBERED_DAYS } from "../../limits.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";
import { isScrubbing } from "../log/cold.ts";
import { afterDeletion } from "../log/line.ts";
import type { Facts } from "../log/line.ts";
import { freeMomentMs, isOfDeleted, rememberHash, rememberName } from "./deleted-names.ts";
import { claimInForce, claimsInStore, deletePairs } from "../people/identities.ts";
import type { IdClaim } from "../people/identities.ts";
import { AFTER_DELETION, endLinkJob, putOffLinkJob } from "../people/link-jobs.ts";
import { People } from "../people/people.ts";
import { writeAndRecount } from "../people/recount.ts";
import { changeEntries, entriesBehind, firstEntries, insertEntries, readEntries } from "../people/timelines.ts";
import type { Entry } from "../people/timelines.ts";
import {
  namesOnLine,
  personList,
  visitorKey,
  visitorList,
  visitorOfKey,
  visitorOfPayload,
} from "../people/visitors.ts";
import type { VisitorId, VisitorNames } from "../people/visitors.ts";
import type { DeletionReceipt, ForgottenDeletion } from "../protocol/store-operations.ts";
import { admissionOf } from "../state/dead-letters.ts";
import type { DeadLetterRow } from "../state/dead-letters.ts";
import { countScore } from "../state/rule-outcomes.ts";
import { changeStatus } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { Blanking } from "./blanking.ts";
import type { Blanked } from "./blanking.ts";

/** Lines per step of a deletion: a person with few signals is fully deleted when the call returns. */
export const DELETION_STEP_LINES = 2_000;
/** So long after a store was last noted as full, what waited for room has been recorded: 5 GB a day are 60 signals a second. */
export const FULL_DRAINED_MS = 86_400_000;

type DeletionStage = "identities" | "lines" | "held" | "dead_letters" | "cold";

/** Deletions that only R2 may keep from their end. */
const IS_DONE_HERE = "finished_at IS NULL AND email IS NULL AND hand_over = 0";
const REMEMBERED_MS = DELETION_REMEMBERED_DAYS * DAY_MS;

/**
 * Starts a deletion with its first step. A deletion of the same person in progress continues instead and searches
 * again for later data, unless a new person has the email by now.
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
  // Remove deleted people from notifications that wait for the hand-on.
  state.raised.rewrite((event) => withoutPerson(event, (one) => one === email));
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

/** Has Destinations delete the person too, after earlier notifications. A waiting request is not repeated. */
function handOverDeletion({ sql, raised }: StoreState, email: string, atMs: number): void {
  const { id, hand_over: waits } = findJob(sql, email) ?? {};
  if (id === undefined || waits === 1) return;
  sql.exec("UPDATE deletions SET hand_over = 1 WHERE id = ?", id);
  raised.raiseDeletion({ receiptId: id, email, atMs });
}

/**
 * Repeats deletions that a restore has undone, as of now, because signals in transit can arrive for as long as a
 * deletion is remembered. Known ones change nothing.
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

/** Runs one step of the longest waiting job, and ends jobs that waited for cold storage only. */
export function stepDeletions(state: StoreState, nowMs: number): void {
  const { sql } = state;
  if (state.books.fullAtMs + FULL_DRAINED_MS <= nowMs) {
    sql.exec(
      `DELETE FROM deleted_names
       WHERE (hash, since) IN (SELECT hash, since FROM deleted_names WHERE at <= ? LIMIT ?)`,
      nowMs - REMEMBERED_MS,
      DELETION_STEP_LINES,
    );
  }
  sql.exec("DELETE FROM deletions WHERE finished_at <= ?", nowMs - REMEMBERED_MS);
  const job = nextJob(sql);
  if (job !== undefined) new DeletionStep(state, job, nowMs).run(DELETION_STEP_LINES);
  endDeletions(sql, nowMs);
}

/** Ends deletions without remaining data here, in R2 or in Destinations. */
function endDeletions(sql: SqlStorage, nowMs: number): void {
  if (!isScrubbing(sql)) sql.exec(`UPDATE deletions SET finished_at = ? WHERE ${IS_DONE_HERE}`, nowMs);
}

/** Removes the person. Their number is never reused: lines and ids that still name it belong to nobody. */
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

// One step of a deletion: portions of one part after another, until the budget is used.

/** Dead letters that are read at a time: each may have 64 KB, and is parsed, which is the work of several lines. */
const DEAD_LETTERS_AT_ONCE = 50;
const DEAD_LETTER_LINES = 10;
/** Deleting an identity takes about as long as some lines. */
const IDENTITY_LINES = 2;
/**
 * Rewriting a segment also uses the budget, however few lines are removed: one list row may refer to hundreds of
 * segments, a portion to few.
 */
const [SEGMENT_LINES, PORTION_SEGMENTS] = [25, 20];

class DeletionStep {
  readonly #state: StoreState;
  readonly #job: DeletionJob;
  readonly #nowMs: number;
  readonly #blanking: Blanking;
  readonly #people: People;
  /** Remaining line budget of this step. */
  #left = 0;

  constructor(state: StoreState, job: DeletionJob, nowMs: number) {
    this.#state = state;
    this.#job = job;
    this.#nowMs = nowMs;
    this.#blanking = new Blanking(state);
    this.#people = new People(state);
  }

  /**
   * Takes a step. @param lines how many it is the work of, or a portion more: afterwards the job is stored as far as it has
   * come.
   */
  run(lines: number): void {
    this.#left = lines;
    while (this.#left > 0 && this.#job.email !== null) this.#takePortion();
    this.#blanking.write();
    writeAndRecount(this.#state, this.#people);
    this.#state.raised.raise(this.#people.news?.crossedEvents(this.#nowMs) ?? []);
    this.#job.cold_objects += this.#blanking.coldObjects;
    saveJob(this.#state.sql, this.#job);
    this.#state.signals.flush();
    this.#state.held.flush();
  }

  /** Processes one portion and subtracts its lines from the budget. */
  #takePortion(): void {
    switch (this.#job.step) {
      case "identities":
        return this.#identity();
      case "lines":
        return this.#lines();
      case "held":
        return this.#held();
      case "dead_letters":
        return this.#deadLetters();
      case "cold":
        this.#job.email = null;
        this.#job.person_id = null;
    }
  }

  #goOn(stage: DeletionStage): void {
    this.#job.step = stage;
    this.#job.position = 0;
    this.#left--;
  }

  /** Deletes a portion of the list of one of the person's ids; after the last portion, the id. */
  #identity(): void {
    const { sql } = this.#state;
    const [row] = sql.exec<{ key: ArrayBuffer }>(
      "SELECT key FROM identities WHERE person_id = ? LIMIT 1",
      this.#job.person_id,
    );
    if (row === undefined) return this.#goOn("lines");
    const id = visitorOfKey(row.key);
    const entries = this.#portionOf(entriesBehind(sql, visitorList(id), this.#job.position));
    const last = entries.at(-1);
    if (last === undefined) {
      this.#deleteId(id);
      this.#job.position = 0;
      this.#left -= IDENTITY_LINES;
      return;
    }
    this.#deleteListed(id, entries);
    this.#job.position = last.seq;
    this.#left -= entries.length;
  }

  #deleteId(id: VisitorId): void {
    const { sql } = this.#state;
    const key = visitorKey(id);
    const theirs = claimsInStore(sql, id).filter(({ personId }) => personId === this.#job.person_id);
    rememberName(sql, { ...id, sinceMs: theirs.at(-1)?.receivedAtMs ?? 0 }, this.#job.asked_at);
    // The plus keeps SQLite from the index on the person, by which it would go through all of their ids for each.
    sql.exec("DELETE FROM identities WHERE key = ? AND +person_id = ?", key, this.#job.person_id);
    deletePairs(sql, key);
    // If the id has another owner who is not being deleted, link their part of its list from now on.
    const left = claimsInStore(sql, id).length;
    if (left === 0) endLinkJob(sql, id);
    else if (left === this.#people.identities.claimsOf(id).length) putOffLinkJob(sql, id, this.#nowMs);
    this.#job.identities++;
  }

  /**
   * Deletes listed lines that are unlinked, or that an anonymous id assigned to another person before this user id
   * was known.
   */
  #deleteListed(id: VisitorId, entries: readonly Entry[]): void {
    const claims = claimsInStore(this.#state.sql, id);
    const isTheirs = (facts: Facts): boolean => {
      const { admission, email, userId } = facts;
      if (admission.receivedAtMs > this.#job.asked_at) return false;
      if (email !== null && email !== this.#job.email) return false;
      if (id.kind === "anonymous_id" && userId !== null) {
        const named = this.#inForce(claimsInStore(this.#state.sql, { kind: "user_id", value: userId }), admission);
        if (named !== undefined && named !== this.#job.person_id) return false;
      }
      return this.#inForce(claims, admission) === this.#job.person_id;
    };
    for (const line of this.#deleteLines(entries, isTheirs)) {
      const { owner } = line.facts;
      if (owner === null || owner.personId === this.#job.person_id) continue;
      this.#people.disown(owner.personId, line.seq, line.facts);
    }
  }

  #inForce(claims: readonly IdClaim[], receipt: ReceivedOrder): number | undefined {
    return claimInForce(claims, receipt)?.personId;
  }

  /** Deletes the oldest portion of the person's list, with what its lines have scored, also those that retention has dropped. */
  #lines(): void {
    const { sql, outcomes, once } = this.#state;
    const personId = this.#job.person_id ?? 0;
    const list = personList(personId);
    const entries = this.#portionOf(firstEntries(sql, list));
    if (entries.length === 0) return this.#goOn("held");
    this.#deleteLines(entries, () => true);
    for (const { scored } of entries) {
      for (const id of scored?.outcomes ?? []) {
        const match = outcomes.get(id);
        if (scored === null || !once.release(personId, scored, match)) continue;
        countScore(this.#state.books, match.ruleId, scored.atMs, -1);
        this.#job.scoring_signals++;
      }
    }
    changeEntries(sql, list, "", new Map(entries.map(({ seq }) => [seq, "gone"] as const)));
    this.#left -= entries.length;
  }

  /** The first of the entries: their lines are in few segments. */
  #portionOf(entries: readonly Entry[]): readonly Entry[] {
    let segments = 0;
    for (const { segment } of this.#state.signals.segmentsOf(entries.map(({ seq }) => seq))) {
      if (++segments > PORTION_SEGMENTS) return entries.filter(({ seq }) => seq < segment.firstSeq);
    }
    return entries;
  }

  #deleteLines(entries: readonly Entry[], isTheirs: (facts: Facts) => boolean): Blanked[] {
    const { signals } = this.#state;
    const all: Blanked[] = [];
    for (const { segment, seqs } of signals.segmentsOf(entries.map(({ seq }) => seq))) {
      this.#left -= SEGMENT_LINES;
      const theirs = seqs.filter((seq) => isTheirs(segment.facts(seq)));
      const lines = this.#blanking.blank(signals, segment, theirs, (facts) => afterDeletion(facts, this.#nowMs));
      for (const { facts } of lines) this.#job[facts.status === "anonymous" ? "anonymous" : "signals"]++;
      all.push(...lines);
    }
    return all;
  }

  /** Deletes data that names the person from a segment of held signals, which belong to no person. */
  #held(): void {
    const { held } = this.#state;
    for (const segment of held.walk(this.#job.position, { status: "held" })) {
      const theirs = segment.seqs().filter((seq) => {
        const facts = segment.facts(seq);
        return facts.status === "held" && this.#names(namesOnLine(facts), facts.admission);
      });
      this.#job.held += this.#blanking.blank(held, segment, theirs, (facts) =>
        afterDeletion(facts, this.#nowMs),
      ).length;
      this.#job.position = segment.lastSeq;
      this.#left -= segment.length + SEGMENT_LINES;
      return;
    }
    return this.#goOn("dead_letters");
  }

  #deadLetters(): void {
    const { sql } = this.#state;
    const rows = sql
      .exec<DeadLetterRow>(
        "SELECT * FROM dead_letters WHERE status = 'dead' AND seq > ? ORDER BY seq LIMIT ?",
        this.#job.position,
        DEAD_LETTERS_AT_ONCE,
      )
      .toArray();
    for (const row of rows) {
      this.#job.position = row.seq;
      const { pathSource: source, idempotencyKey: _key, ...admission } = admissionOf(row);
      const named = visitorOfPayload(
        row.payload,
        source === undefined ? admission : { ...admission, pathSource: source },
      );
      if (named === null || !this.#names(named, admission)) continue;
      sql.exec(
        `UPDATE dead_letters SET status = 'purged', admission = ?, reason = '', payload = NULL, deleted_at = ?
         WHERE seq = ?`,
        JSON.stringify(admission),
        this.#nowMs,
        row.seq,
      );
      changeStatus(this.#state.books, { admission, group: null }, "dead", "purged");
      this.#job.dead_letters++;
    }
    if (rows.length < DEAD_LETTERS_AT_ONCE) this.#goOn("cold");
    else this.#left -= rows.length * DEAD_LETTER_LINES;
  }

  #names(visitor: VisitorNames, receipt: ReceivedOrder): boolean {
    return isOfDeleted(this.#state.sql, visitor, receipt, (id) => this.#people.identities.claimsOf(id));
  }
}

/** A job as it is stored; see tables.ts. */
export interface DeletionJob {
  [column: string]: SqlStorageValue;
  id: string;
  requested_at: number;
  asked_at: number;
  finished_at: number | null;
  /** Email of the person; null: only cold storage remains. */
  email: string | null;
  person_id: number | null;
  step: DeletionStage;
  /** The line, or the dead letter, that was looked at last. */
  position: number;
  people: number;
  identities: number;
  signals: number;
  anonymous: number;
  held: number;
  dead_letters: number;
  scoring_signals: number;
  cold_objects: number;
  /** 1 until Destinations have deleted the person. */
  hand_over: number;
}

/**
 * Stores a new deletion.
 *
 * @param job.email empty where only its hash is known, and there is no such person.
 * @param job.personId null: there is no such person, only what may name them.
 */
export function insertJob(
  sql: SqlStorage,
  { id, email, emailHash, personId }: { id: string; email: string; emailHash: string; personId: number | null },
  nowMs: number,
): void {
  sql.exec(
    `INSERT INTO deletions (id, email_hash, requested_at, asked_at, email, person_id, step, position, people, identities,
       signals, anonymous, held, dead_letters, scoring_signals, cold_objects)
     VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, 0, ?7, 0, 0, 0, 0, 0, 0, 0)`,
    id,
    emailHash,
    nowMs,
    email,
    personId,
    personId === null ? "held" : "identities",
    Number(personId !== null),
  );
}

/** Stores how far a deletion has come, and what it has deleted. */
export function saveJob(sql: SqlStorage, job: DeletionJob): void {
  sql.exec(
    `UPDATE deletions SET ${PROGRESS.map((column) => `${column} = ?`).join(", ")} WHERE id = ?`,
    ...PROGRESS.map((column) => job[column]),
    job.id,
  );
}

/** The columns that a step changes. */
const PROGRESS = [
  "email",
  "person_id",
  "step",
  "position",
  "identities",
  "signals",
  "anonymous",
  "held",
  "dead_letters",
  "scoring_signals",
  "cold_objects",
] as const satisfies readonly (keyof DeletionJob)[];

/** Restarts the search for data that arrived under the person's names. */
export function lookAgain(sql: SqlStorage, job: DeletionJob, email: string, nowMs: number): void {
  sql.exec("UPDATE deleted_names SET at = ? WHERE at = ?", nowMs, job.asked_at);
  const isAtThePerson = job.step === "identities" || job.step === "lines";
  sql.exec(
    "UPDATE deletions SET email = ?, asked_at = ?, step = ?, position = 0 WHERE id = ?",
    email,
    nowMs,
    isAtThePerson ? job.step : "held",
    job.id,
  );
}

/** Latest deletion of the person who had an email. */
export function findJob(sql: SqlStorage, email: string): DeletionJob | undefined {
  const hash = hashOfName({ kind: "email", value: email });
  return sql
    .exec<DeletionJob>("SELECT * FROM deletions WHERE email_hash = ? ORDER BY requested_at DESC, id DESC LIMIT 1", hash)
    .toArray()[0];
}

export function findJobById(sql: SqlStorage, id: string): DeletionJob | undefined {
  return sql.exec<DeletionJob>("SELECT * FROM deletions WHERE id = ?", id).toArray()[0];
}

/** The longest waiting job with remaining work. */
export function nextJob(sql: SqlStorage): DeletionJob | undefined {
  return sql
    .exec<DeletionJob>(
      "SELECT * FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL ORDER BY requested_at LIMIT 1",
    )
    .toArray()[0];
}

export function toReceipt(job: DeletionJob): DeletionReceipt {
  return {
    id: job.id,
    requestedAtMs: job.requested_at,
    finishedAtMs: job.finished_at,
    people: job.people,
    identities: job.identities,
    signals: job.signals,
    anonymous: job.anonymous,
    held: job.held,
    deadLetters: job.dead_letters,
    scoringSignals: job.scoring_signals,
    coldObjects: job.cold_objects,
  };
}

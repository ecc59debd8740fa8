/**
 * Deletes a person with all linked data (design §15): a job in steps, one transaction each. The first step removes the person, so that
 * nothing names them and later signals make a new person. The alarm takes the next steps. The job ends when Destinations and R2 have no
 * copy either.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { withoutPerson } from "../../domain/events/workspace-event.ts";
import { Accounts } from "../accounts/accounts.ts";
import { hashOfName } from "../../domain/signal/identity.ts";
import { DELETION_REMEMBERED_DAYS } from "../../limits.ts";
import { insertRow, updateRow } from "../../platform/sql-row.ts";
import { type ReceivedOrder, isLater } from "../../wire/admission.ts";
import { isScrubbing } from "../log/cold.ts";
import { afterDeletion, type Facts } from "../log/line.ts";
import { AFTER_DELETION, endLinkJob, putOffLinkJob } from "../people/linking.ts";
import { People, writeAndRecount } from "../people/people.ts";
import {
  claimInForce,
  claimsInStore,
  deletePairs,
  visitorOfPayload,
  type VisitorNames,
  type Identities,
  idsOf,
} from "../people/identities.ts";
import {
  changeEntries,
  entriesAfter,
  insertEntries,
  readEntries,
  type Entry,
  personList,
  visitorKey,
  visitorList,
  visitorOfKey,
  type VisitorId,
} from "../people/timelines.ts";
import type { DeletionReceipt, ForgottenDeletion } from "../protocol/store-operations.ts";
import type { DeadLetterRow, DeletionRow, PersonRow } from "../schema.ts";
import { admissionOf } from "../state/dead-letters.ts";
import { countScore } from "../state/rule-outcomes.ts";
import { changeStatus } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { Blanking, type NumberedLine } from "./blanking.ts";

/** Budget of a step in lines: a person with few signals is completely deleted when the call returns. */
export const DELETION_STEP_LINES = 2_000;
/** A day after a store was last full, all signals that waited for room are recorded: 5 GB are 60 signals a second. */
export const FULL_DRAINED_MS = DAY_MS;
const REMEMBERED_MS = DELETION_REMEMBERED_DAYS * DAY_MS;

/** Dead letters per portion. The next constants are costs in lines: of a dead letter, a deleted id, a rewritten segment. */
const DEAD_LETTERS_AT_ONCE = 50;
const DEAD_LETTER_LINES = 10;
const IDENTITY_LINES = 2;
const SEGMENT_LINES = 25;
/** One row of a timeline may refer to hundreds of segments. */
const PORTION_SEGMENTS = 20;

/** Condition for deletions that only cold storage may delay. */
const ONLY_COLD_LEFT = "finished_at IS NULL AND email IS NULL AND hand_over = 0";

/** Takes the first step. A running deletion searches for later data too, unless a new person has the email by now. */
export function beginDeletion(state: StoreState, id: string, email: string, nowMs: number): void {
  const { sql, raised } = state;
  const askedAtMs = unusedMomentMs(sql, nowMs);
  const hash = hashOfName({ kind: "email", value: email });
  const last = findJob(sql, "email_hash", hash);
  const [person] = sql.exec<DeletedPerson>(
    "SELECT id, recent, account, score, last_seen, last_day FROM people WHERE email = ?",
    email,
  );
  if (last?.finished_at === null && person === undefined) searchAgain(sql, last, email, askedAtMs);
  else {
    if (person !== undefined) removePerson(sql, person, askedAtMs);
    insertJob(sql, { id, email, email_hash: hash, person_id: person?.id ?? null }, askedAtMs);
  }
  // Notifications that wait for the hand-over must not name the person.
  raised.rewrite((event) => withoutPerson(event, (named) => named === email));
  rememberName(sql, hash, 0, askedAtMs);
  const job = findJob(sql, "email_hash", hash);
  if (job?.hand_over === 0) {
    sql.exec("UPDATE deletions SET hand_over = 1 WHERE id = ?", job.id);
    raised.raiseDeletion({ receiptId: job.id, email, atMs: askedAtMs });
  }
  stepDeletions(state, nowMs);
}

export function noteHandedOver({ sql }: StoreState, receiptId: string, nowMs: number): void {
  sql.exec("UPDATE deletions SET hand_over = 0 WHERE id = ?", receiptId);
  endDeletions(sql, nowMs);
}

export function waitsForDestinations(sql: SqlStorage, email: string): boolean {
  const job = findJob(sql, "email_hash", hashOfName({ kind: "email", value: email }));
  return job?.hand_over === 1 && job.email === null && !isScrubbing(sql);
}

/** Repeats deletions that the store does not know, as of now, because signals of the person may still be in transit. */
export function repeatDeletions(state: StoreState, forgotten: readonly ForgottenDeletion[], nowMs: number): void {
  const { sql } = state;
  const unknown = forgotten.filter(({ id }) => findJob(sql, "id", id) === undefined);
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
    const askedAtMs = unusedMomentMs(sql, beginsAtMs);
    rememberName(sql, emailHash, 0, askedAtMs);
    insertJob(sql, { id, email: "", email_hash: emailHash, person_id: null }, askedAtMs);
  }
}

/** Null: the person was not deleted, or that is long ago. */
export function findDeletion(sql: SqlStorage, email: string): DeletionReceipt | null {
  return findReceipt(sql, "email_hash", hashOfName({ kind: "email", value: email }));
}

export function findDeletionById(sql: SqlStorage, id: string): DeletionReceipt | null {
  return findReceipt(sql, "id", id);
}

function findReceipt(sql: SqlStorage, column: "id" | "email_hash", value: string): DeletionReceipt | null {
  const rows = sql.exec(
    `SELECT id, requested_at AS requestedAtMs, finished_at AS finishedAtMs, people, identities, signals, anonymous, held,
       dead_letters AS deadLetters, scoring_signals AS scoringSignals, cold_objects AS coldObjects
     FROM deletions WHERE ${column} = ? ORDER BY requested_at DESC, id DESC LIMIT 1`,
    value,
  );
  return (rows.toArray()[0] as DeletionReceipt | undefined) ?? null;
}

/** When a deletion continues or names can be forgotten, in milliseconds since 1970; null: never. */
export function nextDeletionMs({ sql, books }: StoreState, nowMs: number): number | null {
  const inR2 = sql.exec(`SELECT 1 FROM deletions WHERE ${ONLY_COLD_LEFT} LIMIT 1`).toArray();
  if (nextJob(sql) !== undefined || (inR2.length > 0 && !isScrubbing(sql))) return nowMs;
  const oldest = sql.exec<{ at: number | null }>("SELECT min(at) AS at FROM deleted_names").one().at;
  return oldest === null ? null : Math.max(oldest + REMEMBERED_MS, books.fullAtMs + FULL_DRAINED_MS);
}

/** Takes a step of the longest waiting job, and forgets old deletions. */
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
  if (job !== undefined) new DeletionStep(state, job, nowMs).take();
  endDeletions(sql, nowMs);
}

function endDeletions(sql: SqlStorage, nowMs: number): void {
  if (!isScrubbing(sql)) sql.exec(`UPDATE deletions SET finished_at = ? WHERE ${ONLY_COLD_LEFT}`, nowMs);
}

type DeletedPerson = Pick<PersonRow, "id" | "recent" | "account" | "score" | "last_seen" | "last_day">;

/** Removes the person and remembers their ids. Lines and claims still have the person's number, which is never used again. */
function removePerson(sql: SqlStorage, person: DeletedPerson, atMs: number): void {
  const { id, recent } = person;
  insertEntries(sql, personList(id), readEntries(recent));
  sql.exec("DELETE FROM people WHERE id = ?", id);
  const accounts = new Accounts(sql);
  accounts.changeMember(person, null);
  accounts.write(null);
  const claims = sql.exec("SELECT key, at FROM identities WHERE person_id = ? ORDER BY at, ordinal", id);
  const ids = [...claims.raw<[key: ArrayBuffer, at: number]>()];
  const sinceMs = new Map(ids.map(([key, at]) => [hashOfName(visitorOfKey(key)), at] as const));
  for (const [hash, ms] of sinceMs) rememberName(sql, hash, ms, atMs);
  // The deletion searches the lines of these ids before they are linked.
  sql.exec(
    "UPDATE link_jobs SET due_at = ? WHERE key IN (SELECT key FROM identities WHERE person_id = ?)",
    AFTER_DELETION,
    id,
  );
}

/** Lets a running deletion search again under the names of the person. */
function searchAgain(sql: SqlStorage, job: DeletionRow, email: string, nowMs: number): void {
  sql.exec("UPDATE deleted_names SET at = ? WHERE at = ?", nowMs, job.asked_at);
  const step = job.step === "identities" || job.step === "lines" ? job.step : "held";
  updateRow<DeletionRow>(sql, "deletions", ["id"], job, { ...job, email, asked_at: nowMs, step, position: 0 });
}

/** Processes portions of one stage after another, until the budget is used. */
class DeletionStep {
  readonly #state: StoreState;
  readonly #before: DeletionRow;
  readonly #job: DeletionRow;
  readonly #nowMs: number;
  readonly #blanking: Blanking;
  readonly #people: People;
  #budget = DELETION_STEP_LINES;

  constructor(state: StoreState, job: DeletionRow, nowMs: number) {
    this.#state = state;
    this.#before = job;
    this.#job = { ...job };
    this.#nowMs = nowMs;
    this.#blanking = new Blanking(state);
    this.#people = new People(state, nowMs);
  }

  take(): void {
    const { sql, signals, held } = this.#state;
    while (this.#budget > 0 && this.#job.email !== null) this.#takePortion();
    this.#blanking.write();
    writeAndRecount(this.#state, this.#people);
    this.#job.cold_objects += this.#blanking.coldObjects;
    updateRow(sql, "deletions", ["id"], this.#before, this.#job);
    signals.flush();
    held.flush();
  }

  #takePortion(): void {
    switch (this.#job.step) {
      case "identities":
        return this.#deleteIdentity();
      case "lines":
        return this.#deleteTimeline();
      case "held":
        return this.#deleteHeld();
      case "dead_letters":
        return this.#deleteDeadLetters();
      case "cold":
        this.#job.email = null;
        this.#job.person_id = null;
    }
  }

  #beginStage(stage: DeletionRow["step"]): void {
    this.#job.step = stage;
    this.#job.position = 0;
    this.#budget--;
  }

  /** Deletes a portion of the timeline of an id; after the last portion, the id. */
  #deleteIdentity(): void {
    const { sql } = this.#state;
    const job = this.#job;
    const [row] = sql.exec<{ key: ArrayBuffer }>(
      "SELECT key FROM identities WHERE person_id = ? LIMIT 1",
      job.person_id,
    );
    if (row === undefined) return this.#beginStage("lines");
    const id = visitorOfKey(row.key);
    const entries = this.#portionOf(entriesAfter(sql, visitorList(id), job.position));
    const last = entries.at(-1);
    this.#budget -= entries.length;
    job.position = last?.seq ?? 0;
    if (last !== undefined) return this.#deleteListed(id, entries);
    this.#deleteId(id);
    this.#budget -= IDENTITY_LINES;
  }

  #deleteId(id: VisitorId): void {
    const { sql } = this.#state;
    const key = visitorKey(id);
    // The plus prevents the index on the person, which would read all ids of the person each time.
    sql.exec("DELETE FROM identities WHERE key = ? AND +person_id = ?", key, this.#job.person_id);
    deletePairs(sql, key);
    // If another person of the id is left and is not being deleted, their lines can be linked now.
    const left = claimsInStore(sql, id).length;
    if (left === 0) endLinkJob(sql, id);
    else if (left === this.#people.identities.claimsOf(id).length) putOffLinkJob(sql, id, this.#nowMs);
    this.#job.identities++;
  }

  /** Deletes lines that wait to be linked to the person, or that an anonymous id gave to another person before the user id was known. */
  #deleteListed(id: VisitorId, entries: readonly Entry[]): void {
    const { sql } = this.#state;
    const { asked_at: askedAtMs, email: deletedEmail, person_id: personId } = this.#job;
    const claims = claimsInStore(sql, id);
    const isTheirs = ({ admission, email, userId }: Facts): boolean => {
      if (admission.receivedAtMs > askedAtMs || (email !== null && email !== deletedEmail)) return false;
      if (id.kind === "anonymous_id" && userId !== null) {
        const stronger = claimInForce(claimsInStore(sql, { kind: "user_id", value: userId }), admission);
        if (stronger !== undefined && stronger.personId !== personId) return false;
      }
      return claimInForce(claims, admission)?.personId === personId;
    };
    for (const { seq, facts } of this.#deleteLines(entries, isTheirs)) {
      if (facts.person !== null && facts.person.personId !== personId) {
        this.#people.removeLine(facts.person.personId, seq, facts);
      }
    }
  }

  /** Retention may have dropped the lines. */
  #deleteTimeline(): void {
    const { sql, outcomes, once } = this.#state;
    const personId = this.#job.person_id ?? 0;
    const list = personList(personId);
    const entries = this.#portionOf(entriesAfter(sql, list));
    if (entries.length === 0) return this.#beginStage("held");
    this.#deleteLines(entries, () => true);
    for (const scored of entries.flatMap((entry) => entry.scored ?? [])) {
      for (const match of scored.outcomes.map((id) => outcomes.get(id))) {
        if (!once.removeMatch(personId, scored, match)) continue;
        countScore(this.#state.books, match.ruleId, scored.atMs, -1);
        this.#job.scoring_signals++;
      }
    }
    changeEntries(sql, list, "", new Map(entries.map(({ seq }) => [seq, "gone"] as const)));
    this.#budget -= entries.length;
  }

  #portionOf(entries: readonly Entry[]): readonly Entry[] {
    let segments = 0;
    for (const { segment } of this.#state.signals.segmentsOf(entries.map(({ seq }) => seq))) {
      if (++segments > PORTION_SEGMENTS) return entries.filter(({ seq }) => seq < segment.firstSeq);
    }
    return entries;
  }

  #deleteLines(entries: readonly Entry[], isTheirs: (facts: Facts) => boolean): NumberedLine[] {
    const { signals } = this.#state;
    const deleted: NumberedLine[] = [];
    for (const { segment, seqs } of signals.segmentsOf(entries.map(({ seq }) => seq))) {
      this.#budget -= SEGMENT_LINES;
      const theirs = seqs.filter((seq) => isTheirs(segment.facts(seq)));
      deleted.push(...this.#blanking.blank(signals, segment, theirs, (facts) => afterDeletion(facts, this.#nowMs)));
    }
    for (const { facts } of deleted) this.#job[facts.status === "anonymous" ? "anonymous" : "signals"]++;
    return deleted;
  }

  #deleteHeld(): void {
    const { held } = this.#state;
    const [segment] = held.walk(this.#job.position, { status: "held" });
    if (segment === undefined) return this.#beginStage("dead_letters");
    const theirs = segment.seqs().filter((seq) => {
      const facts = segment.facts(seq);
      return facts.status === "held" && this.#isTheirs(facts, facts.admission);
    });
    const deleted = this.#blanking.blank(held, segment, theirs, (facts) => afterDeletion(facts, this.#nowMs));
    this.#job.held += deleted.length;
    this.#job.position = segment.lastSeq;
    this.#budget -= segment.length + SEGMENT_LINES;
  }

  #deleteDeadLetters(): void {
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
      const visitor = visitorOfPayload(row.payload, admissionOf(row));
      if (visitor === null || !this.#isTheirs(visitor, admissionOf(row))) continue;
      // The source and the Idempotency-Key may name the person too.
      const { pathSource: _source, idempotencyKey: _key, ...admission } = admissionOf(row);
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
    if (rows.length < DEAD_LETTERS_AT_ONCE) this.#beginStage("cold");
    else this.#budget -= rows.length * DEAD_LETTER_LINES;
  }

  #isTheirs(visitor: VisitorNames, order: ReceivedOrder): boolean {
    return isOfDeleted(this.#state.sql, this.#people.identities, visitor, order);
  }
}

/** @param job `email` is empty if only its hash is known; `person_id` is null if there is no such person. */
function insertJob(
  sql: SqlStorage,
  job: Pick<DeletionRow, "id" | "email" | "email_hash" | "person_id">,
  nowMs: number,
): void {
  const isPerson = job.person_id !== null;
  insertRow(sql, "deletions", {
    ...job,
    requested_at: nowMs,
    asked_at: nowMs,
    step: isPerson ? "identities" : "held",
    position: 0,
    people: Number(isPerson),
    identities: 0,
    signals: 0,
    anonymous: 0,
    held: 0,
    dead_letters: 0,
    scoring_signals: 0,
    cold_objects: 0,
  });
}

function findJob(sql: SqlStorage, column: "id" | "email_hash", value: string): DeletionRow | undefined {
  return sql
    .exec<DeletionRow>(`SELECT * FROM deletions WHERE ${column} = ? ORDER BY requested_at DESC, id DESC LIMIT 1`, value)
    .toArray()[0];
}

/** The longest waiting job with a next step in this store. */
function nextJob(sql: SqlStorage): DeletionRow | undefined {
  return sql
    .exec<DeletionRow>(
      "SELECT * FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL ORDER BY requested_at LIMIT 1",
    )
    .toArray()[0];
}

// Hashes of deleted people's names. A signal that was received before the deletion and is recorded after it must not create the person
// again. Held signals and dead letters have no person, so a deletion finds them by these names. A hash is kept while such signals can be
// in transit.

/**
 * @param sinceMs when the person got an id that other people had too; 0: the name is an email. @param atMs signals received later
 * are not the deleted person's.
 */
export function rememberName(sql: SqlStorage, hash: string, sinceMs: number, atMs: number): void {
  sql.exec(
    `INSERT INTO deleted_names (hash, at, since) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET at = max(at, excluded.at)`,
    hash,
    atMs,
    sinceMs,
  );
}

/** The moment separates the names of different deletions, so no two deletions share it. */
function unusedMomentMs(sql: SqlStorage, nowMs: number): number {
  let atMs = nowMs;
  while (sql.exec("SELECT 1 FROM deleted_names WHERE at = ? LIMIT 1", atMs).toArray().length > 0) atMs++;
  return atMs;
}

/** In milliseconds since 1970; 0: no names are remembered. */
export function namesDeletedUntilMs(sql: SqlStorage): number {
  return sql.exec<{ at: number | null }>("SELECT max(at) AS at FROM deleted_names").one().at ?? 0;
}

/** Whether the person of a signal was deleted after its receipt. An email counts before ids, a user id before anonymous ids (design §8.3). */
export function isOfDeleted(
  sql: SqlStorage,
  identities: Identities,
  visitor: VisitorNames,
  order: ReceivedOrder,
): boolean {
  if (typeof visitor.email === "string") {
    return deletedPeopleSince(sql, { kind: "email", value: visitor.email }, order).length > 0;
  }
  for (const id of idsOf(visitor)) {
    const claims = identities.claimsOf(id);
    const claim = claims.findLast((earlier) => !isLater(earlier, order));
    // The last person before the signal has it: the deleted person, or the person who is left.
    const hasDeletedPerson = deletedPeopleSince(sql, id, order).some(
      (sinceMs) => claim === undefined || (claim.receivedAtMs <= sinceMs && sinceMs <= order.receivedAtMs),
    );
    if (hasDeletedPerson) return true;
    if (claims.length > 0) return false;
  }
  return false;
}

/** For each person of the name who was deleted after the signal's receipt: the start of the claim. */
function deletedPeopleSince(
  sql: SqlStorage,
  name: Parameters<typeof hashOfName>[0],
  { receivedAtMs }: ReceivedOrder,
): number[] {
  const rows = sql.exec("SELECT since FROM deleted_names WHERE hash = ? AND at >= ?", hashOfName(name), receivedAtMs);
  return [...rows.raw<[since: number]>()].flat();
}

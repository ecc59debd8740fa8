/**
 * Deletes a person with all linked data: a job in steps, one transaction each. The first step removes the person, so that
 * nothing names them and later signals make a new person. The alarm takes the next steps. The job ends when Destinations and R2 have no
 * copy either.
 */
import { Accounts } from "../accounts/accounts.ts";
import { isJsonObject, parsed } from "../../domain/json/json-value.ts";
import { previousIdOf } from "../../domain/signal/normalise.ts";
import { hashOfName, markOfName } from "../../domain/signal/identity.ts";
import { insertRow, updateRow } from "../../platform/sql-row.ts";
import type { Admission, ReceivedOrder } from "../../wire/message.ts";
import { afterDeletion, asVisitors, isHeldMisfit, type SignalFacts } from "../log/line.ts";
import { endLinkJob, putOffLinkJob, startLinkJob } from "../people/linking.ts";
import { People } from "../people/people.ts";
import { idsOf, visitorOfPayload, type VisitorNames, type Call } from "../people/identities.ts";
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
import { admissionOf, countMisfit, emptyLetter, payloadOfLetter } from "../state/dead-letters.ts";
import { countScore } from "../state/rule-outcomes.ts";
import { changeStatus, countedSignal } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import type { NumberedLine, Portion } from "../log/signal-log.ts";
import { Blanking } from "./blanking.ts";
import { deletionsNamedIn, giveIds, rememberEmail, rememberIds } from "./deleted-names.ts";
import {
  DELETION_REMEMBERED_MS,
  FULL_DRAINED_MS,
  nextDeletionMs,
  nextPurgeMs,
  nextRetentionMs,
  ONLY_COLD_LEFT,
  UNFINISHED,
} from "../state/due.ts";
import { STEPS } from "../steps.ts";

/** Costs in lines: of a dead letter, four compared names, a deleted id, a rewritten portion of the log. */
const DEAD_LETTER_LINES = 10;
const NAMES_PER_LINE = 4;
const IDENTITY_LINES = 2;
const PORTION_LINES = 25;

/** The latest deletion of an email: numbers of people only grow, while the clock may have been set back. */
const IS_LATEST = "person_id = (SELECT max(person_id) FROM deletions WHERE";

/** Takes the first step. A running deletion searches for later data too, unless a new person has the email by now. */
export function beginDeletion(state: StoreState, id: string, email: string, nowMs: number): void {
  const { sql, raised } = state;
  const hash = hashOfName({ kind: "email", value: email });
  const last = findJob(sql, "email_hash", hash);
  const [person] = sql.exec<DeletedPerson>(
    "SELECT id, recent, account, score, score_before, first_seen, last_seen, last_day FROM people WHERE email = ?",
    email,
  );
  const mark = markOfName(email);
  if (last?.finished_at === null && person === undefined) searchAgain(sql, last, mark, nowMs);
  else {
    if (person !== undefined) removePerson(sql, person, nowMs);
    insertJob(state, { id, email_hash: hash }, mark, person?.id ?? null, nowMs);
  }
  const job = findJob(sql, "email_hash", hash);
  if (job?.to_forward === 0) {
    sql.exec("UPDATE deletions SET to_forward = 1 WHERE id = ?", job.id);
    raised.raiseDeletion({ receiptId: job.id, email, atMs: nowMs });
  }
  stepDeletions(state, nowMs);
  state.due.by("deletion", nextDeletionMs(state));
}

export function noteForwarded(state: StoreState, receiptId: string, nowMs: number): void {
  state.sql.exec("UPDATE deletions SET to_forward = 0 WHERE id = ?", receiptId);
  endDeletions(state, nowMs);
}

export function waitsForDestinations({ sql, signals }: StoreState, email: string): boolean {
  const job = findJob(sql, "email_hash", hashOfName({ kind: "email", value: email }));
  return job?.to_forward === 1 && job.step === "cold" && !signals.isClearing;
}

/**
 * Repeats deletions that the store does not know: it has neither their receipt nor a later request for the same person, who may have come
 * back since. They begin now, because signals of the person may still be in transit.
 */
export function repeatDeletions(state: StoreState, forgotten: readonly ForgottenDeletion[], nowMs: number): void {
  const { sql } = state;
  const unknown = forgotten.filter(({ id, requestedAtMs, emailHash }) => {
    const last = findJob(sql, "email_hash", emailHash);
    return findJob(sql, "id", id) === undefined && (last === undefined || last.last_requested_at < requestedAtMs);
  });
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
    insertJob(state, { id, email_hash: emailHash }, null, null, beginsAtMs);
  }
  state.due.by("deletion", nextDeletionMs(state));
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
     FROM deletions WHERE ${IS_LATEST} ${column} = ?)`,
    value,
  );
  return (rows.toArray()[0] as DeletionReceipt | undefined) ?? null;
}

/** Takes a step of the longest waiting job, and forgets old deletions. */
export function stepDeletions(state: StoreState, nowMs: number): void {
  const { sql, head } = state;
  if (head.fullAtMs + FULL_DRAINED_MS <= nowMs) forgetDeletions(sql, nowMs - DELETION_REMEMBERED_MS);
  const job = nextJob(sql);
  if (job !== undefined) {
    new DeletionStep(state, job, nowMs).take();
    // They wait while a deletion is under way.
    state.due.by("retention", nextRetentionMs(state));
    state.due.by("purge", nextPurgeMs(state));
  }
  endDeletions(state, nowMs);
}

/** A receipt goes after its names. */
function forgetDeletions(sql: SqlStorage, finishedByMs: number): void {
  sql.exec(
    `DELETE FROM deleted_names WHERE (hash, at, ordinal, deletion) IN (
       SELECT hash, at, ordinal, deletion FROM deletions CROSS JOIN deleted_names ON deletion = person_id
       WHERE finished_at <= ? LIMIT ?)`,
    finishedByMs,
    STEPS.deletionLines,
  );
  sql.exec(
    `DELETE FROM deletions WHERE finished_at <= ?
       AND NOT EXISTS (SELECT 1 FROM deleted_names WHERE deletion = person_id)`,
    finishedByMs,
  );
}

function endDeletions(state: StoreState, nowMs: number): void {
  const { sql, signals, due } = state;
  if (signals.isClearing) return;
  const ended = sql.exec(`UPDATE deletions SET finished_at = ? WHERE ${ONLY_COLD_LEFT}`, nowMs);
  if (ended.rowsWritten > 0) due.by("deletion", nextDeletionMs(state));
}

/**
 * Gives the ids of a purged call to its deletion. With new ids it is under way again.
 *
 * @param call null: it is unreadable. @returns the new ids.
 */
export function giveToDeletion(
  state: StoreState,
  people: People,
  call: Call | null,
  order: ReceivedOrder,
): readonly VisitorId[] {
  const given = call && giveIds(state.sql, people.owners, call, order);
  if (given === null) return [];
  searchNewIds(state.sql, given.deletion);
  state.due.atOnce("deletion");
  return given.ids;
}

/** A finished deletion is under way again. */
function searchNewIds(sql: SqlStorage, deletion: number): void {
  sql.exec("UPDATE deletions SET finished_at = NULL, step = 'identities', position = 0 WHERE person_id = ?", deletion);
}

type DeletedPerson = Pick<
  PersonRow,
  "id" | "recent" | "account" | "score" | "score_before" | "first_seen" | "last_seen" | "last_day"
>;

/** Removes the person and remembers their ids. Lines and claims still have the person's number, which is never used again. */
function removePerson(sql: SqlStorage, person: DeletedPerson, atMs: number): void {
  const { id, recent } = person;
  insertEntries(sql, personList(id), readEntries(recent));
  sql.exec("DELETE FROM people WHERE id = ?", id);
  const accounts = new Accounts(sql);
  accounts.changeMember(person, null);
  accounts.flush(null);
  rememberIds(sql, id, atMs);
}

/** Lets a running deletion search again for the email. Its ids may have another user since the first request. */
function searchAgain(sql: SqlStorage, job: DeletionRow, mark: number, nowMs: number): void {
  rememberEmail(sql, { hash: job.email_hash, mark }, job.person_id, nowMs);
  const isBefore = job.step === "identities" || job.step === "lines";
  const next = isBefore ? {} : { step: "held" as const, position: 0 };
  updateRow<DeletionRow>(sql, "deletions", ["id"], job, { ...job, last_requested_at: nowMs, ...next });
}

/** Processes portions of one stage after another, until the budget is used. */
class DeletionStep {
  readonly #state: StoreState;
  readonly #before: DeletionRow;
  readonly #job: DeletionRow;
  readonly #nowMs: number;
  readonly #blanking: Blanking;
  readonly #people: People;
  #budget = STEPS.deletionLines;

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
    while (this.#budget > 0 && this.#job.step !== "cold") this.#takePortion();
    this.#blanking.flush();
    this.#people.flush();
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
    if (last !== undefined) return this.#deleteListed(entries);
    this.#deleteId(id);
    this.#budget -= IDENTITY_LINES;
  }

  #deleteId(id: VisitorId): void {
    const { sql } = this.#state;
    // The plus prevents the index on the person, which would read all ids of the person each time.
    sql.exec("DELETE FROM identities WHERE key = ? AND +person_id = ?", visitorKey(id), this.#job.person_id);
    // Lines that are left can be linked now, if somebody else has the id.
    if (this.#people.identities.claimsOf(id).length > 0) putOffLinkJob(this.#state, id, this.#nowMs);
    else endLinkJob(sql, id);
    this.#job.identities++;
  }

  /** Deletes lines that wait for a link to the person. Also lines that an anonymous id gave to somebody else before the user id was known. */
  #deleteListed(entries: readonly Entry[]): void {
    const personId = this.#job.person_id;
    const deleted = this.#deleteLines(entries, (line) => this.#isOfDeleted(line, line.admission));
    for (const { seq, facts } of deleted) {
      if (facts.person !== null && facts.person.personId !== personId) {
        this.#people.removeLine(facts.person.personId, seq, facts);
      }
    }
  }

  /** Retention may have dropped the lines. */
  #deleteTimeline(): void {
    const { sql, outcomes, singleScores } = this.#state;
    const personId = this.#job.person_id;
    const list = personList(personId);
    const entries = this.#portionOf(entriesAfter(sql, list));
    if (entries.length === 0) return this.#beginStage("held");
    const released = this.#releaseLines(entries);
    const theirs = entries.filter(({ seq }) => !released.has(seq));
    this.#deleteLines(theirs, () => true);
    for (const { seq, scored } of entries) {
      if (scored === null) continue;
      for (const match of scored.outcomes.map((id) => outcomes.get(id))) {
        if (!singleScores.removeMatch(personId, scored, match)) continue;
        countScore(this.#state.head, match.ruleId, scored.atMs, -1);
        if (!released.has(seq)) this.#job.scoring_signals++;
      }
    }
    changeEntries(sql, list, "", new Map(entries.map(({ seq }) => [seq, "gone"] as const)));
    this.#budget -= entries.length;
  }

  /**
   * The claims give some lines to a living person. Makes these a visitor's again, so that a link job gives them to that person, as it
   * would have done before the deletion. Returns their numbers.
   */
  #releaseLines(entries: readonly Entry[]): ReadonlySet<number> {
    const { sql, signals, head } = this.#state;
    const released = new Set<number>();
    const lists = new Map<string, Entry[]>();
    for (const portion of signals.read(entries.map(({ seq }) => seq))) {
      const changes = new Map<number, SignalFacts>();
      const lines = portion.seqs.map((seq) => ({ seq, facts: portion.facts(seq) }));
      this.#people.owners.preload(lines.map(({ facts }) => facts));
      for (const { seq, facts } of lines) {
        const heir = facts.deletedAtMs === null ? this.#people.owners.heirOf(facts) : null;
        if (heir === null) continue;
        const visitors = asVisitors(facts);
        changes.set(seq, visitors);
        released.add(seq);
        changeStatus(head, countedSignal(facts), facts.status, visitors.status);
        // Its outcomes are gone, so linking evaluates the rules again.
        head.evaluated.sinceSeq = Math.max(head.evaluated.sinceSeq, seq + 1);
        for (const id of idsOf(facts)) {
          lists.set(visitorList(id), [...(lists.get(visitorList(id)) ?? []), { seq, scored: null }]);
          if (id.kind === heir.by) startLinkJob(this.#state, id, this.#nowMs);
        }
      }
      signals.rewrite(portion, changes);
    }
    for (const [list, listed] of lists) insertEntries(sql, list, listed);
    return released;
  }

  #portionOf(entries: readonly Entry[]): readonly Entry[] {
    let portions = 0;
    for (const { firstSeq } of this.#state.signals.read(entries.map(({ seq }) => seq))) {
      if (++portions > STEPS.deletionPortions) return entries.filter(({ seq }) => seq < firstSeq);
    }
    return entries;
  }

  #deleteLines(entries: readonly Entry[], isTheirs: (facts: SignalFacts) => boolean): NumberedLine[] {
    const { signals } = this.#state;
    const deleted: NumberedLine[] = [];
    for (const portion of signals.read(entries.map(({ seq }) => seq))) {
      this.#budget -= PORTION_LINES;
      this.#people.owners.preload(portion.seqs.map((seq) => portion.facts(seq)));
      const seqs = portion.seqs.filter((seq) => isTheirs(portion.facts(seq)));
      const reduce = (facts: SignalFacts): SignalFacts => afterDeletion(facts, this.#nowMs);
      deleted.push(...this.#blanking.blank(signals, { portion, seqs }, reduce));
    }
    for (const { facts } of deleted) this.#job[facts.status === "anonymous" ? "anonymous" : "signals"]++;
    return deleted;
  }

  #deleteHeld(): void {
    const { held } = this.#state;
    const [portion] = held.walk({ after: this.#job.position }, { status: "held" });
    if (portion === undefined) return this.#beginStage("dead_letters");
    const waiting = portion.seqs.filter((seq) => portion.facts(seq).status === "held");
    const calls = new Map(waiting.map((seq) => [seq, this.#heldCall(portion, seq)] as const));
    this.#people.owners.preload([...calls.values()]);
    const seqs = waiting.filter((seq) => {
      const facts = portion.facts(seq);
      return isHeldMisfit(facts)
        ? this.#isNamedIn(this.#heldPayload(portion, seq), facts.admission)
        : this.#isOfDeleted(calls.get(seq) ?? {}, facts.admission);
    });
    const { lastSeq } = portion;
    const reduce = (facts: SignalFacts): SignalFacts => afterDeletion(facts, this.#nowMs);
    const purged = this.#blanking.blank(held, { portion, seqs }, reduce);
    this.#job.held += purged.length;
    this.#job.position = lastSeq;
    this.#budget -= portion.seqs.length + PORTION_LINES;
    this.#searchIdsOf(purged.map(({ seq, facts }) => ({ call: calls.get(seq) ?? null, order: facts.admission })));
  }

  /** Only the payload of an alias has its previous id, and only that of a misfit has any. */
  #heldCall(portion: Portion, seq: number): Call {
    const facts = portion.facts(seq);
    if (isHeldMisfit(facts)) return visitorOfPayload(this.#heldPayload(portion, seq), facts.admission) ?? facts;
    if (facts.kind !== "signal" || facts.event !== "alias" || facts.mapped) return facts;
    const payload = parsed(this.#heldPayload(portion, seq));
    const previousId = isJsonObject(payload) ? previousIdOf(payload) : undefined;
    return previousId === undefined ? facts : { ...facts, previousId };
  }

  #heldPayload(portion: Portion, seq: number): string | null {
    return this.#state.held.payloadsOf(portion)?.[seq - portion.firstSeq] ?? null;
  }

  /** Whether any text of a payload that no template fits is a name of the person. */
  #isNamedIn(payload: string | null, admission: Admission): boolean {
    const { deletions, names } = deletionsNamedIn(this.#state.sql, payload, admission);
    this.#budget -= names / NAMES_PER_LINE;
    return deletions.has(this.#job.person_id);
  }

  #deleteDeadLetters(): void {
    const { sql } = this.#state;
    const rows = sql
      .exec<DeadLetterRow>(
        "SELECT * FROM dead_letters WHERE status = 'dead' AND seq > ? ORDER BY seq LIMIT ?",
        this.#job.position,
        STEPS.deletionDeadLetters,
      )
      .toArray();
    for (const row of rows) {
      if (this.#budget <= 0) return;
      this.#deleteDeadLetter(row);
      if (this.#job.step !== "dead_letters") return;
    }
    if (rows.length === STEPS.deletionDeadLetters) return;
    // Retention may have dropped lines of the person.
    this.#state.signals.clearDropped();
    this.#beginStage("cold");
  }

  #deleteDeadLetter(row: DeadLetterRow): void {
    const { sql, head } = this.#state;
    const admission = admissionOf(row);
    const payload = payloadOfLetter(row);
    this.#job.position = row.seq;
    this.#budget -= DEAD_LETTER_LINES;
    if (!this.#isNamedIn(payload, admission)) return;
    updateRow<DeadLetterRow>(sql, "dead_letters", ["seq"], row, { ...row, ...emptyLetter(admission, this.#nowMs) });
    countMisfit(head, row.misfit_bytes, -1);
    changeStatus(head, { admission, group: null }, "dead", "purged");
    this.#job.dead_letters++;
    this.#searchIdsOf([{ call: visitorOfPayload(payload, admission), order: admission }]);
  }

  /** Starts the search again if a purged call has named unknown ids. A dead letter may name the ids of another deleted person. */
  #searchIdsOf(purged: readonly { call: Call | null; order: ReceivedOrder }[]): void {
    const { sql } = this.#state;
    for (const { call, order } of purged) {
      const deletion = (call && giveIds(sql, this.#people.owners, call, order))?.deletion ?? null;
      if (deletion === this.#job.person_id) this.#beginStage("identities");
      else if (deletion !== null) searchNewIds(sql, deletion);
    }
  }

  /** Also of another deleted person: after the clock was set back, that deletion may have left the line to the person of this one. */
  #isOfDeleted(visitor: VisitorNames, order: ReceivedOrder): boolean {
    return this.#people.owners.ownerOf(visitor, order)?.isDeleted === true;
  }
}

/** @param mark of the email; null: only its hash is known. @param personId null: there is no such person. */
function insertJob(
  { sql, head }: StoreState,
  job: Pick<DeletionRow, "id" | "email_hash">,
  mark: number | null,
  personId: number | null,
  nowMs: number,
): void {
  const isPerson = personId !== null;
  const deletion = personId ?? head.nextPersonId++;
  rememberEmail(sql, { hash: job.email_hash, mark }, deletion, nowMs);
  insertRow(sql, "deletions", {
    ...job,
    person_id: deletion,
    requested_at: nowMs,
    last_requested_at: nowMs,
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
  return sql.exec<DeletionRow>(`SELECT * FROM deletions WHERE ${IS_LATEST} ${column} = ?)`, value).toArray()[0];
}

/** The longest waiting job with a next step in this store. */
function nextJob(sql: SqlStorage): DeletionRow | undefined {
  return sql
    .exec<DeletionRow>(`SELECT * FROM deletions WHERE ${UNFINISHED} ORDER BY requested_at LIMIT 1`)
    .toArray()[0];
}

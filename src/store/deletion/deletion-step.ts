/** What a step of a person's deletion does: portions of one part after the other, until it has done enough. */
import { afterDeletion } from "../log/line-remains.ts";
import type { Facts } from "../log/line.ts";
import { claimInForce } from "../people/claims.ts";
import type { IdClaim } from "../people/claims.ts";
import { deletePairs } from "../people/dropped-ids.ts";
import { claimsInStore } from "../people/identities.ts";
import { endLinkJob, putOffLinkJob } from "../people/link-jobs.ts";
import { namesOnLine } from "../people/visitor-names.ts";
import { People } from "../people/people.ts";
import type { VisitorNames } from "../people/visitor-names.ts";
import { writeAndRecount } from "../people/recount.ts";
import { changeEntries, entriesBehind, firstEntries } from "../people/timelines.ts";
import type { Entry } from "../people/timeline-text.ts";
import { personList, visitorKey, visitorList, visitorOfKey } from "../people/visitor-keys.ts";
import type { VisitorId } from "../people/visitor-keys.ts";
import { admissionOf } from "../record/dead-letters.ts";
import type { DeadLetterRow } from "../record/dead-letters.ts";
import { changeStatus } from "../state/status-change.ts";
import type { Receipt } from "../receipt.ts";
import type { StoreState } from "../state/store-state.ts";
import { Blanking } from "./blanking.ts";
import type { Blanked } from "./blanking.ts";
import { visitorOfPayload } from "../people/visitor-names.ts";
import { isOfDeleted, rememberName } from "../people/deleted-names.ts";
import { saveJob } from "./deletion-job.ts";
import type { DeletionJob } from "./deletion-job.ts";
import type { DeletionStage } from "./tables.ts";

/** Dead letters that are read at a time: each may have 64 KB, and is parsed, which is the work of several lines. */
const DEAD_LETTERS_AT_ONCE = 50;
const DEAD_LETTER_LINES = 10;
/** Deleting an identity takes about as long as some lines. */
const IDENTITY_LINES = 2;
/** So does rewriting a segment, however few of its lines go: what one row lists may be in hundreds, a portion is in few. */
const [SEGMENT_LINES, PORTION_SEGMENTS] = [25, 20];

export class DeletionStep {
  readonly #state: StoreState;
  readonly #job: DeletionJob;
  readonly #nowMs: number;
  readonly #blanking: Blanking;
  readonly #people: People;
  /** How many lines the step may still be the work of. */
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

  /** Does one portion, and takes from what is left how many lines it was the work of. */
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

  /** Deletes a portion of what is listed under one of the person's ids; after the last one, the id. */
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
    // Where somebody else has the id too, their part of its list is linked from now on, unless they are being deleted as well.
    const left = claimsInStore(sql, id).length;
    if (left === 0) endLinkJob(sql, id);
    else if (left === this.#people.identities.claimsOf(id).length) putOffLinkJob(sql, id, this.#nowMs);
    this.#job.identities++;
  }

  /** Deletes listed lines that are not linked yet, or that an anonymous id gave to somebody before this user id was known. */
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

  #inForce(claims: readonly IdClaim[], receipt: Receipt): number | undefined {
    return claimInForce(claims, receipt)?.personId;
  }

  /** Deletes the oldest portion of the person's list, with what its lines have scored, also those that retention has dropped. */
  #lines(): void {
    const { sql, verdicts, once } = this.#state;
    const personId = this.#job.person_id ?? 0;
    const list = personList(personId);
    const entries = this.#portionOf(firstEntries(sql, list));
    if (entries.length === 0) return this.#goOn("held");
    this.#deleteLines(entries, () => true);
    for (const { scored } of entries) {
      for (const id of scored?.verdicts ?? []) {
        const match = verdicts.get(id);
        if (scored === null || !once.release(personId, scored, match)) continue;
        this.#people.ruleDays.add(match.ruleId, scored.atMs, -1);
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

  /** Deletes what names the person in a segment of held signals, which are nobody's. */
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
      changeStatus(this.#blanking.counts, { admission, group: null }, "dead", "purged");
      this.#job.dead_letters++;
    }
    if (rows.length < DEAD_LETTERS_AT_ONCE) this.#goOn("cold");
    else this.#left -= rows.length * DEAD_LETTER_LINES;
  }

  #names(visitor: VisitorNames, receipt: Receipt): boolean {
    return isOfDeleted(this.#state.sql, visitor, receipt, (id) => this.#people.identities.claimsOf(id));
  }
}

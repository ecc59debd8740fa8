/**
 * Records signals (design §8): each ends up in exactly one place. Runs inside one transaction of the Signal Store.
 *
 * In order of receipt: where does it come from, if it comes again → its fate → identities → owners and scores → lines.
 * Identities come first, so that what one signal of a batch says of a visitor holds for all of it.
 */
import { groupSource } from "../../domain/signal/personal-source.ts";
import type { NormalisedSignal } from "../../domain/signal/signal.ts";
import { Accounts } from "../accounts/accounts.ts";
import { noteDeadLetters } from "../events/dead-letter-news.ts";
import { afterPurge } from "../log/line-remains.ts";
import type { Facts, LineStatus, ListingId } from "../log/line.ts";
import { type Candidate, hashBytes } from "../log/originals.ts";
import { isOfDeleted, isOfOneBeingDeleted, namesDeletedUntilMs } from "../people/deleted-names.ts";
import { linkAtOnce } from "../people/linking.ts";
import { People } from "../people/people.ts";
import { type Entry, scoredBy } from "../people/timeline-text.ts";
import { insertEntries } from "../people/timelines.ts";
import { type VisitorId, visitorList } from "../people/visitor-keys.ts";
import { visitorOfPayload, type VisitorNames } from "../people/visitor-names.ts";
import type { SignalToRecord } from "../protocol/signals-to-record.ts";
import { isLater } from "../receipt.ts";
import { EventGroupChanges, type GroupName } from "../state/event-group-changes.ts";
import { changeStatus, countedSignal, type SignalCounts } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { admissionOf, deleteDeadLetter, insertDeadLetter, readDeadLetter } from "./dead-letters.ts";
import { type PendingSignal, signalIdOf, toPending, visitorOf } from "./pending-signal.ts";

/** Records signals. @param rulesVersion of the rules that they were run through; null: earlier signals are linked later. */
export function recordSignals(
  state: StoreState,
  batch: readonly SignalToRecord[],
  nowMs: number,
  rulesVersion: number | null = null,
): void {
  const groups = new EventGroupChanges();
  const counts = { books: state.books, groups };
  const returning = new Returning(state, counts);
  const people = new People(state);
  const accounts = new Accounts(state.sql);
  const pending = batch
    .filter((signal) => returning.leave(signal))
    .map(toPending)
    .sort((one, other) => (isLater(one.receipt, other.receipt) ? 1 : -1));

  people.preload(pending.flatMap(({ signal }) => visitorOf(signal) ?? []));
  decideFates(state, pending, people, nowMs);
  for (const one of pending) identify(one, people);
  const lists = new Map<string, Entry[]>();
  const waiting: VisitorId[] = [];
  for (const one of pending) {
    own(one, people);
    updateAccount(one, accounts);
    const facts = append(state, one, nowMs);
    if (facts !== null) hand(one, facts, people, lists, waiting);
    if (facts?.status === "anonymous") noteJudged(state, one, rulesVersion);
    count(one, counts);
  }

  for (const [list, entries] of lists) insertEntries(state.sql, list, entries);
  linkAtOnce(state, { people, groups }, [...people.identities.claimed, ...waiting], { rulesVersion, nowMs });
  people.write();
  accounts.write();
  groups.write(state);
  returning.write();
  raise(state, pending, people, nowMs);
  state.signals.flush();
}

/**
 * Takes in what a signal says of its visitor (spec §6, identify): without an email no person and no link; but ids that are
 * named together are one visitor's.
 */
function identify(one: PendingSignal, people: People): void {
  const { work } = one.signal;
  if (one.status !== "processed" || work.kind === "account" || work.kind === "dead") return;
  const { email, userId, anonymousId, previousId } = work.normalised;
  const ids: VisitorId[] = [];
  if (userId !== undefined) ids.push({ kind: "user_id", value: userId });
  if (work.kind === "signal") {
    const [user] = ids;
    if (user === undefined || previousId === undefined) return;
    people.identities.pair({ kind: "anonymous_id", value: previousId }, user, one.receipt);
    people.identities.pair({ kind: "user_id", value: previousId }, user, one.receipt);
    return;
  }
  if (anonymousId !== undefined) ids.push({ kind: "anonymous_id", value: anonymousId });
  if (email !== undefined) {
    const personId = people.personFor(email, one.receipt);
    for (const id of ids) people.identities.claim(id, { ...one.receipt, personId });
  } else if (ids[0] !== undefined && ids[1] !== undefined) people.identities.pair(ids[0], ids[1], one.receipt);
}

/** Finds whose a signal is; one whose visitor is unknown waits as anonymous. */
function own(one: PendingSignal, people: People): void {
  const { work } = one.signal;
  if (one.status !== "processed" || work.kind === "account" || work.kind === "dead") return;
  const visitor = work.normalised;
  if (visitor.email === undefined && visitor.userId === undefined && visitor.anonymousId === undefined) return;
  // Without an evaluation, a rule asks for the email of the owner: the signal is run through the rules when it is linked.
  one.owner = work.evaluation === null ? null : people.ownerOf(visitor, one.receipt);
  if (one.owner !== null) one.matches = work.evaluation?.matches ?? [];
  else if (work.kind === "signal") one.status = "anonymous";
}

/** Updates an account (design §8.7). A held update takes no effect. */
function updateAccount(one: PendingSignal, accounts: Accounts): void {
  const { admission, work } = one.signal;
  if (one.status !== "processed" || work.kind !== "account") return;
  const reason = accounts.update(work.account, { ...one.receipt, signalId: admission.id });
  if (reason === null) return;
  one.status = "dead";
  one.deadReason = reason;
  one.hash = null;
}

/** Writes the signal where it belongs. Returns what the log says of it; null where it is not in the log. */
function append(state: StoreState, one: PendingSignal, nowMs: number): Facts | null {
  const { status, signal, hash } = one;
  if (status === "dead") {
    insertDeadLetter(state.sql, signal, one.deadReason ?? "", nowMs);
    return null;
  }
  const facts = recordedFacts(state, one, status, nowMs);
  const keepsPayload = status !== "duplicate" && status !== "purged";
  const line = { facts, payload: keepsPayload ? signal.payload : null };
  if (signal.admission.verdict === "held" && !one.isDeleted) {
    one.seq = -state.held.append(line, null);
    return facts;
  }
  const isOriginal = status === "processed" || status === "anonymous";
  one.seq = state.signals.append(line, isOriginal ? hash : null);
  if (isOriginal && hash !== null) state.originals.add(hash, one.seq, nowMs);
  return facts;
}

/**
 * Notes of an anonymous signal whether its line says what the rules make of it, so that they need not be asked when it is
 * linked.
 */
function noteJudged(
  { books }: StoreState,
  { seq, signal: { work } }: PendingSignal,
  rulesVersion: number | null,
): void {
  const isJudged = rulesVersion !== null && work.kind === "signal" && work.evaluation !== null;
  if (!isJudged) books.judged = { rulesVersion, sinceSeq: seq + 1 };
  else if (books.judged.rulesVersion !== rulesVersion) books.judged = { rulesVersion, sinceSeq: seq };
}

/** Lists the line under whoever's it is: its person, or the visitor's ids. */
function hand(
  one: PendingSignal,
  facts: Facts,
  people: People,
  lists: Map<string, Entry[]>,
  waiting: VisitorId[],
): void {
  const { work } = one.signal;
  if ((one.status !== "processed" && one.status !== "anonymous") || work.kind === "account" || work.kind === "dead") {
    return;
  }
  const { userId, anonymousId, traits } = work.normalised;
  if (one.owner !== null) {
    const { personId } = one.owner;
    people.enrich(personId, traits, one.receipt);
    people.seen(personId, one.receipt.receivedAtMs);
    people.own(personId, { seq: one.seq, scored: scoredBy(facts) }, facts.event);
  }
  const list = (id: VisitorId): void => {
    const key = visitorList(id);
    const entries = lists.get(key);
    if (entries === undefined) lists.set(key, [{ seq: one.seq, scored: null }]);
    else entries.push({ seq: one.seq, scored: null });
    if (people.identities.claimsOf(id).length > 0) waiting.push(id);
  };
  for (const kind of facts.listedBy) {
    const value = kind === "user_id" ? userId : anonymousId;
    if (value !== undefined) list({ kind, value });
  }
}

/**
 * The ids whose lists a line is to stand on. What an anonymous id gave to a person is taken over by whom its user id, which
 * counts for more, belongs to in the end.
 */
function listedBy({ owner }: PendingSignal, { userId, anonymousId }: VisitorNames): ListingId[] {
  const ids: ListingId[] = [];
  if (userId !== undefined && (owner === null || owner.by === "anonymous_id")) ids.push("user_id");
  if (anonymousId !== undefined && owner === null) ids.push("anonymous_id");
  return ids;
}

function count(one: PendingSignal, counts: SignalCounts): void {
  const { admission, work } = one.signal;
  const { status } = one;
  const group = work.kind === "signal" ? groupOf(work.normalised) : null;
  if (group !== null && status !== "purged" && status !== "dead") {
    const original = one.original ?? one;
    counts.groups.received(group, one.receipt, { id: signalIdOf(original), seq: original.seq });
  }
  changeStatus(counts, { admission, group }, "unrecorded", status);
}

function groupOf(signal: Omit<NormalisedSignal, "properties">): GroupName {
  return { event: signal.event, source: groupSource(signal.source, signal) };
}

/** Raises the events of the whole batch, in one row. */
function raise(state: StoreState, pending: readonly PendingSignal[], { news }: People, nowMs: number): void {
  if (state.books.wanted === null) return;
  const dead = pending.filter(({ status }) => status === "dead").map(({ deadReason }) => deadReason ?? "");
  state.raised.raise([
    ...(news?.crossedEvents(nowMs) ?? []),
    ...(news?.scoredEvents(nowMs) ?? []),
    ...noteDeadLetters(state, dead, nowMs),
  ]);
}

/** What the log says of a signal as it is recorded. */
function recordedFacts(state: StoreState, one: PendingSignal, status: LineStatus, nowMs: number): Facts {
  const { resent: _resent, pathSource, idempotencyKey, ...admission } = one.signal.admission;
  const { work } = one.signal;
  const worked = work.kind === "signal" || work.kind === "identify" ? work : null;
  // Of a purged signal neither who it was nor what it said is written at all, nor its source, which may name them. Of a
  // duplicate the original says it, which is found when its person is deleted, while the duplicate is not.
  const names = status === "purged" || status === "duplicate" ? null : worked?.normalised;
  const comesAgain = status === "held";
  const isListed = worked !== null && (status === "processed" || status === "anonymous");
  // An anonymous signal keeps its matches for when it is linked.
  const matches = status === "anonymous" ? (worked?.evaluation?.matches ?? []) : one.matches;
  return {
    admission: {
      ...admission,
      ...(comesAgain && pathSource !== undefined ? { pathSource } : {}),
      ...(comesAgain && idempotencyKey !== undefined ? { idempotencyKey } : {}),
    },
    recordedAtMs: nowMs,
    kind: work.kind === "dead" ? "signal" : work.kind,
    status,
    event: worked?.normalised.event ?? null,
    source: names?.source ?? null,
    email: names?.email ?? null,
    userId: names?.userId ?? null,
    anonymousId: names?.anonymousId ?? null,
    traits: names?.traits ?? {},
    owner: one.owner,
    listedBy: isListed ? listedBy(one, worked.normalised) : [],
    linkedAtMs: null,
    duplicateOf: one.original === null ? null : signalIdOf(one.original),
    rulesTried: names === null ? 0 : (worked?.evaluation?.rulesTried ?? 0),
    outcomes: state.outcomes.idsOf(matches),
    deletedAtMs: one.isDeleted ? nowMs : null,
  };
}

/**
 * Signals that are sent once more (design §6, §8): a held one that was released, a dead letter that is replayed. Each names the
 * place that it left, and leaves it in the transaction that records it; where that place says something else by now, it
 * has been there and gone, and is ignored. None of them has had an effect on people.
 */
class Returning {
  readonly #state: StoreState;
  readonly #counts: SignalCounts;
  /** Held signals that have left, by their lines. */
  readonly #released = new Map<number, Facts>();

  constructor(state: StoreState, counts: SignalCounts) {
    this.#state = state;
    this.#counts = counts;
  }

  /** Whether the signal is to be recorded: always, when it comes for the first time. */
  leave(signal: SignalToRecord): boolean {
    const { resent } = signal.admission;
    if (resent === undefined) return true;
    return resent.from === "held" ? this.#leaveHeld(signal, resent.place) : this.#leaveDead(signal, resent.place);
  }

  /** Writes what has left. To be called once all signals are recorded. */
  write(): void {
    const { held } = this.#state;
    for (const { segment, seqs } of held.segmentsOf(this.#released.keys())) {
      held.blank(segment, seqs);
      held.rewrite(segment, new Map(seqs.map((seq) => [seq, this.#released.get(seq) ?? segment.facts(seq)] as const)));
    }
    held.flush();
  }

  /** Takes a signal out of the held ones. One that was purged on its way is recorded all the same. */
  #leaveHeld({ admission: { id } }: SignalToRecord, place: number): boolean {
    const facts = this.#released.has(place) ? null : this.#state.held.read(place);
    if (facts === null || facts.admission.id !== id || facts.deletedAtMs !== null) return false;
    const { status } = facts;
    if (status !== "held" && status !== "purged") return false;
    changeStatus(this.#counts, countedSignal(facts), status, "released");
    this.#released.set(place, { ...afterPurge(facts), status: "released" });
    return true;
  }

  /** Takes a dead letter out. One that is dead again stays where it is. */
  #leaveDead({ admission: { id }, work }: SignalToRecord, place: number): boolean {
    const row = readDeadLetter(this.#state.sql, place);
    if (row === null || row.id !== id || row.status !== "dead" || work.kind === "dead") return false;
    changeStatus(this.#counts, { admission: admissionOf(row), group: null }, "dead", "released");
    deleteDeadLetter(this.#state.sql, place);
    return true;
  }
}

// What becomes of the signals of a batch, each in exactly one place.

/**
 * Decides what becomes of each signal, in this order: its person deleted → dead → past its period → held → duplicate → to be
 * processed.
 */
function decideFates(state: StoreState, pending: readonly PendingSignal[], people: People, nowMs: number): void {
  const namesUntilMs = namesDeletedUntilMs(state.sql);
  const candidates: { one: PendingSignal; key: string; candidate: Candidate }[] = [];
  for (const one of pending) {
    const { admission, work } = one.signal;
    if (isDeleted(state, one, people, namesUntilMs)) {
      one.status = "purged";
      one.isDeleted = true;
    } else if (work.kind === "dead") one.status = "dead";
    else if (admission.verdict === "held") one.status = admission.periodEndMs <= nowMs ? "purged" : "held";
    else if (work.contentHash !== null) {
      one.hash = hashBytes(work.contentHash, work.duplicateWindowMs);
      const { receivedAtMs } = one.receipt;
      const again = admission.resent !== undefined;
      const candidate = { hash: one.hash, receivedAtMs, windowMs: work.duplicateWindowMs, again };
      candidates.push({ one, key: work.contentHash, candidate });
    }
  }
  const recorded = state.originals.find(
    candidates.map(({ candidate }) => candidate),
    nowMs,
  );
  const inBatch = new Map<string, PendingSignal[]>();
  for (const [index, { one, key, candidate }] of candidates.entries()) {
    const twins = inBatch.get(key) ?? [];
    one.original = recorded[index] ?? twins.find((twin) => isNear(twin, one, candidate.windowMs)) ?? null;
    if (one.original !== null) one.status = "duplicate";
    else inBatch.set(key, [...twins, one]);
  }
}

/** Whether a signal's person has been deleted. A dead letter goes by the fields that name people, as far as it can be read. */
function isDeleted(
  state: StoreState,
  { signal, receipt }: PendingSignal,
  people: People,
  namesUntilMs: number,
): boolean {
  if (receipt.receivedAtMs > namesUntilMs) return false;
  const isDead = signal.work.kind === "dead";
  const visitor = isDead ? visitorOfPayload(signal.payload, signal.admission) : visitorOf(signal);
  if (visitor === null) return false;
  const { sql } = state;
  return (
    isOfDeleted(sql, visitor, receipt, (id) => people.identities.claimsOf(id)) ||
    isOfOneBeingDeleted(sql, visitor, receipt)
  );
}

function isNear(one: PendingSignal, other: PendingSignal, windowMs: number): boolean {
  return Math.abs(one.receipt.receivedAtMs - other.receipt.receivedAtMs) <= windowMs;
}

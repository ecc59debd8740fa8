/**
 * Records signals (design §8): each signal ends up in exactly one place. Runs inside one transaction of the Signal Store.
 *
 * In received order: resent signals leave their place → statuses → identities → persons, scores and lines. Identities come
 * first, so that an identify call holds for the whole batch.
 */
import type { Evaluation } from "../domain/rules/evaluate-rules.ts";
import type { RuleMatch } from "../domain/rules/mapping-rule.ts";
import { groupSource } from "../domain/signal/identity.ts";
import type { Occurred } from "../domain/signal/occurred-at.ts";
import type { LineStatus, NormalisedSignal } from "../domain/signal/signal.ts";
import { isLater, type ReceivedOrder } from "../wire/admission.ts";
import type { Accounts } from "./accounts/accounts.ts";
import { isOfDeleted, namesDeletedUntilMs } from "./deletion/person-deletions.ts";
import { afterPurge, isOriginal, keepsPayload, type Facts, type ListingId, type LinePerson } from "./log/line.ts";
import { hashBytes, type Original } from "./log/originals.ts";
import { linkAtOnce } from "./people/linking.ts";
import { People } from "./people/people.ts";
import { idsOf, visitorOfPayload } from "./people/identities.ts";
import { insertEntries, type Entry, visitorList, type VisitorId } from "./people/timelines.ts";
import type { SignalToRecord } from "./protocol/stored-signals.ts";
import type { DeadLetterRow } from "./schema.ts";
import { admissionOf, insertDeadLetter, noteDeadLetters } from "./state/dead-letters.ts";
import { changeStatus, countedSignal, noteReceived, type Books } from "./state/status-change.ts";
import type { StoreState } from "./state/store-state.ts";

interface PendingSignal {
  id: string;
  signal: SignalToRecord;
  /** Null for account updates and dead letters. */
  visitor: Omit<NormalisedSignal, "properties" | "groupTraits"> | null;
  evaluation: Evaluation | null;
  order: ReceivedOrder;
  occurred: Occurred;
  status: Exclude<LineStatus, "released"> | "dead";
  deadReason: string | null;
  isDeleted: boolean;
  hash: Uint8Array | null;
  /** The original of a duplicate: of the same batch, or recorded before. */
  original: PendingSignal | Original | null;
  person: LinePerson | null;
  matches: readonly RuleMatch[];
  seq: number;
}

/** @param rulesVersion version of the rules that evaluated the signals; null: earlier signals are linked later. */
export function recordSignals(
  state: StoreState,
  batch: readonly SignalToRecord[],
  nowMs: number,
  rulesVersion: number | null = null,
): void {
  const people = new People(state, nowMs);
  const released = new Map<number, Facts>();
  const signals = batch
    .filter((signal) => leavesItsPlace(state, signal, released))
    .map(toPending)
    .sort((a, b) => (isLater(a.order, b.order) ? 1 : -1));

  people.preload(signals.flatMap(({ visitor }) => visitor ?? []));
  decideStatuses(state, signals, people, nowMs);
  findDuplicates(state, signals, nowMs);
  for (const pending of signals) addIdentities(pending, people);
  const lists = new Map<string, Entry[]>();
  const waiting: VisitorId[] = [];
  for (const pending of signals) {
    assignPerson(pending, people);
    updateAccount(pending, people.accounts);
    const facts = appendToLog(state, pending, nowMs);
    if (facts !== null) addToLists(pending, facts, people, lists, waiting);
    if (facts?.status === "anonymous") noteRulesVersion(state, pending, rulesVersion);
    count(pending, state.books);
  }

  for (const [list, entries] of lists) insertEntries(state.sql, list, entries);
  linkAtOnce(state, people, [...people.identities.claimed, ...waiting], { rulesVersion, nowMs });
  people.write();
  writeReleased(state, released);
  raiseEvents(state, signals, people, nowMs);
  state.signals.flush();
}

function toPending(signal: SignalToRecord): PendingSignal {
  const { id, receivedAtMs, ordinal } = signal.admission;
  const { work } = signal;
  const isOfVisitor = work.kind === "signal" || work.kind === "identify";
  return {
    id,
    signal,
    visitor: isOfVisitor ? work.normalised : null,
    evaluation: isOfVisitor ? work.evaluation : null,
    order: { receivedAtMs, ordinal },
    occurred: isOfVisitor ? work.occurred : { ms: receivedAtMs, from: "received" },
    status: "processed",
    deadReason: work.kind === "dead" ? work.reason : null,
    isDeleted: false,
    hash: null,
    original: null,
    person: null,
    matches: [],
    seq: 0,
  };
}

/** Priority: person deleted → dead → past its period → held → duplicate → processed. */
function decideStatuses(state: StoreState, batch: readonly PendingSignal[], people: People, nowMs: number): void {
  const namesUntilMs = namesDeletedUntilMs(state.sql);
  for (const pending of batch) {
    const { admission, work } = pending.signal;
    if (isOfDeletedPerson(state, pending, people, namesUntilMs)) {
      pending.status = "purged";
      pending.isDeleted = true;
    } else if (work.kind === "dead") pending.status = "dead";
    else if (admission.verdict === "held") pending.status = admission.periodEndMs <= nowMs ? "purged" : "held";
  }
}

function findDuplicates({ originals }: StoreState, batch: readonly PendingSignal[], nowMs: number): void {
  const candidates = batch.flatMap((pending) => {
    const { admission, work } = pending.signal;
    if (pending.status !== "processed" || work.kind === "dead" || work.contentHash === null) return [];
    const { contentHash, duplicateWindowMs: windowMs } = work;
    const hash = (pending.hash = hashBytes(contentHash, windowMs));
    const isResent = admission.resent !== undefined;
    return { pending, contentHash, hash, receivedAtMs: admission.receivedAtMs, windowMs, isResent };
  });
  const recorded = originals.find(candidates, nowMs);
  const inBatch = new Map<string, PendingSignal[]>();
  for (const [index, { pending, contentHash, receivedAtMs, windowMs }] of candidates.entries()) {
    const sameHash = inBatch.get(contentHash) ?? [];
    const near = sameHash.find(({ order }) => Math.abs(order.receivedAtMs - receivedAtMs) <= windowMs);
    pending.original = recorded[index] ?? near ?? null;
    if (pending.original !== null) pending.status = "duplicate";
    else inBatch.set(contentHash, [...sameHash, pending]);
  }
}

/** A dead letter is checked by the fields of its payload that name people, as far as they are readable. */
function isOfDeletedPerson(
  { sql }: StoreState,
  { signal, visitor, order }: PendingSignal,
  people: People,
  namesUntilMs: number,
): boolean {
  if (order.receivedAtMs > namesUntilMs) return false;
  const names = signal.work.kind === "dead" ? visitorOfPayload(signal.payload, signal.admission) : visitor;
  return names !== null && isOfDeleted(sql, people.identities, names, order);
}

/** Without an email an identify creates no person (spec §6), but ids that are named together belong to one visitor. */
function addIdentities({ status, signal, visitor, order, occurred }: PendingSignal, people: People): void {
  if (status !== "processed" || visitor === null) return;
  const { email, userId, anonymousId, previousId } = visitor;
  const user: VisitorId | null = userId === undefined ? null : { kind: "user_id", value: userId };
  if (signal.work.kind === "signal") {
    if (user === null || previousId === undefined) return;
    people.identities.pair({ kind: "anonymous_id", value: previousId }, user, order);
    people.identities.pair({ kind: "user_id", value: previousId }, user, order);
    return;
  }
  const anonymous: VisitorId | null = anonymousId === undefined ? null : { kind: "anonymous_id", value: anonymousId };
  if (email !== undefined) {
    const personId = people.findOrCreate(email, occurred.ms);
    for (const id of [user, anonymous]) if (id !== null) people.identities.claim(id, { ...order, personId });
  } else if (user !== null && anonymous !== null) people.identities.pair(user, anonymous, order);
}

function assignPerson(pending: PendingSignal, people: People): void {
  const { visitor, evaluation, order, occurred } = pending;
  if (pending.status !== "processed" || visitor === null) return;
  if (visitor.email === undefined && visitor.userId === undefined && visitor.anonymousId === undefined) return;
  // Without an evaluation, a rule needs the person's email: the rules run when the signal is linked.
  pending.person = evaluation === null ? null : people.personOf(visitor, order, occurred.ms);
  if (pending.person !== null) pending.matches = evaluation?.matches ?? [];
  else if (pending.signal.work.kind === "signal") pending.status = "anonymous";
}

/** Applies account updates, and traits of group calls (design §8.7). */
function updateAccount(pending: PendingSignal, accounts: Accounts): void {
  const { admission, work } = pending.signal;
  const claim = { ...pending.order, signalId: admission.id };
  const isRecorded = pending.status === "processed" || pending.status === "anonymous";
  if (isRecorded && work.kind === "signal" && work.group !== undefined) {
    accounts.setTraits(work.group, claim);
  }
  if (pending.status !== "processed" || work.kind !== "account") return;
  const refusal = accounts.update(work.account, claim);
  if (refusal === null) return;
  pending.status = "dead";
  pending.deadReason = refusal;
  pending.hash = null;
}

/** Returns the facts of the new line; null for a dead letter. */
function appendToLog(state: StoreState, pending: PendingSignal, nowMs: number): Facts | null {
  const { status, signal, hash } = pending;
  if (status === "dead") {
    insertDeadLetter(state.sql, signal, pending.deadReason ?? "", nowMs);
    return null;
  }
  const facts = recordedFacts(state, pending, status, nowMs);
  const line = { facts, payload: keepsPayload(facts) ? signal.payload : null };
  if (signal.admission.verdict === "held" && !pending.isDeleted) {
    pending.seq = -state.held.append(line, null);
    return facts;
  }
  const originalHash = isOriginal(facts) ? hash : null;
  pending.seq = state.signals.append(line, originalHash);
  if (originalHash !== null) state.originals.add(originalHash, pending.seq, nowMs);
  return facts;
}

function recordedFacts(state: StoreState, pending: PendingSignal, status: LineStatus, nowMs: number): Facts {
  const { resent: _resent, pathSource, idempotencyKey, ...admission } = pending.signal.admission;
  const { visitor, evaluation, original, person, occurred } = pending;
  const { kind } = pending.signal.work;
  // A purged signal leaves no names, and no source, which may be a name. The names of a duplicate are only in its original, because a
  // deletion does not search duplicates.
  const names = status === "purged" || status === "duplicate" ? null : visitor;
  // The matches of an anonymous signal count when it is linked.
  const matches = status === "anonymous" ? (evaluation?.matches ?? []) : pending.matches;
  // Only a held signal is normalised again, when it is released.
  const source = status === "held" && pathSource !== undefined ? { pathSource } : {};
  const idempotency = status === "held" && idempotencyKey !== undefined ? { idempotencyKey } : {};
  return {
    admission: { ...admission, ...source, ...idempotency },
    recordedAtMs: nowMs,
    occurred,
    kind: kind === "dead" ? "signal" : kind,
    status,
    event: visitor?.event ?? null,
    source: names?.source ?? null,
    email: names?.email ?? null,
    userId: names?.userId ?? null,
    anonymousId: names?.anonymousId ?? null,
    traits: names?.traits ?? {},
    person,
    listedBy: status === "processed" || status === "anonymous" ? listedBy(pending) : [],
    linkedAtMs: null,
    duplicateOf: original?.id ?? null,
    rulesTried: names === null ? 0 : (evaluation?.rulesTried ?? 0),
    outcomes: state.outcomes.idsOf(matches),
    deletedAtMs: pending.isDeleted ? nowMs : null,
  };
}

/** If an anonymous id named the person, the user id lists the line too: it is stronger and may move the line to another person. */
function listedBy({ person, visitor }: PendingSignal): ListingId[] {
  const ids: ListingId[] = [];
  if (visitor?.userId !== undefined && (person === null || person.by === "anonymous_id")) ids.push("user_id");
  if (visitor?.anonymousId !== undefined && person === null) ids.push("anonymous_id");
  return ids;
}

function addToLists(
  { status, visitor, person, seq }: PendingSignal,
  facts: Facts,
  people: People,
  lists: Map<string, Entry[]>,
  waiting: VisitorId[],
): void {
  if ((status !== "processed" && status !== "anonymous") || visitor === null) return;
  if (person !== null) people.addLine(person.personId, seq, facts);
  for (const id of idsOf(facts).filter(({ kind }) => facts.listedBy.includes(kind))) {
    const key = visitorList(id);
    const entries = lists.get(key) ?? [];
    entries.push({ seq, scored: null });
    lists.set(key, entries);
    if (people.identities.claimsOf(id).length > 0) waiting.push(id);
  }
}

/** Notes from which line on all anonymous lines have outcomes of the current rules, so that linking needs no payloads. */
function noteRulesVersion(
  { books }: StoreState,
  { seq, signal, evaluation }: PendingSignal,
  rulesVersion: number | null,
): void {
  const isEvaluated = rulesVersion !== null && signal.work.kind === "signal" && evaluation !== null;
  if (!isEvaluated) books.judged = { rulesVersion, sinceSeq: seq + 1 };
  else if (books.judged.rulesVersion !== rulesVersion) books.judged = { rulesVersion, sinceSeq: seq };
}

function count({ id, signal, status, visitor, original, order, seq }: PendingSignal, books: Books): void {
  const isInGroup = visitor !== null && signal.work.kind === "signal";
  const group = isInGroup ? { event: visitor.event, source: groupSource(visitor.source, visitor) } : null;
  if (group !== null && status !== "purged" && status !== "dead") {
    noteReceived(books, group, order, { id: original?.id ?? id, seq: original?.seq ?? seq });
  }
  changeStatus(books, { admission: signal.admission, group }, "unrecorded", status);
}

function raiseEvents(state: StoreState, batch: readonly PendingSignal[], { news }: People, nowMs: number): void {
  if (state.books.wanted === null) return;
  const deadReasons = batch.filter(({ status }) => status === "dead").map(({ deadReason }) => deadReason ?? "");
  state.raised.raise([
    ...(news?.thresholdEvents(nowMs) ?? []),
    ...(news?.scoredEvents(nowMs) ?? []),
    ...noteDeadLetters(state, deadReasons, nowMs),
  ]);
}

// Resent signals (design §6, §8) are released held signals and replayed dead letters. Each leaves its place in the transaction that
// records it. If the place no longer has the signal, it was recorded before and is ignored.

/** Whether to record the signal: always if it is new. @param released receives the facts that are left of held signals. */
function leavesItsPlace(state: StoreState, { admission, work }: SignalToRecord, released: Map<number, Facts>): boolean {
  const { id, resent } = admission;
  if (resent === undefined) return true;
  const { from, place } = resent;
  if (from === "dead") {
    const [row] = state.sql.exec<DeadLetterRow>("SELECT * FROM dead_letters WHERE seq = ?", place);
    // A signal that is dead again stays in its place.
    if (row?.id !== id || row.status !== "dead" || work.kind === "dead") return false;
    changeStatus(state.books, { admission: admissionOf(row), group: null }, "dead", "released");
    state.sql.exec("DELETE FROM dead_letters WHERE seq = ?", place);
    return true;
  }
  const facts = released.has(place) ? null : state.held.read(place);
  if (facts === null || facts.admission.id !== id || facts.deletedAtMs !== null) return false;
  // Record the signal even if it was purged on its way through the queue.
  if (facts.status !== "held" && facts.status !== "purged") return false;
  changeStatus(state.books, countedSignal(facts), facts.status, "released");
  released.set(place, { ...afterPurge(facts), status: "released" });
  return true;
}

function writeReleased({ held }: StoreState, released: ReadonlyMap<number, Facts>): void {
  for (const { segment, seqs } of held.segmentsOf(released.keys())) {
    held.blank(segment, seqs);
    held.rewrite(segment, new Map(seqs.map((seq) => [seq, released.get(seq) ?? segment.facts(seq)] as const)));
  }
  held.flush();
}

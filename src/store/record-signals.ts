/**
 * Records signals: each signal ends up in exactly one place. Runs inside one transaction of the Signal Store.
 *
 * In received order: resent signals leave their place → statuses → identities → persons, scores and lines. Identities come
 * first, so that an identify call holds for the whole batch.
 */
import type { Notification } from "../domain/notifications/notification.ts";
import type { Evaluation } from "../domain/rules/evaluate-rules.ts";
import type { RuleMatch } from "../domain/rules/mapping-rule.ts";
import { accountTopic } from "../domain/accounts/account-topic.ts";
import { groupSource } from "../domain/signal/identity.ts";
import type { Occurred } from "../domain/signal/occurred-at.ts";
import type { Problems } from "../domain/signal/normalise.ts";
import type { LineStatus, NormalisedSignal } from "../domain/signal/signal.ts";
import { isLater, type Admission, type ReceivedOrder } from "../wire/message.ts";
import type { Accounts } from "./accounts/accounts.ts";
import { deletionsNamedIn } from "./deletion/deleted-names.ts";
import { giveToDeletion } from "./deletion/person-deletions.ts";
import { afterPurge, isOriginal, keepsPayload, type SignalFacts, type ListingId, type LinePerson } from "./log/line.ts";
import { hashBytes } from "../domain/signal/canonical-form.ts";
import { type Original, readLine } from "./log/signal-log.ts";
import { linkAtOnce } from "./people/linking.ts";
import { People } from "./people/people.ts";
import { callIdsOf, idsOf, visitorOfPayload, pairsOfCall } from "./people/identities.ts";
import { insertEntries, type Entry, visitorList, type VisitorId } from "./people/timelines.ts";
import type { SignalToRecord } from "./protocol/stored-signals.ts";
import type { DeadLetterRow } from "./schema.ts";
import {
  admissionOf,
  countMisfit,
  insertDeadLetter,
  isMisfit,
  noteDeadLetters,
  replaceReason,
} from "./state/dead-letters.ts";
import { changeStatus, countedSignal, noteReceived, type Books } from "./state/status-change.ts";
import { countKeySignal, type PendingKeyDays } from "./state/key-days.ts";
import type { StoreState } from "./state/store-state.ts";
import { nextRetentionMs } from "./state/due.ts";

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
  const released = new Map<number, SignalFacts>();
  const signals = batch
    .filter((signal) => leavesItsPlace(state, signal, released, nowMs))
    .map(toPending)
    .sort((a, b) => (isLater(a.order, b.order) ? 1 : -1));

  people.preload(signals.flatMap(({ visitor }) => visitor ?? []));
  decideStatuses(state, signals, people, nowMs);
  findDuplicates(state, signals, people, nowMs);
  for (const pending of signals) addIdentities(pending, people);
  const lists = new Map<string, Entry[]>();
  const waiting: VisitorId[] = [];
  noteRulesVersion(state, rulesVersion);
  for (const pending of signals) {
    assignPerson(pending, people);
    updateAccount(pending, people.accounts);
    const facts = appendToLog(state, pending, nowMs);
    if (facts !== null) addToLists(pending, facts, people, lists, waiting);
    if (facts?.status === "anonymous") noteEvaluated(state, pending, rulesVersion);
    count(pending, state.head);
  }

  for (const [list, entries] of lists) insertEntries(state.sql, list, entries);
  linkAtOnce(state, people, [...people.identities.claimed, ...waiting], { rulesVersion, nowMs });
  people.flush({ others: raisedBy(state, signals, people, nowMs) });
  writeReleased(state, released);
  noteRetention(state);
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
  purgeOfDeleted(state, batch, people);
  for (const pending of batch.filter(({ isDeleted }) => !isDeleted)) {
    const { admission, work } = pending.signal;
    // A held misfit is judged at its release.
    if (work.kind === "dead" && !(isMisfit(pending.signal) && isHeld(admission))) pending.status = "dead";
    else if (admission.verdict === "held") pending.status = admission.periodEndMs <= nowMs ? "purged" : "held";
  }
}

/** A dead letter that is replayed has the verdict of its first admission. */
function isHeld({ verdict, resent }: Admission): boolean {
  return verdict === "held" && resent === undefined;
}

/** A call may give ids to its deletion. Then other calls of the batch with these ids are deleted too, also earlier ones. */
function purgeOfDeleted(state: StoreState, batch: readonly PendingSignal[], people: People): void {
  const early = batch.filter(({ order }) => order.receivedAtMs <= people.owners.namesUntilMs);
  const [letters, calls] = [early.filter(isDead), early.filter((pending) => !isDead(pending))];
  const ofId = new Map<string, PendingSignal[]>();
  for (const pending of calls) {
    for (const id of callIdsOf(pending.visitor ?? {})) {
      const named = ofId.get(visitorList(id)) ?? [];
      named.push(pending);
      ofId.set(visitorList(id), named);
    }
  }
  const purge = (pending: PendingSignal): readonly VisitorId[] => purgeIfDeleted(state, pending, people);
  const purgeCalls = (some: readonly PendingSignal[]): void => {
    for (let waiting = some; waiting.length > 0;)
      waiting = waiting.flatMap(purge).flatMap((id) => ofId.get(visitorList(id)) ?? []);
  };
  purgeCalls(calls);
  // A dead letter takes as long as thousands of calls. So the letters are read again only if one of them has given ids.
  for (let ids: readonly VisitorId[] = letters.flatMap(purge); ids.length > 0; ids = letters.flatMap(purge))
    purgeCalls(ids.flatMap((id) => ofId.get(visitorList(id)) ?? []));
}

function isDead({ signal }: PendingSignal): boolean {
  return signal.work.kind === "dead";
}

/** Returns the ids that the deletion has got from the call. */
function purgeIfDeleted(state: StoreState, pending: PendingSignal, people: People): readonly VisitorId[] {
  if (pending.isDeleted || !isOfDeletedPerson(state, pending, people)) return [];
  const { admission, payload } = pending.signal;
  pending.status = "purged";
  pending.isDeleted = true;
  const call = isDead(pending) ? visitorOfPayload(payload, admission) : pending.visitor;
  return giveToDeletion(state, people, call, pending.order);
}

/** A signal of a new person is no duplicate of a line that a deletion has not reached yet. */
function findDuplicates({ signals }: StoreState, batch: readonly PendingSignal[], people: People, nowMs: number): void {
  const isKept = (facts: SignalFacts): boolean => {
    const isPersonGone = facts.person !== null && people.emailOf(facts.person.personId) === null;
    return people.owners.afterDeletions(facts, isPersonGone, nowMs).deletedAtMs === null;
  };
  const candidates = batch.flatMap((pending) => {
    const { admission, work } = pending.signal;
    if (pending.status !== "processed" || work.kind === "dead" || work.contentHash === null) return [];
    const { contentHash, duplicateWindowMs: windowMs } = work;
    const hash = (pending.hash = hashBytes(contentHash, windowMs));
    const isResent = admission.resent !== undefined;
    return { pending, contentHash, hash, receivedAtMs: admission.receivedAtMs, windowMs, isResent };
  });
  const recorded = signals.findOriginals(candidates, nowMs, people.owners.namesUntilMs > 0 ? isKept : undefined);
  const inBatch = new Map<string, PendingSignal[]>();
  for (const [index, { pending, contentHash, receivedAtMs, windowMs }] of candidates.entries()) {
    const sameHash = inBatch.get(contentHash) ?? [];
    const near = sameHash.find(({ order }) => Math.abs(order.receivedAtMs - receivedAtMs) <= windowMs);
    pending.original = recorded[index] ?? near ?? null;
    if (pending.original !== null) pending.status = "duplicate";
    else inBatch.set(contentHash, [...sameHash, pending]);
  }
}

/** A dead letter is checked by all texts of its payload, as far as they are readable. */
function isOfDeletedPerson(
  { sql }: StoreState,
  { signal, visitor, order }: PendingSignal,
  { owners }: People,
): boolean {
  if (signal.work.kind === "dead") {
    return deletionsNamedIn(sql, signal.payload, signal.admission).deletions.size > 0;
  }
  return visitor !== null && owners.ownerOf(visitor, order)?.isDeleted === true;
}

/** An identify with an email claims ids for its person. Other calls pair ids. */
function addIdentities({ status, visitor, order, occurred }: PendingSignal, people: People): void {
  if (status !== "processed" || visitor === null) return;
  if (visitor.kind === "identify" && visitor.email !== undefined) {
    const personId = people.findOrCreate(visitor.email, occurred.ms);
    for (const id of idsOf(visitor)) people.identities.claim(id, { ...order, personId });
  } else for (const [a, b] of pairsOfCall(visitor)) people.identities.pair(a, b, order);
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

/** Applies account updates, and traits of group calls. */
function updateAccount(pending: PendingSignal, accounts: Accounts): void {
  const { admission, work } = pending.signal;
  const claim = { ...pending.order, signalId: admission.id };
  const isRecorded = pending.status === "processed" || pending.status === "anonymous";
  if (isRecorded && work.kind === "signal" && work.group !== undefined) {
    accounts.setTraits(work.group, claim);
  }
  if (pending.status !== "processed" || work.kind !== "account") return;
  const rejection = accounts.update(work.account, claim);
  if (rejection === null) return;
  pending.status = "dead";
  pending.deadReason = rejection;
  pending.hash = null;
}

/** Returns the facts of the new line; null for a dead letter. */
function appendToLog(state: StoreState, pending: PendingSignal, nowMs: number): SignalFacts | null {
  const { status, signal, hash } = pending;
  if (status === "dead") {
    insertDeadLetter(state, signal, pending.deadReason ?? "", nowMs);
    return null;
  }
  const facts = recordedFacts(state, pending, status, nowMs);
  const line = { facts, payload: keepsPayload(facts) ? signal.payload : null };
  if (signal.admission.verdict === "held" && !pending.isDeleted) {
    pending.seq = -state.held.append(line, null);
    if (status === "held") state.due.by("purge", signal.admission.periodEndMs);
    return facts;
  }
  pending.seq = state.signals.append(line, isOriginal(facts) ? hash : null);
  return facts;
}

function recordedFacts(state: StoreState, pending: PendingSignal, status: LineStatus, nowMs: number): SignalFacts {
  const { resent: _resent, ...admission } = pending.signal.admission;
  const { pathSource: _source, idempotencyKey: _key, templateVersion: _version, around: _around, ...rest } = admission;
  const { visitor, evaluation, original, person, occurred } = pending;
  const { work } = pending.signal;
  const { kind } = work;
  // A purged signal leaves no names, and no source, which may be a name. The names of a duplicate are only in its original, because a
  // deletion does not search duplicates.
  const names = status === "purged" || status === "duplicate" ? null : visitor;
  // Matches of an anonymous signal count once it is linked; those of an excluded one, once no exclusion covers it.
  const matches = status === "anonymous" ? (evaluation?.matches ?? []) : pending.matches;
  return {
    // Only a held signal is normalised again, when it is released.
    admission: status === "held" ? admission : rest,
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
    timelineIds: status === "processed" || status === "anonymous" ? timelineIds(pending) : [],
    linkedAtMs: null,
    linkedRulesVersion: null,
    duplicateOf: original?.id ?? null,
    sameId: status === "duplicate" && "hasMappedId" in work,
    rulesTried: names === null ? 0 : (evaluation?.rulesTried ?? 0),
    outcomes: state.outcomes.idsOf(matches),
    excludedBy: status === "processed" || status === "anonymous" ? (evaluation?.excludedBy ?? null) : null,
    problems: keptProblems(pending.signal, status),
    mapped: status !== "purged" && "mapped" in work,
    topic: topicIn(work, names !== null, status),
    deletedAtMs: pending.isDeleted ? nowMs : null,
  };
}

/** A purged signal and a duplicate have none, like other texts of the sender. */
function topicIn(work: SignalToRecord["work"], hasNames: boolean, status: LineStatus): string | null {
  if (work.kind === "account") return status === "processed" ? (accountTopic(work.account) ?? null) : null;
  return hasNames && "topic" in work ? (work.topic ?? null) : null;
}

/** Only the problem of traits quotes the sender, who may put a name into a trait's name. */
function keptProblems({ problems = {} }: SignalToRecord, status: LineStatus): Problems {
  if (status === "purged") return {};
  const { traits: _quoted, ...others } = problems;
  return status === "duplicate" ? others : problems;
}

/** If an anonymous id named the person, the user id lists the line too: it is stronger and may move the line to another person. */
function timelineIds({ person, visitor }: PendingSignal): ListingId[] {
  const ids: ListingId[] = [];
  if (visitor?.userId !== undefined && (person === null || person.by === "anonymous_id")) ids.push("user_id");
  if (visitor?.anonymousId !== undefined && person === null) ids.push("anonymous_id");
  return ids;
}

function addToLists(
  { status, visitor, person, seq }: PendingSignal,
  facts: SignalFacts,
  people: People,
  lists: Map<string, Entry[]>,
  waiting: VisitorId[],
): void {
  if ((status !== "processed" && status !== "anonymous") || visitor === null) return;
  if (person !== null) people.addLine(person.personId, seq, facts);
  for (const id of idsOf(facts).filter(({ kind }) => facts.timelineIds.includes(kind))) {
    const key = visitorList(id);
    const entries = lists.get(key) ?? [];
    entries.push({ seq, scored: null });
    lists.set(key, entries);
    if (people.identities.claimsOf(id).length > 0) waiting.push(id);
  }
}

/** From the next line on, anonymous lines may have outcomes of newer rules. */
function noteRulesVersion({ head, signals }: StoreState, rulesVersion: number | null): void {
  if (rulesVersion === null || rulesVersion <= (head.evaluated.rulesVersion ?? -1)) return;
  head.evaluated = { rulesVersion, sinceSeq: signals.nextSeq };
}

/** If the newest rules have not evaluated an anonymous line, linking evaluates it. */
function noteEvaluated(
  { head }: StoreState,
  { seq, signal, evaluation }: PendingSignal,
  rulesVersion: number | null,
): void {
  const isEvaluated = rulesVersion !== null && signal.work.kind === "signal" && evaluation !== null;
  if (!isEvaluated || rulesVersion !== head.evaluated.rulesVersion) head.evaluated.sinceSeq = seq + 1;
}

function count(
  { id, signal, status, visitor, original, order, seq }: PendingSignal,
  head: Books & PendingKeyDays,
): void {
  const isInGroup = visitor !== null && signal.work.kind === "signal";
  const group = isInGroup ? { event: visitor.event, source: groupSource(visitor.source, visitor) } : null;
  if (group !== null && status !== "purged" && status !== "dead") {
    noteReceived(head, group, order, { id: original?.id ?? id, seq: original?.seq ?? seq });
  }
  changeStatus(head, { admission: signal.admission, group }, "unrecorded", status);
  if (signal.admission.resent === undefined) countKeySignal(head, signal.admission);
}

/** Notifications of the batch itself. `People.flush` adds thresholds. */
function raisedBy(
  state: StoreState,
  batch: readonly PendingSignal[],
  { notifications }: People,
  nowMs: number,
): Notification[] {
  if (notifications === null) return [];
  const deadReasons = batch.filter(({ status }) => status === "dead").map(({ deadReason }) => deadReason ?? "");
  return [...notifications.scoredNotifications(nowMs), ...noteDeadLetters(state, deadReasons, nowMs)];
}

/** Only the first signal of a store changes when retention is due. */
function noteRetention(state: StoreState): void {
  if (state.due.of("retention") === Number.POSITIVE_INFINITY) state.due.by("retention", nextRetentionMs(state));
}

// Resent signals are released held signals and replayed dead letters. Each leaves its place in the transaction that
// records it. If the place no longer has the signal, it was recorded before and is ignored.

/** Whether to record the signal: always if it is new. @param released receives the facts that are left of held signals. */
function leavesItsPlace(
  state: StoreState,
  { admission, work }: SignalToRecord,
  released: Map<number, SignalFacts>,
  nowMs: number,
): boolean {
  const { id, resent } = admission;
  if (resent === undefined) return true;
  const { from, place } = resent;
  if (from === "dead") {
    const [row] = state.sql.exec<DeadLetterRow>("SELECT * FROM dead_letters WHERE seq = ?", place);
    if (row?.id !== id || row.deleted_at !== null) return false;
    if (work.kind === "dead") {
      if (row.status === "dead") replaceReason(state, row, work, nowMs);
      return false;
    }
    // Record the signal even if it was purged on its way through the queue.
    countMisfit(state.head, row.misfit_bytes, -1);
    changeStatus(state.head, { admission: admissionOf(row), group: null }, row.status, "released");
    state.sql.exec("DELETE FROM dead_letters WHERE seq = ?", place);
    return true;
  }
  const facts = released.has(place) ? null : readLine(state.held, place);
  if (facts === null || facts.admission.id !== id || facts.deletedAtMs !== null) return false;
  // Record the signal even if it was purged on its way through the queue.
  if (facts.status !== "held" && facts.status !== "purged") return false;
  changeStatus(state.head, countedSignal(facts), facts.status, "released");
  released.set(place, { ...afterPurge(facts), status: "released" });
  return true;
}

function writeReleased({ held }: StoreState, released: ReadonlyMap<number, SignalFacts>): void {
  for (const portion of held.read(released.keys())) {
    held.rewrite(portion, new Map(portion.seqs.map((seq) => [seq, released.get(seq) ?? portion.facts(seq)] as const)));
  }
  held.flush();
}

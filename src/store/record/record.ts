/**
 * Records signals (design §8): each ends up in exactly one place. Runs inside one transaction of the Signal Store.
 *
 * In order of receipt: where does it come from, if it comes again → its fate → identities → owners and scores → lines.
 * Identities come first, so that what one signal of a batch says of a visitor holds for all of it.
 */
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { tellsWhose } from "../../domain/signal/personal-source.ts";
import type { NormalisedSignal } from "../../domain/signal/signal.ts";
import { Accounts } from "../accounts/accounts.ts";
import { visitorOfPayload } from "../people/visitor-names.ts";
import { isOfErased, namesErasedUntilMs } from "../people/erased-names.ts";
import { noteDeadLetters } from "../events/dead-letter-news.ts";
import type { Facts, LineStatus, Owner } from "../log/line.ts";
import { linkAtOnce } from "../people/linking.ts";
import { People } from "../people/people.ts";
import { scoredBy } from "../people/timeline-text.ts";
import { insertEntries } from "../people/timelines.ts";
import type { Entry } from "../people/timeline-text.ts";
import { visitorList } from "../people/visitor-keys.ts";
import type { VisitorId } from "../people/visitor-keys.ts";
import type { LiveSignal, SignalToRecord } from "../protocol.ts";
import { isLater } from "../receipt.ts";
import type { Receipt } from "../receipt.ts";
import { pointsOf } from "../../domain/rules/evaluation.ts";
import type { StoreState } from "../state/store-state.ts";
import { insertDeadLetter } from "./dead-letters.ts";
import { EventGroupChanges } from "../state/event-group-changes.ts";
import { hashBytes } from "../log/originals.ts";
import type { Candidate, Original } from "../log/originals.ts";
import { Returning } from "./returning.ts";
import { changeStatus } from "../state/status-change.ts";
import type { SignalCounts } from "../state/status-change.ts";

/** A signal on its way into the log. */
interface Pending {
  signal: SignalToRecord;
  receipt: Receipt;
  status: LineStatus | "dead";
  /** Why the signal is a dead letter; null: it could be processed. */
  deadReason: string | null;
  isErased: boolean;
  hash: Uint8Array | null;
  /** The signal of which this one is a duplicate: of the same batch, or recorded before. Null: it is none. */
  original: Pending | Original | null;
  owner: Owner | null;
  matches: readonly RuleMatch[];
  seq: number;
}

export interface RecordedBatch {
  /** The first signals of the batch, as the live page shows them. */
  live(limit: number): LiveSignal[];
}

/** Records signals. @param rulesVersion of the rules that they were run through; null: earlier signals are linked later. */
export function recordSignals(
  state: StoreState,
  batch: readonly SignalToRecord[],
  nowMs: number,
  rulesVersion: number | null = null,
): RecordedBatch {
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
  return { live: (limit) => pending.slice(0, limit).map((one) => toLive(state, one, people)) };
}

function toPending(signal: SignalToRecord): Pending {
  const { receivedAtMs, ordinal } = signal.admission;
  return {
    signal,
    receipt: { receivedAtMs, ordinal },
    status: "processed",
    deadReason: signal.work.kind === "dead" ? signal.work.reason : null,
    isErased: false,
    hash: null,
    original: null,
    owner: null,
    matches: [],
    seq: 0,
  };
}

/**
 * Decides what becomes of each signal, in this order: its person deleted → dead → past its period → held → duplicate → to be
 * processed.
 */
function decideFates(state: StoreState, pending: readonly Pending[], people: People, nowMs: number): void {
  const erasedUntilMs = namesErasedUntilMs(state.sql);
  const candidates: { one: Pending; key: string; candidate: Candidate }[] = [];
  for (const one of pending) {
    const { admission, work } = one.signal;
    if (isErased(state, one, people, erasedUntilMs)) {
      one.status = "purged";
      one.isErased = true;
    } else if (work.kind === "dead") one.status = "dead";
    else if (admission.verdict === "held") one.status = admission.periodEndMs <= nowMs ? "purged" : "held";
    else if (work.contentHash !== null) {
      one.hash = hashBytes(work.contentHash, work.duplicateWindowMs);
      const { receivedAtMs } = one.receipt;
      const again = admission.again !== undefined;
      const candidate = { hash: one.hash, receivedAtMs, windowMs: work.duplicateWindowMs, again };
      candidates.push({ one, key: work.contentHash, candidate });
    }
  }
  const recorded = state.originals.find(
    candidates.map(({ candidate }) => candidate),
    nowMs,
  );
  const inBatch = new Map<string, Pending[]>();
  for (const [index, { one, key, candidate }] of candidates.entries()) {
    const twins = inBatch.get(key) ?? [];
    one.original = recorded[index] ?? twins.find((twin) => isNear(twin, one, candidate.windowMs)) ?? null;
    if (one.original !== null) one.status = "duplicate";
    else inBatch.set(key, [...twins, one]);
  }
}

/** Whether a signal's person has been deleted. A dead letter goes by the fields that name people, as far as it can be read. */
function isErased(state: StoreState, { signal, receipt }: Pending, people: People, erasedUntilMs: number): boolean {
  if (receipt.receivedAtMs > erasedUntilMs) return false;
  const isDead = signal.work.kind === "dead";
  const visitor = isDead ? visitorOfPayload(signal.payload, signal.admission) : visitorOf(signal);
  return visitor !== null && isOfErased(state.sql, visitor, receipt, (id) => people.identities.claimsOf(id));
}

function isNear(one: Pending, other: Pending, windowMs: number): boolean {
  return Math.abs(one.receipt.receivedAtMs - other.receipt.receivedAtMs) <= windowMs;
}

/**
 * Takes in what a signal says of its visitor (spec §6, identify): without an email no person and no link; but ids that are
 * named together are one visitor's.
 */
function identify(one: Pending, people: People): void {
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
function own(one: Pending, people: People): void {
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
function updateAccount(one: Pending, accounts: Accounts): void {
  const { admission, work } = one.signal;
  if (one.status !== "processed" || work.kind !== "account") return;
  const reason = accounts.update(work.account, { ...one.receipt, signalId: admission.id });
  if (reason === null) return;
  one.status = "dead";
  one.deadReason = reason;
  one.hash = null;
}

/** Writes the signal where it belongs. Returns what the log says of it; null where it is not in the log. */
function append(state: StoreState, one: Pending, nowMs: number): Facts | null {
  const { status, signal, hash } = one;
  if (status === "dead") {
    insertDeadLetter(state.sql, signal, one.deadReason ?? "", nowMs);
    return null;
  }
  const facts = factsOf(state, one, status, nowMs);
  const keepsPayload = status !== "duplicate" && status !== "purged";
  const line = { facts, payload: keepsPayload ? signal.payload : null };
  if (signal.admission.verdict === "held" && !one.isErased) {
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
function noteJudged({ books }: StoreState, { seq, signal: { work } }: Pending, rulesVersion: number | null): void {
  const isJudged = rulesVersion !== null && work.kind === "signal" && work.evaluation !== null;
  if (!isJudged) books.judged = { rulesVersion, sinceSeq: seq + 1 };
  else if (books.judged.rulesVersion !== rulesVersion) books.judged = { rulesVersion, sinceSeq: seq };
}

function factsOf(state: StoreState, one: Pending, status: LineStatus, nowMs: number): Facts {
  const { again: _again, pathSource, idempotencyKey, ...admission } = one.signal.admission;
  const { work } = one.signal;
  const worked = work.kind === "signal" || work.kind === "identify" ? work : null;
  // Purged means forgotten: who it was and what it said are not written at all; a duplicate's original says it, which is
  // found when its person is deleted, while the duplicate is not.
  const names = status === "purged" || status === "duplicate" ? null : worked?.normalised;
  const comesAgain = status === "held";
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
    source: worked === null || status === "purged" ? null : sourceOf(worked, status),
    email: names?.email ?? null,
    userId: names?.userId ?? null,
    anonymousId: names?.anonymousId ?? null,
    traits: names?.traits ?? {},
    owner: one.owner,
    linkedAtMs: null,
    duplicateOf: one.original === null ? null : idOf(one.original),
    rulesTried: names === null ? 0 : (worked?.evaluation?.rulesTried ?? 0),
    verdicts: state.verdicts.idsOf(matches),
    erasedAtMs: one.isErased ? nowMs : null,
  };
}

function sourceOf(
  { normalised }: { normalised: Omit<NormalisedSignal, "properties"> },
  status: LineStatus,
): string | null {
  return status === "duplicate" && tellsWhose(normalised.source, normalised) ? null : normalised.source;
}

/** Lists the line under whoever's it is: its person, or the visitor's ids. */
function hand(one: Pending, facts: Facts, people: People, lists: Map<string, Entry[]>, waiting: VisitorId[]): void {
  const { work } = one.signal;
  if ((one.status !== "processed" && one.status !== "anonymous") || work.kind === "account" || work.kind === "dead") {
    return;
  }
  const { userId, anonymousId, email, traits } = work.normalised;
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
  if (email !== undefined && one.owner !== null) return;
  // What an anonymous id gave to a person is taken over by whom its user id, which counts for more, belongs to in the end.
  if (userId !== undefined && one.owner?.by !== "user_id") list({ kind: "user_id", value: userId });
  if (anonymousId !== undefined && one.owner === null) list({ kind: "anonymous_id", value: anonymousId });
}

function count(one: Pending, counts: SignalCounts): void {
  const { admission, work } = one.signal;
  const { status } = one;
  const group = work.kind === "signal" ? work.normalised : null;
  if (group !== null && status !== "purged" && status !== "dead") {
    const original = one.original ?? one;
    counts.groups.received(group, one.receipt, { id: idOf(original), seq: original.seq });
  }
  changeStatus(counts, { admission, group }, "unrecorded", status);
}

/** Raises the events of the whole batch, in one row. */
function raise(state: StoreState, pending: readonly Pending[], { news }: People, nowMs: number): void {
  if (state.books.wanted === null) return;
  const dead = pending.filter(({ status }) => status === "dead").map(({ deadReason }) => deadReason ?? "");
  state.raised.raise([
    ...(news?.crossedEvents(nowMs) ?? []),
    ...(news?.scoredEvents(nowMs) ?? []),
    ...noteDeadLetters(state, dead, nowMs),
  ]);
}

function idOf(original: Pending | Original): string {
  return "id" in original ? original.id : original.signal.admission.id;
}

function visitorOf({ work }: SignalToRecord) {
  return work.kind === "signal" || work.kind === "identify" ? work.normalised : null;
}

/** The matches of a signal that count: a rule may have scored the person before. */
function countedOf({ once }: StoreState, { owner, matches, signal, receipt }: Pending): readonly RuleMatch[] {
  const occasion = { signalId: signal.admission.id, atMs: receipt.receivedAtMs };
  return owner === null ? matches : matches.filter((match) => once.counts(owner.personId, occasion, match));
}

function toLive(state: StoreState, one: Pending, people: People): LiveSignal {
  const { admission, work } = one.signal;
  const worked = work.kind === "signal" || work.kind === "identify" ? work.normalised : null;
  const isNamed = one.status !== "purged" && one.status !== "duplicate";
  return {
    id: admission.id,
    status: one.status === "released" ? "held" : one.status,
    kind: work.kind === "dead" ? "unknown" : work.kind,
    event: worked?.event ?? null,
    source: worked?.source ?? null,
    email: (one.owner && people.emailOf(one.owner.personId)) ?? (isNamed ? (worked?.email ?? null) : null),
    receivedAtMs: admission.receivedAtMs,
    duplicateOf: one.original === null ? null : idOf(one.original),
    deadReason: one.deadReason,
    points: pointsOf(countedOf(state, one)),
  };
}

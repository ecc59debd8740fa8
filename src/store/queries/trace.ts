/** The trace of one signal, by its id: in the log, among held signals, or among dead letters. */
import { parsed } from "../../domain/json/json-value.ts";
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import type { Admission } from "../../wire/admission.ts";
import { BeingDeleted } from "../deletion/deleted-names.ts";
import { readPayloads, type ColdObjects } from "../log/cold.ts";
import { keepsPayload } from "../log/line.ts";
import type { Facts } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import type { MatchedRule, SignalTrace } from "../protocol/stored-signals.ts";
import { admissionOf, findDeadLetter } from "../state/dead-letters.ts";
import type { DeadLetterRow } from "../state/dead-letters.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./named-people.ts";
import { shownStatus, toSummary } from "./newest-signals.ts";

interface Place {
  log: Log;
  seq: number;
  facts: Facts;
  segment: Segment;
}

/**
 * The way of a signal. Null when the store has not seen it. The payload is null while cold storage, where it is, does not
 * answer.
 */
export async function traceSignal(state: StoreState, objects: ColdObjects, id: string): Promise<SignalTrace | null> {
  const before = findLine(state, id);
  if (before === null) return traceDead(state, id);
  const payload = await payloadOf(before, objects);
  // While the payload was read the signal may have been linked, or deleted with its person: the payload alone stays what it
  // was.
  const now = findLine(state, id);
  return now === null ? traceDead(state, id) : traceLine(state, now, payload);
}

/**
 * The line of a signal, as the deletion of its person will leave it where that is under way. A signal that was released is
 * found where it is by now.
 */
function findLine(state: StoreState, id: string): Place | null {
  for (const log of [state.signals, state.held] as const) {
    const found = log.find(id);
    const segment = found && log.segmentOf(found.seq);
    if (found === null || segment === null || found.facts.status === "released") continue;
    const facts = new BeingDeleted(state.sql).factsOf(found.facts, Date.now());
    return { log, seq: found.seq, facts, segment };
  }
  return null;
}

async function payloadOf({ log, segment, seq, facts }: Place, objects: ColdObjects): Promise<string | null> {
  if (!keepsPayload(facts)) return null;
  const payloads = await readPayloads(log, objects, [{ segment, seqs: [seq] }]);
  return payloads.get(seq) ?? null;
}

function traceLine(state: StoreState, { facts, segment }: Place, payload: string | null): SignalTrace {
  const { admission, owner } = facts;
  const names = new Names(state.sql);
  const email = owner === null ? null : names.of(facts);
  const matched = matchedRules(state, facts);
  return {
    ...toSummary({ facts, dead: null }, names),
    status: shownStatus(facts.status),
    ...shownAdmission(admission),
    recordedAtMs: facts.recordedAtMs,
    duplicateOf: facts.duplicateOf,
    deadReason: null,
    anonymousId: facts.anonymousId,
    userId: facts.userId,
    person: owner === null || email === null ? null : { email, by: owner.by, linkedAtMs: facts.linkedAtMs },
    rulesTried: facts.rulesTried,
    rulesMatched: matched,
    points: pointsOf(matched.filter(({ scored }) => scored)),
    payload: keepsPayload(facts) ? parsed(payload) : null,
    deletedAtMs: facts.deletedAtMs,
    inColdStorage: keepsPayload(facts) && segment.coldObject !== null,
    payloadLost: keepsPayload(facts) && segment.payloadsLost,
  };
}

function matchedRules({ once, outcomes }: StoreState, facts: Facts): MatchedRule[] {
  const { owner, admission } = facts;
  if (owner === null) return [];
  const occasion = { signalId: admission.id, atMs: admission.receivedAtMs };
  return outcomes.of(facts).map((match) => ({
    ...match,
    scored: once.counts(owner.personId, occasion, match),
    scoredBy: once.instead(owner.personId, occasion, match),
  }));
}

function traceDead(state: StoreState, id: string): SignalTrace | null {
  const row: DeadLetterRow | null = findDeadLetter(state.sql, id);
  if (row === null) return null;
  const isLeaving = new BeingDeleted(state.sql).hasDeadLetter(row);
  const admission = admissionOf(row);
  return {
    ...toSummary({ facts: null, dead: row }, new Names(state.sql)),
    ...shownAdmission(admission),
    recordedAtMs: row.recorded_at,
    duplicateOf: null,
    deadReason: isLeaving ? "" : row.reason,
    anonymousId: null,
    userId: null,
    person: null,
    rulesTried: 0,
    rulesMatched: [],
    points: 0,
    payload: isLeaving ? null : parsed(row.payload),
    deletedAtMs: isLeaving ? Date.now() : row.deleted_at,
    inColdStorage: false,
    payloadLost: false,
  };
}

function shownAdmission({ endpoint, keyId, verdict, ordinal, signalLimit, periodEndMs }: Admission) {
  const heldUntilMs = verdict === "held" ? periodEndMs : null;
  return { endpoint, keyId, verdict, ordinal, signalLimit, heldUntilMs };
}

/** The trace of one signal: in the log, among held signals, or among dead letters. */
import { parsed } from "../../domain/json/json-value.ts";
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import type { Admission } from "../../wire/admission.ts";
import { readPayloads, type ColdObjects } from "../log/cold.ts";
import { keepsPayload, type Facts } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import type { MatchedRule, SignalTrace } from "../protocol/stored-signals.ts";
import { admissionOf, findDeadLetter } from "../state/dead-letters.ts";
import { occasionOf } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import { lapseOf } from "../people/scoring.ts";
import { Names } from "./names.ts";
import { shownStatus, toSummary } from "./newest-signals.ts";

interface Line {
  log: Log;
  seq: number;
  /** As visible during a deletion of the person. */
  facts: Facts;
  segment: Segment;
}

/** Null: the store has never recorded the signal. The payload is null while cold storage does not answer. */
export async function traceSignal(state: StoreState, objects: ColdObjects, id: string): Promise<SignalTrace | null> {
  const before = findLine(state, id);
  if (before === null) return traceDead(state, id);
  const { log, segment, seq, facts } = before;
  const payloads = keepsPayload(facts) ? await readPayloads(log, objects, [{ segment, seqs: [seq] }]) : new Map();
  // Meanwhile the signal may have been linked, or deleted with its person. Only the payload never changes.
  const now = findLine(state, id);
  return now === null ? traceDead(state, id) : traceLine(state, now, payloads.get(seq) ?? null);
}

/** A released signal has left the held log, and is found in its new place. */
function findLine(state: StoreState, id: string): Line | null {
  for (const log of [state.signals, state.held] as const) {
    const found = log.find(id);
    const segment = found && log.segmentOf(found.seq);
    if (found === null || segment === null || found.facts.status === "released") continue;
    return { log, seq: found.seq, facts: new Names(state.sql).visible(found.facts), segment };
  }
  return null;
}

function traceLine(state: StoreState, { facts, segment }: Line, payload: string | null): SignalTrace {
  const { admission, owner, recordedAtMs, duplicateOf, anonymousId, userId, rulesTried, deletedAtMs } = facts;
  const names = new Names(state.sql);
  const email = owner === null ? null : names.emailOf(facts);
  const rulesMatched = matchedRules(state, facts);
  const isKept = keepsPayload(facts);
  return {
    ...toSummary({ facts, dead: null }, names),
    status: shownStatus(facts.status),
    ...shownAdmission(admission),
    recordedAtMs,
    duplicateOf,
    deadReason: null,
    anonymousId,
    userId,
    person: owner === null || email === null ? null : { email, by: owner.by, linkedAtMs: facts.linkedAtMs },
    rulesTried,
    rulesMatched,
    points: pointsOf(rulesMatched.filter(({ scored, lapsed }) => scored && !lapsed)),
    payload: isKept ? parsed(payload) : null,
    deletedAtMs,
    inColdStorage: isKept && segment.coldObject !== null,
    payloadLost: isKept && segment.payloadsLost,
  };
}

function matchedRules(state: StoreState, facts: Facts): MatchedRule[] {
  const { once, outcomes } = state;
  const { owner } = facts;
  if (owner === null) return [];
  const occasion = occasionOf(facts);
  return outcomes.of(facts).map((match) => ({
    ...match,
    scored: once.counts(owner.personId, occasion, match),
    scoredBy: once.instead(owner.personId, occasion, match),
    ...lapseOf(state, owner.personId, occasion, match),
  }));
}

function traceDead(state: StoreState, id: string): SignalTrace | null {
  const row = findDeadLetter(state.sql, id);
  if (row === null) return null;
  const names = new Names(state.sql);
  const isHidden = names.hides(row);
  return {
    ...toSummary({ facts: null, dead: row }, names),
    ...shownAdmission(admissionOf(row)),
    recordedAtMs: row.recorded_at,
    duplicateOf: null,
    deadReason: isHidden ? "" : row.reason,
    anonymousId: null,
    userId: null,
    person: null,
    rulesTried: 0,
    rulesMatched: [],
    points: 0,
    payload: isHidden ? null : parsed(row.payload),
    deletedAtMs: isHidden ? Date.now() : row.deleted_at,
    inColdStorage: false,
    payloadLost: false,
  };
}

function shownAdmission({ endpoint, keyId, verdict, ordinal, signalLimit, periodEndMs }: Admission) {
  return { endpoint, keyId, verdict, ordinal, signalLimit, heldUntilMs: verdict === "held" ? periodEndMs : null };
}

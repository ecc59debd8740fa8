/**
 * Signals for the operator API and the pages. Lists have the latest recorded first: the log, the held signals and the dead letters, merged
 * by recording time, so a cursor has the place in each of the three. `traceSignal` gives everything about one signal.
 */
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import { emailAsStored } from "../../domain/signal/identity.ts";
import type { LineStatus, SignalStatus } from "../../domain/signal/signal.ts";
import { LIST_SCAN_SIGNALS } from "../../limits.ts";
import type { Page } from "../../platform/list-page.ts";
import { isLater, type Admission, type ReceivedOrder } from "../../wire/admission.ts";
import { type Facts, keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { countedMatches, lapseOf } from "../people/scoring.ts";
import { latestEntries, personList } from "../people/timelines.ts";
import type {
  FindFilter,
  FoundSignals,
  LatestSignals,
  LiveSignal,
  SignalSummary,
  MatchedRule,
  SignalTrace,
} from "../protocol/stored-signals.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf, lastDeadLetter, findDeadLetter } from "../state/dead-letters.ts";
import { groupOf } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./names.ts";
import { parsed } from "../../domain/json/json-value.ts";
import { readPayloads, type ColdObjects } from "../log/cold.ts";
import { occasionOf } from "../state/rule-outcomes.ts";

/** Cost of unpacking a segment, in lines. */
const SEGMENT_COST = 10;
const ENTRIES_AT_ONCE = 100;
/** A known signal may come before a new signal of the same millisecond. So the live page reads on to this number of known signals. */
const KNOWN_SIGNALS_READ = 100;

type DeadSummary = Pick<
  DeadLetterRow,
  "seq" | "id" | "status" | "admission" | "reason" | "recorded_at" | "received_at"
>;

type FoundSignal = { facts: Facts; dead: null } | { facts: null; dead: DeadSummary };

/** The place in each source. The next signal of a source has a lower number. */
type Places = [signals: number, held: number, dead: number];
const FIRST: Readonly<Places> = [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];

interface Step {
  source: 0 | 1 | 2;
  /** Number of the signal in its source. */
  place: number;
  cost: number;
  /** Null: the signal does not match the filter. */
  found: FoundSignal | null;
  recordedAtMs: number;
  order: ReceivedOrder;
}

type Steps = Generator<Step, undefined>;

interface LineFilter extends Omit<FindFilter, "status"> {
  status?: LineStatus | undefined;
}

/** An invalid cursor finds nothing. */
export function findSignals(state: StoreState, filter: FindFilter, { cursor, limit }: Page): FoundSignals {
  const places = readPlaces(cursor);
  if (places === null) return { items: [], next: null, complete: true };
  const names = new Names(state.sql);
  const email = filter.email === undefined ? undefined : emailAsStored(filter.email);
  const normalised = email === undefined ? filter : { ...filter, email };
  const found: FoundSignal[] = [];
  let looked = 0;
  for (const step of newestFirst(state, normalised, places, names)) {
    const isFull = found.length === limit;
    if ((isFull && step.found !== null) || looked >= LIST_SCAN_SIGNALS) {
      return { items: toSummaries(found, names), next: places.join("."), complete: isFull };
    }
    looked += step.cost;
    places[step.source] = step.place;
    if (step.found !== null) found.push(step.found);
  }
  return { items: toSummaries(found, names), next: null, complete: true };
}

/** Null: invalid. */
function readPlaces(cursor: string | null): Places | null {
  if (cursor === null) return [...FIRST];
  const [, signals, held, dead] = /^(\d{1,16})\.(\d{1,16})\.(\d{1,16})$/.exec(cursor) ?? [];
  return dead === undefined ? null : [Number(signals), Number(held), Number(dead)];
}

/**
 * Signals recorded after `cursor`, the latest first; null: none. Without a cursor, or with one beyond the log, which another store has
 * given: the latest signals of all.
 */
export function latestSignals(state: StoreState, cursor: string | null, limit: number): LatestSignals | null {
  const last: Places = [state.signals.nextSeq - 1, state.held.nextSeq - 1, lastDeadLetter(state.sql)];
  const known = (cursor === null ? null : readPlaces(cursor)) ?? [0, 0, 0];
  const isBeyond = known.some((place, source) => place > (last[source] ?? 0));
  const seen: Places = isBeyond ? [0, 0, 0] : known;
  const newer = last.reduce((sum, place, source) => sum + place - (seen[source] ?? 0), 0);
  if (cursor !== null && newer === 0) return null;
  const names = new Names(state.sql);
  const signals: LiveSignal[] = [];
  let passed = 0;
  for (const { source, place, found } of newestFirst(state, {}, FIRST, names)) {
    if (place <= seen[source]) passed++;
    if (passed > KNOWN_SIGNALS_READ || signals.length === limit) break;
    if (found === null || place <= seen[source]) continue;
    const { facts, dead } = found;
    signals.push({
      ...toSummary(found, names),
      duplicateOf: facts?.duplicateOf ?? null,
      deadReason: dead?.reason ?? null,
      points: facts === null ? 0 : pointsOf(countedMatches(state, facts)),
    });
  }
  return { signals, more: signals.length < limit ? 0 : newer - signals.length, cursor: last.join(".") };
}

function toSummaries(found: readonly FoundSignal[], names: Names): SignalSummary[] {
  names.load(found.flatMap(({ facts }) => facts ?? []));
  return found.map((signal) => toSummary(signal, names));
}

function toSummary({ facts, dead }: FoundSignal, names: Names): SignalSummary {
  if (facts === null) {
    const { id, status, received_at: receivedAtMs } = dead;
    const unread = { kind: "unknown", event: null, source: null, email: null } as const;
    return { id, status, ...unread, receivedAtMs, occurredAtMs: receivedAtMs, occurredFrom: "received" };
  }
  const { admission, kind, event, source, occurred } = facts;
  const { id, receivedAtMs } = admission;
  return {
    id,
    status: shownStatus(facts.status),
    kind,
    event,
    source,
    email: names.emailOf(facts),
    receivedAtMs,
    occurredAtMs: occurred.ms,
    occurredFrom: occurred.from,
  };
}

/** @throws for a released signal, which is recorded elsewhere and never shown. */
export function shownStatus(status: LineStatus | SignalStatus): SignalStatus {
  if (status === "released") throw new Error("a released signal is recorded elsewhere");
  return status;
}

/** @param filter with a normalised email. */
function* newestFirst(state: StoreState, filter: FindFilter, before: Readonly<Places>, names: Names): Generator<Step> {
  const sources: Steps[] = [
    signalSteps(state, filter, before[0], names),
    heldSteps(state, filter, before[1], names),
    deadSteps(state, filter, before[2]),
  ];
  const heads = sources.flatMap((steps) => {
    const { value } = steps.next();
    return value === undefined ? [] : [{ steps, step: value }];
  });
  while (heads.length > 0) {
    const next = heads.reduce((a, b) => (isNewer(b.step, a.step) ? b : a));
    yield next.step;
    const { value } = next.steps.next();
    if (value === undefined) heads.splice(heads.indexOf(next), 1);
    else next.step = value;
  }
}

/** Signals of a batch share the recording time, so their received order decides. */
function isNewer(a: Step, b: Step): boolean {
  return a.recordedAtMs === b.recordedAtMs ? isLater(a.order, b.order) : a.recordedAtMs > b.recordedAtMs;
}

function* signalSteps(state: StoreState, filter: FindFilter, before: number, names: Names): Steps {
  const { status, email } = filter;
  if (status === "held" || status === "dead") return;
  if (email === undefined) yield* lineSteps(0, state.signals, { ...filter, status }, before, names);
  else yield* personSteps(state, { ...filter, status }, email, before);
}

function* heldSteps({ held }: StoreState, filter: FindFilter, before: number, names: Names): Steps {
  const { status } = filter;
  if (status === undefined || status === "held" || status === "purged") {
    yield* lineSteps(1, held, { ...filter, status }, before, names);
  }
}

function* lineSteps(source: 0 | 1, log: Log, filter: LineFilter, before: number, names: Names): Steps {
  const { event, email, status, sinceMs, untilMs } = filter;
  const groupSource = event === undefined ? undefined : filter.source || undefined;
  for (const segment of log.walkBack(before, { event, source: groupSource, status, sinceMs, untilMs })) {
    let seqs = segment.seqs();
    if (email !== undefined) seqs = segment.seqsWith("email", email);
    else if (event !== undefined) seqs = segment.seqsWith("event", event);
    for (const seq of seqs.toReversed()) {
      if (seq >= before) continue;
      const facts = segment.facts(seq);
      const isFound = matches(facts, filter) && (email === undefined || names.emailOf(facts) === email);
      yield lineStep(source, seq, facts, isFound, 1);
    }
    // Unpacking the segment costs time, even if no line matches.
    const first = lineStep(source, segment.firstSeq, segment.facts(segment.firstSeq), false, SEGMENT_COST);
    yield { ...first, order: { receivedAtMs: 0, ordinal: 0 } };
  }
}

function* personSteps({ sql, signals }: StoreState, filter: LineFilter, email: string, before: number): Steps {
  const [person] = sql.exec<{ id: number; recent: string }>("SELECT id, recent FROM people WHERE email = ?", email);
  if (person === undefined) return;
  const oldest = signals.firstSeq;
  let segment: Segment | null = null;
  for (let end = before; end > oldest;) {
    const entries = latestEntries(sql, personList(person.id), person.recent, { before: end, limit: ENTRIES_AT_ONCE });
    for (const { seq } of entries) {
      if (seq < oldest) return;
      const isHere: boolean = segment !== null && seq >= segment.firstSeq && seq <= segment.lastSeq;
      if (!isHere) segment = signals.segmentOf(seq);
      if (segment === null) continue;
      const facts = segment.facts(seq);
      yield lineStep(0, seq, facts, matches(facts, filter), isHere ? 1 : SEGMENT_COST);
    }
    end = entries.length < ENTRIES_AT_ONCE ? 0 : (entries.at(-1)?.seq ?? 0);
  }
}

function lineStep(source: 0 | 1, place: number, facts: Facts, isFound: boolean, cost: number): Step {
  const { admission: order, recordedAtMs } = facts;
  return { source, place, cost, found: isFound ? { facts, dead: null } : null, recordedAtMs, order };
}

/** Whether a line matches the filter, except the email. */
function matches(facts: Facts, { event, source, status, ...admitted }: LineFilter): boolean {
  if (facts.status === "released") return false;
  return (
    (event === undefined || facts.event === event) &&
    (source === undefined || isOfSource(facts, source)) &&
    (status === undefined || facts.status === status) &&
    isAdmitted(facts.admission, admitted)
  );
}

/** @param source empty: the line's own source names its person, so the group has none. */
function isOfSource(facts: Facts, source: string): boolean {
  return source === "" ? facts.source !== null && groupOf(facts)?.source === "" : facts.source === source;
}

function isAdmitted({ keyId, receivedAtMs }: Admission, filter: Pick<FindFilter, "keyId" | "sinceMs" | "untilMs">) {
  return (
    (filter.keyId === undefined || keyId === filter.keyId) &&
    (filter.sinceMs === undefined || receivedAtMs >= filter.sinceMs) &&
    (filter.untilMs === undefined || receivedAtMs < filter.untilMs)
  );
}

/** Dead letters have no readable event, source or person. */
function* deadSteps({ sql }: StoreState, filter: FindFilter, before: number): Steps {
  const { event, source, email, status } = filter;
  if (event !== undefined || source !== undefined || email !== undefined) return;
  if (status !== undefined && status !== "dead" && status !== "purged") return;
  const rows = sql.exec<DeadSummary>(
    `SELECT seq, id, status, admission, reason, recorded_at, received_at FROM dead_letters
     WHERE seq < ? ORDER BY seq DESC`,
    before,
  );
  for (const dead of rows) {
    const { seq: place, recorded_at: recordedAtMs } = dead;
    const admission = admissionOf(dead);
    const isFound = (status === undefined || dead.status === status) && isAdmitted(admission, filter);
    yield { source: 2, place, cost: 1, found: isFound ? { facts: null, dead } : null, recordedAtMs, order: admission };
  }
}

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
  const { admission, person, recordedAtMs, duplicateOf, anonymousId, userId, rulesTried, deletedAtMs } = facts;
  const names = new Names(state.sql);
  const email = person === null ? null : names.emailOf(facts);
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
    person: person === null || email === null ? null : { email, by: person.by, linkedAtMs: facts.linkedAtMs },
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
  const { person } = facts;
  if (person === null) return [];
  const occasion = occasionOf(facts);
  return outcomes.of(facts).map((match) => ({
    ...match,
    scored: once.counts(person.personId, occasion, match),
    scoredBy: once.scoredBy(person.personId, occasion, match),
    ...lapseOf(state, person.personId, occasion, match),
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

/**
 * Signals for the operator API and the pages. Lists have the latest recorded first: the log, the held signals and the dead letters, merged
 * by recording time, so a cursor has the place in each of the three. `traceSignal` gives everything about one signal.
 */
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import { emailAsStored } from "../../domain/signal/identity.ts";
import type { LineStatus, SignalStatus } from "../../domain/signal/signal.ts";
import { LIST_SCAN_SIGNALS } from "../../limits.ts";
import type { ListQuery } from "../../platform/list-page.ts";
import { isLater, type Admission, type ReceivedOrder } from "../../wire/message.ts";
import { type SignalFacts, isHeldMisfit, keepsPayload } from "../log/line.ts";
import type { ShownSignalLog } from "../log/shown-log.ts";
import type { NumberedLine, Portion } from "../log/signal-log.ts";
import { countedMatches, lapseOf } from "../people/scoring.ts";
import { latestEntries, personList } from "../people/timelines.ts";
import type {
  FindFilter,
  FoundSignals,
  LatestSignals,
  LiveSignal,
  SignalSummary,
  MatchedRule,
  SampleSignal,
  SignalTrace,
} from "../protocol/stored-signals.ts";
import { comparable, namesSent } from "../../domain/signal/normalise.ts";
import type { DeadLetterSummary } from "./dead-letters.ts";
import { admissionOf, lastDeadLetter, payloadOfLetter, problemsOfLetter } from "../state/dead-letters.ts";
import { groupOf } from "../state/status-change.ts";
import type { Names } from "./names.ts";
import type { ShownState } from "./shown.ts";
import { occasionOf } from "../state/rule-outcomes.ts";

/** Cost of reading a portion of the log, in lines. */
const PORTION_COST = 10;
const ENTRIES_AT_ONCE = 100;
/** A known signal may come before a new signal of the same millisecond. So the live page reads on to this number of known signals. */
const KNOWN_SIGNALS_READ = 100;

type FoundSignal = { facts: SignalFacts; dead: null } | { facts: null; dead: DeadLetterSummary };

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
export function findSignals(state: ShownState, filter: FindFilter, { cursor, limit }: ListQuery): FoundSignals {
  const places = readPlaces(cursor);
  if (places === null) return { items: [], next: null, complete: true };
  const email = filter.email === undefined ? undefined : emailAsStored(filter.email);
  const normalised = { ...filter, email, event: named(filter.event), source: named(filter.source) };
  const found: FoundSignal[] = [];
  let looked = 0;
  for (const step of newestFirst(state, normalised, places)) {
    const isFull = found.length === limit;
    if ((isFull && step.found !== null) || looked >= LIST_SCAN_SIGNALS) {
      return { items: toSummaries(found, state), next: places.join("."), complete: isFull };
    }
    looked += step.cost;
    places[step.source] = step.place;
    if (step.found !== null) found.push(step.found);
  }
  return { items: toSummaries(found, state), next: null, complete: true };
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
export function latestSignals(state: ShownState, cursor: string | null, limit: number): LatestSignals | null {
  const last: Places = [state.signals.nextSeq - 1, state.held.nextSeq - 1, lastDeadLetter(state.sql)];
  const known = (cursor === null ? null : readPlaces(cursor)) ?? [0, 0, 0];
  const isBeyond = known.some((place, source) => place > (last[source] ?? 0));
  const seen: Places = isBeyond ? [0, 0, 0] : known;
  const newer = last.reduce((sum, place, source) => sum + place - (seen[source] ?? 0), 0);
  if (cursor !== null && newer === 0) return null;
  const signals: LiveSignal[] = [];
  let passed = 0;
  for (const { source, place, found } of newestFirst(state, {}, FIRST)) {
    if (place <= seen[source]) passed++;
    if (passed > KNOWN_SIGNALS_READ || signals.length === limit) break;
    if (found === null || place <= seen[source]) continue;
    const { facts, dead } = found;
    signals.push({
      ...(toSummaries([found], state)[0] ?? toSummary(found, state.names)),
      duplicateOf: facts?.duplicateOf ?? null,
      sameId: facts?.sameId ?? false,
      deletedAtMs: facts === null ? dead.deleted_at : facts.deletedAtMs,
      deadReason: dead?.reason ?? null,
      points: facts === null ? 0 : pointsOf(countedMatches(state, facts)),
    });
  }
  return { signals, more: signals.length < limit ? 0 : newer - signals.length, cursor: last.join(".") };
}

function toSummaries(found: readonly FoundSignal[], { names, deadLetters }: ShownState): SignalSummary[] {
  names.load(found.flatMap(({ facts }) => facts ?? []));
  return found.map((signal) => {
    const letter = signal.dead === null ? null : deadLetters.find(signal.dead.id);
    return toSummary(signal, names, letter && payloadOfLetter(letter));
  });
}

/** @param payload of a dead letter, as it was sent. */
function toSummary({ facts, dead }: FoundSignal, names: Names, payload: string | null = null): SignalSummary {
  if (facts === null) {
    const { id, status, received_at: receivedAtMs } = dead;
    const unread = { kind: "unknown", topic: null, isGroupCall: false } as const;
    const sent = namesSent(payload);
    return { id, status, ...unread, ...sent, receivedAtMs, occurredAtMs: receivedAtMs, occurredFrom: "received" };
  }
  const { admission, kind, event, source, occurred, topic } = facts;
  const { id, receivedAtMs } = admission;
  return {
    id,
    status: shownStatus(facts.status),
    kind,
    event,
    source,
    email: names.emailOf(facts),
    topic,
    isGroupCall: isGroupCall(facts),
    receivedAtMs,
    occurredAtMs: occurred.ms,
    occurredFrom: occurred.from,
  };
}

/** Only group calls and identify calls name an account. */
export function isGroupCall({ kind, traits }: SignalFacts): boolean {
  return kind === "signal" && traits.account !== undefined;
}

/** @throws for a released signal, which is recorded elsewhere and never shown. */
export function shownStatus(status: LineStatus | SignalStatus): SignalStatus {
  if (status === "released") throw new Error("a released signal is recorded elsewhere");
  return status;
}

/** As events and sources are stored. */
function named(name: string | undefined): string | undefined {
  return name === undefined ? undefined : comparable(name);
}

/** @param filter with normalised names. */
function* newestFirst(state: ShownState, filter: FindFilter, before: Readonly<Places>): Generator<Step> {
  const sources: Steps[] = [
    signalSteps(state, filter, before[0]),
    heldSteps(state, filter, before[1]),
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

function* signalSteps(state: ShownState, filter: FindFilter, before: number): Steps {
  const { status, email } = filter;
  if (status === "held" || status === "dead") return;
  if (email === undefined) yield* lineSteps(state, 0, { ...filter, status }, before);
  else yield* personSteps(state, { ...filter, status }, email, before);
}

function* heldSteps(state: ShownState, filter: FindFilter, before: number): Steps {
  const { status } = filter;
  if (status === undefined || status === "held" || status === "purged") {
    yield* lineSteps(state, 1, { ...filter, status }, before);
  }
}

function* lineSteps({ signals, held, names }: ShownState, source: 0 | 1, filter: LineFilter, before: number): Steps {
  const log = source === 0 ? signals : held;
  const { event, email, status, sinceMs, untilMs } = filter;
  const groupSource = event === undefined ? undefined : filter.source || undefined;
  for (const portion of log.walk({ before }, { event, email, source: groupSource, status, sinceMs, untilMs })) {
    for (const seq of portion.seqs.toReversed()) {
      const facts = portion.facts(seq);
      const isFound = matches(facts, filter) && (email === undefined || names.emailOf(facts) === email);
      yield lineStep(source, seq, facts, isFound, 1);
    }
    // Reading the portion costs time, even if no line matches.
    const first = lineStep(source, portion.firstSeq, portion.facts(portion.firstSeq), false, PORTION_COST);
    yield { ...first, order: { receivedAtMs: 0, ordinal: 0 } };
  }
}

function* personSteps({ sql, signals }: ShownState, filter: LineFilter, email: string, before: number): Steps {
  const [person] = sql.exec<{ id: number; recent: string }>("SELECT id, recent FROM people WHERE email = ?", email);
  if (person === undefined) return;
  const oldest = signals.firstSeq;
  let portion: Portion | undefined;
  for (let end = before; end > oldest;) {
    const entries = latestEntries(sql, personList(person.id), person.recent, { before: end, limit: ENTRIES_AT_ONCE });
    for (const { seq } of entries) {
      if (seq < oldest) return;
      const isHere: boolean = portion !== undefined && seq >= portion.firstSeq && seq <= portion.lastSeq;
      if (!isHere) [portion] = signals.read([seq]);
      if (portion === undefined) continue;
      const facts = portion.facts(seq);
      yield lineStep(0, seq, facts, matches(facts, filter), isHere ? 1 : PORTION_COST);
    }
    end = entries.length < ENTRIES_AT_ONCE ? 0 : (entries.at(-1)?.seq ?? 0);
  }
}

function lineStep(source: 0 | 1, place: number, facts: SignalFacts, isFound: boolean, cost: number): Step {
  const { admission: order, recordedAtMs } = facts;
  return { source, place, cost, found: isFound ? { facts, dead: null } : null, recordedAtMs, order };
}

/** Whether a line matches the filter, except the email. */
function matches(facts: SignalFacts, { event, source, status, ...admitted }: LineFilter): boolean {
  if (facts.status === "released") return false;
  return (
    (event === undefined || facts.event === event) &&
    (source === undefined || isOfSource(facts, source)) &&
    (status === undefined || facts.status === status) &&
    isAdmitted(facts.admission, admitted)
  );
}

/** @param source empty: the line's own source names its person, so the group has none. */
function isOfSource(facts: SignalFacts, source: string): boolean {
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
function* deadSteps({ deadLetters }: ShownState, filter: FindFilter, before: number): Steps {
  const { event, source, email, status } = filter;
  if (event !== undefined || source !== undefined || email !== undefined) return;
  if (status !== undefined && status !== "dead" && status !== "purged") return;
  for (const dead of deadLetters.latest(before)) {
    const { seq: place, recorded_at: recordedAtMs } = dead;
    const admission = admissionOf(dead);
    const isFound = (status === undefined || dead.status === status) && isAdmitted(admission, filter);
    yield { source: 2, place, cost: 1, found: isFound ? { facts: null, dead } : null, recordedAtMs, order: admission };
  }
}

interface Line extends NumberedLine {
  log: ShownSignalLog;
  portion: Portion;
}

/**
 * Null: the store has never recorded the signal. The payload is null while cold storage does not answer.
 *
 * @param show gives the state as it is shown at the moment of the call.
 */
export async function traceSignal(show: () => ShownState, id: string): Promise<SignalTrace | null> {
  const state = show();
  const before = findLine(state, id);
  if (before === null) return traceDead(state, id);
  const { log, portion, seq, facts } = before;
  const payloads = keepsPayload(facts) ? await log.readPayloads([{ portion, seqs: [seq] }]) : new Map();
  // Meanwhile the signal may have been linked, or deleted with its person. Only the payload never changes.
  const later = show();
  const now = findLine(later, id);
  return now === null ? traceDead(later, id) : traceLine(later, now, payloads.get(seq) ?? null);
}

/** The latest signals of a key with payloads, misfits included. */
export async function sampleSignals(show: () => ShownState, keyId: string, limit: number): Promise<SampleSignal[]> {
  const { items } = findSignals(show(), { keyId }, { cursor: null, limit });
  const samples = await Promise.all(items.map(({ id }) => sampleSignal(show, id)));
  return samples.filter((sample) => sample !== null);
}

/** Null: the signal is unknown, or its payload is not kept. */
export async function sampleSignal(show: () => ShownState, id: string): Promise<SampleSignal | null> {
  const trace = await traceSignal(show, id);
  if (trace === null || trace.payload === null) return null;
  const { payload, status, source } = trace;
  const letter = status === "dead" ? show().deadLetters.find(id) : null;
  const { pathSource = source, around = null } = letter === null ? {} : admissionOf(letter);
  return { id, payload, source: pathSource, around };
}

/** A released signal has left the held log, and is found in its new place. */
function findLine(state: ShownState, id: string): Line | null {
  for (const log of [state.signals, state.held] as const) {
    const found = log.find(id);
    if (found === null || found.facts.status === "released") continue;
    const [portion] = log.read([found.seq]);
    if (portion !== undefined) return { log, portion, ...found };
  }
  return null;
}

function traceLine(state: ShownState, { facts, portion }: Line, payload: string | null): SignalTrace {
  const { admission, person, recordedAtMs, duplicateOf, anonymousId, userId, rulesTried, deletedAtMs } = facts;
  const { names } = state;
  const email = person === null ? null : names.emailOf(facts);
  const rulesMatched = matchedRules(state, facts);
  const isKept = keepsPayload(facts);
  return {
    ...toSummary({ facts, dead: null }, names),
    status: shownStatus(facts.status),
    ...shownAdmission(admission),
    recordedAtMs,
    duplicateOf,
    sameId: facts.sameId,
    deadReason: null,
    anonymousId,
    userId,
    traits: facts.traits,
    mapped: facts.mapped,
    misfit: isHeldMisfit(facts),
    person: person === null || email === null ? null : { email, by: person.by, linkedAtMs: facts.linkedAtMs },
    rulesTried,
    rulesMatched,
    excludedBy: facts.excludedBy,
    points: pointsOf(rulesMatched.filter(({ scored, lapsed }) => scored && !lapsed)),
    payload: isKept ? payload : null,
    deletedAtMs,
    inColdStorage: isKept && portion.payloads === "in_r2",
    payloadLost: isKept && portion.payloads === "lost",
    problems: facts.problems,
  };
}

function matchedRules(state: ShownState, facts: SignalFacts): MatchedRule[] {
  const { singleScores, outcomes } = state;
  const { person } = facts;
  if (person === null) return [];
  const occasion = occasionOf(facts);
  return outcomes.of(facts).map((match) => ({
    ...match,
    scored: singleScores.counts(person.personId, occasion, match),
    scoredBy: singleScores.scoredBy(person.personId, occasion, match),
    ...lapseOf(state, person.personId, occasion, match),
  }));
}

function traceDead(state: ShownState, id: string): SignalTrace | null {
  const row = state.deadLetters.find(id);
  if (row === null) return null;
  return {
    ...toSummary({ facts: null, dead: row }, state.names, payloadOfLetter(row)),
    ...shownAdmission(admissionOf(row)),
    recordedAtMs: row.recorded_at,
    duplicateOf: null,
    sameId: false,
    deadReason: row.reason,
    anonymousId: null,
    userId: null,
    traits: {},
    mapped: false,
    misfit: row.misfit_bytes !== null,
    person: null,
    rulesTried: 0,
    rulesMatched: [],
    excludedBy: null,
    points: 0,
    payload: payloadOfLetter(row),
    deletedAtMs: row.deleted_at,
    inColdStorage: false,
    payloadLost: false,
    problems: problemsOfLetter(row),
  };
}

function shownAdmission({ endpoint, keyId, verdict, ordinal, signalLimit, periodEndMs }: Admission) {
  return { endpoint, keyId, verdict, ordinal, signalLimit, heldUntilMs: verdict === "held" ? periodEndMs : null };
}

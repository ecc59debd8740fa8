/**
 * All signals, latest recorded first: log, held signals and dead letters, each in its order, merged by recording
 * time. The filter is applied line by line, so that the caller decides when to stop, and can continue from the
 * position in each of the three.
 */
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import type { DeadLetterStatus, LineStatus, SignalStatus } from "../../domain/signal/signal.ts";
import { LIST_SCAN_SIGNALS } from "../../limits.ts";
import type { Page } from "../../platform/list-page.ts";
import { isLater } from "../../wire/admission.ts";
import type { Admission, ReceivedOrder } from "../../wire/admission.ts";
import type { Facts } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { latestEntries } from "../people/timelines.ts";
import { personList } from "../people/visitors.ts";
import type { FindFilter, FoundSignals, LatestSignals, LiveSignal, SignalSummary } from "../protocol/stored-signals.ts";
import { admissionOf, lastDeadLetter } from "../state/dead-letters.ts";
import { groupOf } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./named-people.ts";
import { countedOf } from "./scored-entries.ts";

/** A dead letter without its payload. */
export interface DeadSummary {
  [column: string]: SqlStorageValue;
  seq: number;
  id: string;
  status: DeadLetterStatus;
  admission: string;
  reason: string;
  recorded_at: number;
  received_at: number;
}

/** A found signal: a line of a log, or a dead letter. */
export type Found = { facts: Facts; dead: null } | { facts: null; dead: DeadSummary };

/** Position in each of the three sources: the next signal has a lower number. */
export type Places = [signals: number, held: number, dead: number];

/** Something that has been looked at. `found` is null where it is not asked for. */
export interface SignalStep {
  source: 0 | 1 | 2;
  /** The number in the source that was looked at last. */
  place: number;
  /** Lines read. */
  cost: number;
  found: Found | null;
  recordedAtMs: number;
  receipt: ReceivedOrder;
}

/** Expanding a segment takes as long as looking at some lines of it. */
const SEGMENT_COST = 10;
/** Entries of a person's list that are read at a time. */
const ENTRIES_AT_ONCE = 100;
const NO_RECEIPT: ReceivedOrder = { receivedAtMs: 0, ordinal: 0 };

export const ALL: Readonly<Places> = [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];

/** Everything, the latest recorded first. @param filter its email trimmed and lower-cased. */
export function* newestFirst(
  state: StoreState,
  filter: FindFilter,
  before: Readonly<Places>,
  names: Names,
): Generator<SignalStep> {
  const sources = [
    signalSteps(state, filter, before[0], names),
    heldSteps(state, filter, before[1], names),
    deadSteps(state, filter, before[2]),
  ];
  const heads = sources.flatMap((steps) => {
    const { value } = steps.next();
    return value === undefined ? [] : [{ steps, step: value }];
  });
  while (heads.length > 0) {
    const next = heads.reduce((one, other) => (isNewer(other.step, one.step) ? other : one));
    yield next.step;
    const { value } = next.steps.next();
    if (value === undefined) heads.splice(heads.indexOf(next), 1);
    else next.step = value;
  }
}

/** Whether a signal precedes another. Signals of one batch have the same recording time, in order of receipt. */
function isNewer(one: SignalStep, other: SignalStep): boolean {
  return one.recordedAtMs === other.recordedAtMs
    ? isLater(one.receipt, other.receipt)
    : one.recordedAtMs > other.recordedAtMs;
}

type Steps = Generator<SignalStep, undefined>;

function* signalSteps(state: StoreState, filter: FindFilter, before: number, names: Names): Steps {
  const { status } = filter;
  if (status === "held" || status === "dead") return;
  if (filter.email === undefined) yield* linesOf(0, state.signals, { ...filter, status }, before, names);
  else yield* linesOfPerson(state, filter, filter.email, before);
}

/** Held signals. Those that were released are elsewhere by now. */
function* heldSteps({ held }: StoreState, filter: FindFilter, before: number, names: Names): Steps {
  const { status } = filter;
  if (status === undefined || status === "held" || status === "purged") {
    yield* linesOf(1, held, { ...filter, status }, before, names);
  }
}

interface Asked extends Omit<FindFilter, "status"> {
  status?: LineStatus | undefined;
}

function* linesOf(from: 0 | 1, log: Log, asked: Asked, before: number, names: Names): Steps {
  const { event, email, status, sinceMs, untilMs } = asked;
  const source = event === undefined ? undefined : asked.source || undefined;
  for (const segment of log.walkBack(before, { event, source, status, sinceMs, untilMs })) {
    for (const seq of seqsAbout(segment, asked).toReversed()) {
      if (seq >= before) continue;
      const facts = segment.facts(seq);
      yield lineStep(
        from,
        seq,
        facts,
        isAskedFor(facts, asked) && (email === undefined || names.of(facts) === email),
        1,
      );
    }
    yield {
      ...lineStep(from, segment.firstSeq, segment.facts(segment.firstSeq), false, SEGMENT_COST),
      receipt: NO_RECEIPT,
    };
  }
}

function seqsAbout(segment: Segment, { event, email }: Asked): number[] {
  if (email !== undefined) return segment.seqsWith("email", email);
  return event === undefined ? segment.seqs() : segment.seqsWith("event", event);
}

function* linesOfPerson(state: StoreState, asked: FindFilter, email: string, before: number): Steps {
  const { sql, signals } = state;
  const [person] = sql.exec<{ id: number; recent: string }>(`SELECT id, recent FROM people WHERE email = ?`, email);
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
      yield lineStep(0, seq, facts, isAskedFor(facts, asked), isHere ? 1 : SEGMENT_COST);
    }
    end = entries.length < ENTRIES_AT_ONCE ? 0 : (entries.at(-1)?.seq ?? 0);
  }
}

function lineStep(source: 0 | 1, place: number, facts: Facts, isFound: boolean, cost: number): SignalStep {
  const { receivedAtMs, ordinal } = facts.admission;
  return {
    source,
    place,
    cost,
    found: isFound ? { facts, dead: null } : null,
    recordedAtMs: facts.recordedAtMs,
    receipt: { receivedAtMs, ordinal },
  };
}

/**
 * Whether a line matches the filter, except the email: the list's person was compared already, and may have another
 * email by now.
 */
function isAskedFor(facts: Facts, asked: Asked | FindFilter): boolean {
  const { event, source, status } = asked;
  if (facts.status === "released") return false;
  return (
    (event === undefined || facts.event === event) &&
    (source === undefined || isOfSource(facts, source)) &&
    (status === undefined || facts.status === status) &&
    isAdmitted(facts.admission, asked)
  );
}

/** @param source empty: the line is of a group that has no source, since the lines' own tell whose they are. */
function isOfSource(facts: Facts, source: string): boolean {
  return source === "" ? facts.source !== null && groupOf(facts)?.source === "" : facts.source === source;
}

function isAdmitted({ keyId, receivedAtMs }: Admission, asked: Asked | FindFilter): boolean {
  return (
    (asked.keyId === undefined || keyId === asked.keyId) &&
    (asked.sinceMs === undefined || receivedAtMs >= asked.sinceMs) &&
    (asked.untilMs === undefined || receivedAtMs < asked.untilMs)
  );
}

/** Dead letters, whose content and person are unknown. */
function* deadSteps({ sql }: StoreState, filter: FindFilter, before: number): Steps {
  const { event, source, email, status } = filter;
  if (event !== undefined || source !== undefined || email !== undefined) return;
  if (status !== undefined && status !== "dead" && status !== "purged") return;
  const rows = sql.exec<DeadSummary>(
    `SELECT seq, id, status, admission, reason, recorded_at, received_at FROM dead_letters
     WHERE seq < ? ORDER BY seq DESC`,
    before,
  );
  for (const row of rows) {
    const admission = admissionOf(row);
    const isFound = (status === undefined || row.status === status) && isAdmitted(admission, filter);
    yield {
      source: 2,
      place: row.seq,
      cost: 1,
      found: isFound ? { facts: null, dead: row } : null,
      recordedAtMs: row.recorded_at,
      receipt: { receivedAtMs: row.received_at, ordinal: admission.ordinal },
    };
  }
}

/** A page of the signals that are asked for. A cursor that was not given out here finds nothing. */
export function findSignals(state: StoreState, filter: FindFilter, { cursor, limit }: Page): FoundSignals {
  const names = new Names(state.sql);
  const email = filter.email?.trim().toLowerCase();
  const asked = email === undefined ? filter : { ...filter, email };
  const places = readPlaces(cursor);
  if (places === null) return { items: [], next: null, complete: true };
  const found: Found[] = [];
  let looked = 0;
  for (const step of newestFirst(state, asked, places, names)) {
    const full = found.length === limit;
    if ((full && step.found !== null) || looked >= LIST_SCAN_SIGNALS) {
      return { items: toSummaries(found, names), next: places.join("."), complete: full };
    }
    looked += step.cost;
    places[step.source] = step.place;
    if (step.found !== null) found.push(step.found);
  }
  return { items: toSummaries(found, names), next: null, complete: true };
}

function toSummaries(found: readonly Found[], names: Names): SignalSummary[] {
  names.load(found.flatMap(({ facts }) => (facts === null ? [] : [facts])));
  return found.map((one) => toSummary(one, names));
}

export function toSummary({ facts, dead }: Found, names: Names): SignalSummary {
  if (facts === null) {
    const { id, status, received_at: receivedAtMs } = dead;
    return { id, status, kind: "unknown", event: null, source: null, email: null, receivedAtMs };
  }
  const { admission, kind, event, source } = facts;
  return {
    id: admission.id,
    status: shownStatus(facts.status),
    kind,
    event,
    source,
    email: names.of(facts),
    receivedAtMs: admission.receivedAtMs,
  };
}

/** A status as it is shown. @throws for a line that is never shown. */
export function shownStatus(status: LineStatus | SignalStatus): SignalStatus {
  if (status === "released") throw new Error("a released signal is recorded elsewhere");
  return status;
}

/** The places that a cursor tells; null for a cursor that this list did not give out. */
function readPlaces(cursor: string | null): Places | null {
  if (cursor === null) return [...ALL];
  const [, signals, held, dead] = /^(\d{1,16})\.(\d{1,16})\.(\d{1,16})$/.exec(cursor) ?? [];
  return dead === undefined ? null : [Number(signals), Number(held), Number(dead)];
}

/** Known signals that are skipped: some may have the same recording millisecond as new ones. */
const SEEN_LOOKED_AT = 100;

/**
 * Signals recorded after `cursor`, latest first; null: none. Without a cursor, or with one from before a restore: the
 * latest of all.
 */
export function latestSignals(state: StoreState, cursor: string | null, limit: number): LatestSignals | null {
  const last: Places = [state.signals.nextSeq - 1, state.held.nextSeq - 1, lastDeadLetter(state.sql)];
  const seen = placesOf(cursor, last);
  const newer = last.reduce((sum, place, source) => sum + place - (seen[source] ?? 0), 0);
  if (cursor !== null && newer === 0) return null;
  const names = new Names(state.sql);
  const signals: LiveSignal[] = [];
  let passed = 0;
  for (const { source, place, found } of newestFirst(state, {}, ALL, names)) {
    if (place <= seen[source]) passed++;
    if (passed > SEEN_LOOKED_AT || signals.length === limit) break;
    if (found === null || place <= seen[source]) continue;
    const { facts, dead } = found;
    signals.push({
      ...toSummary(found, names),
      duplicateOf: facts?.duplicateOf ?? null,
      deadReason: dead?.reason ?? null,
      points: facts === null ? 0 : pointsOf(countedOf(state, facts)),
    });
  }
  return { signals, more: signals.length < limit ? 0 : newer - signals.length, cursor: last.join(".") };
}

/** Position of this cursor in each of the three sources. */
function placesOf(cursor: string | null, last: Places): Places {
  const [, ...places] = /^(\d+)\.(\d+)\.(\d+)$/.exec(cursor ?? "") ?? [];
  const [signals = 0, held = 0, dead = 0] = places.map(Number);
  const isAhead = signals > last[0] || held > last[1] || dead > last[2];
  return isAhead ? [0, 0, 0] : [signals, held, dead];
}

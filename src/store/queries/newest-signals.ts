/**
 * All signals, latest recorded first: log, held signals and dead letters, each in its order, merged by recording
 * time. The filter is applied line by line, so that the caller decides when to stop, and can continue from the
 * position in each of the three.
 */
import type { Admission } from "../../wire/admission.ts";
import type { Facts, LineStatus } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { latestEntries } from "../people/timelines.ts";
import { personList } from "../people/visitor-keys.ts";
import type { FindFilter } from "../protocol/stored-signals.ts";
import { isLater } from "../../wire/admission.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";
import { admissionOf } from "../record/dead-letters.ts";
import { groupOf } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import type { Names } from "./named-people.ts";

/** A dead letter without its payload. */
export interface DeadSummary {
  [column: string]: SqlStorageValue;
  seq: number;
  id: string;
  status: "dead" | "purged";
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

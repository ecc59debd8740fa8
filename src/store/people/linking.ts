/**
 * Linking (spec §6.1) gives a visitor's earlier signals to the person who the visitor turns out to be. It also moves signals that an
 * anonymous id gave to a person before their user id, which is stronger, had a person.
 *
 * The batch that identifies visitors links up to LINK_STEP_SIGNALS of their signals at once, if these need no payload. A job for each
 * visitor links the rest, and stays until the visitor's timeline is empty. A step processes many jobs: it fetches payloads, evaluates the
 * current rules, and changes lines, people and timelines in one transaction.
 */
import type { WorkspaceRules } from "../../control/stored-rules.ts";
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { isAboutEvent, type CompiledRules } from "../../domain/rules/mapping-rule.ts";
import { COLD_RETRY_MS, RULE_STEP_SEGMENTS } from "../../limits.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import { readPayloads, type ColdObjects, type Payloads } from "../log/cold.ts";
import type { Facts, LinePerson } from "../log/line.ts";
import type { LinesOfSegment } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { wants } from "../state/raise-events.ts";
import { isStale } from "../state/rule-outcomes.ts";
import { changeStatus, countedSignal } from "../state/status-change.ts";
import { transact, type StoreState } from "../state/store-state.ts";
import { People, writeAndRecount } from "./people.ts";
import { countedPoints, evaluateStored, type CountedMatch } from "./scoring.ts";
import { VisitorLists } from "./identities.ts";
import { entriesAfter, hasEntries, visitorKey, visitorList, visitorOfKey, type VisitorId } from "./timelines.ts";

export const LINK_STEP_SIGNALS = 500;
/** The alarm runs a job if the consumer that caused it has not run it within this time. */
export const LINK_ALARM_MS = 10_000;
/** Due time of jobs that wait until a deletion has processed the visitor. */
export const AFTER_DELETION = Number.MAX_SAFE_INTEGER;

interface LinkWork {
  state: StoreState;
  storage: DurableObjectStorage;
  objects: ColdObjects;
  rules: () => Promise<WorkspaceRules>;
  /** Whether the last step had to be repeated because newer rules were applied meanwhile. */
  isRepeated?: boolean;
}

interface VisitorLines {
  visitor: VisitorId;
  seqs: readonly number[];
}

/** Links signals of visitors in the transaction that records the batch which identifies them. Starts jobs for the rest. */
export function linkAtOnce(
  state: StoreState,
  people: People,
  visitors: readonly VisitorId[],
  { rulesVersion, nowMs }: { rulesVersion: number | null; nowMs: number },
): void {
  const { sql } = state;
  const read = linesOf(state, visitors);
  const waiting = read.filter(({ seqs }) => seqs.length > 0);
  if (rulesVersion !== null && waiting.length > 0) {
    const hasJob = (visitor: VisitorId): boolean =>
      sql.exec("SELECT 1 FROM link_jobs WHERE key = ?", visitorKey(visitor)).toArray().length > 0;
    const withoutJob = waiting.filter(({ visitor }) => !hasJob(visitor));
    const rules = { version: rulesVersion, rules: null };
    const linking = new Linking({ state, people, rules, payloads: new Map(), nowMs });
    for (const { segment, seqs } of segmentsOf(state, withoutJob)) linking.link(segment, seqs);
    linking.unlist(withoutJob);
  }
  const beyondBudget = visitors.slice(read.length);
  for (const visitor of [...waiting.map((lines) => lines.visitor), ...beyondBudget]) {
    if (hasEntries(sql, visitorList(visitor))) startLinkJob(sql, visitor, nowMs);
  }
}

/**
 * A job whose payloads cannot be read waits for COLD_RETRY_MS.
 *
 * @returns whether the next step can follow at once. @throws when the rules cannot be read, or are older than applied rules.
 */
export async function stepLinkJobs(work: LinkWork): Promise<boolean> {
  const { state, storage, objects } = work;
  const { sql, signals } = state;
  const visitors = dueLinkJobs(sql, Date.now() + LINK_ALARM_MS, LINK_STEP_SIGNALS);
  if (visitors.length === 0) return false;
  const current = await work.rules();
  const segments = segmentsOf(state, linesOf(state, visitors));
  const payloads = await readPayloads(signals, objects, linesToEvaluate(state, segments, current));
  return transact(storage, state, () => {
    if (isStale(sql, current.version)) {
      if (work.isRepeated === true) throw new Error("the mapping rules are older than rules that have been applied");
      return (work.isRepeated = true);
    }
    const nowMs = Date.now();
    const people = new People(state, nowMs);
    // The jobs may have changed meanwhile: the deletion of a person ends or delays them.
    const due = dueLinkJobs(sql, nowMs + LINK_ALARM_MS, LINK_STEP_SIGNALS);
    // Lines of an id without a person wait for the id's next person.
    const isKnown = (visitor: VisitorId): boolean => people.identities.claimsOf(visitor).length > 0;
    const lines = linesOf(state, due.filter(isKnown));
    const listed = new Set(lines.flatMap(({ seqs }) => seqs));
    const linking = new Linking({ state, people, rules: current, payloads, nowMs });
    for (const { segment, seqs } of segments) {
      // The next step takes lines that have changed meanwhile.
      const left = seqs.filter((seq) => listed.has(seq));
      if (signals.isCurrent(segment)) linking.link(segment, left);
    }
    for (const visitor of linking.unlist(lines)) putOffLinkJob(sql, visitor, nowMs + COLD_RETRY_MS);
    writeAndRecount(state, people);
    raiseLinked(state, people, lines, linking.done, nowMs);
    for (const visitor of due) {
      if (!isKnown(visitor) || !hasEntries(sql, visitorList(visitor))) endLinkJob(sql, visitor);
    }
    signals.flush();
    return hasRunnableLinkJob(sql, nowMs);
  });
}

/** The oldest lines of each visitor, LINK_STEP_SIGNALS in all. Visitors beyond that are left out. */
function linesOf({ sql }: StoreState, visitors: readonly VisitorId[]): VisitorLines[] {
  const lines: VisitorLines[] = [];
  let left = LINK_STEP_SIGNALS;
  for (const visitor of visitors) {
    if (left === 0) break;
    const entries = entriesAfter(sql, visitorList(visitor)).slice(0, left);
    left -= entries.length;
    lines.push({ visitor, seqs: entries.map(({ seq }) => seq) });
  }
  return lines;
}

/** The segments of lines, RULE_STEP_SEGMENTS at most, because each is in memory as a whole. */
function segmentsOf({ signals }: StoreState, lines: readonly VisitorLines[]): LinesOfSegment[] {
  const segments: LinesOfSegment[] = [];
  for (const part of signals.segmentsOf(lines.flatMap(({ seqs }) => seqs))) {
    if (segments.length === RULE_STEP_SEGMENTS) break;
    segments.push(part);
  }
  return segments;
}

function linesToEvaluate(
  state: StoreState,
  segments: readonly LinesOfSegment[],
  { version, rules }: WorkspaceRules,
): LinesOfSegment[] {
  const needsPayload = (seq: number, facts: Facts): boolean =>
    !isEvaluated(state, seq, facts, version) && isAboutEvent(rules, facts.event ?? "");
  return segments.map(({ segment, seqs }) => ({
    segment,
    seqs: seqs.filter((seq) => needsPayload(seq, segment.facts(seq))),
  }));
}

/** Whether the line has its outcomes by this version of the rules. */
function isEvaluated({ books: { judged } }: StoreState, seq: number, facts: Facts, rulesVersion: number): boolean {
  if (facts.kind !== "signal") return true;
  return facts.status === "anonymous" && judged.rulesVersion === rulesVersion && seq >= judged.sinceSeq;
}

const NO_OUTCOMES = { rulesTried: 0, outcomes: [] };

/** Changes of scores by linking, as JSON in the row of a job. Moving a score from a person to another changes no total. */
interface LinkCounts {
  personId: number;
  added: number;
  changed: number;
  removed: number;
  points: number;
}

interface LinkContext {
  state: StoreState;
  people: People;
  /** `rules.rules` is null while a batch is recorded: only lines with outcomes by this version are linked. */
  rules: { version: number; rules: CompiledRules | null };
  payloads: Payloads;
  nowMs: number;
}

class Linking {
  readonly #context: LinkContext;
  readonly #lists = new VisitorLists();
  readonly #withoutPayload = new Set<number>();
  /** Lines that are linked or need no link, with the changes of scores; null: none. */
  readonly done = new Map<number, LinkCounts | null>();

  constructor(context: LinkContext) {
    this.#context = context;
  }

  link(segment: Segment, seqs: readonly number[]): void {
    const changes = new Map<number, Facts>();
    for (const seq of seqs) {
      const before = segment.facts(seq);
      const linked = this.#linked(seq, before);
      if (linked === null) continue;
      this.#lists.remove(seq, before, linked.listedBy);
      changes.set(seq, linked);
    }
    this.#context.state.signals.rewrite(segment, changes);
  }

  /** Removes lines that are done or gone from the timelines. Returns the visitors that wait for payloads. */
  unlist(lines: readonly VisitorLines[]): VisitorId[] {
    const { sql, signals } = this.#context.state;
    const left = lines.flatMap(({ seqs }) => seqs).filter((seq) => !this.done.has(seq));
    const gone = new Set(left.filter((seq) => signals.isGone(seq)));
    const waiting = lines.filter(({ visitor, seqs }) => {
      for (const seq of seqs) if (gone.has(seq)) this.#lists.removeFrom(visitorList(visitor), seq);
      const isIdle = seqs.every((seq) => !this.done.has(seq) && !gone.has(seq));
      return isIdle && seqs.some((seq) => this.#withoutPayload.has(seq));
    });
    this.#lists.write(sql);
    return waiting.map(({ visitor }) => visitor);
  }

  /** Returns the new facts of a line; null: the line waits for rules or its payload. */
  #linked(seq: number, facts: Facts): Facts | null {
    const { state, people, rules, nowMs } = this.#context;
    const { admission, person: before } = facts;
    const isLinkable = facts.deletedAtMs === null && (facts.status === "anonymous" || facts.status === "processed");
    // A signal with an email has its person at once, so no line to link has an email.
    const person = isLinkable ? people.personByIds(facts, admission) : null;
    const email = person && people.emailOf(person.personId);
    if (person === null || email === null || (before !== null && !this.#canBeTaken(before))) {
      this.done.set(seq, null);
      return { ...facts, listedBy: [] };
    }
    // A line stays on the timeline of its user id while only its anonymous id names the person.
    const listedBy = person.by === "anonymous_id" ? facts.listedBy.filter((kind) => kind === "user_id") : [];
    if (before?.personId === person.personId) {
      this.done.set(seq, null);
      return { ...facts, person, listedBy };
    }
    // A batch takes no line from a person, because the person may need a recount.
    if (before !== null && rules.rules === null) return null;
    const evaluated = this.#evaluate(seq, facts, email);
    if (evaluated === null) {
      this.#withoutPayload.add(seq);
      return null;
    }
    const lost = before === null ? [] : people.removeLine(before.personId, seq, facts);
    changeStatus(state.books, countedSignal(facts), facts.status, "processed");
    const linked: Facts = { ...facts, ...evaluated, status: "processed", person, listedBy, linkedAtMs: nowMs };
    const won = people.addLine(person.personId, seq, linked);
    this.done.set(seq, countsOf(person.personId, lost, won));
    return linked;
  }

  /** Whether a line may change its person. A line of a person being deleted stays with them. */
  #canBeTaken({ by, personId }: LinePerson): boolean {
    return by === "anonymous_id" && this.#context.people.emailOf(personId) !== null;
  }

  /** Null: the payload is missing. */
  #evaluate(seq: number, facts: Facts, email: string): Pick<Facts, "rulesTried" | "outcomes"> | null {
    const { state, payloads } = this.#context;
    const { version, rules } = this.#context.rules;
    if (isEvaluated(state, seq, facts, version)) return facts;
    if (rules === null) return null;
    if (!isAboutEvent(rules, facts.event ?? "")) return NO_OUTCOMES;
    const payload = payloads.get(seq);
    if (payload === undefined) return null;
    const evaluation = payload === null ? null : evaluateStored(rules, facts, payload, email);
    if (evaluation === null) return NO_OUTCOMES;
    return { rulesTried: evaluation.rulesTried, outcomes: state.outcomes.idsOf(evaluation.matches) };
  }
}

function countsOf(personId: number, lost: readonly CountedMatch[], won: readonly CountedMatch[]): LinkCounts {
  const points = countedPoints(won) - countedPoints(lost);
  return {
    personId,
    added: Number(lost.length === 0 && won.length > 0),
    changed: Number(lost.length > 0 && won.length > 0 && points !== 0),
    removed: Number(lost.length > 0 && won.length === 0),
    points,
  };
}

/** Raises thresholds that people have crossed, and one event per visitor whose lines are all linked. Call it before the jobs end. */
function raiseLinked(
  state: StoreState,
  people: People,
  lines: readonly VisitorLines[],
  done: ReadonlyMap<number, LinkCounts | null>,
  nowMs: number,
): void {
  if (people.news === null) return;
  const events = people.news.thresholdEvents(nowMs);
  if (wants(state, "people.rescored")) {
    // A line on the timelines of two ids counts for the first of them.
    const counted = new Set<number>();
    for (const { visitor, seqs } of lines) {
      const counts = seqs.filter((seq) => !counted.has(seq)).flatMap((seq) => done.get(seq) ?? []);
      for (const seq of seqs) counted.add(seq);
      events.push(...linkedEvents(state.sql, people, visitor, counts, nowMs));
    }
  }
  state.raised.raise(events);
}

/** The event of a visitor's finished job. An unfinished job stores the counts. */
function linkedEvents(
  sql: SqlStorage,
  people: People,
  visitor: VisitorId,
  counts: readonly LinkCounts[],
  nowMs: number,
): WorkspaceEvent[] {
  const [job] = sql.exec<{ counts: string }>("SELECT counts FROM link_jobs WHERE key = ?", visitorKey(visitor));
  const sums = sumsOf([...(JSON.parse(job?.counts ?? "[]") as LinkCounts[]), ...counts]);
  if (hasEntries(sql, visitorList(visitor))) {
    if (counts.length > 0) {
      sql.exec("UPDATE link_jobs SET counts = ? WHERE key = ?", JSON.stringify(sums), visitorKey(visitor));
    }
    return [];
  }
  return sums.flatMap(({ personId, ...sum }) => {
    const email = people.emailOf(personId);
    if (email === null || (sum.added + sum.removed === 0 && sum.points === 0)) return [];
    const data = { cause: "signals_linked" as const, rule_id: null, email, ...sum, thresholds: [] };
    return newEvent("people.rescored", data, nowMs);
  });
}

function sumsOf(counts: readonly LinkCounts[]): LinkCounts[] {
  const sums = new Map<number, LinkCounts>();
  for (const { personId, added, changed, removed, points } of counts) {
    const sum = sums.get(personId) ?? { personId, added: 0, changed: 0, removed: 0, points: 0 };
    sum.added += added;
    sum.changed += changed;
    sum.removed += removed;
    sum.points += points;
    sums.set(personId, sum);
  }
  return [...sums.values()];
}

/** Adds a job for a visitor. An existing job keeps its due time. */
export function startLinkJob(sql: SqlStorage, visitor: VisitorId, nowMs: number): void {
  sql.exec("INSERT OR IGNORE INTO link_jobs (key, due_at) VALUES (?, ?)", visitorKey(visitor), nowMs + LINK_ALARM_MS);
}

/** When the next job is due, in milliseconds since 1970; null: there is none, or all wait for deletions. */
export function nextLinkJobMs(sql: SqlStorage): number | null {
  const { at } = sql.exec<{ at: number | null }>("SELECT min(due_at) AS at FROM link_jobs").one();
  return at === AFTER_DELETION ? null : at;
}

/** The longest waiting first. */
export function dueLinkJobs(sql: SqlStorage, byMs: number, limit: number): VisitorId[] {
  return sql
    .exec<{ key: ArrayBuffer }>("SELECT key FROM link_jobs WHERE due_at <= ? ORDER BY due_at LIMIT ?", byMs, limit)
    .toArray()
    .map(({ key }) => visitorOfKey(key));
}

/** Whether a job can run at once, because its last step has not failed. */
export function hasRunnableLinkJob(sql: SqlStorage, nowMs: number): boolean {
  return dueLinkJobs(sql, nowMs + LINK_ALARM_MS, 1).length > 0;
}

/** Lets the alarm continue at once with the longest waiting job. */
export function hurryLinkJobs(sql: SqlStorage, nowMs: number): void {
  const [visitor] = dueLinkJobs(sql, nowMs + LINK_ALARM_MS, 1);
  if (visitor !== undefined) putOffLinkJob(sql, visitor, nowMs);
}

export function putOffLinkJob(sql: SqlStorage, visitor: VisitorId, untilMs: number): void {
  sql.exec("UPDATE link_jobs SET due_at = ? WHERE key = ?", untilMs, visitorKey(visitor));
}

export function endLinkJob(sql: SqlStorage, visitor: VisitorId): void {
  sql.exec("DELETE FROM link_jobs WHERE key = ?", visitorKey(visitor));
}

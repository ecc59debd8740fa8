/**
 * Linking (spec §6.1) gives the earlier signals of a visitor to the person, once the person is known. A user id is stronger than an
 * anonymous id: when it gets a person, linking moves signals to them from the person of the anonymous id.
 *
 * The batch that identifies visitors links some of their signals at once, if these need no payload. A job for each
 * visitor links the rest, and stays until the visitor's timeline is empty. A step processes many jobs: it fetches payloads, evaluates the
 * current rules, and changes lines, people and timelines in one transaction.
 */
import type { WorkspaceRules } from "../../d1/stored-rules.ts";
import type { Notification } from "../../domain/notifications/notification.ts";
import { isEvaluable, needsPayload, type CompiledRules } from "../../domain/rules/mapping-rule.ts";
import { COLD_RETRY_MS } from "../../limits.ts";
import { newNotification } from "../../notifications/raised-notifications.ts";
import type { SignalFacts, LinePerson } from "../log/line.ts";
import type { LinesOfPortion, Payloads, Portion } from "../log/signal-log.ts";
import { wants } from "../state/raise-notifications.ts";
import { isStale } from "../state/rule-outcomes.ts";
import { changeStatus, countedSignal } from "../state/status-change.ts";
import { transact, type StoreState } from "../state/store-state.ts";
import { People } from "./people.ts";
import { countedPoints, evaluateStored, NO_PAYLOAD, type CountedMatch } from "./scoring.ts";
import { VisitorLists } from "./identities.ts";
import { entriesAfter, hasEntries, visitorKey, visitorList, visitorOfKey, type VisitorId } from "./timelines.ts";
import { STEPS } from "../steps.ts";

/** The alarm runs a job if the consumer that caused it has not run it within this time. */
export const LINK_ALARM_MS = 10_000;

interface LinkWork {
  state: StoreState;
  storage: DurableObjectStorage;
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
    const stored = readLines(state, withoutJob);
    for (const portion of stored.portions) linking.link(portion, portion.seqs);
    linking.unlist(withoutJob, stored.gone);
  }
  const beyondBudget = visitors.slice(read.length);
  for (const visitor of [...waiting.map((lines) => lines.visitor), ...beyondBudget]) {
    if (hasEntries(sql, visitorList(visitor))) startLinkJob(state, visitor, nowMs);
  }
}

/**
 * A job whose payloads cannot be read waits for COLD_RETRY_MS.
 *
 * @returns whether the next step can follow at once. @throws when the rules cannot be read, or are older than applied rules.
 */
export async function stepLinkJobs(work: LinkWork): Promise<boolean> {
  const { state, storage } = work;
  const { sql, signals } = state;
  const visitors = dueLinkJobs(sql, Date.now() + LINK_ALARM_MS, STEPS.linkSignals);
  if (visitors.length === 0) return false;
  const current = await work.rules();
  const { portions, gone } = readLines(state, linesOf(state, visitors));
  const payloads = await signals.readPayloads(linesToEvaluate(state, portions, current));
  return transact(storage, state, () => {
    if (isStale(sql, current.version)) {
      if (work.isRepeated === true) throw new Error("the mapping rules are older than rules that have been applied");
      return (work.isRepeated = true);
    }
    const nowMs = Date.now();
    const people = new People(state, nowMs);
    // The jobs may have changed meanwhile.
    const due = dueLinkJobs(sql, nowMs + LINK_ALARM_MS, STEPS.linkSignals);
    // Lines of an id without a person wait for the id's next person.
    const isKnown = (visitor: VisitorId): boolean => people.identities.claimsOf(visitor).length > 0;
    const lines = linesOf(state, due.filter(isKnown));
    const listed = new Set(lines.flatMap(({ seqs }) => seqs));
    const linking = new Linking({ state, people, rules: current, payloads, nowMs });
    for (const portion of portions) {
      // The next step takes lines that have changed meanwhile.
      const left = portion.seqs.filter((seq) => listed.has(seq));
      if (signals.isCurrent(portion)) linking.link(portion, left);
    }
    for (const visitor of linking.unlist(lines, gone)) putOffLinkJob(state, visitor, nowMs + COLD_RETRY_MS);
    people.flush({ others: linkedNotifications(state, people, lines, linking.done, nowMs) });
    for (const visitor of due) {
      if (!isKnown(visitor) || !hasEntries(sql, visitorList(visitor))) endLinkJob(sql, visitor);
    }
    signals.flush();
    return hasRunnableLinkJob(sql, nowMs);
  });
}

/** The oldest lines of each visitor, one step's in all. Visitors beyond that are left out. */
function linesOf({ sql }: StoreState, visitors: readonly VisitorId[]): VisitorLines[] {
  const lines: VisitorLines[] = [];
  let left = STEPS.linkSignals;
  for (const visitor of visitors) {
    if (left === 0) break;
    const entries = entriesAfter(sql, visitorList(visitor)).slice(0, left);
    left -= entries.length;
    lines.push({ visitor, seqs: entries.map(({ seq }) => seq) });
  }
  return lines;
}

/** Reads one step's portions at most, because each is in memory as a whole. `gone`: lines that retention has dropped. */
function readLines({ signals }: StoreState, lines: readonly VisitorLines[]) {
  const seqs = lines.flatMap((ofVisitor) => ofVisitor.seqs);
  const portions: Portion[] = [];
  let end = Number.POSITIVE_INFINITY;
  for (const portion of signals.read(seqs)) {
    if (portions.length === STEPS.portions) {
      end = portion.firstSeq;
      break;
    }
    portions.push(portion);
  }
  const stored = new Set(portions.flatMap((portion) => portion.seqs));
  return { portions, gone: new Set(seqs.filter((seq) => seq < end && !stored.has(seq))) };
}

function linesToEvaluate(
  state: StoreState,
  portions: readonly Portion[],
  { version, rules }: WorkspaceRules,
): LinesOfPortion[] {
  const isRead = (seq: number, facts: SignalFacts): boolean =>
    !isEvaluated(state, seq, facts, version) && needsPayload(rules, facts.event ?? "");
  return portions.map((portion) => ({
    portion,
    seqs: portion.seqs.filter((seq) => isRead(seq, portion.facts(seq))),
  }));
}

/** Whether the line has its outcomes by this version of the rules. */
function isEvaluated(
  { head: { evaluated } }: StoreState,
  seq: number,
  facts: SignalFacts,
  rulesVersion: number,
): boolean {
  if (facts.kind !== "signal") return true;
  return facts.status === "anonymous" && evaluated.rulesVersion === rulesVersion && seq >= evaluated.sinceSeq;
}

const NO_OUTCOMES = { rulesTried: 0, outcomes: [], excludedBy: null };

type Evaluated = Pick<SignalFacts, "rulesTried" | "outcomes" | "excludedBy">;

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
  /** Lines whose payload is missing, or that a deletion under way will remove. */
  readonly #waiting = new Set<number>();
  /** Lines that are linked or need no link, with the changes of scores; null: none. */
  readonly done = new Map<number, LinkCounts | null>();

  constructor(context: LinkContext) {
    this.#context = context;
  }

  link(portion: Portion, seqs: readonly number[]): void {
    const changes = new Map<number, SignalFacts>();
    for (const seq of seqs) {
      const before = portion.facts(seq);
      const linked = this.#linked(seq, before);
      if (linked === null) continue;
      this.#lists.remove(seq, before, linked.timelineIds);
      changes.set(seq, linked);
    }
    this.#context.state.signals.rewrite(portion, changes);
  }

  /** Removes lines that are done or gone from the timelines. Returns the visitors that wait for payloads or a deletion. */
  unlist(lines: readonly VisitorLines[], gone: ReadonlySet<number>): VisitorId[] {
    const { sql } = this.#context.state;
    const waiting = lines.filter(({ visitor, seqs }) => {
      for (const seq of seqs) if (gone.has(seq)) this.#lists.removeFrom(visitorList(visitor), seq);
      const isIdle = seqs.every((seq) => !this.done.has(seq) && !gone.has(seq));
      return isIdle && seqs.some((seq) => this.#waiting.has(seq));
    });
    this.#lists.flush(sql);
    return waiting.map(({ visitor }) => visitor);
  }

  /** Returns the new facts of a line; null: the line waits for rules, its payload or a deletion. */
  #linked(seq: number, facts: SignalFacts): SignalFacts | null {
    const { state, people, rules, nowMs } = this.#context;
    const { admission, person: before } = facts;
    const isLinkable = facts.deletedAtMs === null && (facts.status === "anonymous" || facts.status === "processed");
    // A signal with an email has its person at once, so no line to link has an email.
    const owner = isLinkable ? people.owners.ownerOf(facts, admission) : null;
    if (owner?.isDeleted === true) {
      this.#waiting.add(seq);
      return null;
    }
    const person = owner === null || owner.personId === null ? null : { personId: owner.personId, by: owner.by };
    const email = person && people.emailOf(person.personId);
    if (person === null || email === null || (before !== null && !this.#canBeTaken(before))) {
      this.done.set(seq, null);
      return { ...facts, timelineIds: [] };
    }
    // A line stays on the timeline of its user id while only its anonymous id names the person.
    const timelineIds = person.by === "anonymous_id" ? facts.timelineIds.filter((kind) => kind === "user_id") : [];
    if (before?.personId === person.personId) {
      this.done.set(seq, null);
      return { ...facts, person, timelineIds };
    }
    // A batch takes no line from a person: its notifications do not count what people lose.
    if (before !== null && rules.rules === null) return null;
    const evaluated = this.#evaluate(seq, facts, email);
    if (evaluated === null) {
      this.#waiting.add(seq);
      return null;
    }
    const lost = before === null ? [] : people.removeLine(before.personId, seq, facts);
    changeStatus(state.head, countedSignal(facts), facts.status, "processed");
    const how = { linkedAtMs: nowMs, linkedRulesVersion: rules.version };
    const linked: SignalFacts = { ...facts, ...evaluated, status: "processed", person, timelineIds, ...how };
    const won = people.addLine(person.personId, seq, linked);
    this.done.set(seq, countsOf(person.personId, lost, won));
    return linked;
  }

  /** Whether a line may change its person. The deletion of its person decides itself whose the line is. */
  #canBeTaken({ by, personId }: LinePerson): boolean {
    return by === "anonymous_id" && this.#context.people.emailOf(personId) !== null;
  }

  /** Null: the payload is missing. */
  #evaluate(seq: number, facts: SignalFacts, email: string): Evaluated | null {
    const { state, payloads } = this.#context;
    const { version, rules } = this.#context.rules;
    if (isEvaluated(state, seq, facts, version)) return facts;
    if (rules === null) return null;
    if (!isEvaluable(rules, facts.event ?? "")) return NO_OUTCOMES;
    const payload = needsPayload(rules, facts.event ?? "") ? payloads.get(seq) : NO_PAYLOAD;
    if (payload === undefined) return null;
    const evaluation = payload === null ? null : evaluateStored(rules, facts, payload, email);
    if (evaluation === null) return NO_OUTCOMES;
    const { rulesTried, matches, excludedBy = null } = evaluation;
    return { rulesTried, outcomes: state.outcomes.idsOf(matches), excludedBy };
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

/** One notification per visitor whose lines are all linked. Call it before the jobs end. */
function linkedNotifications(
  state: StoreState,
  people: People,
  lines: readonly VisitorLines[],
  done: ReadonlyMap<number, LinkCounts | null>,
  nowMs: number,
): Notification[] {
  if (!wants(state, "people.rescored")) return [];
  // A line on the timelines of two ids counts for the first of them.
  const counted = new Set<number>();
  return lines.flatMap(({ visitor, seqs }) => {
    const counts = seqs.filter((seq) => !counted.has(seq)).flatMap((seq) => done.get(seq) ?? []);
    for (const seq of seqs) counted.add(seq);
    return notificationsOfVisitor(state.sql, people, visitor, counts, nowMs);
  });
}

/** The notifications of a visitor's finished job, one for each person. An unfinished job stores the counts. */
function notificationsOfVisitor(
  sql: SqlStorage,
  people: People,
  visitor: VisitorId,
  counts: readonly LinkCounts[],
  nowMs: number,
): Notification[] {
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
    return newNotification("people.rescored", data, nowMs);
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
export function startLinkJob({ sql, due }: StoreState, visitor: VisitorId, nowMs: number): void {
  const dueMs = nowMs + LINK_ALARM_MS;
  const insert = "INSERT OR IGNORE INTO link_jobs (key, due_at) VALUES (?, ?)";
  if (sql.exec(insert, visitorKey(visitor), dueMs).rowsWritten > 0) due.by("link", dueMs);
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
export function hurryLinkJobs(state: StoreState, nowMs: number): void {
  const [visitor] = dueLinkJobs(state.sql, nowMs + LINK_ALARM_MS, 1);
  if (visitor !== undefined) putOffLinkJob(state, visitor, nowMs);
}

export function putOffLinkJob({ sql, due }: StoreState, visitor: VisitorId, untilMs: number): void {
  const update = "UPDATE link_jobs SET due_at = ? WHERE key = ?";
  if (sql.exec(update, untilMs, visitorKey(visitor)).rowsWritten > 0) due.by("link", untilMs);
}

export function endLinkJob(sql: SqlStorage, visitor: VisitorId): void {
  sql.exec("DELETE FROM link_jobs WHERE key = ?", visitorKey(visitor));
}

/**
 * Applies a mapping rule to stored signals (design §8.5): updates its outcomes, and the scores with them. A job runs
 * in steps. Each step is one transaction that also stores the job's position, so that a crash repeats and loses
 * nothing. The store's alarm drives it.
 *
 * A job processes the lines that existed, sealed, at its request. Lines recorded or linked later were processed with
 * the rules of that time or newer ones (see `isStale`). Outcomes of a newer version of the rule are left unchanged.
 */
import type { JsonObject } from "../../domain/json/json-value.ts";
import { evaluate } from "../../domain/rules/evaluate-rules.ts";
import { compileRules, eventRange, isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import type { CompiledRules, MappingRule, RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import { COLD_RETRY_MS, RULE_STEP_SEGMENTS, RULE_STEP_SIGNALS } from "../../limits.ts";
import { readPayloads, type ColdObjects, type Payloads } from "../log/cold.ts";
import type { Facts, Owner } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import { People } from "../people/people.ts";
import { readEntries, scoredBy } from "../people/timelines.ts";
import type { Scored } from "../people/timelines.ts";
import { keyOf, personList } from "../people/visitors.ts";
import { readRuleDays } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";
import {
  countIn,
  countReplaced,
  countScores,
  dueRuleJob,
  isCurrentJob,
  raiseRuleApplied,
  ruleOf,
  saveProgress,
} from "./rule-jobs.ts";
import type { RuleJobRow } from "./rule-jobs.ts";

type ScoreChanges = Map<number, { before: Scored | null; after: Scored | null }>;

/**
 * Runs one step of the longest waiting job. A job without its payloads waits for a while.
 *
 * @param limit lines to run the rule over; a segment is always processed whole. @returns whether the next step, of
 * this or another job, can follow at once.
 */
export async function stepRuleJob(
  state: StoreState,
  objects: ColdObjects,
  storage: DurableObjectStorage,
  limit = RULE_STEP_SIGNALS,
): Promise<boolean> {
  const job = dueRuleJob(state.sql, Date.now());
  if (job === null) return false;
  const { parts, areLast } = nextCandidates(state, job, limit);
  const payloads = await readPayloads(
    state.signals,
    objects,
    parts
      .map(({ segment, candidates }) => ({ segment, seqs: seqsAbout(candidates) }))
      .filter(({ seqs }) => seqs.length > 0),
  );
  try {
    return storage.transactionSync(() => {
      const nowMs = Date.now();
      if (isCurrentJob(state.sql, job)) new Step(state, job, nowMs).take(parts, areLast, payloads, limit);
      return dueRuleJob(state.sql, nowMs) !== null;
    });
  } catch (error) {
    state.reload();
    throw error;
  }
}

/** One step of a job, in its transaction. */
class Step {
  readonly #state: StoreState;
  readonly #job: RuleJobRow;
  readonly #nowMs: number;
  readonly #rule: MappingRule | null;
  readonly #compiled: CompiledRules;
  readonly #versions: OutcomeVersions;
  readonly #people: People;
  /** Changes of what lines score, by person. */
  readonly #changes = new Map<number, ScoreChanges>();

  constructor(state: StoreState, job: RuleJobRow, nowMs: number) {
    this.#state = state;
    this.#job = { ...job, status: "running", started_at: job.started_at ?? nowMs };
    this.#nowMs = nowMs;
    this.#rule = ruleOf(job);
    this.#compiled = compileRules(this.#rule === null ? [] : [this.#rule]);
    this.#versions = outcomeVersions(state.sql, job.rule_id);
    this.#people = new People(state);
  }

  take(parts: readonly CandidateSegment[], areLast: boolean, payloads: Payloads, limit: number): void {
    const { sql, signals } = this.#state;
    const job = this.#job;
    const areTaken = parts.every((part) => this.#takePart(part, payloads));
    for (const [personId, changes] of this.#changes) countIn(job, this.#people.rescore(personId, changes));
    countReplaced(job, this.#people.write());
    countScores(job, this.#people.news);
    if (areTaken && areLast && this.#isDone(limit)) {
      job.status = "done";
      job.finished_at = this.#nowMs;
      raiseRuleApplied(this.#state, job, this.#nowMs);
    }
    saveProgress(sql, job);
    signals.flush();
  }

  /**
   * Processes a segment. Returns whether the next one can follow: this one is unchanged since it was read, and its
   * payloads are available.
   */
  #takePart({ segment, candidates, scanned }: CandidateSegment, payloads: Payloads): boolean {
    const job = this.#job;
    if (candidates.length > 0 && !this.#state.signals.isCurrent(segment)) return false;
    if (candidates.some(({ seq, isAbout }) => isAbout && !payloads.has(seq))) {
      job.due_at = this.#nowMs + COLD_RETRY_MS;
      return false;
    }
    const changes = new Map<number, Facts>();
    for (const { seq, facts, isAbout } of candidates) {
      const before = facts.outcomes.find((id) => this.#versions.has(id));
      const after = isAbout ? this.#judge(facts, payloads.get(seq) ?? null, before) : undefined;
      if (after === before || this.#people.emailOf(facts.owner.personId) === null) continue;
      const others = facts.outcomes.filter((id) => id !== before);
      const outcomes = after === undefined ? others : [...others, after].sort((one, other) => one - other);
      const changed = { ...facts, outcomes };
      changes.set(seq, changed);
      const ofPerson = this.#changes.get(facts.owner.personId) ?? new Map();
      ofPerson.set(seq, { before: scoredBy(facts), after: scoredBy(changed) });
      this.#changes.set(facts.owner.personId, ofPerson);
    }
    this.#state.signals.rewrite(segment, changes);
    job.scanned += scanned;
    job.position = segment.lastSeq;
    return true;
  }

  /** New outcome of a line, given its current one; undefined: none. */
  #judge(facts: ScorableFacts, payload: string | null, before: number | undefined): number | undefined {
    if (payload === null || this.#rule === null) return before;
    const [match] = matchesOf(this.#compiled, facts, payload, this.#people);
    if (match !== undefined) this.#job.matched++;
    const version = before === undefined ? 0 : (this.#versions.get(before) ?? 0);
    if (version > this.#rule.version) return before;
    return match && this.#state.outcomes.idOf(match);
  }

  /**
   * Ends the job after its last line. An existing rule keeps its outcomes on dropped signals, because they cannot be
   * computed again. A deleted rule loses them, from the next step on.
   */
  #isDone(limit: number): boolean {
    const { books } = this.#state;
    const job = this.#job;
    if (this.#rule !== null || Object.keys(books.dropped).length === 0) return true;
    if (readRuleDays(this.#state, job.rule_id) === null) return true;
    if (job.person_id === null) {
      [job.person_id, job.position] = [0, 0];
      return false;
    }
    const outdated = new Set(outdatedOutcomes(job, this.#versions));
    return removeDroppedScores(this.#state, job, outdated, limit);
  }
}

// Outcomes of a deleted rule on dropped signals exist only in people's lists. Process them person by person and row
// by row, so that a step can be interrupted anywhere.

/**
 * Removes outcomes from the next entries of lists: `limit` entries, at most one row more. The caller writes the job.
 *
 * @param outcomes to remove. @returns whether none is left.
 */
function removeDroppedScores(
  state: StoreState,
  job: RuleJobRow,
  outcomes: ReadonlySet<number>,
  limit: number,
): boolean {
  const people = new People(state);
  const remove = (personId: number, text: string): number => {
    const changes = new Map<number, { before: Scored; after: Scored | null }>();
    const entries = readEntries(text);
    for (const { seq, scored } of entries) {
      if (scored === null || seq > job.last_seq || !hasOneOf(scored.outcomes, outcomes)) continue;
      // A line that is still there has been seen to by the job's earlier steps.
      if (hasOneOf(state.signals.read(seq)?.outcomes ?? [], outcomes)) continue;
      const left = scored.outcomes.filter((id) => !outcomes.has(id));
      changes.set(seq, { before: scored, after: left.length === 0 ? null : { ...scored, outcomes: left } });
    }
    countIn(job, people.rescore(personId, changes));
    return entries.length;
  };
  const isLast = takeRows(state.sql, job, limit, remove);
  countReplaced(job, people.write());
  countScores(job, people.news);
  return isLast;
}

/** Processes row by row. @param take returns the number of entries of the row. @returns whether no row is left. */
function takeRows(
  sql: SqlStorage,
  job: RuleJobRow,
  limit: number,
  take: (personId: number, entries: string) => number,
): boolean {
  for (let left = limit; left > 0;) {
    const personId = job.person_id ?? 0;
    const [row] = sql.exec<{ first_seq: number; entries: string }>(
      "SELECT first_seq, entries FROM timelines WHERE list = ? AND first_seq > ? ORDER BY first_seq LIMIT 1",
      keyOf(personList(personId)),
      job.position,
    );
    if (row !== undefined) {
      left -= take(personId, row.entries);
      job.position = row.first_seq;
      continue;
    }
    const [next] = sql.exec<{ id: number; recent: string }>(
      "SELECT id, recent FROM people WHERE id > ? ORDER BY id LIMIT 1",
      personId,
    );
    if (next === undefined) return true;
    // The entries in the person's own row come first: they may move to the rows of the list, never back.
    left -= 1 + take(next.id, next.recent);
    [job.person_id, job.position] = [next.id, 0];
  }
  return false;
}

function hasOneOf(outcomes: readonly number[], wanted: ReadonlySet<number>): boolean {
  return outcomes.some((id) => wanted.has(id));
}

// Which lines the job of a mapping rule looks at: those that the rule is about, and those that it has scored.

/** The version of the rule that each verdict is of, by its number. */
type OutcomeVersions = ReadonlyMap<number, number>;

/** A line that may come to score something else. */
interface RuleCandidate {
  seq: number;
  facts: ScorableFacts;
  /**
   * Whether the rule is about the line's event: then it takes the payload to say what it scores. Otherwise it scores
   * nothing.
   */
  isAbout: boolean;
}

/** A segment that was read, with the lines that may change. */
interface CandidateSegment {
  segment: Segment;
  candidates: RuleCandidate[];
  scanned: number;
}

/** The next segments of a job, at least one if any is left, and whether they are the last. */
function nextCandidates(
  state: StoreState,
  job: RuleJobRow,
  limit: number,
): { parts: CandidateSegment[]; areLast: boolean } {
  const rule = ruleOf(job);
  const outdated = outdatedOutcomes(job, outcomeVersions(state.sql, job.rule_id));
  const parts: CandidateSegment[] = [];
  const hasNothing = rule === null && outdated.length === 0;
  if (job.person_id !== null || hasNothing) return { parts, areLast: true };
  const { read, event } = reader(job, rule, outdated);
  let candidates = 0;
  for (const segment of state.signals.walk(job.position, { event })) {
    if (segment.firstSeq > job.last_seq) break;
    const part = read(segment);
    parts.push(part);
    candidates += part.candidates.length;
    if (segment.lastSeq === job.last_seq) break;
    if (candidates >= limit || parts.length >= RULE_STEP_SEGMENTS) return { parts, areLast: false };
  }
  return { parts, areLast: true };
}

/** Conditions for the candidates in a segment, and the event of the segments to read; undefined: all segments. */
function reader(
  job: RuleJobRow,
  rule: MappingRule | null,
  outdated: readonly number[],
): { read: (segment: Segment) => CandidateSegment; event: string | undefined } {
  const compiled = compileRules(rule === null ? [] : [rule]);
  const { prefix: event, exact } = eventRange(rule?.event ?? "");
  const isOutdated = new Set(outdated);
  const read = (segment: Segment): CandidateSegment => {
    const part: CandidateSegment = { segment, candidates: [], scanned: 0 };
    for (const seq of linesOf(segment, compiled, exact ? event : null, isOutdated)) {
      const facts = segment.facts(seq);
      const isAbout = facts.event !== null && isAboutEvent(compiled, facts.event);
      if (isAbout && isCounted(facts)) part.scanned++;
      if (!canScore(facts) || (facts.linkedAtMs ?? 0) > job.requested_at) continue;
      if (isAbout || facts.outcomes.some((id) => isOutdated.has(id))) part.candidates.push({ seq, facts, isAbout });
    }
    return part;
  };
  return { read, event: rule !== null && exact && outdated.length === 0 ? event : undefined };
}

/** Numbers of the lines that the rule covers or has scored, and a few others. */
function linesOf(
  segment: Segment,
  compiled: CompiledRules,
  event: string | null,
  outdated: ReadonlySet<number>,
): Iterable<number> {
  const scored = outdated.size === 0 ? [] : segment.seqsScored(outdated);
  if (!hasEventsOf(segment, compiled)) return scored;
  return event === null ? segment.seqs() : new Set([...segment.seqsWith("event", event), ...scored]);
}

function outcomeVersions(sql: SqlStorage, ruleId: string): OutcomeVersions {
  const rows = sql.exec<{ id: number; rule_version: number }>(
    "SELECT id, rule_version FROM rule_outcomes WHERE rule_id = ?",
    ruleId,
  );
  return new Map([...rows].map(({ id, rule_version: version }) => [id, version] as const));
}

/** Outcomes that no line is to have any more where the rule is not about its event. */
function outdatedOutcomes({ rule, rule_version: version }: RuleJobRow, versions: OutcomeVersions): number[] {
  const last = version ?? Number.POSITIVE_INFINITY;
  return [...versions].filter(([, one]) => (rule === null ? one <= last : one < last)).map(([id]) => id);
}

function seqsAbout(candidates: readonly RuleCandidate[]): number[] {
  return candidates.filter(({ isAbout }) => isAbout).map(({ seq }) => seq);
}

/** A line that can score. */
export type ScorableFacts = Facts & { owner: Owner };

/**
 * The rules' matches of a stored signal; none where that takes too many steps. Its person is only looked up where the rules
 * ask for their email.
 */
export function matchesOf(
  rules: CompiledRules,
  facts: ScorableFacts,
  payload: string,
  people: People,
): readonly RuleMatch[] {
  const email = rules.asksForEmail ? emailOf(facts, people) : undefined;
  if (email === null) return [];
  const signal = normalise(JSON.parse(payload) as JsonObject, facts.source ?? undefined);
  return evaluate(rules, signal, email)?.matches ?? [];
}

/** Email of a line's person. Where an email named the person, the line has it. */
function emailOf({ owner, email }: ScorableFacts, people: People): string | null {
  return owner.by === "email" && email !== null ? email : people.emailOf(owner.personId);
}

/** Only a processed signal of a person can score. */
export function canScore(facts: Facts): facts is ScorableFacts {
  return facts.kind === "signal" && facts.status === "processed" && facts.owner !== null;
}

/** Whether the signal queue counts a line. */
export function isCounted({ kind, status }: Facts): boolean {
  return kind === "signal" && (status === "processed" || status === "anonymous");
}

/** Whether a segment has signals that one of the rules covers. */
export function hasEventsOf(segment: Segment, rules: CompiledRules): boolean {
  return segment.hasEvent((event) => isAboutEvent(rules, event));
}

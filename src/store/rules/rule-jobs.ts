/**
 * Applies a mapping rule to stored signals (design §8.5): changes the outcomes of lines, and the scores with them. A rule has one job,
 * the latest. The alarm runs it in steps. Each step is one transaction that also stores the position, so a crash loses nothing.
 *
 * A job processes the lines that existed when it was requested. Lines that are recorded or linked later were evaluated by the rules of
 * that time or newer rules (`isStale`). Outcomes of a newer version of the rule stay.
 */
import type { Crossings } from "../../domain/events/workspace-event.ts";
import {
  compileRules,
  eventRange,
  isAboutEvent,
  type CompiledRules,
  type MappingRule,
  type RuleMatch,
  lapseDayOf,
} from "../../domain/rules/mapping-rule.ts";
import type { RuleVersions } from "../../domain/rules/rule-content.ts";
import { COLD_RETRY_MS, RULE_STEP_SEGMENTS, RULE_STEP_SIGNALS, PREVIEW_SAMPLES } from "../../limits.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import { updateRow } from "../../platform/sql-row.ts";
import { readPayloads, type ColdObjects, type Payloads } from "../log/cold.ts";
import type { Facts, LinePerson } from "../log/line.ts";
import type { LinesOfSegment } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { personList, entriesAfter, readEntries, scoredBy, type Entry } from "../people/timelines.ts";
import { People, type ScoreChange } from "../people/people.ts";
import { evaluateStored } from "../people/scoring.ts";
import type {
  RuleFacts,
  RuleJob,
  RuleToApply,
  PreviewPage,
  PreviewRange,
  PreviewSample,
} from "../protocol/store-operations.ts";
import type { RuleJobRow } from "../schema.ts";
import { addCrossings, wants, type ScoreNews } from "../state/raise-events.ts";
import { readRuleDays } from "../state/rule-outcomes.ts";
import { transact, type StoreState } from "../state/store-state.ts";
import { parsed } from "../../domain/json/json-value.ts";
import { dayOf } from "../../domain/duration.ts";

/** Maximum event groups that `estimateSignals` reads. */
const RULE_ESTIMATE_GROUPS = 10_000;

/**
 * Starts or restarts a job. A request with older rules changes nothing. Seals the open lines, because a job reads only sealed segments.
 * The caller flushes the log.
 *
 * @param state without pending changes of event groups, by which the work is estimated.
 */
export function startRuleJob(state: StoreState, toApply: RuleToApply, nowMs: number): void {
  const { ruleId, rule, rulesVersion } = toApply;
  const before = findRow(state.sql, ruleId);
  if (before !== null && before.rules_version > rulesVersion) return;
  // The new job replaces a running job. Report what that job has done.
  if (before !== null && before.status !== "done") raiseRuleApplied(state, before, nowMs);
  state.signals.seal();
  state.sql.exec(
    `INSERT OR REPLACE INTO rule_jobs (rule_id, rule, rule_version, rules_version, status, requested_at, due_at, last_seq,
       position, total, scanned, matched, added, changed, removed)
     VALUES (?1, ?2, ?3, ?4, 'queued', ?5, ?5, ?6, 0, ?7, 0, 0, 0, 0, 0)`,
    ruleId,
    rule && JSON.stringify(rule),
    rule?.version ?? toApply.disabledVersion ?? null,
    rulesVersion,
    nowMs,
    state.signals.nextSeq - 1,
    rule === null ? 0 : estimateSignals(state.sql, rule),
  );
}

/**
 * Runs a step of the longest waiting job. A job whose payloads cannot be read waits for COLD_RETRY_MS.
 *
 * @param limit signals to evaluate; a segment is always processed whole. @returns whether a next step can follow at once.
 */
export async function stepRuleJob(
  state: StoreState,
  objects: ColdObjects,
  storage: DurableObjectStorage,
  limit = RULE_STEP_SIGNALS,
): Promise<boolean> {
  const job = dueRuleJob(state.sql, Date.now());
  if (job === null) return false;
  const step = new RuleStep(state, job, limit);
  const payloads = await readPayloads(state.signals, objects, step.linesToEvaluate());
  return transact(storage, state, () => {
    const nowMs = Date.now();
    // Meanwhile the job may have been restarted.
    if (JSON.stringify(findRow(state.sql, job.rule_id)) === JSON.stringify(job)) step.run(payloads, nowMs);
    return dueRuleJob(state.sql, nowMs) !== null;
  });
}

type ScorableFacts = Facts & { person: LinePerson };

interface Candidate {
  seq: number;
  facts: ScorableFacts;
  /** Whether the rule covers the event of the line. */
  isAbout: boolean;
}

interface CandidateSegment {
  segment: Segment;
  candidates: Candidate[];
  scanned: number;
}

class RuleStep {
  readonly #state: StoreState;
  readonly #before: RuleJobRow;
  readonly #job: RuleJobRow;
  readonly #limit: number;
  readonly #rule: MappingRule | null;
  readonly #compiled: CompiledRules;
  /** Version of the rule by id of its outcome. */
  readonly #versions: ReadonlyMap<number, number>;
  /** Ids of outcomes that the job removes, unless the rule still matches. */
  readonly #outdated: ReadonlySet<number>;
  /** The next segments of the job. Read before the transaction, because their payloads may be in R2. */
  readonly #segments: CandidateSegment[] = [];
  #areLastSegments = true;
  /** By person and line. */
  readonly #changes = new Map<number, Map<number, ScoreChange>>();

  constructor(state: StoreState, job: RuleJobRow, limit: number) {
    this.#state = state;
    this.#before = job;
    this.#job = { ...job };
    this.#limit = limit;
    this.#rule = job.rule === null ? null : (JSON.parse(job.rule) as MappingRule);
    this.#compiled = compileRules(this.#rule === null ? [] : [this.#rule]);
    this.#versions = outcomeVersions(state.sql, job.rule_id);
    const last = job.rule_version ?? Number.POSITIVE_INFINITY;
    const outdated = [...this.#versions].filter(([, version]) =>
      this.#rule === null ? version <= last : version < last,
    );
    this.#outdated = new Set(outdated.map(([id]) => id));
    const hasLines = job.person_id === null && (this.#rule !== null || outdated.length > 0);
    if (hasLines) this.#readSegments();
  }

  linesToEvaluate(): LinesOfSegment[] {
    return this.#segments.map(({ segment, candidates }) => ({
      segment,
      seqs: candidates.filter(({ isAbout }) => isAbout).map(({ seq }) => seq),
    }));
  }

  run(payloads: Payloads, nowMs: number): void {
    const job = this.#job;
    const people = new People(this.#state, nowMs);
    job.status = "running";
    job.started_at ??= nowMs;
    const isAtEnd =
      job.person_id === null
        ? this.#processSegments(payloads, people, nowMs)
        : this.#processDropped(job.person_id, people);
    const replaced = people.write();
    // A line that scores instead of a removed line changes nothing in total.
    if (replaced <= job.removed) job.removed -= replaced;
    else job.added += replaced;
    countScores(job, people.news);
    this.#state.raised.raise(people.news?.accountEvents(nowMs) ?? []);
    if (isAtEnd && job.person_id === null && this.#hasDropped()) [job.person_id, job.position] = [0, 0];
    else if (isAtEnd) {
      job.status = "done";
      job.finished_at = nowMs;
      raiseRuleApplied(this.#state, job, nowMs);
    }
    updateRow(this.#state.sql, "rule_jobs", ["rule_id"], this.#before, job);
    this.#state.signals.flush();
  }

  #readSegments(): void {
    const { prefix, exact } = eventRange(this.#rule?.event ?? "");
    const event = exact ? prefix : null;
    // Without outdated outcomes, only segments with the rule's event can have candidates.
    const filter = this.#rule !== null && event !== null && this.#outdated.size === 0 ? { event } : {};
    let candidates = 0;
    for (const segment of this.#state.signals.walk(this.#job.position, filter)) {
      if (segment.firstSeq > this.#job.last_seq) return;
      const part = this.#candidatesOf(segment, event);
      this.#segments.push(part);
      candidates += part.candidates.length;
      if (segment.lastSeq === this.#job.last_seq) return;
      if (candidates >= this.#limit || this.#segments.length >= RULE_STEP_SEGMENTS) {
        this.#areLastSegments = false;
        return;
      }
    }
  }

  /** @param event the only event of the rule; null: the rule has a wildcard. */
  #candidatesOf(segment: Segment, event: string | null): CandidateSegment {
    const part: CandidateSegment = { segment, candidates: [], scanned: 0 };
    let seqs: Iterable<number> = this.#outdated.size === 0 ? [] : segment.seqsScored(this.#outdated);
    if (hasEventsOf(segment, this.#compiled)) {
      seqs = event === null ? segment.seqs() : new Set([...segment.seqsWith("event", event), ...seqs]);
    }
    for (const seq of seqs) {
      const facts = segment.facts(seq);
      const isAbout = facts.event !== null && isAboutEvent(this.#compiled, facts.event);
      if (isAbout && isCounted(facts)) part.scanned++;
      if (!canScore(facts) || (facts.linkedAtMs ?? 0) > this.#job.requested_at) continue;
      if (isAbout || this.#isOutdated(facts.outcomes)) part.candidates.push({ seq, facts, isAbout });
    }
    return part;
  }

  /** Returns whether all stored lines are processed. */
  #processSegments(payloads: Payloads, people: People, nowMs: number): boolean {
    const areProcessed = this.#segments.every((part) => this.#processSegment(part, payloads, people, nowMs));
    for (const [personId, changes] of this.#changes) this.#rescore(people, personId, changes);
    return areProcessed && this.#areLastSegments;
  }

  /** False: the segment has changed since it was read, or payloads are missing. A later step reads it again. */
  #processSegment(
    { segment, candidates, scanned }: CandidateSegment,
    payloads: Payloads,
    people: People,
    nowMs: number,
  ): boolean {
    const job = this.#job;
    if (candidates.length > 0 && !this.#state.signals.isCurrent(segment)) return false;
    if (candidates.some(({ seq, isAbout }) => isAbout && !payloads.has(seq))) {
      job.due_at = nowMs + COLD_RETRY_MS;
      return false;
    }
    const changes = new Map<number, Facts>();
    for (const { seq, facts, isAbout } of candidates) {
      const { personId } = facts.person;
      const before = facts.outcomes.find((id) => this.#versions.has(id));
      const after = isAbout ? this.#evaluate(facts, payloads.get(seq) ?? null, before, people) : undefined;
      if (after === before || people.emailOf(personId) === null) continue;
      const kept = facts.outcomes.filter((id) => id !== before);
      const outcomes = after === undefined ? kept : [...kept, after].sort((a, b) => a - b);
      const changed = { ...facts, outcomes };
      changes.set(seq, changed);
      const ofPerson = this.#changes.get(personId) ?? new Map<number, ScoreChange>();
      this.#changes.set(personId, ofPerson.set(seq, { before: scoredBy(facts), after: scoredBy(changed) }));
    }
    this.#state.signals.rewrite(segment, changes);
    job.scanned += scanned;
    job.position = segment.lastSeq;
    return true;
  }

  /** Returns the new outcome; undefined: none. @param before the current outcome. */
  #evaluate(facts: ScorableFacts, payload: string | null, before: number | undefined, people: People) {
    if (payload === null || this.#rule === null) return before;
    const [match] = matchesOf(this.#compiled, facts, payload, people);
    if (match !== undefined) this.#job.matched++;
    const version = before === undefined ? 0 : (this.#versions.get(before) ?? 0);
    if (version > this.#rule.version) return before;
    return match && this.#state.outcomes.idOf(match);
  }

  /**
   * Whether lines that retention has dropped may have outcomes to remove. Only a deleted or disabled rule loses these outcomes, because
   * the lines cannot be evaluated again.
   */
  #hasDropped(): boolean {
    const hasDropped = this.#rule === null && Object.keys(this.#state.books.dropped).length > 0;
    return hasDropped && readRuleDays(this.#state, this.#job.rule_id) !== null;
  }

  /** Removes outcomes of dropped lines from timelines, person by person. Returns whether all people are processed. */
  #processDropped(fromPersonId: number, people: People): boolean {
    const { sql } = this.#state;
    const job = this.#job;
    if (!this.#hasDropped()) return true;
    let personId = fromPersonId;
    for (let left = this.#limit; left > 0;) {
      let entries = entriesAfter(sql, personList(personId), job.position);
      job.position = entries.at(-1)?.seq ?? 0;
      if (entries.length === 0) {
        const [next] = sql.exec<{ id: number; recent: string }>(
          "SELECT id, recent FROM people WHERE id > ? ORDER BY id LIMIT 1",
          personId,
        );
        if (next === undefined) return true;
        job.person_id = personId = next.id;
        // The entries in the person's row come first: they may move to the rows of the timeline, never back.
        entries = readEntries(next.recent);
        left--;
      }
      this.#removeOutdated(people, personId, entries);
      left -= entries.length;
    }
    return false;
  }

  #removeOutdated(people: People, personId: number, entries: readonly Entry[]): void {
    const changes = new Map<number, ScoreChange>();
    for (const { seq, scored } of entries) {
      if (scored === null || seq > this.#job.last_seq || !this.#isOutdated(scored.outcomes)) continue;
      // Earlier steps have processed the lines that still exist.
      if (this.#isOutdated(this.#state.signals.read(seq)?.outcomes ?? [])) continue;
      const outcomes = scored.outcomes.filter((id) => !this.#outdated.has(id));
      changes.set(seq, { before: scored, after: outcomes.length === 0 ? null : { ...scored, outcomes } });
    }
    this.#rescore(people, personId, changes);
  }

  #isOutdated(outcomes: readonly number[]): boolean {
    return outcomes.some((id) => this.#outdated.has(id));
  }

  #rescore(people: People, personId: number, changes: ReadonlyMap<number, ScoreChange>): void {
    const { added, changed, removed } = people.rescore(personId, changes);
    this.#job.added += added;
    this.#job.changed += changed;
    this.#job.removed += removed;
  }
}

/** The rules' matches of a stored signal; none if the evaluation takes too many steps. */
function matchesOf(rules: CompiledRules, facts: ScorableFacts, payload: string, people: People): readonly RuleMatch[] {
  const { person, email: named } = facts;
  let email: string | null | undefined;
  if (rules.asksForEmail) email = person.by === "email" && named !== null ? named : people.emailOf(person.personId);
  return email === null ? [] : (evaluateStored(rules, facts, payload, email)?.matches ?? []);
}

function canScore(facts: Facts): facts is ScorableFacts {
  return facts.kind === "signal" && facts.status === "processed" && facts.person !== null;
}

/** Whether the signal queue counts a line. */
function isCounted({ kind, status }: Facts): boolean {
  return kind === "signal" && (status === "processed" || status === "anonymous");
}

function hasEventsOf(segment: Segment, rules: CompiledRules): boolean {
  return segment.hasEvent((event) => isAboutEvent(rules, event));
}

export function hasRuleJobs(sql: SqlStorage): boolean {
  return nextRuleJobMs(sql) !== null;
}

/** Milliseconds since 1970; null: all jobs are done. */
export function nextRuleJobMs(sql: SqlStorage): number | null {
  return sql.exec<{ at: number | null }>("SELECT min(due_at) AS at FROM rule_jobs WHERE status <> 'done'").one().at;
}

function dueRuleJob(sql: SqlStorage, nowMs: number): RuleJobRow | null {
  const [row] = sql.exec<RuleJobRow>(
    "SELECT * FROM rule_jobs WHERE status <> 'done' AND due_at <= ? ORDER BY due_at LIMIT 1",
    nowMs,
  );
  return row ?? null;
}

function findRow(sql: SqlStorage, ruleId: string): RuleJobRow | null {
  return sql.exec<RuleJobRow>("SELECT * FROM rule_jobs WHERE rule_id = ?", ruleId).toArray()[0] ?? null;
}

function outcomeVersions(sql: SqlStorage, ruleId: string): ReadonlyMap<number, number> {
  const rows = sql.exec("SELECT id, rule_version FROM rule_outcomes WHERE rule_id = ?", ruleId);
  return new Map(rows.raw<[id: number, version: number]>());
}

/** Estimates the signals of a rule's events from event groups. */
function estimateSignals(sql: SqlStorage, rule: MappingRule): number {
  const { prefix, exact } = eventRange(rule.event);
  const compiled = compileRules([rule]);
  const groups = sql.exec<{ event: string; count: number }>(
    `SELECT event, count - held AS count FROM event_groups WHERE event >= ?1 ${exact ? "AND event = ?1" : ""}
     ORDER BY event LIMIT ?2`,
    prefix,
    RULE_ESTIMATE_GROUPS,
  );
  let total = 0;
  for (const { event, count } of groups) {
    if (!event.startsWith(prefix)) break;
    if (isAboutEvent(compiled, event)) total += count;
  }
  return total;
}

function countScores(job: RuleJobRow, news: ScoreNews | null): void {
  if (news === null) return;
  job.points += news.points;
  const sums = JSON.parse(job.crossings) as Crossings[];
  addCrossings(sums, news.crossings);
  job.crossings = JSON.stringify(sums);
}

/** Raises the changes of a job that has ended or is replaced. A job that changes no score raises nothing. */
function raiseRuleApplied(state: StoreState, job: RuleJobRow, nowMs: number): void {
  const { rule_id, added, changed, removed, points } = job;
  const thresholds = JSON.parse(job.crossings) as Crossings[];
  const isNews = added + removed > 0 || points !== 0 || thresholds.length > 0;
  if (!isNews || !wants(state, "people.rescored")) return;
  const data = { cause: "rule_applied" as const, rule_id, email: null, added, changed, removed, points, thresholds };
  state.raised.raise([newEvent("people.rescored", data, nowMs)]);
}

export function findRuleJob(sql: SqlStorage, ruleId: string): RuleJob | null {
  const rows = sql.exec(
    `SELECT rule_id AS ruleId, json_extract(rule, '$.version') AS ruleVersion, status, scanned, total, matched, added, changed,
       removed, requested_at AS requestedAtMs, started_at AS startedAtMs, finished_at AS finishedAtMs
     FROM rule_jobs WHERE rule_id = ?`,
    ruleId,
  );
  return (rows.toArray()[0] as RuleJob | undefined) ?? null;
}

/** The highest rules version that was applied to stored signals, and the version of each rule with scores. */
export function appliedVersions(sql: SqlStorage): RuleVersions {
  const { rules } = sql.exec<{ rules: number | null }>("SELECT max(rules_version) AS rules FROM rule_jobs").one();
  const rows = sql.exec("SELECT rule_id, max(rule_version) FROM rule_outcomes GROUP BY rule_id");
  return { workspace: rules ?? 0, rules: [...rows.raw<[id: string, version: number]>()] };
}

export function ruleFacts(state: StoreState, ruleIds: readonly string[]): RuleFacts[] {
  return ruleIds.map((ruleId) => {
    const row = readRuleDays(state, ruleId);
    return { days: row?.days ?? "", job: findRuleJob(state.sql, ruleId), hasScoringSignals: row !== null };
  });
}

// Tries a mapping rule on stored signals before it is saved (design §8.5): the newest first, a page at a time. Writes nothing.

/** Segments whose payloads a page of a preview reads, each of some 112 KB: some 50 ms. */
const PREVIEW_STEP_SEGMENTS = 20;

interface CoveredLine {
  segment: Segment;
  seq: number;
  facts: Facts;
}

/** A page of a preview. If a payload cannot be read, the preview ends early. */
export async function previewPage(
  state: StoreState,
  objects: ColdObjects,
  rule: MappingRule,
  range: PreviewRange,
): Promise<PreviewPage> {
  const compiled = compileRules([rule]);
  const { lines, next } = latestLines(state, rule, compiled, range);
  const isTried = ({ facts }: CoveredLine): boolean => canScore(facts) && facts.admission.receivedAtMs >= range.sinceMs;
  const tried = Map.groupBy(lines.filter(isTried), ({ segment }) => segment);
  const ofSegments = [...tried].map(([segment, triedLines]) => ({ segment, seqs: triedLines.map(({ seq }) => seq) }));
  const payloads = await readPayloads(state.signals, objects, ofSegments);
  const people = new People(state, Date.now());
  const matches: { personId: number; atMs: number }[] = [];
  const page = { scanned: 0, characters: 0, samples: [] as PreviewSample[], next, complete: true };
  for (const line of lines) {
    const { seq, facts } = line;
    if (isTried(line) && !payloads.has(seq)) {
      page.next = null;
      page.complete = false;
      break;
    }
    page.scanned++;
    const payload = payloads.get(seq) ?? null;
    page.characters += payload?.length ?? 0;
    if (!canScore(facts) || payload === null || matchesOf(compiled, facts, payload, people).length === 0) continue;
    const { personId } = facts.person;
    const email = people.emailOf(personId);
    if (email === null) continue;
    const { id, receivedAtMs } = facts.admission;
    matches.push({ personId, atMs: facts.occurred.ms });
    if (page.samples.length < PREVIEW_SAMPLES) {
      const { event, source } = facts;
      page.samples.push({
        id,
        event: event ?? "",
        source: source ?? "",
        email,
        receivedAtMs,
        payload: parsed(payload),
      });
    }
  }
  return { ...page, ...countMatches(rule, range.today, matches) };
}

/** @param today counted in days since 1970. */
function countMatches(rule: MappingRule, today: number, matches: readonly { personId: number; atMs: number }[]) {
  const { frequency = "every_time", pointsLastDays = null } = rule;
  const occasionsOf = (counted: typeof matches): string[] => {
    if (frequency === "every_time") return [];
    const occasions = counted.map(({ personId, atMs }) =>
      frequency === "once_ever" ? `${personId}` : `${personId} ${dayOf(atMs)}`,
    );
    return [...new Set(occasions)];
  };
  const lapsed = matches.filter(({ atMs }) => pointsLastDays !== null && lapseDayOf(atMs, pointsLastDays) <= today);
  return {
    matches: matches.length,
    lapsed: lapsed.length,
    people: [...new Set(matches.map(({ personId }) => personId))],
    occasions: occasionsOf(matches),
    lapsedOccasions: occasionsOf(lapsed),
  };
}

/** `next` is null at the end. */
function latestLines(
  { signals }: StoreState,
  rule: MappingRule,
  compiled: CompiledRules,
  { beforeSeq, sinceMs, limit }: PreviewRange,
): { lines: CoveredLine[]; next: number | null } {
  const { prefix, exact } = eventRange(rule.event);
  const lines: CoveredLine[] = [];
  let [segments, segmentsWithLines] = [0, 0];
  for (const segment of signals.walkBack(beforeSeq, exact ? { event: prefix } : {})) {
    // A line is received before it is recorded. So older segments have no line that was received since `sinceMs`.
    if (segment.facts(segment.lastSeq).recordedAtMs < sinceMs) break;
    const before = lines.length;
    const seqs = !hasEventsOf(segment, compiled) ? [] : exact ? segment.seqsWith("event", prefix) : segment.seqs();
    for (const seq of seqs.toReversed()) {
      if (seq >= beforeSeq) continue;
      const facts = segment.facts(seq);
      if (!isCounted(facts) || !isAboutEvent(compiled, facts.event ?? "")) continue;
      if (facts.recordedAtMs < sinceMs) return { lines, next: null };
      if (lines.length === limit) return { lines, next: seq + 1 };
      lines.push({ segment, seq, facts });
    }
    if (lines.length > before) segmentsWithLines++;
    if (++segments === RULE_STEP_SEGMENTS || segmentsWithLines === PREVIEW_STEP_SEGMENTS)
      return { lines, next: segment.firstSeq };
  }
  return { lines, next: null };
}

/**
 * Applies a mapping rule to stored signals: changes the outcomes of lines, and the scores with them. Or applies the workspace's exclusions:
 * changes which lines are excluded. A rule has one job, and so have the exclusions, the latest. The alarm runs it in steps. Each step is one transaction that also stores the position, so a crash loses nothing.
 *
 * A job processes the lines that existed when it was requested. Lines that are recorded or linked later were evaluated by the rules of
 * that time or newer rules (`isStale`). Outcomes of a newer version of the rule stay.
 */
import type { Crossings } from "../../domain/notifications/notification.ts";
import type { Evaluation } from "../../domain/rules/evaluate-rules.ts";
import type { Exclusion } from "../../domain/rules/exclusion.ts";
import {
  compileRules,
  eventRange,
  isAboutEvent,
  isEvaluable,
  matchOf,
  type CompiledRules,
  type MappingRule,
} from "../../domain/rules/mapping-rule.ts";
import type { RuleVersions } from "../../domain/rules/rule-content.ts";
import { COLD_RETRY_MS } from "../../limits.ts";
import { newNotification } from "../../notifications/raised-notifications.ts";
import { updateRow } from "../../platform/sql-row.ts";
import type { SignalFacts, LinePerson } from "../log/line.ts";
import { type LinesOfPortion, type Payloads, type Portion, readLine, type WantedLines } from "../log/signal-log.ts";
import { personList, entriesAfter, readEntries, scoredBy, type Entry } from "../people/timelines.ts";
import { People } from "../people/people.ts";
import { hasReplacements, replaceOfRule } from "../people/replacements.ts";
import { evaluateStored, NO_PAYLOAD, type ScoreChange } from "../people/scoring.ts";
import type { ExclusionsToApply, RuleResults, RuleJob, RuleToApply } from "../protocol/store-operations.ts";
import type { RuleJobRow } from "../schema.ts";
import { addCrossings, wants, type ScoreSums } from "../state/raise-notifications.ts";
import { readRuleDays } from "../state/rule-outcomes.ts";
import { transact, type StoreState } from "../state/store-state.ts";
import { STEPS } from "../steps.ts";

/** Maximum event groups that `estimateSignals` reads. */
const RULE_ESTIMATE_GROUPS = 10_000;

/** In place of a rule's id: the job applies the exclusions, for all rules. */
export const ALL_RULES = "";
const ANY_EVENT = "*";

/**
 * Starts or restarts a job. A request with older rules than the job's changes nothing.
 *
 * @param state without pending changes of event groups, by which the work is estimated. @throws when newer rules have evaluated signals,
 *   which the job would evaluate again.
 */
export function startRuleJob(state: StoreState, toApply: RuleToApply, nowMs: number): void {
  const { ruleId, rule, rulesVersion, disabledVersion = null } = toApply;
  const version = rule?.version ?? disabledVersion;
  startJob(state, { ruleId, applied: rule, version, rulesVersion, event: rule?.event ?? null }, nowMs);
}

/** As `startRuleJob`, for the exclusions. */
export function startExclusionsJob(state: StoreState, toApply: ExclusionsToApply, nowMs: number): void {
  const { version, exclusions, rulesVersion } = toApply;
  const applied: AppliedExclusions = { version, exclusions };
  startJob(state, { ruleId: ALL_RULES, applied, version, rulesVersion, event: ANY_EVENT }, nowMs);
}

type AppliedExclusions = Pick<ExclusionsToApply, "version" | "exclusions">;

interface JobToStart {
  ruleId: string;
  applied: MappingRule | AppliedExclusions | null;
  version: number | null;
  rulesVersion: number;
  /** Pattern of the signals' events; null: none. */
  event: string | null;
}

function startJob(state: StoreState, job: JobToStart, nowMs: number): void {
  const { ruleId, applied, version, rulesVersion, event } = job;
  const before = findRow(state.sql, ruleId);
  if (before !== null && before.rules_version > rulesVersion) return;
  if (rulesVersion < (state.head.evaluated.rulesVersion ?? 0))
    throw new Error("newer mapping rules have evaluated signals meanwhile");
  // The new job replaces a running job. Report what that job has done.
  if (before !== null && before.status !== "done") raiseRuleApplied(state, before, nowMs);
  state.sql.exec(
    `INSERT OR REPLACE INTO rule_jobs (rule_id, rule, rule_version, rules_version, status, requested_at, due_at, last_seq,
       position, total, scanned, matched, added, changed, removed)
     VALUES (?1, ?2, ?3, ?4, 'queued', ?5, ?5, ?6, 0, ?7, 0, 0, 0, 0, 0)`,
    ruleId,
    applied && JSON.stringify(applied),
    version,
    rulesVersion,
    nowMs,
    state.signals.nextSeq - 1,
    event === null ? 0 : estimateSignals(state.sql, event),
  );
  state.outcomes.noteVersion(ruleId);
  state.due.by("apply_rules", nowMs);
}

/**
 * Runs a step of the longest waiting job. A job whose payloads cannot be read waits for COLD_RETRY_MS.
 *
 * @param limit signals to evaluate; a portion is always processed whole. @returns whether a next step can follow at once.
 */
export async function stepRuleJob(
  state: StoreState,
  storage: DurableObjectStorage,
  limit = STEPS.ruleSignals,
): Promise<boolean> {
  const job = dueRuleJob(state.sql, Date.now());
  if (job === null) return false;
  const step = new RuleStep(state, job, limit);
  const payloads = await state.signals.readPayloads(step.linesToEvaluate());
  return transact(storage, state, () => {
    const nowMs = Date.now();
    // Meanwhile the job may have been restarted.
    if (JSON.stringify(findRow(state.sql, job.rule_id)) === JSON.stringify(job)) step.run(payloads, nowMs);
    return dueRuleJob(state.sql, nowMs) !== null;
  });
}

export type ScorableFacts = SignalFacts & { person: LinePerson };

interface Candidate {
  seq: number;
  facts: ScorableFacts;
  /** Whether the line is evaluated: the rule covers its event, or there are exclusions. */
  isAbout: boolean;
}

interface CandidatePortion {
  portion: Portion;
  candidates: Candidate[];
  scanned: number;
}

class RuleStep {
  readonly #state: StoreState;
  readonly #before: RuleJobRow;
  readonly #job: RuleJobRow;
  readonly #limit: number;
  /** Null: the job applies a rule. */
  readonly #exclusions: readonly Exclusion[] | null;
  readonly #rule: MappingRule | null;
  readonly #compiled: CompiledRules;
  /** Exclusions by email, event or source need no payload. */
  readonly #needsPayloads: boolean;
  /** Version of the rule by id of its outcome. */
  readonly #versions: ReadonlyMap<number, number>;
  /** Ids of outcomes that the job removes, unless the rule still matches. */
  readonly #outdated: ReadonlySet<number>;
  /** The next portions of the job. Read before the transaction, because their payloads may be in R2. */
  readonly #portions: CandidatePortion[] = [];
  #areLastPortions = true;
  /** By person and line. */
  readonly #changes = new Map<number, Map<number, ScoreChange>>();

  constructor(state: StoreState, job: RuleJobRow, limit: number) {
    this.#state = state;
    this.#before = job;
    this.#job = { ...job };
    this.#limit = limit;
    const applied = job.rule === null ? null : (JSON.parse(job.rule) as MappingRule | AppliedExclusions);
    this.#exclusions = applied !== null && "exclusions" in applied ? applied.exclusions : null;
    this.#rule = applied === null || "exclusions" in applied ? null : applied;
    this.#compiled = compileRules(this.#rule === null ? [] : [this.#rule], this.#exclusions ?? []);
    this.#needsPayloads = this.#exclusions === null || this.#compiled.excludesByPayload;
    this.#versions = outcomeVersions(state.sql, job.rule_id);
    const last = job.rule_version ?? Number.POSITIVE_INFINITY;
    const outdated = [...this.#versions].filter(([, version]) =>
      this.#rule === null ? version <= last : version < last,
    );
    this.#outdated = new Set(outdated.map(([id]) => id));
    const hasWork = this.#rule !== null || this.#exclusions !== null || outdated.length > 0;
    const hasLines = job.person_id === null && hasWork;
    if (hasLines) this.#readPortions();
  }

  linesToEvaluate(): LinesOfPortion[] {
    return this.#portions.map(({ portion, candidates }) => ({
      portion,
      seqs: candidates.filter(({ isAbout }) => isAbout && this.#needsPayloads).map(({ seq }) => seq),
    }));
  }

  run(payloads: Payloads, nowMs: number): void {
    const job = this.#job;
    const people = new People(this.#state, nowMs);
    job.status = "running";
    job.started_at ??= nowMs;
    const isAtEnd =
      job.person_id === null
        ? this.#processPortions(payloads, people, nowMs)
        : this.#processDropped(job.person_id, people);
    // The replacements belong to the job, so that its summary counts them.
    const ofRule = this.#exclusions === null ? job.rule_id : null;
    const replaced = isAtEnd ? replaceOfRule(this.#state, people, ofRule) : 0;
    // A line that scores instead of a removed line changes nothing in total.
    if (replaced <= job.removed) job.removed -= replaced;
    else job.added += replaced;
    countScores(job, people.flush({ summed: "changes" }));
    if (isAtEnd && job.person_id === null && this.#hasDropped()) [job.person_id, job.position] = [0, 0];
    else if (isAtEnd && !hasReplacements(this.#state.sql, ofRule)) {
      job.status = "done";
      job.finished_at = nowMs;
      raiseRuleApplied(this.#state, job, nowMs);
    }
    updateRow(this.#state.sql, "rule_jobs", ["rule_id"], this.#before, job);
    this.#state.signals.flush();
  }

  #readPortions(): void {
    const { position, last_seq: lastSeq } = this.#job;
    let candidates = 0;
    for (const portion of this.#state.signals.walk({ after: position }, this.#wanted())) {
      if (portion.firstSeq > lastSeq) return;
      const part = this.#candidatesOf(portion);
      this.#portions.push(part);
      candidates += part.candidates.length;
      if (portion.lastSeq >= lastSeq) return;
      if (candidates >= this.#limit || this.#portions.length >= STEPS.portions) {
        this.#areLastPortions = false;
        return;
      }
    }
  }

  /** Lines with an event of the rule, and with an outcome that the job removes. Exclusions concern each line. */
  #wanted(): WantedLines {
    if (this.#exclusions !== null) return {};
    return { event: wantedEvent(this.#rule, this.#compiled), outcomes: this.#outdated };
  }

  #candidatesOf(portion: Portion): CandidatePortion {
    const part: CandidatePortion = { portion, candidates: [], scanned: 0 };
    for (const seq of portion.seqs) {
      if (seq > this.#job.last_seq) break;
      const facts = portion.facts(seq);
      const isAbout = facts.event !== null && isEvaluable(this.#compiled, facts.event);
      if (isAbout && isCounted(facts)) part.scanned++;
      if (!canScore(facts) || (facts.linkedRulesVersion ?? -1) >= this.#job.rules_version) continue;
      const isReleased = this.#exclusions !== null && facts.excludedBy !== null;
      if (isAbout || isReleased || this.#isOutdated(facts.outcomes)) part.candidates.push({ seq, facts, isAbout });
    }
    return part;
  }

  /** Returns whether all stored lines are processed. */
  #processPortions(payloads: Payloads, people: People, nowMs: number): boolean {
    const areProcessed = this.#portions.every((part) => this.#processPortion(part, payloads, people, nowMs));
    for (const [personId, changes] of this.#changes) this.#rescore(people, personId, changes);
    return areProcessed && this.#areLastPortions;
  }

  /** False: the portion has changed since it was read, or payloads are missing. A later step reads it again. */
  #processPortion(
    { portion, candidates, scanned }: CandidatePortion,
    payloads: Payloads,
    people: People,
    nowMs: number,
  ): boolean {
    const job = this.#job;
    const { lastSeq } = portion;
    if (candidates.length > 0 && !this.#state.signals.isCurrent(portion)) return false;
    if (this.#needsPayloads && candidates.some(({ seq, isAbout }) => isAbout && !payloads.has(seq))) {
      job.due_at = nowMs + COLD_RETRY_MS;
      return false;
    }
    const changes = new Map<number, SignalFacts>();
    for (const candidate of candidates) {
      const { seq, facts } = candidate;
      const { personId } = facts.person;
      const payload = this.#needsPayloads ? (payloads.get(seq) ?? null) : NO_PAYLOAD;
      const changed =
        this.#exclusions === null
          ? this.#withOutcome(candidate, payload, people)
          : this.#withExclusion(candidate, payload, this.#exclusions, people);
      if (changed === null || people.emailOf(personId) === null) continue;
      changes.set(seq, changed);
      const change = { before: scoredBy(facts), after: scoredBy(changed) };
      // The outcomes of an excluded line may change, and score nothing.
      if (change.before === null && change.after === null) continue;
      const ofPerson = this.#changes.get(personId) ?? new Map<number, ScoreChange>();
      this.#changes.set(personId, ofPerson.set(seq, change));
    }
    this.#state.signals.rewrite(portion, changes);
    job.scanned += scanned;
    job.position = Math.min(lastSeq, job.last_seq);
    return true;
  }

  /** Null: nothing changes. */
  #withOutcome({ facts, isAbout }: Candidate, payload: string | null, people: People): SignalFacts | null {
    const before = facts.outcomes.find((id) => this.#versions.has(id));
    const after = isAbout ? this.#evaluate(facts, payload, before, people) : undefined;
    if (after === before) return null;
    const kept = facts.outcomes.filter((id) => id !== before);
    return { ...facts, outcomes: after === undefined ? kept : [...kept, after].sort((a, b) => a - b) };
  }

  /** Null: nothing changes. */
  #withExclusion(
    { facts, isAbout }: Candidate,
    payload: string | null,
    exclusions: readonly Exclusion[],
    people: People,
  ): SignalFacts | null {
    const email = (): string | null => people.emailOf(facts.person.personId);
    const rules = { compiled: this.#compiled, exclusions };
    const excludedBy = exclusionOf(rules, facts, isAbout ? payload : null, email);
    if (excludedBy !== null) this.#job.matched++;
    return excludedBy === facts.excludedBy ? null : { ...facts, excludedBy };
  }

  /**
   * Returns the new outcome; undefined: none. What an earlier version has matched in a lost payload, this version matches too: nobody can look
   * again. @param before the current outcome.
   */
  #evaluate(facts: ScorableFacts, payload: string | null, before: number | undefined, people: People) {
    if (this.#rule === null || (payload === null && before === undefined)) return before;
    const email = (): string | null => people.emailOf(facts.person.personId);
    const [match] =
      payload === null ? [matchOf(this.#rule)] : (evaluationOf(this.#compiled, facts, payload, email)?.matches ?? []);
    if (match !== undefined && facts.excludedBy === null) this.#job.matched++;
    const version = before === undefined ? 0 : (this.#versions.get(before) ?? 0);
    if (version > this.#rule.version) return before;
    return match && this.#state.outcomes.idOf(match);
  }

  /**
   * Whether lines that retention has dropped may have outcomes to remove. Only a deleted or disabled rule loses these outcomes, because
   * the lines cannot be evaluated again.
   */
  #hasDropped(): boolean {
    const hasDropped = this.#rule === null && Object.keys(this.#state.head.dropped).length > 0;
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
      if (this.#isOutdated(readLine(this.#state.signals, seq)?.outcomes ?? [])) continue;
      const outcomes = scored.outcomes.filter((id) => !this.#outdated.has(id));
      changes.set(seq, { before: scored, after: outcomes.length === 0 ? null : { ...scored, outcomes } });
    }
    this.#rescore(people, personId, changes);
  }

  #isOutdated(outcomes: readonly number[]): boolean {
    return outcomes.some((id) => this.#outdated.has(id));
  }

  #rescore(people: People, personId: number, changes: ReadonlyMap<number, ScoreChange>): void {
    people.changeEntries(personId, changes);
    for (const [seq, change] of changes) this.#count(people.changeScore(personId, seq, change));
  }

  #count(effect: ReturnType<People["changeScore"]>): void {
    if (effect !== null) this.#job[effect]++;
  }
}

/** Null: the evaluation takes too many steps, or the person is gone. */
export function evaluationOf(
  rules: CompiledRules,
  facts: ScorableFacts,
  payload: string,
  emailOfPerson: () => string | null,
): Evaluation | null {
  const { person, email: named } = facts;
  let email: string | null | undefined;
  if (rules.asksForEmail) email = person.by === "email" && named !== null ? named : emailOfPerson();
  return email === null ? null : evaluateStored(rules, facts, payload, email);
}

/**
 * The id of the exclusion that covers a line; null: none does. A line that cannot be evaluated stays excluded while its exclusion exists.
 *
 * @param payload null: the line has none, or needs no evaluation.
 */
export function exclusionOf(
  { compiled, exclusions }: { compiled: CompiledRules; exclusions: readonly Exclusion[] },
  facts: ScorableFacts,
  payload: string | null,
  emailOfPerson: () => string | null,
): string | null {
  const evaluation = payload === null ? null : evaluationOf(compiled, facts, payload, emailOfPerson);
  if (evaluation !== null) return evaluation.excludedBy ?? null;
  return exclusions.some(({ id }) => id === facts.excludedBy) ? facts.excludedBy : null;
}

export function canScore(facts: SignalFacts): facts is ScorableFacts {
  return facts.kind === "signal" && facts.status === "processed" && facts.person !== null;
}

/** Whether the signal queue counts a line. */
export function isCounted({ kind, status }: SignalFacts): boolean {
  return kind === "signal" && (status === "processed" || status === "anonymous");
}

/** The events of a rule, as the log searches them; none without a rule. */
export function wantedEvent(rule: MappingRule | null, rules: CompiledRules): NonNullable<WantedLines["event"]> {
  const { prefix, exact } = eventRange(rule?.event ?? "");
  return exact && rule !== null ? prefix : (event) => isAboutEvent(rules, event);
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

/** Estimates the signals of events from event groups. */
function estimateSignals(sql: SqlStorage, event: string): number {
  const { prefix, exact } = eventRange(event);
  const compiled = compileRules([
    { id: "", version: 1, event, match: "all", conditions: [], scoringSignal: "", points: 0 },
  ]);
  const groups = sql.exec<{ event: string; count: number }>(
    `SELECT event, count - held AS count FROM event_groups WHERE event >= ?1 ${exact ? "AND event = ?1" : ""}
     ORDER BY event LIMIT ?2`,
    prefix,
    RULE_ESTIMATE_GROUPS,
  );
  let total = 0;
  for (const { event: name, count } of groups) {
    if (!name.startsWith(prefix)) break;
    if (isAboutEvent(compiled, name)) total += count;
  }
  return total;
}

function countScores(job: RuleJobRow, { points, crossings }: ScoreSums): void {
  job.points += points;
  const sums = JSON.parse(job.crossings) as Crossings[];
  addCrossings(sums, crossings);
  job.crossings = JSON.stringify(sums);
}

/** Raises the changes of a job that has ended or is replaced. A job that changes no score raises nothing. */
function raiseRuleApplied(state: StoreState, job: RuleJobRow, nowMs: number): void {
  if (state.head.wanted === null) return;
  const { rule_id, added, changed, removed, points } = job;
  const thresholds = JSON.parse(job.crossings) as Crossings[];
  const isChange = added + removed > 0 || points !== 0 || thresholds.length > 0;
  if (!isChange || !wants(state, "people.rescored")) return;
  const of =
    rule_id === ALL_RULES
      ? ({ cause: "exclusions_applied", rule_id: null } as const)
      : ({ cause: "rule_applied", rule_id } as const);
  const data = { ...of, email: null, added, changed, removed, points, thresholds };
  state.raised.raise([newNotification("people.rescored", data, nowMs)]);
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

/** The highest rules version that has evaluated signals or was applied to stored ones, and the version of each rule with scores. */
export function seenVersions({ sql, head }: Pick<StoreState, "sql" | "head">): RuleVersions {
  const { rules } = sql.exec<{ rules: number | null }>("SELECT max(rules_version) AS rules FROM rule_jobs").one();
  const rows = sql.exec("SELECT rule_id, max(rule_version) FROM rule_outcomes GROUP BY rule_id");
  const workspace = Math.max(rules ?? 0, head.evaluated.rulesVersion ?? 0);
  return { workspace, rules: [...rows.raw<[id: string, version: number]>()] };
}

export function ruleResults(state: StoreState, ruleIds: readonly string[]): RuleResults[] {
  return ruleIds.map((ruleId) => {
    const row = readRuleDays(state, ruleId);
    return { days: row?.days ?? "", job: findRuleJob(state.sql, ruleId), hasScoringSignals: row !== null };
  });
}

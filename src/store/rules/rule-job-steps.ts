/**
 * A mapping rule is applied to the signals that are stored already (design §8.5): what it scored is brought in line with
 * what it says now, and scores with that. A job goes in steps, each one transaction that also says how far the job is, so that
 * a crash repeats nothing and loses nothing. The store's alarm drives it.
 *
 * A job looks at the lines that were there when it was asked for, all of them sealed then. Lines recorded or linked after that
 * have been run through the rules as they were then, or newer ones (see `isStale`); what a newer version of the rule made is
 * left alone.
 */
import { compileRules } from "../../domain/rules/mapping-rule.ts";
import type { CompiledRules, MappingRule } from "../../domain/rules/mapping-rule.ts";
import { COLD_RETRY_MS, RULE_STEP_SIGNALS } from "../../limits.ts";
import { countScores, raiseRuleApplied } from "./rule-news.ts";
import type { ColdObjects } from "../log/cold-objects.ts";
import type { Facts } from "../log/line.ts";
import { readPayloads } from "../log/payloads.ts";
import type { Payloads } from "../log/payloads.ts";
import { People } from "../people/people.ts";
import { scoredBy } from "../people/timeline-text.ts";
import type { Scored } from "../people/timeline-text.ts";
import type { StoreState } from "../state/store-state.ts";
import { removeDroppedScores } from "./dropped-scores.ts";
import { nextCandidates, outdatedVerdicts, seqsAbout, verdictVersions } from "./rule-candidates.ts";
import type { CandidateSegment, VerdictVersions } from "./rule-candidates.ts";
import { readRuleDays } from "../state/rule-days.ts";
import { countIn, countReplaced, dueRuleJob, isCurrentJob, ruleOf, saveProgress } from "./rule-jobs.ts";
import type { RuleJobRow } from "./rule-jobs.ts";
import { matchesOf } from "./rule-signals.ts";
import type { ScorableFacts } from "./rule-signals.ts";

type ScoreChanges = Map<number, { before: Scored | null; after: Scored | null }>;

/**
 * Takes the job that waits longest one step further. One whose payloads cannot be had waits for a while.
 *
 * @param limit of the lines that the rule is run over; a segment is always looked at as a whole.
 * @returns whether the next step, of this or another job, can follow at once.
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
  readonly #versions: VerdictVersions;
  readonly #people: People;
  /** Changes of what lines score, by person. */
  readonly #changes = new Map<number, ScoreChanges>();

  constructor(state: StoreState, job: RuleJobRow, nowMs: number) {
    this.#state = state;
    this.#job = { ...job, status: "running", started_at: job.started_at ?? nowMs };
    this.#nowMs = nowMs;
    this.#rule = ruleOf(job);
    this.#compiled = compileRules(this.#rule === null ? [] : [this.#rule]);
    this.#versions = verdictVersions(state.sql, job.rule_id);
    this.#people = new People(state, new Set(this.#rule === null ? outdatedVerdicts(job, this.#versions) : []));
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
   * Takes in a segment. Returns whether the next one can be taken: this one has not changed since it was read, and its
   * payloads are there.
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
      const before = facts.verdicts.find((id) => this.#versions.has(id));
      const after = isAbout ? this.#judge(facts, payloads.get(seq) ?? null, before) : undefined;
      if (after === before || this.#people.emailOf(facts.owner.personId) === null) continue;
      const others = facts.verdicts.filter((id) => id !== before);
      const verdicts = after === undefined ? others : [...others, after].sort((one, other) => one - other);
      const changed = { ...facts, verdicts };
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

  /** What a line scores by the rule, given what it does so far; undefined is nothing. */
  #judge(facts: ScorableFacts, payload: string | null, before: number | undefined): number | undefined {
    if (payload === null || this.#rule === null) return before;
    const [match] = matchesOf(this.#compiled, facts, payload, this.#people);
    if (match !== undefined) this.#job.matched++;
    const version = before === undefined ? 0 : (this.#versions.get(before) ?? 0);
    if (version > this.#rule.version) return before;
    return match && this.#state.verdicts.idOf(match);
  }

  /**
   * Ends the job after its last line: a rule that still exists keeps what it scored on signals that are stored no longer, since
   * nobody can say what it would score now. A rule that is no more loses that, from the next step on.
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
    const outdated = new Set(outdatedVerdicts(job, this.#versions));
    return removeDroppedScores(this.#state, job, outdated, limit);
  }
}

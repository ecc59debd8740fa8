/**
 * Mapping rules that are applied to the signals that are stored already (design §8.5): which, and how far each is. The
 * steps are in rule-job-steps.ts.
 */
import { compileRules, eventRange, isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import type { MappingRule } from "../../domain/rules/mapping-rule.ts";
import type { RuleVersions } from "../../domain/rules/rule-content.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import { wants } from "../state/raise-events.ts";
import type { Crossings, ScoreNews } from "../state/raise-events.ts";
import type { RuleFacts, RuleJob, RuleJobStatus, RuleToApply } from "../protocol/store-operations.ts";
import { updateGroups } from "../state/status-change.ts";
import { readRuleDays } from "../state/rule-outcomes.ts";
import type { StoreState } from "../state/store-state.ts";

/** Event groups that are added up to estimate how much a rule's job has to read. */
const RULE_ESTIMATE_GROUPS = 10_000;

/** A job as it is stored; see tables.ts. */
export interface RuleJobRow {
  [column: string]: SqlStorageValue;
  rule_id: string;
  rule: string | null;
  rule_version: number | null;
  rules_version: number;
  status: RuleJobStatus;
  requested_at: number;
  started_at: number | null;
  finished_at: number | null;
  due_at: number;
  last_seq: number;
  position: number;
  person_id: number | null;
  total: number;
  scanned: number;
  matched: number;
  added: number;
  changed: number;
  removed: number;
  points: number;
  crossings: string;
}

/** The columns that a step changes. */
const PROGRESS = [
  "status",
  "started_at",
  "finished_at",
  "due_at",
  "position",
  "person_id",
  "scanned",
  "matched",
  "added",
  "changed",
  "removed",
  "points",
  "crossings",
] as const;

/**
 * Starts or restarts a job. An outdated request changes nothing. Open lines are sealed, so that a job only reads
 * segments; the caller flushes.
 */
export function startRuleJob(state: StoreState, toApply: RuleToApply, nowMs: number): void {
  const { ruleId, rule, rulesVersion } = toApply;
  const before = findRow(state.sql, ruleId);
  if (before !== null && before.rules_version > rulesVersion) return;
  // The job before ends here, so that what it has done so far is all that it does.
  if (before !== null && before.status !== "done") raiseRuleApplied(state, before, nowMs);
  state.signals.seal();
  updateGroups(state);
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
    rule === null ? 0 : estimate(state.sql, rule),
  );
}

export function findRuleJob(sql: SqlStorage, ruleId: string): RuleJob | null {
  const row = findRow(sql, ruleId);
  return row === null ? null : toRuleJob(row);
}

export function hasRuleJobs(sql: SqlStorage): boolean {
  return nextRuleJobMs(sql) !== null;
}

/** When the next job is due, in milliseconds since 1970; null when all are done. */
export function nextRuleJobMs(sql: SqlStorage): number | null {
  return sql.exec<{ at: number | null }>("SELECT min(due_at) AS at FROM rule_jobs WHERE status <> 'done'").one().at;
}

/** The job that waits longest, of those that are due; null: none is. */
export function dueRuleJob(sql: SqlStorage, nowMs: number): RuleJobRow | null {
  const [row] = sql.exec<RuleJobRow>(
    "SELECT * FROM rule_jobs WHERE status <> 'done' AND due_at <= ? ORDER BY due_at LIMIT 1",
    nowMs,
  );
  return row ?? null;
}

/** The workspace's highest rules version applied to stored signals, and the version of each rule with scores. */
export function appliedVersions(sql: SqlStorage): RuleVersions {
  const { rules } = sql.exec<{ rules: number | null }>("SELECT max(rules_version) AS rules FROM rule_jobs").one();
  const rows = sql.exec<{ rule_id: string; version: number }>(
    "SELECT rule_id, max(rule_version) AS version FROM rule_outcomes GROUP BY rule_id",
  );
  return { workspace: rules ?? 0, rules: [...rows].map(({ rule_id: id, version }) => [id, version]) };
}

/** Whether a job is unchanged since it was read: not restarted, no further step. */
export function isCurrentJob(sql: SqlStorage, job: RuleJobRow): boolean {
  return JSON.stringify(findRow(sql, job.rule_id)) === JSON.stringify(job);
}

export function saveProgress(sql: SqlStorage, job: RuleJobRow): void {
  sql.exec(
    `UPDATE rule_jobs SET ${PROGRESS.map((column) => `${column} = ?`).join(", ")} WHERE rule_id = ?`,
    ...PROGRESS.map((column) => job[column]),
    job.rule_id,
  );
}

/** Adds a step's changes of one person's score to a job. */
export function countIn(job: RuleJobRow, done: { added: number; changed: number; removed: number }): void {
  job.added += done.added;
  job.changed += done.changed;
  job.removed += done.removed;
}

/** Corrects a job's counts: if one signal replaces another as the scoring one, the net change is zero. */
export function countReplaced(job: RuleJobRow, replaced: number): void {
  if (replaced <= job.removed) job.removed -= replaced;
  else job.added += replaced;
}

export function ruleOf({ rule }: RuleJobRow): MappingRule | null {
  return rule === null ? null : (JSON.parse(rule) as MappingRule);
}

function findRow(sql: SqlStorage, ruleId: string): RuleJobRow | null {
  return sql.exec<RuleJobRow>("SELECT * FROM rule_jobs WHERE rule_id = ?", ruleId).toArray()[0] ?? null;
}

/**
 * Number of signals of a rule's events, by the counts of the signal queue, without held ones. Only some of very many
 * event names are read.
 */
function estimate(sql: SqlStorage, rule: MappingRule): number {
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

function toRuleJob(job: RuleJobRow): RuleJob {
  const { status, scanned, total, matched, added, changed, removed } = job;
  return {
    ruleId: job.rule_id,
    ruleVersion: ruleOf(job)?.version ?? null,
    status,
    scanned,
    total,
    matched,
    added,
    changed,
    removed,
    requestedAtMs: job.requested_at,
    startedAtMs: job.started_at,
    finishedAtMs: job.finished_at,
  };
}

/** Changes of scores by a rule's job, as stored in its row. */
export interface Rescoring {
  rule_id: string;
  added: number;
  changed: number;
  removed: number;
  points: number;
  /** JSON of an array of Crossings. */
  crossings: string;
}

/** Adds the changes of one step to a job's row. */
export function countScores(job: Rescoring, news: ScoreNews | null): void {
  if (news === null) return;
  job.points += news.points;
  const crossings = [...news.crossings];
  if (crossings.length === 0) return;
  const sums = JSON.parse(job.crossings) as Crossings[];
  for (const { threshold, risen, fallen } of crossings) {
    const known = sums.find((one) => one.threshold === threshold);
    if (known === undefined) sums.push({ threshold, risen, fallen });
    else Object.assign(known, { risen: known.risen + risen, fallen: known.fallen + fallen });
  }
  job.crossings = JSON.stringify(sums.sort((one, other) => one.threshold - other.threshold));
}

/** Notifies the changes of a rule's job when it has ended or another replaces it. */
export function raiseRuleApplied(state: StoreState, job: Rescoring, nowMs: number): void {
  const { rule_id, added, changed, removed, points } = job;
  const thresholds = JSON.parse(job.crossings) as Crossings[];
  // Unchanged scores by a newer version of the rule are not notified.
  const isNews = added + removed > 0 || points !== 0 || thresholds.length > 0;
  if (!isNews || !wants(state, "people.rescored")) return;
  const data = { cause: "rule_applied" as const, rule_id, email: null, added, changed, removed, points, thresholds };
  state.raised.raise([newEvent("people.rescored", data, nowMs)]);
}

/** Results of rules, in the order of the ids. */
export function ruleFacts(state: StoreState, ruleIds: readonly string[]): RuleFacts[] {
  return ruleIds.map((ruleId) => {
    const row = readRuleDays(state, ruleId);
    return { days: row?.days ?? "", job: findRuleJob(state.sql, ruleId), hasScoringSignals: row !== null };
  });
}

/** Whether the rule has scored anything that still counts. */
export function hasScoringSignals(state: StoreState, ruleId: string): boolean {
  return readRuleDays(state, ruleId) !== null;
}

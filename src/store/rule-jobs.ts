/**
 * A mapping rule applied to the signals that are stored already (design §8.5): a job in steps, each one transaction that
 * also says how far it got, so that a crash repeats nothing and loses nothing. The store's alarm drives it.
 *
 * A job looks at signals that were there when it was asked for. Those recorded or linked after that have been run through
 * the rules as they were then, or newer ones (see `isStale`); what a newer version of the rule made is left alone.
 */
import { compileRules, eventRange, isAboutEvent } from "../domain/mapping-rule.ts";
import type { MappingRule } from "../domain/mapping-rule.ts";
import { RULE_ESTIMATE_GROUPS, RULE_STEP_SIGNALS } from "../limits.ts";
import type { RuleJob, RuleJobStatus, RuleToApply } from "./rule-protocol.ts";
import { reconcileEvents, reconcileOne, removeOthers } from "./rule-reconcile.ts";

/** A job as it is stored; see schema.ts. */
export interface JobRow {
  [column: string]: SqlStorageValue;
  rule_id: string;
  rule: string | null;
  status: RuleJobStatus;
  requested_at: number;
  started_at: number | null;
  finished_at: number | null;
  last_seq: number;
  event: string | null;
  position: number;
  total: number;
  scanned: number;
  matched: number;
  added: number;
  changed: number;
  removed: number;
}

/** Begins anew where the rule is being applied already. A request that was overtaken by a later one changes nothing. */
export function startRuleJob(sql: SqlStorage, { ruleId, rule, rulesVersion }: RuleToApply, nowMs: number): void {
  sql.exec(
    `INSERT INTO rule_jobs (rule_id, rule, rules_version, status, requested_at, started_at, finished_at, last_seq, event,
       position, total, scanned, matched, added, changed, removed)
     VALUES (?1, ?2, ?3, 'queued', ?4, NULL, NULL, ifnull((SELECT max(seq) FROM signals), 0), ?5, 0, ?6, 0, 0, 0, 0, 0)
     ON CONFLICT (rule_id) DO UPDATE SET rule = excluded.rule, rules_version = excluded.rules_version,
       status = 'queued', requested_at = excluded.requested_at, started_at = NULL, finished_at = NULL,
       last_seq = excluded.last_seq, event = excluded.event, position = 0, total = excluded.total, scanned = 0,
       matched = 0, added = 0, changed = 0, removed = 0
     WHERE excluded.rules_version >= rules_version`,
    ruleId,
    rule && JSON.stringify(rule),
    rulesVersion,
    nowMs,
    rule && eventRange(rule.event).prefix,
    rule === null ? 0 : estimate(sql, rule),
  );
}

export function findRuleJob(sql: SqlStorage, ruleId: string): RuleJob | null {
  const [job] = sql.exec<JobRow>("SELECT * FROM rule_jobs WHERE rule_id = ?", ruleId).toArray();
  return job === undefined ? null : toRuleJob(job);
}

/** Takes the job that waits longest one step further, reading at most `limit` rows. */
export function stepRuleJob(sql: SqlStorage, nowMs: number, limit = RULE_STEP_SIGNALS): void {
  const [job] = sql
    .exec<JobRow>("SELECT * FROM rule_jobs WHERE status <> 'done' ORDER BY requested_at LIMIT 1")
    .toArray();
  if (job === undefined) return;
  const rule = ruleOf(job);
  job.started_at ??= nowMs;
  job.status = "running";
  if (rule !== null && job.event !== null) reconcileEvents(sql, job, rule, limit);
  else if (removeOthers(sql, job, rule, limit)) {
    job.status = "done";
    job.finished_at = nowMs;
  }
  sql.exec(
    `UPDATE rule_jobs SET status = ?2, started_at = ?3, finished_at = ?4, event = ?5, position = ?6, scanned = ?7,
       matched = ?8, added = ?9, changed = ?10, removed = ?11 WHERE rule_id = ?1`,
    job.rule_id,
    job.status,
    job.started_at,
    job.finished_at,
    job.event,
    job.position,
    job.scanned,
    job.matched,
    job.added,
    job.changed,
    job.removed,
  );
}

export function hasRuleJobs(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM rule_jobs WHERE status <> 'done' LIMIT 1").toArray().length > 0;
}

/** A signal that has taken another one's place may have moved to where the jobs have been already. */
export function applyRuleJobsTo(sql: SqlStorage, signalId: string): void {
  for (const job of sql.exec<JobRow>("SELECT * FROM rule_jobs WHERE status <> 'done'").toArray()) {
    const rule = ruleOf(job);
    if (rule !== null) reconcileOne(sql, job, rule, signalId);
  }
}

/** Whether rules of this version of the workspace are older than one that is, or was, applied to what is stored. */
export function isStale(sql: SqlStorage, rulesVersion: number): boolean {
  return sql.exec("SELECT 1 FROM rule_jobs WHERE rules_version > ? LIMIT 1", rulesVersion).toArray().length > 0;
}

/** As the signal queue counts them. Of very many event names not all are looked at. */
function estimate(sql: SqlStorage, rule: MappingRule): number {
  const { prefix, exact } = eventRange(rule.event);
  const compiled = compileRules([rule]);
  const groups = sql.exec<{ event: string; count: number }>(
    `SELECT event, count FROM event_groups WHERE event >= ? ${exact ? "AND event = ?1" : ""} ORDER BY event LIMIT ?2`,
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

function ruleOf({ rule }: JobRow): MappingRule | null {
  return rule === null ? null : (JSON.parse(rule) as MappingRule);
}

function toRuleJob(job: JobRow): RuleJob {
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

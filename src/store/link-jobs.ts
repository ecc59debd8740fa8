/**
 * Jobs that link earlier signals to the persons their visitors have become (spec §6.1): one for each visitor, written in
 * the transaction that made the visitor known, and there until nothing of it is left. They go in steps, each of which
 * may break off anywhere: payloads are fetched from cold storage, run through the rules as they are now, and given to
 * the person in one transaction, together with the end of the job.
 */
import type { WorkspaceRules } from "../control/rules-cache.ts";
import type { CompiledRules } from "../domain/mapping-rule.ts";
import { normalise } from "../domain/normalise.ts";
import type { JsonObject } from "../domain/signal.ts";
import { errorText, logEvent } from "../http/log.ts";
import {
  COLD_RETRY_MS,
  LINK_ALARM_MS,
  LINK_PAGE_SIGNALS,
  LINK_STEP_OBJECTS,
  LINK_STEP_VISITORS,
  LINK_TURN_STEPS,
} from "../limits.ts";
import { isWorked } from "./apply.ts";
import { placeKey } from "./cold-objects.ts";
import type { ColdObjects } from "./cold-objects.ts";
import type { ColdPlace } from "./cold-storage.ts";
import { linkSignals, unlinkedSignals, visitorsToLink } from "./link.ts";
import type { LinkedSignal, UnlinkedSignal, VisitorId } from "./link.ts";
import type { SignalToRecord } from "./protocol.ts";
import { isStale } from "./rule-jobs.ts";
import { evaluateSignal } from "./rule-signals.ts";

/** What a step works with. */
export interface LinkWork {
  storage: DurableObjectStorage;
  objects: ColdObjects;
  /** The workspace's, as they are now. */
  rules: () => Promise<WorkspaceRules>;
}

/** Notes the visitors of a batch, just recorded, that are known now and have signals which are not theirs yet. */
export function startLinkJobs(sql: SqlStorage, batch: readonly SignalToRecord[], nowMs: number): void {
  const visitors = batch.flatMap((signal) => visitorsOf(signal));
  if (visitors.length === 0) return;
  for (const { kind, value } of visitorsToLink(sql, visitors)) {
    sql.exec(
      "INSERT OR IGNORE INTO link_jobs (kind, value, due_at) VALUES (?, ?, ?)",
      kind,
      value,
      nowMs + LINK_ALARM_MS,
    );
  }
}

/** When the next job is due, in milliseconds since 1970; null when there is none. */
export function nextLinkJobMs(sql: SqlStorage): number | null {
  return sql.exec<{ at: number | null }>("SELECT min(due_at) AS at FROM link_jobs").one().at;
}

/** Whether there are jobs that nothing has hindered so far. */
export function hasFreshLinkJobs(sql: SqlStorage, nowMs: number): boolean {
  return dueJobs(sql, nowMs + LINK_ALARM_MS, 1).length > 0;
}

/** A bounded number of steps. Returns whether nothing has failed; never throws. */
export async function linkTurn(work: LinkWork, workspaceId: string): Promise<boolean> {
  try {
    // oxlint-disable-next-line no-await-in-loop -- each step is what the one before it left
    for (let steps = 0; steps < LINK_TURN_STEPS && (await stepLinkJobs(work)); steps++);
    return true;
  } catch (error) {
    logEvent("link_failed", { workspace: workspaceId, error: errorText(error) });
    return false;
  }
}

/**
 * One step. Jobs whose payloads cannot be fetched wait for a while.
 *
 * @returns whether the next step can follow at once; false also when there are no more jobs.
 * @throws when the rules cannot be asked for.
 */
async function stepLinkJobs({ storage, objects, rules }: LinkWork): Promise<boolean> {
  const { sql } = storage;
  if (!hasFreshLinkJobs(sql, Date.now())) return false;
  const current = await rules();
  const jobs = dueJobs(sql, Date.now() + LINK_ALARM_MS, LINK_STEP_VISITORS);
  const page = ofFewObjects(unlinkedSignals(sql, jobs, LINK_PAGE_SIGNALS));
  const payloads = await objects.read(page.flatMap(({ place }) => place ?? []));
  const linked: LinkedSignal[] = [];
  const hindered: VisitorId[] = [];
  for (const signal of page) {
    const payload = signal.payload ?? (signal.place && payloads.get(placeKey(signal.place)));
    if (typeof payload === "string") linked.push(evaluated(signal, payload, current.rules));
    else hindered.push(signal.visitor);
  }
  return storage.transactionSync(() => {
    // Run through rules that are older than some that have been applied meanwhile: once more.
    if (isStale(sql, current.version)) return true;
    const nowMs = Date.now();
    const count = linkSignals(sql, linked, nowMs);
    // Where nothing gets on there is a reason, even if it is not known here: not again at once.
    endJobs(sql, jobs, count === 0 ? jobs : hindered, nowMs + COLD_RETRY_MS);
    return hindered.length === 0 && hasFreshLinkJobs(sql, nowMs);
  });
}

function dueJobs(sql: SqlStorage, byMs: number, limit: number): VisitorId[] {
  return sql
    .exec<{ kind: VisitorId["kind"]; value: string }>(
      "SELECT kind, value FROM link_jobs WHERE due_at <= ? ORDER BY due_at LIMIT ?",
      byMs,
      limit,
    )
    .toArray();
}

/** Signals in the store, and those in the first few objects; the others come with later steps. */
function ofFewObjects(signals: readonly UnlinkedSignal[]): UnlinkedSignal[] {
  const objects = new Set<ColdPlace["object"]>();
  return signals.filter(({ place }) => {
    if (place === null || objects.has(place.object)) return true;
    if (objects.size === LINK_STEP_OBJECTS) return false;
    objects.add(place.object);
    return true;
  });
}

function evaluated(signal: UnlinkedSignal, payload: string, rules: CompiledRules): LinkedSignal {
  const { id, source, personId, email } = signal;
  const normalised = normalise(JSON.parse(payload) as JsonObject, source);
  const evaluation = evaluateSignal(rules, normalised, email);
  const { rulesTried, matches } = evaluation ?? { rulesTried: 0, matches: [] };
  return { id, personId, payload, traits: normalised.traits, rulesTried, matches };
}

function endJobs(sql: SqlStorage, jobs: readonly VisitorId[], hindered: readonly VisitorId[], retryMs: number): void {
  const waiting = new Set(visitorsToLink(sql, jobs).map(visitorKey));
  for (const job of jobs) {
    if (waiting.has(visitorKey(job))) continue;
    sql.exec("DELETE FROM link_jobs WHERE kind = ? AND value = ?", job.kind, job.value);
  }
  for (const { kind, value } of new Map(hindered.map((visitor) => [visitorKey(visitor), visitor])).values()) {
    sql.exec("UPDATE link_jobs SET due_at = ? WHERE kind = ? AND value = ?", retryMs, kind, value);
  }
}

function visitorKey({ kind, value }: VisitorId): string {
  return `${kind} ${value}`;
}

/** Ids that an identify call names, and those of a signal that waits for its owner's email. */
function visitorsOf(signal: SignalToRecord): VisitorId[] {
  if (!isWorked(signal) || (signal.work.kind === "signal" && signal.work.evaluation !== null)) return [];
  const { anonymousId, userId } = signal.work.normalised;
  const visitors: VisitorId[] = [];
  if (anonymousId !== undefined) visitors.push({ kind: "anonymous_id", value: anonymousId });
  if (userId !== undefined) visitors.push({ kind: "user_id", value: userId });
  return visitors;
}

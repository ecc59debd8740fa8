/** Mapping rules applied to stored signals (design §8.5): preview before saving, job after saving. */
import { auditEntry } from "../control/audit.ts";
import { deleteRule } from "../control/rule-changes.ts";
import { findRuleAndVersion, rulesVersion as readRulesVersion } from "../control/stored-rules.ts";
import { isJsonObject } from "../domain/json/dot-path.ts";
import { DAY_MS, dayOf } from "../domain/duration.ts";
import type { MappingRule } from "../domain/rules/mapping-rule.ts";
import { normalise } from "../domain/signal/normalise.ts";
import { proposeRule, type ProposedRule } from "../domain/rules/propose-conditions.ts";
import { previews, turnOfPage } from "../http/workspace-share.ts";
import { PREVIEW_MAX_SIGNALS, PREVIEW_SAMPLES, RULE_STEP_SIGNALS } from "../limits.ts";
import type { PreviewPage, PreviewSample, RuleJob } from "../store/protocol/store-operations.ts";
import { signalStore, type WorkspaceContext } from "./objects.ts";

/** Maximum slices that a preview reads for a rare event. 25 slices cover a million lines. */
const PREVIEW_MAX_PAGES = 250;
/** Characters of the payloads that a preview reads: 5,000 signals of a kilobyte, or 80 of 64 KB. */
const PREVIEW_MAX_CHARACTERS = 5_000_000;
/** A slice of a preview takes so many times as long as a page. */
const PREVIEW_PAGE_UNITS = 5;
/** Pages and the operator API give up a call after this time (other-routes.ts). */
const PREVIEW_TIMEOUT_MS = 30_000;

export interface RulePreview {
  matches: number;
  lapsed: number;
  people: number;
  scoringSignals: number;
  /** Total points that have not lapsed. */
  points: number;
  samples: PreviewSample[];
  scanned: number;
  /** False if signals remain unread or cold storage did not answer. */
  complete: boolean;
}

/**
 * Previews a rule on the processed signals of the last `days`, latest first. Changes nothing. Null: the workspace has too many
 * previews under way.
 */
export async function previewRule(
  env: Env,
  workspaceId: string,
  draft: DraftRule,
  days: number,
  maxSignals = PREVIEW_MAX_SIGNALS,
): Promise<RulePreview | null> {
  const place = previews.begin(workspaceId, Date.now(), PREVIEW_TIMEOUT_MS);
  if (place === null) return null;
  try {
    return await readPreview(env, workspaceId, draft, days, maxSignals);
  } finally {
    place.release();
  }
}

type DraftRule = Omit<MappingRule, "id" | "version">;

async function readPreview(
  env: Env,
  workspaceId: string,
  draft: DraftRule,
  days: number,
  maxSignals: number,
): Promise<RulePreview> {
  const store = signalStore(env, workspaceId);
  const rule: MappingRule = { ...draft, id: "preview", version: 1 };
  const nowMs = Date.now();
  const range = { sinceMs: nowMs - days * DAY_MS, today: dayOf(nowMs) };
  const people = new Set<number>();
  const [occasions, lapsedOccasions] = [new Set<string>(), new Set<string>()];
  const samples: PreviewSample[] = [];
  let [scanned, characters, matches, lapsed, complete] = [0, 0, 0, 0, true];
  let next: number | null = Number.MAX_SAFE_INTEGER;
  // Read slice by slice, so that the store can answer other calls in between.
  const isWithin = (): boolean => scanned < maxSignals && characters < PREVIEW_MAX_CHARACTERS;
  for (let pages = 0; next !== null && isWithin() && pages < PREVIEW_MAX_PAGES; pages++) {
    // Too many calls of the workspace wait: the preview ends early.
    // oxlint-disable-next-line no-await-in-loop
    if ((await turnOfPage(workspaceId, PREVIEW_PAGE_UNITS)) > 0) break;
    const limit = Math.min(RULE_STEP_SIGNALS, maxSignals - scanned);
    // oxlint-disable-next-line no-await-in-loop -- each page begins where the one before it ended
    const page: PreviewPage = await store.previewPage(rule, { ...range, beforeSeq: next, limit });
    characters += page.characters;
    for (const person of page.people) people.add(person);
    for (const occasion of page.occasions) occasions.add(occasion);
    for (const occasion of page.lapsedOccasions) lapsedOccasions.add(occasion);
    samples.push(...page.samples.slice(0, PREVIEW_SAMPLES - samples.length));
    scanned += page.scanned;
    matches += page.matches;
    lapsed += page.lapsed;
    complete &&= page.complete;
    next = page.next;
  }
  const { frequency = "every_time" } = rule;
  const scoringSignals = frequency === "every_time" ? matches : occasions.size;
  const counting = scoringSignals - (frequency === "every_time" ? lapsed : lapsedOccasions.size);
  // 0 times a negative number is -0.
  const points = counting === 0 ? 0 : counting * rule.points;
  return {
    matches,
    lapsed,
    people: people.size,
    scoringSignals,
    points,
    samples,
    scanned,
    complete: complete && next === null,
  };
}

/**
 * Proposes a rule for the event of the first signal, with the values that all signals share. Null: no stored payload
 * among them.
 *
 * @param signalIds signals with another event and unknown ids are ignored.
 */
export async function proposeFrom(env: Env, workspaceId: string, signalIds: string[]): Promise<ProposedRule | null> {
  const store = signalStore(env, workspaceId);
  const traces = await Promise.all(signalIds.map((id) => store.signal(id)));
  const samples = traces.flatMap((signal) => {
    if (signal === null || signal.kind !== "signal") return [];
    if (signal.payload === null && signal.inColdStorage) throw new Error("cold storage does not answer");
    return isJsonObject(signal.payload) ? [normalise(signal.payload, signal.source ?? undefined)] : [];
  });
  const [first, ...others] = samples;
  if (first === undefined) return null;
  return proposeRule(
    first,
    others.filter(({ event }) => event === first.event),
  );
}

/** Starts the job that applies the rule's current version to the past. Null: unknown rule. */
export async function applyRule(
  { env, db, workspaceId, by }: WorkspaceContext,
  ruleId: string,
): Promise<RuleJob | null> {
  const found = await findRuleAndVersion(db, workspaceId, ruleId);
  if (found === null) return null;
  const { rule, rulesVersion } = found;
  const { enabled, name, createdAt: _created, updatedAt: _updated, updatedBy: _by, ...applied } = rule;
  const toApply = enabled ? { rule: applied } : { rule: null, disabledVersion: rule.version };
  const job = await signalStore(env, workspaceId).applyRule({ ruleId, rulesVersion, ...toApply });
  const detail = { name, version: rule.version, enabled };
  await auditEntry(db, by, { workspaceId, action: "rule.applied", target: ruleId, detail });
  return job;
}

/**
 * Deletes a rule. With `remove`, returns the job that deletes its scoring signals as well; this also works after the
 * rule was deleted.
 */
export async function removeRule(
  context: WorkspaceContext,
  { ruleId, scoringSignals }: { ruleId: string; scoringSignals: "keep" | "remove" },
): Promise<"not_found" | "deleted" | RuleJob> {
  const { env, db, workspaceId, by } = context;
  const deleted = await deleteRule(context, { ruleId, scoringSignals });
  if (scoringSignals === "keep") return deleted ? "deleted" : "not_found";
  const store = signalStore(env, workspaceId);
  if (!deleted) {
    const [facts] = await store.ruleFacts([ruleId]);
    if (facts?.hasScoringSignals !== true) return "not_found";
    // The audit entry comes first, because the rule's name is unknown after the job.
    await auditEntry(db, by, { workspaceId, action: "rule.scores_removed", target: ruleId });
  }
  return store.applyRule({ ruleId, rule: null, rulesVersion: await readRulesVersion(db, workspaceId) });
}

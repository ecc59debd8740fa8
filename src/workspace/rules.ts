/** Mapping rules on signals that are stored already (design §8.5): tried before saving, applied after. */
import type { ControlDatabase } from "../control/database.ts";
import { findRuleAndVersion } from "../control/rules.ts";
import type { MappingRule } from "../domain/mapping-rule.ts";
import { PREVIEW_MAX_SIGNALS, PREVIEW_SAMPLES, RULE_STEP_SIGNALS } from "../limits.ts";
import type { PreviewSample, RuleJob } from "../store/protocol.ts";
import { signalStore } from "./objects.ts";

const DAY_MS = 24 * 3_600_000;

export interface RulePreview {
  /** Stored signals that match, the different people whose they are, and the points that they would add. */
  matches: number;
  people: number;
  points: number;
  /** The latest that match. */
  samples: PreviewSample[];
  /** Signals looked at. */
  scanned: number;
  /** False when there was more to look at than PREVIEW_MAX_SIGNALS. */
  complete: boolean;
}

/** Looks at the processed signals of people in the last `days`, the latest first; changes nothing. */
export async function previewRule(
  env: Env,
  workspaceId: string,
  draft: Omit<MappingRule, "id" | "version">,
  days: number,
): Promise<RulePreview> {
  const store = signalStore(env, workspaceId);
  const rule: MappingRule = { ...draft, id: "preview", version: 1 };
  const sinceMs = Date.now() - days * DAY_MS;
  const { events, complete } = await store.previewEvents(rule, sinceMs);
  const people = new Set<number>();
  const samples: PreviewSample[] = [];
  let [scanned, matches] = [0, 0];
  let next: number | null = Number.MAX_SAFE_INTEGER;
  // A page at a time, so that the store answers others in between.
  while (next !== null && scanned < PREVIEW_MAX_SIGNALS) {
    const limit = Math.min(RULE_STEP_SIGNALS, PREVIEW_MAX_SIGNALS - scanned);
    // oxlint-disable-next-line no-await-in-loop -- each page begins where the one before it ended
    const page = await store.previewPage(rule, { events, beforeSeq: next, sinceMs, limit });
    for (const person of page.people) people.add(person);
    samples.push(...page.samples.slice(0, PREVIEW_SAMPLES - samples.length));
    scanned += page.scanned;
    matches += page.matches;
    next = page.next;
  }
  const points = matches * rule.points;
  return { matches, people: people.size, points, samples, scanned, complete: complete && next === null };
}

/** Starts the job that brings the rule's scoring signals in line with the rule as it is now. Null: no such rule. */
export async function applyRule(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  ruleId: string,
): Promise<RuleJob | null> {
  const found = await findRuleAndVersion(db, workspaceId, ruleId);
  if (found === null) return null;
  const { rule, rulesVersion } = found;
  const { enabled, name: _, createdAt: _created, updatedAt: _updated, ...applied } = rule;
  return signalStore(env, workspaceId).applyRule({ ruleId, rule: enabled ? applied : null, rulesVersion });
}

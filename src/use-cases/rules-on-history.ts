/** Mapping rules applied to stored signals: preview before saving, job after saving. */
import { auditEntry } from "../d1/audit.ts";
import { deleteRule } from "../d1/rule-changes.ts";
import { findRuleAndVersion, rulesVersion as readRulesVersion } from "../d1/stored-rules.ts";
import { isJsonObject, parsed } from "../domain/json/json-value.ts";
import { DAY_MS, dayOf } from "../domain/duration.ts";
import type { MappingRule } from "../domain/rules/mapping-rule.ts";
import { propertiesRead } from "../domain/signal/normalise.ts";
import { proposeRule, type ProposedRule, type SampleSignal } from "../domain/rules/propose-conditions.ts";
import { previews, turnOfPage } from "../http/workspace-share.ts";
import { PREVIEW_MAX_SIGNALS, PREVIEW_SAMPLES, PREVIEW_STEP_SIGNALS } from "../limits.ts";
import type { PreviewPart, PreviewRange, PreviewSample, RuleJob } from "../store/protocol/store-operations.ts";
import { destinationsOf, signalStore, type WorkspaceContext } from "./objects.ts";

/** Maximum parts that a preview reads for a rare event. 25 parts cover a million lines. */
const PREVIEW_MAX_PARTS = 250;
/** Characters of the payloads that a preview reads: 5,000 signals of a kilobyte, or 80 of 64 KB. */
const PREVIEW_MAX_CHARACTERS = 5_000_000;
/** The cost of a part of a preview, in pages (`turnOfPage`). */
const PREVIEW_PART_UNITS = 5;
/** Pages and the operator API give up a call after this time (operator-and-pages.ts). */
const PREVIEW_TIMEOUT_MS = 30_000;

export interface RulePreview {
  matches: number;
  lapsed: number;
  people: number;
  scoringSignals: number;
  /** Total points that have not lapsed. */
  points: number;
  /** Who gets points from the matches: those with the most first, at most PREVIEW_PEOPLE. */
  byPerson: PersonEffect[];
  /** By threshold, how many people the points take over it, or below it. */
  crossing: { threshold: number; risen: number; fallen: number }[];
  samples: PreviewSample[];
  scanned: number;
  /** False if signals remain unread or cold storage did not answer. */
  complete: boolean;
}

export interface PersonEffect {
  email: string;
  name: string | null;
  points: number;
  /** The score now, and with the points. */
  before: number;
  after: number;
}

const PREVIEW_PEOPLE = 8;

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
  return inTurn(workspaceId, () => readPreview(env, workspaceId, draft, days, maxSignals));
}

/** Null: the workspace has too many previews under way. */
export async function inTurn<Preview>(workspaceId: string, read: () => Promise<Preview>): Promise<Preview | null> {
  const place = previews.begin(workspaceId, Date.now(), PREVIEW_TIMEOUT_MS);
  if (place === null) return null;
  try {
    return await read();
  } finally {
    place.release();
  }
}

interface ReadPart {
  scanned: number;
  characters: number;
  next: number | null;
  complete: boolean;
}

/**
 * Reads a preview part by part, so that the store can answer other calls in between.
 *
 * @param read reads the part before a line. @param take gets each part.
 */
export async function readParts<Part extends ReadPart>(
  workspaceId: string,
  maxSignals: number,
  read: (place: Pick<PreviewRange, "beforeSeq" | "limit">) => Promise<Part>,
  take: (part: Part) => void,
): Promise<{ scanned: number; complete: boolean }> {
  let [scanned, characters, complete] = [0, 0, true];
  let next: number | null = Number.MAX_SAFE_INTEGER;
  const isWithin = (): boolean => scanned < maxSignals && characters < PREVIEW_MAX_CHARACTERS;
  for (let parts = 0; next !== null && isWithin() && parts < PREVIEW_MAX_PARTS; parts++) {
    // Too many calls of the workspace wait: the preview ends early.
    // oxlint-disable-next-line no-await-in-loop
    if ((await turnOfPage(workspaceId, PREVIEW_PART_UNITS)) > 0) break;
    const limit = Math.min(PREVIEW_STEP_SIGNALS, maxSignals - scanned);
    // oxlint-disable-next-line no-await-in-loop -- each part begins where the one before it ended
    const part: Part = await read({ beforeSeq: next, limit });
    take(part);
    characters += part.characters;
    scanned += part.scanned;
    complete &&= part.complete;
    next = part.next;
  }
  return { scanned, complete: complete && next === null };
}

/** With the id of a saved rule whose next version it is. */
type DraftRule = Omit<MappingRule, "id" | "version"> & { id?: string };

async function readPreview(
  env: Env,
  workspaceId: string,
  draft: DraftRule,
  days: number,
  maxSignals: number,
): Promise<RulePreview> {
  const store = signalStore(env, workspaceId);
  const rule: MappingRule = { id: "preview", ...draft, version: 1 };
  const nowMs = Date.now();
  const range = { sinceMs: nowMs - days * DAY_MS, today: dayOf(nowMs) };
  const people = new Set<number>();
  const countedOf = new Map<number, number>();
  const [occasions, lapsedOccasions] = [new Set<string>(), new Set<string>()];
  const samples: PreviewSample[] = [];
  let [matches, lapsed] = [0, 0];
  const take = (part: PreviewPart): void => {
    for (const person of part.people) people.add(person);
    for (const [person, counted] of part.counted) countedOf.set(person, (countedOf.get(person) ?? 0) + counted);
    for (const occasion of part.occasions) occasions.add(occasion);
    for (const occasion of part.lapsedOccasions) lapsedOccasions.add(occasion);
    samples.push(...part.samples.slice(0, PREVIEW_SAMPLES - samples.length));
    matches += part.matches;
    lapsed += part.lapsed;
  };
  const read = (place: Pick<PreviewRange, "beforeSeq" | "limit">) => store.previewPart(rule, { ...range, ...place });
  const { scanned, complete } = await readParts(workspaceId, maxSignals, read, take);
  const { frequency = "every_time" } = rule;
  const scoringSignals = frequency === "every_time" ? matches : occasions.size;
  const counting = scoringSignals - (frequency === "every_time" ? lapsed : lapsedOccasions.size);
  // 0 times a negative number is -0.
  const points = counting === 0 ? 0 : counting * rule.points;
  for (const occasion of occasions) {
    const person = Number(occasion.split(" ")[0]);
    if (!lapsedOccasions.has(occasion)) countedOf.set(person, (countedOf.get(person) ?? 0) + 1);
  }
  const pointsOf = new Map([...countedOf].map(([person, counted]) => [person, counted * rule.points]));
  const { byPerson, crossing } = await effectsOn(env, workspaceId, pointsOf);
  return {
    byPerson,
    crossing,
    matches,
    lapsed,
    people: people.size,
    scoringSignals,
    points,
    samples,
    scanned,
    complete,
  };
}

/** What changes of scores mean for people. @param pointsOf changes by the number of the person. */
export async function effectsOn(
  env: Env,
  workspaceId: string,
  pointsOf: ReadonlyMap<number, number>,
): Promise<Pick<RulePreview, "byPerson" | "crossing"> & { effects: PersonEffect[] }> {
  const { people: thresholds } = await destinationsOf(env, workspaceId).thresholds();
  const people = await signalStore(env, workspaceId).scoredPeople([...pointsOf.keys()]);
  const effects = people.map(({ personId, score, ...who }): PersonEffect => {
    const points = pointsOf.get(personId) ?? 0;
    return { ...who, points, before: score, after: score + points };
  });
  return { effects, byPerson: largestOf(effects), crossing: crossings(effects, thresholds) };
}

/** Those whose score changes most, at most PREVIEW_PEOPLE. */
function largestOf(effects: readonly PersonEffect[]): PersonEffect[] {
  return effects
    .toSorted((a, b) => Math.abs(b.points) - Math.abs(a.points) || b.after - a.after)
    .slice(0, PREVIEW_PEOPLE);
}

function crossings(effects: readonly PersonEffect[], thresholds: readonly number[]): RulePreview["crossing"] {
  return thresholds
    .map((threshold) => ({
      threshold,
      risen: effects.filter(({ before, after }) => before < threshold && after >= threshold).length,
      fallen: effects.filter(({ before, after }) => before >= threshold && after < threshold).length,
    }))
    .filter(({ risen, fallen }) => risen + fallen > 0);
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
  const samples = traces.flatMap((signal): SampleSignal[] => {
    if (signal === null || signal.kind !== "signal") return [];
    if (signal.payload === null && signal.inColdStorage) throw new Error("cold storage does not answer");
    const payload = parsed(signal.payload);
    if (!isJsonObject(payload)) return [];
    const { event, source, email, userId, anonymousId, traits, mapped } = signal;
    const names = {
      ...(email !== null && { email }),
      ...(userId !== null && { userId }),
      ...(anonymousId !== null && { anonymousId }),
    };
    return [
      { event: event ?? "", source: source ?? "", ...names, traits, properties: propertiesRead(payload, mapped) },
    ];
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
    const [results] = await store.ruleResults([ruleId]);
    if (results?.hasScoringSignals !== true) return "not_found";
    // The audit entry comes first, because the rule's name is unknown after the job.
    await auditEntry(db, by, { workspaceId, action: "rule.scores_removed", target: ruleId });
  }
  return store.applyRule({ ruleId, rule: null, rulesVersion: await readRulesVersion(db, workspaceId) });
}

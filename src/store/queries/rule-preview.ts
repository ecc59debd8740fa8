/** Tries a mapping rule on stored signals before it is saved: the newest first, a part at a time. Writes nothing. */
import { dayOf } from "../../domain/duration.ts";
import { compileRules, lapseDayOf, type MappingRule } from "../../domain/rules/mapping-rule.ts";
import { PREVIEW_SAMPLES } from "../../limits.ts";
import type { NumberedLine, Portion, WantedLines } from "../log/signal-log.ts";
import type { PreviewPart, PreviewRange, PreviewSample, ScoredPerson } from "../protocol/store-operations.ts";
import { canScore, evaluationOf, isCounted, wantedEvent } from "../rules/rule-jobs.ts";
import { scoreAt, type LapsingScore } from "../people/scoring.ts";
import { todayOf } from "../state/store-state.ts";
import type { ShownState } from "./shown.ts";
import { STEPS } from "../steps.ts";

/** Portions of the log whose payloads a part of a preview reads, each of at most 144 KB: some 50 ms. */
const PREVIEW_STEP_PORTIONS = 16;

interface CoveredLine extends NumberedLine {
  portion: Portion;
}

/**
 * A part of a preview. If a payload cannot be read, the preview ends early. In a lost payload a rule matches what its earlier versions have
 * matched, as its job does.
 */
export async function previewPart(state: ShownState, rule: MappingRule, range: PreviewRange): Promise<PreviewPart> {
  const compiled = compileRules([rule]);
  const { lines, next } = latestLines(state, { event: wantedEvent(rule, compiled) }, range);
  const isTried = (line: CoveredLine): boolean => isOfPreview(line, range);
  const tried = Map.groupBy(lines.filter(isTried), ({ portion }) => portion);
  const ofPortions = [...tried].map(([portion, triedLines]) => ({ portion, seqs: triedLines.map(({ seq }) => seq) }));
  const payloads = await state.signals.readPayloads(ofPortions);
  const { names, outcomes } = state;
  const matches: { personId: number; atMs: number }[] = [];
  const part = { scanned: 0, characters: 0, samples: [] as PreviewSample[], next, complete: true };
  for (const line of lines) {
    const { seq, facts } = line;
    if (isTried(line) && !payloads.has(seq)) {
      part.next = null;
      part.complete = false;
      break;
    }
    part.scanned++;
    const payload = payloads.get(seq) ?? null;
    part.characters += payload?.length ?? 0;
    if (!canScore(facts) || !isTried(line) || facts.excludedBy !== null) continue;
    const { personId } = facts.person;
    const email = names.emailOf(facts);
    if (email === null) continue;
    const found = payload === null ? outcomes.of(facts) : evaluationOf(compiled, facts, payload, () => email)?.matches;
    if (found?.some(({ ruleId }) => ruleId === rule.id) !== true) continue;
    const { id, receivedAtMs } = facts.admission;
    matches.push({ personId, atMs: facts.occurred.ms });
    if (payload !== null && part.samples.length < PREVIEW_SAMPLES) {
      const { event, source } = facts;
      part.samples.push({
        id,
        event: event ?? "",
        source: source ?? "",
        email,
        receivedAtMs,
        payload,
      });
    }
  }
  return { ...part, ...countMatches(rule, range.today, matches) };
}

/** Missing: people who were deleted meanwhile. */
export function scoredPeople({ sql, head }: Pick<ShownState, "sql" | "head">, ids: readonly number[]): ScoredPerson[] {
  const rows = sql.exec<LapsingScore & Omit<ScoredPerson, "score"> & Record<string, SqlStorageValue>>(
    `SELECT id AS personId, email, name, score, lapses, next_lapse_at FROM people
     WHERE id IN (SELECT value FROM json_each(?))`,
    JSON.stringify(ids),
  );
  const today = todayOf({ head });
  return [...rows].map(({ personId, email, name, ...lapsing }) => {
    return { personId, email, name, score: scoreAt(lapsing, today).score };
  });
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
  const isLapsed = ({ atMs }: (typeof matches)[number]): boolean =>
    pointsLastDays !== null && lapseDayOf(atMs, pointsLastDays) <= today;
  const lapsed = matches.filter(isLapsed);
  const counting = frequency === "every_time" ? matches.filter((match) => !isLapsed(match)) : [];
  return {
    matches: matches.length,
    lapsed: lapsed.length,
    people: [...new Set(matches.map(({ personId }) => personId))],
    counted: [...Map.groupBy(counting, ({ personId }) => personId)].map(([personId, ofPerson]): [number, number] => [
      personId,
      ofPerson.length,
    ]),
    occasions: occasionsOf(matches),
    lapsedOccasions: occasionsOf(lapsed),
  };
}

export function isOfPreview({ facts }: CoveredLine, { sinceMs }: PreviewRange): boolean {
  return canScore(facts) && facts.admission.receivedAtMs >= sinceMs;
}

/** `next` is null at the end. */
export function latestLines(
  { signals }: ShownState,
  wanted: WantedLines,
  { beforeSeq, sinceMs, limit }: PreviewRange,
): { lines: CoveredLine[]; next: number | null } {
  const lines: CoveredLine[] = [];
  let [portions, portionsWithLines] = [0, 0];
  for (const portion of signals.walk({ before: beforeSeq }, wanted)) {
    // A line is received before it is recorded. So older portions have no line that was received since `sinceMs`.
    if (portion.facts(portion.lastSeq).recordedAtMs < sinceMs) break;
    const before = lines.length;
    for (const seq of portion.seqs.toReversed()) {
      const facts = portion.facts(seq);
      if (!isCounted(facts)) continue;
      if (facts.recordedAtMs < sinceMs) return { lines, next: null };
      if (lines.length === limit) return { lines, next: seq + 1 };
      lines.push({ portion, seq, facts });
    }
    if (lines.length > before) portionsWithLines++;
    if (++portions === STEPS.portions || portionsWithLines === PREVIEW_STEP_PORTIONS)
      return { lines, next: portion.firstSeq };
  }
  return { lines, next: null };
}

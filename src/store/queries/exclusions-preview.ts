/**
 * Tries exclusions on stored signals before they are applied: the newest first, a part at a time. Writes nothing. A line knows what the rules
 * match, so its exclusion decides whether the matches count.
 */
import { dayOf } from "../../domain/duration.ts";
import type { Exclusion } from "../../domain/rules/exclusion.ts";
import { compileRules, lapseDayOf } from "../../domain/rules/mapping-rule.ts";
import { PREVIEW_SAMPLES } from "../../limits.ts";
import { lapseOf, NO_PAYLOAD } from "../people/scoring.ts";
import type { ExclusionsPreviewPart, PreviewRange, SingleMatch } from "../protocol/store-operations.ts";
import { canScore, exclusionOf, type ScorableFacts } from "../rules/rule-jobs.ts";
import { hasFirstDay, occasionOf } from "../state/rule-outcomes.ts";
import { todayOf } from "../state/store-state.ts";
import { isOfPreview, latestLines } from "./rule-preview.ts";
import type { ShownState } from "./shown.ts";

/** A part of a preview. If a payload cannot be read, the preview ends early. */
export async function previewExclusionsPart(
  state: ShownState,
  exclusions: readonly Exclusion[],
  range: PreviewRange,
): Promise<ExclusionsPreviewPart> {
  const compiled = compileRules([], exclusions);
  const { lines, next } = latestLines(state, {}, range);
  const needsPayload = (line: (typeof lines)[number]): boolean =>
    compiled.excludesByPayload && isOfPreview(line, range);
  const tried = Map.groupBy(lines.filter(needsPayload), ({ portion }) => portion);
  const payloads = await state.signals.readPayloads(
    [...tried].map(([portion, ofPortion]) => ({ portion, seqs: ofPortion.map(({ seq }) => seq) })),
  );
  const effects = new Effects(state);
  const part = { scanned: 0, characters: 0, next, complete: true };
  for (const line of lines) {
    const { seq, facts } = line;
    if (needsPayload(line) && !payloads.has(seq)) {
      part.next = null;
      part.complete = false;
      break;
    }
    part.scanned++;
    const payload = compiled.excludesByPayload ? (payloads.get(seq) ?? null) : NO_PAYLOAD;
    part.characters += payload?.length ?? 0;
    const email = state.names.emailOf(facts);
    if (!canScore(facts) || !isOfPreview(line, range) || email === null) continue;
    effects.note(
      facts,
      email,
      exclusionOf({ compiled, exclusions }, facts, payload, () => email),
    );
  }
  return { ...part, ...effects.counted() };
}

class Effects {
  readonly #state: ShownState;
  readonly #covered = new Map<string, number>();
  readonly #points = new Map<number, number>();
  readonly #singles: SingleMatch[] = [];
  readonly #samples: ExclusionsPreviewPart["samples"] = [];
  #excluded = 0;
  #included = 0;

  constructor(state: ShownState) {
    this.#state = state;
  }

  note(facts: ScorableFacts, email: string, excludedBy: string | null): void {
    const { excludedBy: before, event, source, admission } = facts;
    if (excludedBy !== null) this.#covered.set(excludedBy, (this.#covered.get(excludedBy) ?? 0) + 1);
    for (const outcome of facts.outcomes) this.#noteMatch(facts, outcome, excludedBy !== null);
    if ((before === null) === (excludedBy === null)) return;
    if (before === null) this.#excluded++;
    else this.#included++;
    if (this.#samples.length === PREVIEW_SAMPLES) return;
    const { id, receivedAtMs } = admission;
    this.#samples.push({ id, event: event ?? "", source: source ?? "", email, receivedAtMs, excludedBy });
  }

  #noteMatch(facts: ScorableFacts, outcome: number, isExcluded: boolean): void {
    const { personId } = facts.person;
    const match = this.#state.outcomes.get(outcome);
    if (match.frequency !== undefined) {
      const single = this.#single(facts, outcome, isExcluded);
      // It neither counts nor will, unless it is excluded now.
      const isOut = !single.mayTake && single.countedId !== single.signalId && facts.excludedBy === null;
      if (!isOut) this.#singles.push(single);
    } else {
      const times = Number(!isExcluded) - Number(facts.excludedBy === null);
      const { lapsed } = lapseOf(this.#state, personId, occasionOf(facts), match);
      if (times !== 0 && !lapsed) this.#points.set(personId, (this.#points.get(personId) ?? 0) + times * match.points);
    }
  }

  #single(facts: ScorableFacts, outcome: number, isExcluded: boolean): SingleMatch {
    const { singleScores, outcomes } = this.#state;
    const { personId } = facts.person;
    const match = outcomes.get(outcome);
    const { ruleId, ruleVersion: version, points, frequency, lastDays } = match;
    const occasion = occasionOf(facts);
    const { signalId, occurredMs } = occasion;
    const doesCount = facts.excludedBy === null && singleScores.counts(personId, occasion, match);
    const first = hasFirstDay(match) ? singleScores.firstDay(personId, ruleId) : null;
    return {
      personId,
      ruleId,
      signalId,
      isOnceEver: frequency === "once_ever",
      version,
      mayTake: outcomes.takersOf(ruleId).some((taker) => taker.ruleVersion === version),
      day: dayOf(occurredMs),
      lapsedDay: lastDays === undefined ? null : todayOf(this.#state) - lapseDayOf(0, lastDays),
      firstDay: first?.outcome === outcome ? first.fromDay : null,
      points,
      countedId: doesCount ? signalId : singleScores.scoredBy(personId, occasion, match),
      isExcluded,
    };
  }

  counted() {
    return {
      excluded: this.#excluded,
      included: this.#included,
      covered: [...this.#covered],
      points: [...this.#points],
      singles: this.#singles,
      samples: this.#samples,
    };
  }
}

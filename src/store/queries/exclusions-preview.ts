/**
 * Tries exclusions on stored signals before they are applied: the newest first, a part at a time. Writes nothing. A line knows what the rules
 * match, so its exclusion decides whether the matches count.
 */
import { dayOf } from "../../domain/duration.ts";
import type { Exclusion } from "../../domain/rules/exclusion.ts";
import { compileRules, type RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { PREVIEW_SAMPLES } from "../../limits.ts";
import { lapseOf, NO_PAYLOAD } from "../people/scoring.ts";
import type { ExclusionsPreviewPart, PreviewRange, SingleMatch } from "../protocol/store-operations.ts";
import { canScore, exclusionOf, type ScorableFacts } from "../rules/rule-jobs.ts";
import { occasionOf } from "../state/rule-outcomes.ts";
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
  #released = 0;

  constructor(state: ShownState) {
    this.#state = state;
  }

  note(facts: ScorableFacts, email: string, excludedBy: string | null): void {
    const { excludedBy: before, event, source, admission } = facts;
    if (excludedBy !== null) this.#covered.set(excludedBy, (this.#covered.get(excludedBy) ?? 0) + 1);
    for (const outcome of facts.outcomes)
      this.#noteMatch(facts, this.#state.outcomes.get(outcome), excludedBy !== null);
    if ((before === null) === (excludedBy === null)) return;
    if (before === null) this.#excluded++;
    else this.#released++;
    if (this.#samples.length === PREVIEW_SAMPLES) return;
    const { id, receivedAtMs } = admission;
    this.#samples.push({ id, event: event ?? "", source: source ?? "", email, receivedAtMs, excludedBy });
  }

  #noteMatch(facts: ScorableFacts, match: RuleMatch, isExcluded: boolean): void {
    const { personId } = facts.person;
    const occasion = occasionOf(facts);
    const points = lapseOf(this.#state, personId, occasion, match).lapsed ? 0 : match.points;
    if (match.frequency !== undefined) {
      const { singleScores } = this.#state;
      const doesCount = facts.excludedBy === null && singleScores.counts(personId, occasion, match);
      const { signalId, occurredMs } = occasion;
      const countedId = doesCount ? signalId : singleScores.scoredBy(personId, occasion, match);
      const isOnceEver = match.frequency === "once_ever";
      const of = { personId, ruleId: match.ruleId, signalId, isOnceEver, day: dayOf(occurredMs) };
      this.#singles.push({ ...of, points, countedId, isExcluded });
      return;
    }
    const times = Number(!isExcluded) - Number(facts.excludedBy === null);
    if (times !== 0) this.#points.set(personId, (this.#points.get(personId) ?? 0) + times * points);
  }

  counted() {
    return {
      excluded: this.#excluded,
      released: this.#released,
      covered: [...this.#covered],
      points: [...this.#points],
      singles: this.#singles,
      samples: this.#samples,
    };
  }
}

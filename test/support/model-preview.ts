/** The model's preview of a mapping rule on stored signals. */
import { DAY_MS } from "../../src/domain/duration.ts";
import type { Model } from "./model.ts";
import { isTheirs, knownIds } from "./model-people.ts";
import type { Rule } from "./model-people.ts";

export interface Draft extends Omit<Rule, "enabled"> {
  /** An event, with `*` for any text. */
  event: string;
  /** The preview covers this many past days. */
  days: number;
}

export interface ModelPreview {
  matches: number;
  people: number;
  scoring_signals: number;
  points: number;
  complete: boolean;
}

/** @returns what is answered, and the numbers of the contents that match. */
export function previewOf(model: Model, draft: Draft, nowMs: number): { answer: ModelPreview; contents: number[] } {
  const pattern = new RegExp(`^${draft.event.replaceAll("*", ".*")}$`);
  const signals = model.effective();
  const matching = signals.filter(
    ({ kind, event, person, atMs, isDropped, ...rest }) =>
      (kind === "signal" || kind === "alias") &&
      pattern.test(event) &&
      !isDropped &&
      atMs >= nowMs - draft.days * DAY_MS &&
      (draft.of === null || draft.of === person) &&
      isTheirs({ kind, event, person, ...rest }, knownIds(person, signals)),
  );
  const people = new Set(matching.map(({ person }) => person)).size;
  const personDays = new Set(matching.map(({ person, day }) => `${person} ${day}`)).size;
  const scoring = { every_time: matching.length, once_per_day: personDays, once_ever: people }[draft.frequency];
  const counts = { matches: matching.length, people, scoring_signals: scoring, points: scoring * draft.points + 0 };
  return { answer: { ...counts, complete: true }, contents: matching.map(({ n }) => n) };
}

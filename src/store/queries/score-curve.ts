/** A person's score over time, from the scoring signals that made it, in at most SCORE_CURVE_STEPS steps. */
import type { ScoreCurve } from "../protocol/people-pages.ts";
import type { StoreState } from "../state/store-state.ts";
import { latestScored } from "./scored-entries.ts";
import type { ListedPerson } from "./scored-entries.ts";

/** Steps of the curve of a person's score: one for every few pixels. */
export const SCORE_CURVE_STEPS = 120;
/** Scoring signals, the latest, that the curve of a score is made of: reading them takes some 20 ms. */
export const SCORE_CURVE_SIGNALS = 20_000;

interface ScoredPoints {
  atMs: number;
  points: number;
  signals: number;
}

/**
 * The curve of a person's latest signals, by the times of their receipt: they may have been linked late.
 *
 * @param score what it has come to.
 */
export function readScoreCurve(state: StoreState, person: ListedPerson, score: number): ScoreCurve {
  const scored: ScoredPoints[] = [];
  // One more than are made use of tells whether there are more.
  const look = { before: Number.MAX_SAFE_INTEGER, look: SCORE_CURVE_SIGNALS + 1 };
  let isMore = false;
  for (const { looked, entry } of latestScored(state, person, look)) {
    isMore = looked > SCORE_CURVE_SIGNALS;
    if (isMore || entry === null) continue;
    const { atMs, verdicts } = entry.scored;
    scored.push({ atMs, points: state.verdicts.points(verdicts), signals: verdicts.length });
  }
  scored.sort((one, other) => one.atMs - other.atMs);
  const steps = inSteps(scored);
  let reached = score - steps.reduce((sum, { points }) => sum + points, 0);
  const fromScore = reached;
  return {
    fromScore,
    points: steps.map(({ atMs, points }) => ({ atMs, score: (reached += points) })),
    signals: scored.reduce((sum, { signals }) => sum + signals, 0),
    complete: !isMore,
  };
}

/** Points of scoring signals that are near each other in time as one, at the time of the last. */
function inSteps(scored: readonly ScoredPoints[]): { atMs: number; points: number }[] {
  const first = scored[0]?.atMs ?? 0;
  const stepMs = Math.floor(((scored.at(-1)?.atMs ?? 0) - first) / SCORE_CURVE_STEPS) + 1;
  const steps: { step: number; atMs: number; points: number }[] = [];
  for (const { atMs, points } of scored) {
    const step = Math.floor((atMs - first) / stepMs);
    const last = steps.at(-1);
    if (last?.step === step) {
      last.points += points;
      last.atMs = atMs;
    } else steps.push({ step, atMs, points });
  }
  return steps;
}

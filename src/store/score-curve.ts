/** A person's score over time, from the scoring signals that made it, in at most SCORE_CURVE_STEPS steps. */
import { SCORE_CURVE_SIGNALS, SCORE_CURVE_STEPS } from "../limits.ts";
import type { ScoreCurve } from "./record-pages.ts";
import { rowsOf, SCORES } from "./timelines.ts";

// Numbers are bound as REAL, and the steps are whole ones. The latest ones, in the order of scoring; then by the time of their signals, which may have been linked late.
export const SCORE_CURVE = `WITH latest AS MATERIALIZED
    (SELECT "at", points FROM scoring_signals WHERE id IN (${rowsOf(SCORES, "?1", "?2")})
     ORDER BY id DESC LIMIT ?2),
  span AS MATERIALIZED (SELECT min("at") AS first, (max("at") - min("at")) / CAST(?3 AS INTEGER) + 1 AS step FROM latest)
  SELECT max("at") AS "at", sum(points) AS points, count(*) AS signals
  FROM latest, span GROUP BY ("at" - first) / step ORDER BY 1`;

/** @param score what it has come to */
export function readScoreCurve(sql: SqlStorage, personId: number, score: number): ScoreCurve {
  const steps = sql
    .exec<{ at: number; points: number; signals: number }>(
      SCORE_CURVE,
      personId,
      SCORE_CURVE_SIGNALS,
      SCORE_CURVE_STEPS,
    )
    .toArray();
  const signals = steps.reduce((sum, step) => sum + step.signals, 0);
  let reached = score - steps.reduce((sum, step) => sum + step.points, 0);
  const fromScore = reached;
  const points = steps.map(({ at, points: more }) => ({ atMs: at, score: (reached += more) }));
  return { fromScore, points, signals, complete: signals < SCORE_CURVE_SIGNALS };
}

/** Scores whose crossing a workspace wants to be told. */

/** Those of the thresholds that a score has risen to, or above. */
export function risenTo(before: number, after: number, thresholds: readonly number[]): number[] {
  return thresholds.filter((threshold) => before < threshold && threshold <= after);
}

/** Those of the thresholds that a score has fallen below: rising to them is told again. */
export function fallenBelow(before: number, after: number, thresholds: readonly number[]): number[] {
  return risenTo(after, before, thresholds);
}

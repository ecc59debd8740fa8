/** A UTC day; all UTC days have the same length. */
export const DAY_MS = 24 * 3_600_000;

/** The number of a UTC day since 1970. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

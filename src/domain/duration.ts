/** A UTC day; all UTC days have the same length. */
export const DAY_MS = 24 * 3_600_000;

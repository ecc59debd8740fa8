/** A day as the service counts it: in UTC, where all have the same length. */
export const DAY_MS = 24 * 3_600_000;

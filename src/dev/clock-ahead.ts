/** The clock of a run with another time: `npm run at -- 2027-01-31T23:58Z npm test`. */
import path from "node:path";

/** The name of the variable with the milliseconds by which `Date` is ahead of the real clock in such a run. */
export const CLOCK_AHEAD = "CLOCK_AHEAD_MS";

/** Zero in every other run. */
export const clockAheadMs = Number(process.env[CLOCK_AHEAD] ?? 0);

/** Entry point of the Worker with a clock that is CLOCK_AHEAD_MS ahead. */
export const SHIFTED_WORKER = path.join(import.meta.dirname, "worker/shifted.ts");

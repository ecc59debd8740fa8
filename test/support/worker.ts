/** The Worker. Its objects ring their alarms by the clock of `npm run at`. */
import { env } from "cloudflare:workers";

/** Zero, unless `npm run at` started this run. */
export const clockAheadMs = Number((env as { CLOCK_AHEAD_MS?: string }).CLOCK_AHEAD_MS ?? 0);

export { Destinations, QuotaCounter } from "../../src/dev/worker/shifted-objects.ts";
export { VerifiedStore as SignalStore } from "./known-work.ts";
export { default } from "../../src/index.ts";

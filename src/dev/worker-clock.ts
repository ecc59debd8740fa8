/** Sets the clock of a Worker that was started from worker/with-clock.ts. */
import path from "node:path";
import { PROJECT_DIR } from "./local-service.ts";

/** Entry point for `wrangler dev` and for builds. */
export const WORKER_WITH_CLOCK = path.join(PROJECT_DIR, "src/dev/worker/with-clock.ts");

/** Sets the Worker's clock to this time (milliseconds since 1970, or the real time), from which it goes on. */
export async function setClock(origin: string, at: number | "now"): Promise<void> {
  await fetch(`${origin}/healthz`, { headers: { "x-clock": String(at) } });
}

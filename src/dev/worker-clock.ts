/** Sets the clock of a Worker with the entry point worker/with-clock.ts. */
import path from "node:path";
import { PROJECT_DIR } from "./local-service.ts";

/** Entry point for `wrangler dev` and for builds. */
export const WORKER_WITH_CLOCK = path.join(PROJECT_DIR, "src/dev/worker/with-clock.ts");

/** Sets the Worker's clock to a time in milliseconds since 1970, or back to the real time. The clock then runs on. */
export async function setClock(origin: string, at: number | "now"): Promise<void> {
  await fetch(`${origin}/healthz`, { headers: { "x-clock": String(at) } });
}

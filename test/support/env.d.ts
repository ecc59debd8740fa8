/** What the test configuration adds to the Worker's environment. */
import type { D1Migration } from "cloudflare:test";

declare global {
  namespace Cloudflare {
    interface Env {
      D1_MIGRATIONS: D1Migration[];
      /** Of the model run: how many, from which seed, and whether a failing one is made shorter. */
      MODEL_RUNS?: string;
      MODEL_SEED?: string;
      MODEL_SHRINK?: string;
    }
  }
}

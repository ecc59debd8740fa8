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
      /** Of the hostile calls: how many, from which seed, and which of them is one of the first workspace. */
      HOSTILE_CASES?: string;
      HOSTILE_SEED?: string;
      HOSTILE_FROM?: string;
      /** Of the races: how many trials of each, and the first one's seed. */
      RACES_TRIALS?: string;
      RACES_SEED?: string;
      /** Of the run with faults: how many seeds, and the first of them. */
      FAULTS_SEEDS?: string;
      FAULTS_SEED?: string;
    }
  }
}

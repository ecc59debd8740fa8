/** Variables that the test configuration adds to the Worker's environment. */
import type { D1Migration } from "cloudflare:test";

declare global {
  namespace Cloudflare {
    interface Env {
      D1_MIGRATIONS: D1Migration[];
      /** `plain`: stores have the plain log (support/plain-log.ts). */
      STORE_LOG?: string;
      /** Of the model run: number of lives, first seed, and whether a failing life is shrunk. */
      LIVES_RUNS?: string;
      LIVES_SEED?: string;
      /** Features that no life has, separated by commas. */
      LIVES_WITHOUT?: string;
      MODEL_RUNS?: string;
      MODEL_SEED?: string;
      MODEL_SHRINK?: string;
      /** Of the hostile calls: their number, the seed, and the case to run first in a new workspace. */
      HOSTILE_CASES?: string;
      HOSTILE_SEED?: string;
      HOSTILE_FROM?: string;
      /** Of the races: trials of each, and the first seed. */
      RACES_TRIALS?: string;
      RACES_SEED?: string;
      /** Of the run with faults: number of seeds, and the first. */
      FAULTS_SEEDS?: string;
      FAULTS_SEED?: string;
    }
  }
}

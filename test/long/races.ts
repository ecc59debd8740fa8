/**
 * `npm run test:races -- --trials 1000 [--seed 1]`: a chosen number of trials of each race: first deactivation over
 * HTTP from two isolates, then the races in one runtime. A failed trial names its seed, which repeats it.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({ options: { trials: { type: "string", default: "5" }, seed: { type: "string" } } });
const trials = Number(countAsked("trials", values.trials, 1_000_000));
const seed = values.seed === undefined ? Date.now() % 2 ** 31 : Number(countAsked("seed", values.seed, 2 ** 31));

/**
 * Trials per process of the races in one runtime: with a hundred the test runner loses its connection, and all later
 * tests fail.
 */
const TRIALS_OF_A_RUNTIME = 15;
let isSound = await runLonger("test/fault/deactivation.test.ts", {
  RACES_TRIALS: String(trials),
  RACES_SEED: String(seed),
});
for (let from = 0; from < trials && isSound; from += TRIALS_OF_A_RUNTIME) {
  isSound = await runLonger("test/long/races.test.ts", {
    RACES_TRIALS: String(Math.min(TRIALS_OF_A_RUNTIME, trials - from)),
    RACES_SEED: String(seed + from),
  });
}

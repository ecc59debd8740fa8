/**
 * `npm run test:races -- --trials 1000 [--seed 1]`: the races of the tests, as many trials of each as are asked for: those of
 * deactivation over HTTP, from two isolates, then those in one runtime. One that fails names its seed, which repeats it.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({ options: { trials: { type: "string", default: "1000" }, seed: { type: "string" } } });
const variables = {
  RACES_TRIALS: countAsked("trials", values.trials, 1_000_000),
  RACES_SEED: values.seed ?? String(Date.now() % 2 ** 31),
};
const isSound = await runLonger("fault", "test/fault/deactivation.test.ts", variables);
if (isSound) await runLonger("worker", "test/worker/service/races.test.ts", variables);

/**
 * `npm run test:faults -- --seeds 1000 [--seed 1]`: lives in which everything that the service calls fails by a seed, as many
 * as are asked for at each rate of faults, from a seed on. One that fails names its seed, which repeats it.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({ options: { seeds: { type: "string" }, seed: { type: "string" } } });
const seeds = values.seeds ?? (values.seed === undefined ? "1000" : "1");
await runLonger("worker", "test/worker/service/faults.test.ts", {
  FAULTS_SEEDS: countAsked("seeds", seeds, 1_000_000),
  FAULTS_SEED: values.seed,
});

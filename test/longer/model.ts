/**
 * `npm run test:model -- --runs 10000 [--seed 1] [--shrink]`: the model run of the tests, as long as is asked for. A run that
 * fails prints its seed, which repeats it; with `--shrink` it is made shorter first.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({
  options: { runs: { type: "string", default: "10000" }, seed: { type: "string" }, shrink: { type: "boolean" } },
});
await runLonger("worker-alone", "test/worker/service/model-", {
  MODEL_RUNS: countAsked("runs", values.runs, 10_000_000),
  MODEL_SEED: values.seed,
  MODEL_SHRINK: values.shrink === true ? "yes" : undefined,
});

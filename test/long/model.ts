/**
 * `npm run test:model [-- --runs 10000] [--seed 1] [--shrink]`: the model test, in as many processes as needed. A
 * failed run prints the command that repeats it; `--shrink` shrinks the failing case first.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({
  options: { runs: { type: "string", default: "300" }, seed: { type: "string" }, shrink: { type: "boolean" } },
});
/** Runs per process: an interrupted night still has results. */
const LIVES_TOGETHER = 600;

const runs = Number(countAsked("runs", values.runs, 10_000_000));
const seed = values.seed === undefined ? Date.now() % 2 ** 30 : Number(countAsked("seed", values.seed, 2 ** 30));
let isAsPredicted = true;
for (let done = 0; done < runs && isAsPredicted; done += LIVES_TOGETHER) {
  isAsPredicted = await runLonger("test/long/model", {
    MODEL_RUNS: String(Math.min(LIVES_TOGETHER, runs - done)),
    MODEL_SEED: String(seed + done / LIVES_TOGETHER),
    MODEL_SHRINK: values.shrink === true ? "yes" : undefined,
  });
}

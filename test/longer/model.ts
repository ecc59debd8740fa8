/**
 * `npm run test:model -- --runs 10000 [--seed 1] [--shrink]`: the model run of the tests, as long as is asked for, in pieces. A
 * run that fails prints its seed, which repeats it; with `--shrink` it is made shorter first.
 */
import { parseArgs } from "node:util";
import { MODEL_PARTS } from "../support/model-parts.ts";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({
  options: { runs: { type: "string", default: "10000" }, seed: { type: "string" }, shrink: { type: "boolean" } },
});
/** Lives of a process: a night that is ended shows what it has done by then. */
const LIVES_TOGETHER = 600;

const runs = Number(countAsked("runs", values.runs, 10_000_000));
const seed = values.seed === undefined ? Date.now() % 2 ** 30 : Number(countAsked("seed", values.seed, 2 ** 30));
let isAsPredicted = true;
for (let done = 0; done < runs && isAsPredicted; done += LIVES_TOGETHER) {
  // oxlint-disable-next-line no-await-in-loop -- one process after the other, until one fails
  isAsPredicted = await runLonger("worker-alone", "test/worker/service/model-", {
    MODEL_RUNS: String(Math.min(LIVES_TOGETHER, runs - done)),
    MODEL_SEED: String(seed + (done / LIVES_TOGETHER) * MODEL_PARTS),
    MODEL_SHRINK: values.shrink === true ? "yes" : undefined,
  });
}

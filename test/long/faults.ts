/**
 * `npm run test:faults -- --seeds 1000 [--seed 1]`: runs in which the calls of all bindings fail by a seed, a chosen
 * number at each rate of faults. A failed run names its seed, which repeats it.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

/** Seeds per process: unfinished work of about fifty runs makes a runtime unreliable. */
const SEEDS_TOGETHER = 5;
const FIRST_SEED = 20_261_122;

const { values } = parseArgs({ options: { seeds: { type: "string" }, seed: { type: "string" } } });
const seeds = Number(countAsked("seeds", values.seeds ?? (values.seed === undefined ? "2" : "1"), 1_000_000));
const first = Number(countAsked("seed", values.seed ?? String(FIRST_SEED), 2 ** 31));
for (let done = 0; done < seeds; done += SEEDS_TOGETHER) {
  const isWell = await runLonger("test/long/faults.test.ts", {
    FAULTS_SEEDS: String(Math.min(SEEDS_TOGETHER, seeds - done)),
    FAULTS_SEED: String(first + done),
  });
  if (!isWell) break;
}

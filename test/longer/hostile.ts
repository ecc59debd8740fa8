/**
 * `npm run test:hostile -- --cases 100000 [--seed 1] [--from 5000]`: as many hostile calls as are asked for. A run that fails
 * prints its seed, and which calls it was; `--from` one of them repeats what was sent to the same workspace.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({
  options: { cases: { type: "string", default: "100000" }, seed: { type: "string" }, from: { type: "string" } },
});
runLonger("worker", "test/worker/service/hostile.test.ts", {
  HOSTILE_CASES: countAsked("cases", values.cases, 10_000_000),
  HOSTILE_SEED: values.seed,
  HOSTILE_FROM: values.from,
});

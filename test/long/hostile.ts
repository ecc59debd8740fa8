/**
 * `npm run test:hostile -- --cases 100000 [--seed 1] [--from 5000]`: a chosen number of hostile calls. A failed run
 * prints its seed and the numbers of the calls; `--from` with one of them repeats the calls on the same workspace.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({
  options: { cases: { type: "string", default: "2000" }, seed: { type: "string" }, from: { type: "string" } },
});
const cases = Number(countAsked("cases", values.cases, 10_000_000));
const first = values.from === undefined ? 0 : Number(countAsked("from", values.from, 10_000_000));
const seed = values.seed ?? String(Date.now() % 2 ** 31);

// A separate runtime for each part, because some calls about all workspaces would wake the objects of all earlier
// ones.
const CASES_OF_A_RUNTIME = 5_000;
for (let from = first; from < first + cases; from += CASES_OF_A_RUNTIME) {
  const variables = {
    HOSTILE_CASES: String(Math.min(CASES_OF_A_RUNTIME, first + cases - from)),
    HOSTILE_SEED: seed,
    HOSTILE_FROM: String(from),
  };
  if (!(await runLonger("test/long/hostile.test.ts", variables))) break;
}

/**
 * `npm run test:crash -- --rounds 100 [--seed 1]`: the test of kill -9 under load with a chosen number of kills. The
 * seed repeats a failed run. `-- --disk 64M`: instead on a disk of that size, which fills up.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "5" }, seed: { type: "string" }, disk: { type: "string" } },
});
if (values.disk === undefined) {
  await runLonger("test/fault/kill.test.ts", {
    CRASH_ROUNDS: countAsked("rounds", values.rounds, 1_000_000),
    FAULT_SEED: values.seed,
  });
} else await runLonger("test/fault/full-disk.test.ts", { CRASH_DISK: values.disk });

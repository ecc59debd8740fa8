/**
 * `npm run test:crash -- --rounds 100 [--seed 1]`: the test of kill -9 under load, with as many kills as are asked for. A
 * run that fails is repeated by its seed.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "100" }, seed: { type: "string" } } });
await runLonger("fault", "test/fault/kill.test.ts", {
  CRASH_ROUNDS: countAsked("rounds", values.rounds, 1_000_000),
  FAULT_SEED: values.seed,
});

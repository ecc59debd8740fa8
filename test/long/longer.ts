/**
 * Runs a test for longer: `node test/long/longer.ts model --runs 10000 --seed 1`, as `npm run test:longer -- model` and similar
 * scripts do. A failed run prints how to repeat it. A large run takes several processes, because unfinished work makes a
 * runtime unreliable, and because an interrupted night then still has results.
 */
import { parseArgs } from "node:util";
import { countAsked, runLonger } from "./run-longer.ts";

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: "string", default: "300" },
    seeds: { type: "string", default: "2" },
    trials: { type: "string", default: "5" },
    cases: { type: "string", default: "2000" },
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "6" },
    seed: { type: "string", default: String(1 + (Date.now() % 2 ** 30)) },
    /** Repeats the hostile calls from this number on. */
    from: { type: "string" },
    /** Shrinks a failing life of the model before it is printed. */
    shrink: { type: "boolean" },
    /** The size of a disk that fills up, such as 64M, instead of kills. */
    disk: { type: "string" },
    /** Features that no random life of the store has, such as `deletions,clock`. */
    without: { type: "string" },
  },
});
const crash = given.disk === undefined ? "fault/kill.test.ts" : "fault/full-disk.test.ts";

/** The flag and the variable of a test's size, the variable of its seed, and the largest size of a process. */
const TESTS = [
  { name: "model", file: "long/model", flag: "runs", size: "MODEL_RUNS", seed: "MODEL_SEED", together: 600 },
  { name: "lives", file: "long/lives", flag: "runs", size: "LIVES_RUNS", seed: "LIVES_SEED", together: 2_000 },
  {
    name: "faults",
    file: "long/faults.test.ts",
    flag: "seeds",
    size: "FAULTS_SEEDS",
    seed: "FAULTS_SEED",
    together: 5,
  },
  {
    name: "races",
    file: "fault/deactivation",
    flag: "trials",
    size: "RACES_TRIALS",
    seed: "RACES_SEED",
    together: 1e7,
  },
  { name: "races", file: "long/races.test.ts", flag: "trials", size: "RACES_TRIALS", seed: "RACES_SEED", together: 15 },
  {
    name: "hostile",
    file: "long/hostile",
    flag: "cases",
    size: "HOSTILE_CASES",
    seed: "HOSTILE_SEED",
    together: 5_000,
  },
  { name: "crash", file: crash, flag: "rounds", size: "CRASH_ROUNDS", seed: "FAULT_SEED", together: 1e7 },
  {
    name: "overload",
    file: "fault/overload",
    flag: "seconds",
    size: "OVERLOAD_SECONDS",
    seed: "FAULT_SEED",
    together: 1e7,
  },
] as const;

for (const { file, flag, size, seed, together } of TESTS.filter(({ name }) => name === positionals[0])) {
  const all = Number(countAsked(flag, given[flag], 1e7));
  const first = Number(countAsked("seed", given.seed, 2 ** 31));
  for (let done = 0; done < all; done += together) {
    const isSound = await runLonger(`test/${file}`, {
      [size]: String(Math.min(together, all - done)),
      [seed]: String(first + done),
      HOSTILE_FROM: given.from,
      MODEL_SHRINK: given.shrink === true ? "yes" : undefined,
      CRASH_DISK: given.disk,
      LIVES_WITHOUT: given.without,
    });
    if (!isSound) process.exit(1);
  }
}

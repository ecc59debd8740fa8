/**
 * `npm run test:model -- --runs 10000 [--seed 1] [--shrink]`: the model run of the tests, as long as is asked for. A run that
 * fails prints its seed, which repeats it; with `--shrink` it is made shorter first.
 */
import { spawn } from "node:child_process";
import path from "node:path";
import { parseArgs } from "node:util";

const ROOT = path.resolve(import.meta.dirname, "..");
const { values } = parseArgs({
  options: { runs: { type: "string", default: "10000" }, seed: { type: "string" }, shrink: { type: "boolean" } },
});
if (!/^[1-9]\d{0,6}$/.test(values.runs)) {
  process.stderr.write("--runs takes a number of runs, from 1 on.\n");
  process.exit(2);
}
const vitest = path.join(ROOT, "node_modules/vitest/vitest.mjs");
const run = ["run", "--config", "test/vitest.config.ts", "--project", "worker", "test/worker/model.test.ts"];
const env = {
  ...process.env,
  MODEL_RUNS: values.runs,
  ...(values.seed === undefined ? {} : { MODEL_SEED: values.seed }),
  ...(values.shrink === true ? { MODEL_SHRINK: "yes" } : {}),
};
spawn(process.execPath, [vitest, ...run], { cwd: ROOT, env, stdio: "inherit" }).on("exit", (code) => {
  process.exitCode = code ?? 1;
});

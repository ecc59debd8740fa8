/**
 * `npm run test:crash -- --rounds 100 [--seed 1]`: the test of kill -9 under load, with as many kills as are asked for. A
 * run that fails is repeated by its seed.
 */
import { spawn } from "node:child_process";
import path from "node:path";
import { parseArgs } from "node:util";

const ROOT = path.resolve(import.meta.dirname, "../..");
const { values } = parseArgs({ options: { rounds: { type: "string", default: "100" }, seed: { type: "string" } } });
if (!/^[1-9]\d{0,5}$/.test(values.rounds)) {
  process.stderr.write("--rounds takes a number of kills, from 1 on.\n");
  process.exit(2);
}
const vitest = path.join(ROOT, "node_modules/vitest/vitest.mjs");
const run = ["run", "--config", "test/vitest.config.ts", "--project", "fault", "test/fault/kill.test.ts"];
const env = {
  ...process.env,
  CRASH_ROUNDS: values.rounds,
  ...(values.seed === undefined ? {} : { FAULT_SEED: values.seed }),
};
spawn(process.execPath, [vitest, ...run], { cwd: ROOT, env, stdio: "inherit" }).on("exit", (code) => {
  process.exitCode = code ?? 1;
});

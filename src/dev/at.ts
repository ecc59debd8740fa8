/**
 * `npm run at -- 2027-01-31T23:58Z npm test`: runs a command as if it had begun at that time. Its Node processes, the
 * Worker that they start, and the browser of the tests have the same clock, which runs on. Timers are real.
 */
import { spawn } from "node:child_process";
import { CLOCK_AHEAD, clockAheadMs } from "./clock-ahead.ts";
import { shiftDate } from "./worker/shift-date.ts";

const [at = "", command, ...args] = process.argv.slice(2);
const atMs = Date.parse(at);
if (Number.isNaN(atMs) || command === undefined) {
  console.error("Usage: npm run at -- 2027-01-31T23:58Z npm test");
  process.exit(2);
}
// This process may run at another time already. The first of several imports counts.
const aheadMs = atMs - (Date.now() - clockAheadMs);
const code = encodeURIComponent(`(${shiftDate.toString()})(${aheadMs})`);
const child = spawn(command, args, {
  stdio: "inherit",
  env: {
    ...process.env,
    [CLOCK_AHEAD]: String(aheadMs),
    NODE_OPTIONS: `--import=data:text/javascript,${code} ${process.env["NODE_OPTIONS"] ?? ""}`,
  },
});
child.once("exit", (exitCode) => (process.exitCode = exitCode ?? 1));
child.once("error", (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void child.kill(signal));

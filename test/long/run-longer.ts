/** Runs one file of the long tests with variables for its size and its seed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** A number of the command line from 1 on, below `end`; otherwise the process ends. */
export function countAsked(flag: string, text: string, end: number): string {
  if (/^[1-9]\d*$/.test(text) && Number(text) < end) return text;
  process.stderr.write(`--${flag} takes a number, from 1 on, below ${end}.\n`);
  process.exit(2);
}

/** Runs one file of tests and exits with its status. Variables without a value are omitted. */
export async function runLonger(file: string, variables: Record<string, string | undefined>): Promise<boolean> {
  const vitest = path.join(ROOT, "node_modules/vitest/vitest.mjs");
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined));
  const command = [vitest, "run", "--config", "test/long/vitest.config.ts", "--silent=false", file];
  const running = spawn(process.execPath, command, { cwd: ROOT, env: { ...process.env, ...given }, stdio: "inherit" });
  const [code] = (await once(running, "exit")) as [number | null];
  process.exitCode = code ?? 1;
  return code === 0;
}

/** Runs a program of src/dev, as an npm script does. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { root } from "./projects.ts";

/** @returns the exit code, and the output without colours. */
export async function runProgram(file: string, args: readonly string[], variables: Record<string, string>) {
  const env = { ...process.env, NO_COLOR: "1", ...variables };
  const child = spawn(process.execPath, [path.join(root, file), ...args], { env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += String(data)));
  await once(child, "close");
  return { code: child.exitCode, output };
}

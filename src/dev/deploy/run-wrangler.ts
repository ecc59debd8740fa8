import { spawn } from "node:child_process";
import { PROJECT_DIR, WRANGLER } from "../local-service.ts";

/** Runs wrangler and returns what it prints. @param input what it reads instead of asking. */
export async function quietWrangler(args: string[], input = ""): Promise<{ code: number; out: string }> {
  const child = spawn(process.execPath, [WRANGLER, ...args], { cwd: PROJECT_DIR, stdio: ["pipe", "pipe", "pipe"] });
  child.stdin.end(input);
  let out = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (out += String(chunk)));
  return { code: await ended(child), out };
}

export function ended(child: ReturnType<typeof spawn>): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? 1));
  });
}

/** What would go wrong in confusing ways, said before it does: a port that is taken, a state folder that is in use. */
import { readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";

/** Something that the developer can put right; the message says how. */
export class Misuse extends Error {}

/** @throws Misuse when nothing can listen on the port, on either loopback address. */
export async function requireFreePort(port: string): Promise<void> {
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new Misuse(`--port ${port}: a port is 0 to 65535.`);
  for (const host of ["127.0.0.1", "::1"]) {
    const code = await tryListen(Number(port), host);
    if (code === "EADDRINUSE") {
      throw new Misuse(
        `Port ${port} is taken.\nStop that, or take another port: npm run dev -- --port ${Number(port) + 1}`,
      );
    }
    if (code === "EACCES") throw new Misuse(`Port ${port} needs more rights than you have. Take one above 1023.`);
  }
}

/** Tries to listen: the error's code, or null when it works. A machine without IPv6 gives a code that does not matter. */
function tryListen(port: number, host: string): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "unknown"));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
}

/** Claims a state folder: two runtimes on it would not see each other's writes. @throws Misuse when another one is running. */
export async function claimState(stateDir: string, port: string): Promise<AsyncDisposable> {
  const file = path.join(stateDir, "running.json");
  const other = await readClaim(file);
  if (other !== undefined && isRunning(other.pid)) {
    const freePort = port === other.port ? Number(port) + 1 : port;
    throw new Misuse(
      `The service is running already on the state in ${stateDir}: port ${other.port}, process ${other.pid}.\n` +
        `Stop that, or run another one beside it: npm run dev -- --port ${freePort} --persist-to .wrangler/other\n` +
        `(If process ${other.pid} is something else, delete ${file}.)`,
    );
  }
  await writeFile(file, JSON.stringify({ pid: process.pid, port }));
  return { [Symbol.asyncDispose]: () => rm(file, { force: true }) };
}

async function readClaim(file: string): Promise<{ pid: number; port: string } | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as { pid: number; port: string };
  } catch {
    return undefined;
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

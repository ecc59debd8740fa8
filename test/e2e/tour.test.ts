/** The README's tour, pasted into a shell as a reader does, with the lines that `npm run dev` prints. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = path.resolve(import.meta.dirname, "../..");
const START_MS = 60_000;
const TOUR_MS = 40_000;

let scratch: string;
let dev: ChildProcess;
/** The lines that it prints, to paste before the tour. */
let pasted: string;

beforeAll(async () => {
  scratch = await mkdtemp(path.join(os.tmpdir(), "signal-ingestion-tour-"));
  await startDev();
}, START_MS);

afterAll(async () => {
  await endDev();
  await rm(scratch, { recursive: true, force: true });
});

async function startDev(): Promise<void> {
  const args = ["run", "dev", "--", "--port", String(await freePort()), "--persist-to", scratch];
  // In a separate process group, as in a terminal: a signal reaches all its processes.
  dev = spawn("npm", args, { cwd: ROOT, detached: true, stdio: ["ignore", "pipe", "inherit"] });
  pasted = linesToPaste(await printedUntil(dev, "The service's log"));
}

async function endDev(): Promise<void> {
  if (dev?.pid === undefined || dev.exitCode !== null) return;
  const ended = once(dev, "exit");
  process.kill(-dev.pid, "SIGINT");
  await ended;
}

test(
  "the README's tour works in a shell as described",
  async () => {
    const steps = await tour();
    const [sent, followed, repeated, broken, batch, seen, revoked] = await printedBy(steps);

    expect(sent).toMatch(/"status":"accepted","id":"sig_/);
    expect(followed).toContain('"ordinal":1');
    expect(followed).toContain('"scoring_signal":"demo_requested","points":20');
    expect(followed).toMatch(/"email":"jane@example.com".*"score":20/);
    expect(repeated).toMatch(/"status":"accepted","id":"sig_/);
    expect(broken).toContain('"code":"body_not_json"');
    expect(batch).toMatch(/"status":"partial","accepted":1,.*"code":"event_missing"/);
    expect(seen).toContain('"code":"body_not_json"');
    expect(seen).toContain('"event":"Filled Out Form"');
    expect(seen).toContain('"signal_limit":500000');
    expect(seen).toMatch(/"duplicates":1,.*"in_flight":0,"balanced":true/);
    expect(revoked).toMatch(/"status":"Inactive"[^]*"status":401/);

    // The next start creates a new key, and a reader who repeats the tour revokes that one.
    await endDev();
    await startDev();
    const [accepted, rejected] = await printedBy([...steps.slice(0, 1), ...steps.slice(-1)]);
    expect(accepted).toContain('"status":"accepted"');
    expect(rejected).toContain('"status":401');
  },
  START_MS + TOUR_MS,
);

/** The output of each block, in one shell that starts with the pasted lines. */
async function printedBy(blocks: string[]): Promise<string[]> {
  const marked = blocks.map((block, index) => `echo "@@ ${index}"\n${block}\necho`);
  const script = ["set -eu", pasted, ...marked].join("\n");
  const { stdout } = await promisify(execFile)("bash", ["-c", script], { timeout: TOUR_MS });
  return stdout.split(/^@@ .*$/m).slice(1);
}

/** The blocks of the section, in order. */
async function tour(): Promise<string[]> {
  const readme = await readFile(path.join(ROOT, "README.md"), "utf8");
  const section = /^## A five-minute tour$(.*?)^## /ms.exec(readme)?.[1] ?? "";
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) => block);
}

function linesToPaste(printed: string): string {
  const from = printed.indexOf("ORIGIN=");
  const to = printed.indexOf("\n\n", from);
  if (from === -1 || to === -1) throw new Error(`npm run dev has printed nothing to paste:\n${printed}`);
  return printed.slice(from, to);
}

/** Later output is read and dropped, so that the process neither blocks nor fails on a closed pipe. */
function printedUntil(child: ChildProcess, last: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let printed = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      printed += String(chunk);
      if (printed.includes(last)) resolve(printed);
    });
    child.once("exit", () => reject(new Error(`npm run dev has ended:\n${printed}`)));
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => (typeof address === "object" && address !== null ? resolve(address.port) : reject()));
    });
  });
}

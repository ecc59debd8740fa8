/**
 * The CPU time of an isolate before its first request, by `wrangler check startup`: this service compared with the
 * bare Worker.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { promisify } from "node:util";
import { median } from "./figures.ts";

/** Maximum ratio to the bare Worker. */
export const STARTUP_MAX_RATIO = 2.5;

const CONFIGS = {
  bare: "workers/bare.toml",
  straightforward: "workers/straightforward.toml",
  service: "../../wrangler.toml",
};
const WRANGLER = path.join(
  path.dirname(createRequire(import.meta.url).resolve("wrangler/package.json")),
  "bin/wrangler.js",
);

type Name = keyof typeof CONFIGS;

interface Profile {
  nodes: { id: number; callFrame: { functionName: string } }[];
  samples: number[];
  timeDeltas: number[];
}

/** Milliseconds of CPU, medians over the rounds. */
export async function measureStartup(rounds: number, scratch: string): Promise<Record<Name, number>> {
  const measured: Record<Name, number[]> = { bare: [], straightforward: [], service: [] };
  for (let round = 0; round < rounds; round++) {
    for (const name of Object.keys(CONFIGS) as Name[]) {
      const ms = await busyMs(name, path.join(scratch, `${name}.cpuprofile`));
      // The profiler samples once a millisecond after its own start, so that it misses some runs of a small Worker.
      if (ms > 0) measured[name].push(ms);
    }
  }
  return {
    bare: median(measured.bare),
    straightforward: median(measured.straightforward),
    service: median(measured.service),
  };
}

async function busyMs(name: Name, outFile: string): Promise<number> {
  const config = path.join(import.meta.dirname, CONFIGS[name]);
  await promisify(execFile)(
    process.execPath,
    [WRANGLER, "check", "startup", `--args=--config=${path.basename(config)}`, "--outfile", outFile],
    { cwd: path.dirname(config), env: { ...process.env, WRANGLER_SEND_METRICS: "false", CI: "true" } },
  );
  const { nodes, samples, timeDeltas } = JSON.parse(await readFile(outFile, "utf8")) as Profile;
  const idle = new Set(nodes.filter(({ callFrame }) => callFrame.functionName === "(idle)").map(({ id }) => id));
  const microseconds = samples.reduce((sum, id, index) => sum + (idle.has(id) ? 0 : (timeDeltas[index] ?? 0)), 0);
  return microseconds / 1_000;
}

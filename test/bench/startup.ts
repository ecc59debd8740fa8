/**
 * The CPU time of an isolate before its first request, by `wrangler check startup`: this service compared with the
 * bare Worker.
 */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { SERVICE_CONFIG, benchWorker, wrangler } from "./build.ts";
import { median } from "./figures.ts";

/** Maximum ratio to the bare Worker. */
export const STARTUP_MAX_RATIO = 2.5;

const CONFIGS = {
  bare: benchWorker("bare.toml"),
  straightforward: benchWorker("straightforward.toml"),
  service: SERVICE_CONFIG,
};

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
  const { dir, base } = path.parse(CONFIGS[name]);
  await wrangler(["check", "startup", `--args=--config=${base}`, "--outfile", outFile], dir);
  const { nodes, samples, timeDeltas } = JSON.parse(await readFile(outFile, "utf8")) as Profile;
  const idle = new Set(nodes.filter(({ callFrame }) => callFrame.functionName === "(idle)").map(({ id }) => id));
  const microseconds = samples.reduce((sum, id, index) => sum + (idle.has(id) ? 0 : (timeDeltas[index] ?? 0)), 0);
  return microseconds / 1_000;
}

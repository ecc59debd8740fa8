/** Runs the journeys on the bundled service, and reads which functions have run. */
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readBuilt, SERVICE_CONFIG, wrangler } from "../bench/build.ts";
import { Service } from "../support/service.ts";
import { countFunctions, type CountedWorker, type SourceFunction } from "./counted-functions.ts";
import { beginWorld, continueWorld, type Journey, JOURNEYS, LONG_AGO_MS, ROUNDS, type World } from "./journeys.ts";

/** File below `src/` → names of its functions, sorted by file. */
export type FunctionsRun = Map<string, Set<string>>;

export interface MeasuredJourney {
  journey: Journey;
  run: FunctionsRun;
}

/** Time to move the old payloads to R2. */
const MOVED_MS = 3_000;
/** The log sums up the calls of a second. */
const QUIET_MS = 1_500;

export async function measureJourneys(): Promise<MeasuredJourney[]> {
  const { worker, functions } = await buildCounted();
  const service = Service.of(worker);
  try {
    await service.startEmpty({ aheadMs: LONG_AGO_MS, vars: { SIGN_IN: "local" } });
    const begun = await Promise.all(JOURNEYS.map((_, index) => beginWorld(service, `journey-${index}`)));
    await service.start();
    const worlds = await Promise.all(begun.map(continueWorld));
    await sleep(MOVED_MS);
    await signInAsDeployed(service);
    const measured: MeasuredJourney[] = [];
    for (const [index, world] of worlds.entries()) {
      const journey = JOURNEYS[index];
      if (journey === undefined) throw new Error("each journey has a world");
      const run = await measure(journey, world, () => takeRun(service, functions));
      measured.push({ journey, run });
    }
    return measured;
  } finally {
    await service.remove();
  }
}

/** From now on the sessions are those of an OpenID provider: local sign-in runs checks that no deployment runs. */
async function signInAsDeployed(service: Service): Promise<void> {
  const { miniflare } = await service.start({ vars: { SIGN_IN: "oidc" } });
  const database = await miniflare.getD1Database("DB", "worker");
  await database.prepare("UPDATE sessions SET driver = 'oidc'").run();
}

const WORKER = path.join(import.meta.dirname, "worker/noting.ts");

async function buildCounted(): Promise<CountedWorker> {
  const outDir = await mkdtemp(path.join(os.tmpdir(), "signal-ingestion-journeys-"));
  try {
    await wrangler(["deploy", WORKER, "--config", SERVICE_CONFIG, "--dry-run", "--no-minify", "--outdir", outDir]);
    return countFunctions(await readBuilt(SERVICE_CONFIG, outDir));
  } finally {
    await rm(outDir, { recursive: true, force: true });
  }
}

/** The functions that have run since the call before. */
async function takeRun(service: Service, functions: readonly SourceFunction[]): Promise<FunctionsRun> {
  const numbers = (await (await fetch(`${service.origin}/functions-run`)).json()) as number[];
  const run: FunctionsRun = new Map();
  for (const { file, name } of numbers.map((number) => functions[number]).filter((one) => one !== undefined)) {
    run.set(file, (run.get(file) ?? new Set()).add(name));
  }
  return new Map([...run].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

async function measure(journey: Journey, world: World, take: () => Promise<FunctionsRun>): Promise<FunctionsRun> {
  let last: unknown = new Error("an alarm of the counter came into each round");
  for (let nth = 0, waitMs = journey.waitMs; nth < ROUNDS; nth++) {
    const round = { ...world, nth };
    await journey.prepare?.(round);
    await sleep(QUIET_MS);
    await take();
    await journey.run(round);
    await sleep(waitMs);
    const run = await take();
    try {
      await journey.verify(round);
    } catch (error) {
      // A slow machine needs longer.
      waitMs *= 2;
      last = error;
      continue;
    }
    if (nth > 0 && run.get("quota/quota-counter.ts")?.has("alarm") !== true) return run;
  }
  throw last;
}

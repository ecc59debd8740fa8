/**
 * `npm run bench -- lapses`: a night in which the points of 10,000 people lapse. Each step is one call, so its CPU
 * time includes the call's. Fails if a target is missed.
 */
import path from "node:path";
import { DAY_MS } from "../../src/domain/duration.ts";
import { SERVICE_CONFIG, benchWorker, build } from "./build.ts";
import { median, type StorePart } from "./figures.ts";
import { rulesOf } from "./growth-traffic.ts";
import { Filler, provision } from "./growth-workspaces.ts";
import type { BenchRule } from "./rules.ts";

const PEOPLE = 10_000;
const SIGNALS = 40_000;
/** Half of a person's points lapse in the measured night, the others later. */
const LAST_DAYS = 30;
const LATER_DAYS = 90;
const RULES = 18;
const MAX_NIGHT_S = 10;
const MAX_STEP_MS = 50;
const MAX_ROWS = 3;

/** A rule that scores each signal. */
function everySignal(lastDays: number): BenchRule[] {
  const name = `Seen in the last ${lastDays} days`;
  return [
    { name, event: "*", match: "all", conditions: [], scoring_signal: name, points: 1, points_last_days: lastDays },
  ];
}

export async function measureLapses(scratch: string): Promise<StorePart> {
  const service = await build(SERVICE_CONFIG, path.join(scratch, "build/service"));
  const filling = await build(SERVICE_CONFIG, path.join(scratch, "build/fill"), benchWorker("fill.ts"));
  const stateDir = path.join(scratch, "state");
  const rules = [...everySignal(LAST_DAYS), ...everySignal(LATER_DAYS), ...rulesOf(RULES)];
  const startMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS;
  const size = { signals: SIGNALS, people: PEOPLE, rules: rules.length };
  const wanted = { size, traffic: "visits", rules, startMs, endMs: startMs + DAY_MS / 2 } as const;
  const [workspace] = await provision(service, stateDir, [wanted]);
  if (workspace === undefined) throw new Error("the workspace was not made");
  const filler = await Filler.start(filling, stateDir);
  try {
    await filler.record(workspace.order);
    const nowMs = startMs + (LAST_DAYS + 2) * DAY_MS;
    const steps: number[] = [];
    let rows = 0;
    for (let left = PEOPLE; left > 0;) {
      const before = filler.running.cpuMicroseconds();
      const step = await filler.lapse(workspace, nowMs);
      steps.push((filler.running.cpuMicroseconds() - before) / 1_000);
      rows += step.rows;
      left = step.dueAfter;
    }
    const total = steps.reduce((sum, ms) => sum + ms, 0);
    return {
      title: `A night in which the points of ${PEOPLE.toLocaleString("en")} people lapse`,
      figures: [
        { name: "CPU", value: total / 1_000, unit: "s", atMost: MAX_NIGHT_S },
        { name: "CPU of a step, median", value: median(steps), unit: "ms", atMost: MAX_STEP_MS },
        { name: "CPU of the longest step", value: Math.max(...steps), unit: "ms" },
        { name: "Rows written, a person", value: rows / PEOPLE, unit: "rows", atMost: MAX_ROWS },
      ],
      notes: [`${steps.length} steps after ${SIGNALS.toLocaleString("en")} signals, with ${rules.length} rules.`],
    };
  } finally {
    await filler.stop();
  }
}

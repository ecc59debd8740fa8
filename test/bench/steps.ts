/**
 * `npm run bench -- steps`: the CPU time of the steps that had been the longest, each with the largest input. During a step the store
 * answers no other call. Each step is one call of an object of its own, so its CPU time includes the call's. Fails if a target is missed.
 */
import path from "node:path";
import { SERVICE_CONFIG, benchWorker, build } from "./build.ts";
import { median, type StoreFigure, type StorePart } from "./figures.ts";
import { ask, start, type RunningWorker } from "./start.ts";
import {
  BATCH_SIGNALS,
  LAPSE_DAYS,
  NIGHT_PEOPLE,
  SCORED_DAYS,
  SCORED_SIGNALS,
  SEGMENT_LINES,
  SEGMENTS,
  WAITING_BYTES,
  type StepCall,
  type StepName,
} from "./step-calls.ts";

const ROUNDS = 5;
const MAX_STEP_MS = 50;
const MAX_BATCH_RATIO = 1.2;

export async function measureSteps(scratch: string): Promise<StorePart> {
  const worker = await build(SERVICE_CONFIG, path.join(scratch, "build/steps"), benchWorker("steps.ts"));
  const running = await start(worker, { stateDir: path.join(scratch, "state") });
  try {
    const times = new Map<StepName, number[]>();
    for (let round = 0; round < ROUNDS; round++) {
      for (const steps of OBJECTS) {
        // oxlint-disable-next-line no-await-in-loop -- one after another
        for (const [step, ms] of await measure(running, `${steps[0]} ${round}`, steps))
          times.set(step, [...(times.get(step) ?? []), ms]);
      }
    }
    return report((step) => median(times.get(step) ?? []));
  } finally {
    await running.stop();
  }
}

/** The steps that an object takes. */
const OBJECTS: readonly (readonly StepName[])[] = [
  ["first step of a night", "step of a night"],
  ["page of a person"],
  ["replacement"],
  ["batch with lapses"],
  ["batch without lapses"],
  ["deletion"],
  ["retention"],
];

async function measure(
  running: RunningWorker,
  object: string,
  steps: readonly StepName[],
): Promise<[StepName, number][]> {
  const call = (step: StepName, act: StepCall["act"]) => ask(running.origin, { object, step, act } satisfies StepCall);
  for (const step of steps.slice(0, 1)) await call(step, "prepare");
  const times: [StepName, number][] = [];
  for (const step of steps) {
    const before = running.cpuMicroseconds();
    // oxlint-disable-next-line no-await-in-loop -- one after another
    await call(step, "take");
    times.push([step, (running.cpuMicroseconds() - before) / 1_000]);
  }
  return times;
}

function report(msOf: (step: StepName) => number): StorePart {
  const figure = (name: string, step: StepName): StoreFigure => {
    return { name, value: msOf(step), unit: "ms", atMost: MAX_STEP_MS };
  };
  const count = (value: number): string => value.toLocaleString("en");
  return {
    title: "The longest steps of the store",
    figures: [
      figure(`First step of a night: ${count(NIGHT_PEOPLE)} people, ${LAPSE_DAYS} days each`, "first step of a night"),
      figure("Next step of that night", "step of a night"),
      figure(`Page of a person with ${count(SCORED_SIGNALS)} scored signals`, "page of a person"),
      figure(`Replacement of a match across ${SEGMENTS} segments`, "replacement"),
      {
        name: `Batch of ${count(BATCH_SIGNALS)} signals of people with ${LAPSE_DAYS - 1} lapse days, against none`,
        value: msOf("batch with lapses") / msOf("batch without lapses"),
        unit: "×",
        atMost: MAX_BATCH_RATIO,
      },
      figure(
        `Retention of ${SEGMENT_LINES} signals of as many people with ${SCORED_DAYS} newer ones each`,
        "retention",
      ),
      figure(`Deletion of a person while ${WAITING_BYTES / 1_000_000} MB of notifications wait`, "deletion"),
    ],
    notes: [
      `Median CPU of ${ROUNDS} rounds. The batches take ${msOf("batch with lapses").toFixed(0)} ms and ` +
        `${msOf("batch without lapses").toFixed(0)} ms.`,
    ],
  };
}

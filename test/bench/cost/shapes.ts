/** The shapes of accepted traffic, each measured on a Worker that already knows all its people. */
import { DAY_MS } from "../../../src/domain/duration.ts";
import type { Contestant } from "../contestants.ts";
import { signal } from "../signals.ts";
import { MeterClient } from "./meter-client.ts";
import { sendPaced, type Pace } from "./pace.ts";
import { sumOf, times, type Usage } from "./usage.ts";

export interface Shape {
  name: string;
  pace: Pace;
  /** Signals of a call. */
  batch: number;
  atMost: {
    /** Maximum cost of this service relative to the straightforward Worker. */
    ratio: number;
    /** Per signal: rows that the Quota Counter writes, including its alarm, and queue operations. */
    counterRows: number;
    queueOperations: number;
  };
}

export const SLOW: Shape = {
  name: "alone, 1/s",
  pace: { perSecond: 1, calls: 120 },
  batch: 1,
  atMost: { ratio: 0.9, counterRows: 2.3, queueOperations: 1.6 },
};
export const STEADY: Shape = {
  name: "alone, 20/s",
  pace: { perSecond: 20, calls: 1_200 },
  batch: 1,
  atMost: { ratio: 0.65, counterRows: 2.3, queueOperations: 0.1 },
};
export const FAST: Shape = {
  name: "alone, 300/s",
  pace: { perSecond: 300, calls: 6_000 },
  batch: 1,
  atMost: { ratio: 0.45, counterRows: 1, queueOperations: 0.1 },
};
export const BATCHES: Shape = {
  name: "batches of 100",
  pace: { perSecond: 2, calls: 80 },
  batch: 100,
  atMost: { ratio: 0.3, counterRows: 0.05, queueOperations: 0.1 },
};
export const SHAPES: readonly Shape[] = [SLOW, STEADY, FAST, BATCHES];

export interface Measured {
  shape: Shape;
  usage: Usage;
  signals: number;
}

/** Stored bytes per signal, once its payload has reached its final place. */
export interface Kept {
  objects: number;
  d1: number;
  r2: number;
}

/**
 * Signals before the measurement: all of the bench's people are known, and lists and segments have their usual size.
 */
const KNOWN: Pace = { perSecond: 10, calls: 50 };
const KNOWN_BATCH = 100;
/** A measurement that took this many times the planned duration is invalid, because its Worker did not keep up. */
const LATE = 1.1;
/** Shares no factor with the numbers of people, events, forms and pages. */
const STRIDE = 37;
/** Payloads move to R2 after a day, with others of their hour. */
const LATER_MS = 1.25 * DAY_MS;

/** Each shape in turn, and the later work of all shapes within a day and more, to which each contributes equally. */
export async function measureShapes(
  contestant: Contestant,
  shapes: readonly Shape[],
): Promise<{ measured: Measured[]; kept: Kept }> {
  const { name } = contestant;
  try {
    const meter = new MeterClient(contestant.running);
    const sender = new Sender(contestant);
    await sender.send({ perSecond: 1, calls: 1 }, KNOWN_BATCH);
    await meter.settle();
    const before = await keptBytes(contestant, meter);
    const sentBefore = sender.sent;
    await sender.send(KNOWN, KNOWN_BATCH);

    const measured: Measured[] = [];
    for (const shape of shapes) {
      console.error(`… ${name}, ${shape.name}`);
      const usage = await meter.during(() => sender.send(shape.pace, shape.batch));
      measured.push({ shape, usage, signals: shape.pace.calls * shape.batch });
    }
    const wrong = await contestant.audit();
    if (wrong.length > 0) throw new Error(`${name}: ${wrong.join("; ")}`);

    const later = await meter.during(() => meter.pass(LATER_MS));
    const after = await keptBytes(contestant, meter);
    const each = (count: keyof Kept): number => (after[count] - before[count]) / (sender.sent - sentBefore);
    return {
      measured: measured.map((shape) => ({
        ...shape,
        usage: sumOf(shape.usage, times(later, shape.signals / sender.sent)),
      })),
      kept: { objects: each("objects"), d1: each("d1"), r2: each("r2") },
    };
  } finally {
    await contestant.running.stop();
  }
}

/**
 * Signals that all differ. Neighbours are far apart in the traffic, so that a few have the same variety of people,
 * events and matching rules as all of them.
 */
class Sender {
  readonly #contestant: Contestant;
  sent = 0;

  constructor(contestant: Contestant) {
    this.#contestant = contestant;
  }

  async send(pace: Pace, batch: number): Promise<void> {
    const { name, running, key } = this.#contestant;
    const path = `/api/signal-staging/webhook/${key}${batch === 1 ? "" : "/batch"}`;
    const late = await sendPaced(running.origin, pace, [202], () => {
      const signals = Array.from({ length: batch }, () => signal(this.sent++ * STRIDE));
      return { path, body: batch === 1 ? signals.join("") : `{"batch":[${signals.join(",")}]}` };
    });
    if (late > LATE) console.error(`… ${name}: ${pace.perSecond} calls a second took ${late.toFixed(1)} times as long`);
    this.#contestant.accepted += pace.calls * batch;
  }
}

async function keptBytes({ name, running: { miniflare } }: Contestant, meter: MeterClient): Promise<Kept> {
  const database = await miniflare.getD1Database("DB", "worker");
  const { meta } = await database.prepare("SELECT 1").all();
  const stored = name === "service" ? await (await miniflare.getR2Bucket("COLD", "worker")).list() : { objects: [] };
  return {
    objects: await meter.objectBytes(),
    d1: meta.size_after,
    r2: stored.objects.reduce((sum, { size }) => sum + size, 0),
  };
}

/** The scenarios, and the interleaved rounds that measure them. */
import { randomBytes } from "node:crypto";
import { composeKey } from "../../src/domain/keys/api-key.ts";
import type { Contestant, ContestantName } from "./contestants.ts";
import type { LoadGenerator, LoadOrder, LoadResult } from "./load.ts";
import { median } from "./figures.ts";

export interface Scenario {
  name: string;
  title: string;
  /** The unit of the figures, per second. */
  unit: "calls" | "signals";
  contestants: ContestantName[];
  /** Without `until` it lasts for one round. */
  load(contestant: Contestant): Pick<LoadOrder, "path" | "connections"> & Partial<LoadOrder>;
  /** Timed until the last accepted signal has taken effect, not until the last answer. */
  untilSettled?: true;
  /** Whether the report shows the time of one call. */
  latency?: true;
}

export interface Figure {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** CPU time of the whole process per signal, until it has taken effect. */
  cpuMicroseconds: number;
}

export type Figures = Map<ContestantName, Figure>;

const EVERYONE: ContestantName[] = ["bare", "one-row", "straightforward", "service", "admission"];
const BATCH = 100;
/** A large number, so that the wait of the last message in the drain and the queue hardly counts. */
const SETTLED_SIGNALS = 120_000;
/** The straightforward Worker gets single signals, for which it was built; fewer are enough to measure its speed. */
const SETTLED_SIGNALS_STRAIGHTFORWARD = 4_000;
/**
 * This is its fastest setting: the local queue starts one timer per message, serves one per millisecond, and with
 * more callers delivers nothing before they are done (1: 590/s, 2: 640/s, 3: 480/s, 32: 400/s).
 */
const SETTLED_CONNECTIONS_STRAIGHTFORWARD = 2;
const MANY_ADDRESSES = 65_536;

/** Well-formed, but unknown. */
const UNKNOWN_KEY = composeKey(randomBytes);

const webhook = (key: string): string => `/api/signal-staging/webhook/${key}`;
const malformed = (key: string): string => key.slice(0, -1) + (key.endsWith("x") ? "y" : "x");

export const SCENARIOS: Scenario[] = [
  {
    name: "single-32",
    title: "Single signals, 32 connections",
    unit: "signals",
    contestants: EVERYONE,
    load: ({ key }) => ({ path: webhook(key), connections: 32 }),
  },
  {
    name: "single-1",
    title: "Single signals, 1 connection",
    unit: "signals",
    contestants: EVERYONE,
    load: ({ key }) => ({ path: webhook(key), connections: 1 }),
    latency: true,
  },
  {
    name: "settled",
    title: "First call to last settled row, 20 rules",
    unit: "signals",
    contestants: ["straightforward", "service"],
    load: ({ name, key }) =>
      name === "straightforward"
        ? {
            path: webhook(key),
            connections: SETTLED_CONNECTIONS_STRAIGHTFORWARD,
            until: { requests: SETTLED_SIGNALS_STRAIGHTFORWARD },
          }
        : {
            path: `${webhook(key)}/batch`,
            connections: 8,
            signalsPerRequest: BATCH,
            until: { requests: SETTLED_SIGNALS / BATCH },
          },
    untilSettled: true,
  },
  {
    name: "batch-100",
    title: "Batches of 100, 8 connections",
    unit: "signals",
    contestants: EVERYONE,
    load: ({ key }) => ({ path: `${webhook(key)}/batch`, connections: 8, signalsPerRequest: BATCH }),
  },
  {
    name: "malformed-key",
    title: "Rejected: malformed key",
    unit: "calls",
    contestants: ["bare", "straightforward", "service"],
    load: ({ key, rejections }) => ({ path: webhook(malformed(key)), connections: 32, expected: rejections }),
  },
  {
    name: "unknown-key",
    title: "Rejected: unknown key, from one address",
    unit: "calls",
    contestants: ["bare", "straightforward", "service"],
    load: ({ rejections }) => ({ path: webhook(UNKNOWN_KEY), connections: 32, expected: rejections }),
  },
  {
    name: "unknown-key-spread",
    title: "Rejected: unknown key, from 65,536 addresses",
    unit: "calls",
    contestants: ["bare", "straightforward", "service"],
    load: ({ rejections }) => ({
      path: webhook(UNKNOWN_KEY),
      connections: 32,
      expected: rejections,
      addresses: MANY_ADDRESSES,
    }),
  },
  {
    name: "deactivated-key",
    title: "Rejected: deactivated key",
    unit: "calls",
    contestants: ["bare", "service"],
    load: ({ rejected, rejections }) => ({
      path: webhook(rejected.deactivated),
      connections: 32,
      expected: rejections,
    }),
  },
  {
    name: "wrong-secret",
    title: "Rejected: wrong secret",
    unit: "calls",
    contestants: ["bare", "service"],
    load: ({ rejected, rejections }) => ({
      path: webhook(rejected.guarded),
      connections: 32,
      expected: rejections,
      secret: "wrong",
    }),
  },
  {
    name: "over-quota",
    title: "Rejected: over quota",
    unit: "calls",
    contestants: ["bare", "service"],
    load: ({ rejected, rejections }) => ({ path: webhook(rejected.overQuota), connections: 32, expected: rejections }),
  },
];

export interface Effort {
  rounds: number;
  seconds: number;
}

/** A, B, C, A, B, C, …: a slow phase of the machine affects all of them. The first round only warms up. */
export async function measure(
  scenario: Scenario,
  contestants: Contestant[],
  generator: LoadGenerator,
  effort: Effort,
  failures: string[],
): Promise<Figures> {
  const taking = contestants.filter(({ name }) => scenario.contestants.includes(name));
  const rounds = new Map<ContestantName, Figure[]>(taking.map(({ name }) => [name, []]));
  for (let round = 0; round <= effort.rounds; round++) {
    for (const contestant of taking) {
      const { figure, result } = await once(scenario, contestant, generator, effort.seconds);
      for (const [failure, count] of Object.entries(result.failures))
        failures.push(`${scenario.name}, ${contestant.name}: ${count} × ${failure}`);
      if (round > 0) rounds.get(contestant.name)?.push(figure);
    }
  }
  return new Map([...rounds].map(([name, figures]) => [name, medians(figures)]));
}

export async function once(
  scenario: Scenario,
  contestant: Contestant,
  generator: LoadGenerator,
  seconds: number,
): Promise<{ figure: Figure; result: LoadResult }> {
  const order: LoadOrder = {
    origin: contestant.running.origin,
    until: { elapsedMs: seconds * 1000 },
    signalsPerRequest: 1,
    expected: [202],
    addresses: 1,
    ...scenario.load(contestant),
  };
  const startedAt = performance.now();
  const cpuBefore = contestant.running.cpuMicroseconds();
  const result = await generator.run(order);
  const counted = result.requests * order.signalsPerRequest;
  if (order.expected.includes(202)) contestant.accepted += counted;
  await contestant.settle();
  const elapsedMs = scenario.untilSettled ? performance.now() - startedAt : result.elapsedMs;
  const cpuMicroseconds = (contestant.running.cpuMicroseconds() - cpuBefore) / counted;
  const { p50Ms, p99Ms } = result;
  return { figure: { perSecond: (counted / elapsedMs) * 1000, p50Ms, p99Ms, cpuMicroseconds }, result };
}

function medians(figures: Figure[]): Figure {
  return {
    perSecond: median(figures.map((figure) => figure.perSecond)),
    p50Ms: median(figures.map((figure) => figure.p50Ms)),
    p99Ms: median(figures.map((figure) => figure.p99Ms)),
    cpuMicroseconds: median(figures.map((figure) => figure.cpuMicroseconds)),
  };
}

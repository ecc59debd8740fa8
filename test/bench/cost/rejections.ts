/** Floods of rejected calls, one kind after the other; and an idle workspace for a month. */
import { randomBytes } from "node:crypto";
import { composeKey } from "../../../src/domain/keys/api-key.ts";
import { DAY_MS } from "../../../src/domain/duration.ts";
import type { BuiltWorker } from "../build.ts";
import type { Contestant } from "../contestants.ts";
import { OperatorApi } from "../operator-api.ts";
import { body, signal } from "../signals.ts";
import { startEmpty, type RunningWorker } from "../start.ts";
import { MeterClient } from "./meter-client.ts";
import { sendPaced, type Pace, type PacedCall } from "./pace.ts";
import { times, type Usage } from "./usage.ts";

export interface RejectedFlood {
  name: string;
  usage: Usage;
  calls: number;
}

/** Maximum cost of a million rejected calls, in US dollars. */
export const MAX_REJECTED_DOLLARS = 1;

const TOKEN = "bench";
/** Floods stay below this rate, except the flood that exceeds it, so that each is rejected for its own reason. */
const RATE = 100;
const VARS = { REQUEST_RATE_PER_SECOND: String(RATE), REQUEST_BURST: String(RATE), OPERATOR_TOKEN: TOKEN };
const FLOOD: Pace = { perSecond: 0.9 * RATE, calls: 450 };
const TRICKLE: Pace = { perSecond: 1, calls: 60 };
/** The first calls of a trickle are written immediately: the cost of a million is measured after them. */
const TRICKLE_BEFORE: Pace = { perSecond: 1, calls: 75 };
const BEYOND: Pace = { perSecond: 3 * RATE, calls: 1_500 };
/** The periodic write of a flood's counts happens within this time. */
const AFTERWARDS_MS = 70_000;
const MONTH_MS = 30 * DAY_MS;

interface Kinds {
  floods: Flood[];
  trickles: Flood[];
}

interface Flood {
  name: string;
  /** Sent first, and not counted. */
  before?: Pace;
  pace: Pace;
  expected: number[];
  callOf: (n: number) => PacedCall;
}

export function startForRejections(service: BuiltWorker, stateDir: string): Promise<RunningWorker> {
  return startEmpty(service, { stateDir, vars: VARS });
}

/** Measures one kind after the other. */
export async function measureRejections(
  running: RunningWorker,
  choose: (kinds: Kinds) => Flood[],
): Promise<RejectedFlood[]> {
  try {
    const floods = choose(await prepare(new OperatorApi(running.origin, TOKEN), running.origin));
    const meter = new MeterClient(running);
    const measured: RejectedFlood[] = [];
    for (const { name, before, pace, expected, callOf } of floods) {
      console.error(`… rejected: ${name}`);
      if (before !== undefined) await sendPaced(running.origin, before, expected, callOf);
      const usage = await meter.during(async () => {
        await sendPaced(running.origin, pace, expected, callOf);
        await meter.settle();
        await meter.pass(AFTERWARDS_MS);
      });
      measured.push({ name, usage, calls: pace.calls });
    }
    return measured;
  } finally {
    await running.stop();
  }
}

export interface IdleCost {
  /** A month of a workspace with a hundred signals, which move to R2 on the first day. */
  workspace: Usage;
  /** A month of the watch over all workspaces, while none has a new or open alarm. */
  watch: Usage;
}

/** Every five minutes for 30 days. */
const WATCH_RUNS_A_MONTH = 12 * 24 * 30;
const WATCH_RUNS = 20;
/** Nothing is posted there. */
export const WATCHED = { ALARM_URL: "http://127.0.0.1:9/alarms" };

export async function measureIdle(contestant: Contestant): Promise<IdleCost> {
  try {
    const meter = new MeterClient(contestant.running);
    const batch = { path: `${webhook(contestant.key)}/batch`, body: body(0, 100) };
    await sendPaced(contestant.running.origin, { perSecond: 1, calls: 1 }, [202], () => batch);
    const workspace = await meter.during(() => meter.pass(MONTH_MS));
    const runs = await meter.during(async () => {
      // oxlint-disable-next-line no-await-in-loop -- the runs come one after the other
      for (let run = 0; run < WATCH_RUNS; run++) await meter.watch();
    });
    return { workspace, watch: times(runs, WATCH_RUNS_A_MONTH / WATCH_RUNS) };
  } finally {
    await contestant.running.stop();
  }
}

async function prepare(api: OperatorApi, origin: string): Promise<Kinds> {
  const plain = await api.provision({ slug: "plain" });
  const secret = await api.provision({ slug: "secret", key: { secret: true } });
  const revoked = await api.provision({ slug: "revoked" });
  await api.deactivate(revoked.id, revoked.keyId);
  const full = await api.provision({ slug: "full", signalLimit: 1 });
  // The limit and its allowance.
  const filling = { path: `${webhook(full.key)}/batch`, body: body(0, 2) };
  await sendPaced(origin, { perSecond: 1, calls: 1 }, [202], () => filling);

  const unknown = composeKey(randomBytes);
  const example = signal(0);
  const flood = (name: string, status: number, call: PacedCall): Flood => ({
    name,
    pace: FLOOD,
    // An address with too many failures gets a 429.
    expected: status === 401 ? [401, 429] : [status],
    callOf: () => call,
  });
  const spread = ({ name, expected, callOf, pace }: Flood): Flood => ({
    name: `${name}, from ever new addresses`,
    pace,
    expected,
    callOf: (n) => ({ ...callOf(n), headers: { ...callOf(n).headers, ...address(n) } }),
  });
  const trickle = (of: Flood): Flood => ({
    ...of,
    name: `${of.name}, one a second`,
    before: TRICKLE_BEFORE,
    pace: TRICKLE,
  });
  const malformed = flood("malformed body", 400, { path: webhook(plain.key), body: example.slice(0, -1) });
  const overQuota = flood("over the quota", 429, { path: webhook(full.key), body: example });
  const wrong = { path: webhook(secret.key), body: example, headers: { "x-api-secret": "wrong" } };
  const floods = [
    flood("malformed key", 401, { path: webhook(`${plain.key}x`), body: example }),
    spread(flood("unknown key", 401, { path: webhook(unknown), body: example })),
    spread(flood("wrong secret", 401, wrong)),
    flood("revoked key", 401, { path: webhook(revoked.key), body: example }),
    flood("wrong endpoint", 403, { path: `/api/product-orgs/webhook/${plain.key}`, body: example }),
    malformed,
    flood("signal without an event", 422, { path: webhook(plain.key), body: example.replace(`"event":`, `"evnt":`) }),
    overQuota,
    // Calls within the rate are rejected too, so that the figures contain nothing else.
    { ...overQuota, name: "over the rate", pace: BEYOND },
  ];
  return { floods, trickles: [trickle(malformed), trickle(overQuota)] };
}

function webhook(key: string): string {
  return `/api/signal-staging/webhook/${key}`;
}

function address(n: number): Record<string, string> {
  return { "cf-connecting-ip": `10.${n >>> 16}.${(n >>> 8) & 255}.${n & 255}` };
}

/**
 * The cost of a notification from the commit that raises it to the receiver's answer, compared with the same traffic
 * without a destination.
 */
import { listenAndAccept, type Listener } from "../../support/listen.ts";
import type { BuiltWorker } from "../build.ts";
import { startService, type BuiltWorkers, type Contestant } from "../contestants.ts";
import { OperatorApi } from "../operator-api.ts";
import { VISIT_RULE } from "../rules.ts";
import { startEmpty, type RunningWorker } from "../start.ts";
import { MeterClient } from "./meter-client.ts";
import { sendPaced, type Pace } from "./pace.ts";
import { BATCHES, measureShapes, SLOW, STEADY, type Measured, type Shape } from "./shapes.ts";
import { sumOf, times, type Usage } from "./usage.ts";

export interface NotificationCost {
  name: string;
  /** Additional to the cost of the same signals without a destination. */
  usage: Usage;
  notifications: number;
}

const TOKEN = "bench";
const PACE: Pace = { perSecond: 1, calls: 60 };
const POINTS = 50;
/** Leases have expired and pending alarms have rung within this time. */
const AFTERWARDS_MS = 130_000;

const KINDS: { name: string; notifications: string[]; destinations: number }[] = [
  { name: "a crossing, to one destination", notifications: ["person.score_crossed"], destinations: 1 },
  { name: "scoring signals, one a second, to one destination", notifications: ["person.scored"], destinations: 1 },
  { name: "scoring signals, one a second, to two destinations", notifications: ["person.scored"], destinations: 2 },
];

export function startForNotifications(service: BuiltWorker, stateDir: string): Promise<RunningWorker> {
  // As on a developer's machine, where receivers on loopback are allowed.
  return startEmpty(service, { stateDir, vars: { OPERATOR_TOKEN: TOKEN, SIGN_IN: "local" } });
}

export async function measureNotifications(running: RunningWorker): Promise<NotificationCost[]> {
  const receiver = await listenAndAccept();
  const target = `${receiver.origin}/in`;
  try {
    const api = new OperatorApi(running.origin, TOKEN);
    const meter = new MeterClient(running);
    const none = await measure(running, meter, await provision(api, "without-destinations", target, [], 0));
    const costs: NotificationCost[] = [];
    for (const [index, { name, notifications, destinations }] of KINDS.entries()) {
      console.error(`… notifications: ${name}`);
      const key = await provision(api, `informed-${index}`, target, notifications, destinations);
      const usage = await measure(running, meter, key);
      costs.push({ name, usage: sumOf(usage, times(none, -1)), notifications: PACE.calls * destinations });
    }
    return costs;
  } finally {
    receiver.close();
    await running.stop();
  }
}

/** Sends signals. Each signal lets a new person cross the threshold. */
function measure(running: RunningWorker, meter: MeterClient, key: string): Promise<Usage> {
  return meter.during(async () => {
    await sendPaced(running.origin, PACE, [202], (n) => ({
      path: `/api/signal-staging/webhook/${key}`,
      body: JSON.stringify({ email: `p${n}@example.com`, event: "Visit" }),
    }));
    await meter.settle();
    await meter.pass(AFTERWARDS_MS);
  });
}

async function provision(
  api: OperatorApi,
  slug: string,
  target: string,
  types: readonly string[],
  destinations: number,
): Promise<string> {
  const { id, home, key } = await api.provision({ slug, rules: [{ ...VISIT_RULE, points: POINTS }] });
  await api.call("PUT", `${home}/thresholds`, { thresholds: [POINTS] });
  await api.addWebhooks(id, Array.from({ length: destinations }).fill(target) as string[], types);
  return key;
}

const SHAPES_MEASURED: readonly Shape[] = [SLOW, STEADY, BATCHES];
const DESTINATIONS = 2;
const TYPES = ["person.scored", "person.score_crossed", "usage.level", "period.closed", "dead_letters.added"];
/** Every score is compared with it and none reaches it, because a crossing is a separate delivery. */
const THRESHOLDS = [1_000_000];

interface Notifying {
  contestant: Contestant;
  receivers: Listener[];
}

/** A workspace with two destinations, for the cost of notifying them: some of the shapes' traffic again. */
export async function startNotifying(
  workers: Pick<BuiltWorkers, "service" | "sink">,
  stateDir: string,
): Promise<Notifying> {
  // Receivers on this machine are allowed only with local sign-in.
  const contestant = await startService("service", workers, stateDir, { SIGN_IN: "local" });
  const api = new OperatorApi(contestant.running.origin, TOKEN);
  const found = (await api.list<{ id: string; slug: string }>("workspaces")).find(({ slug }) => slug === "bench");
  if (found === undefined) throw new Error("there is no such workspace");
  const receivers = await Promise.all(Array.from({ length: DESTINATIONS }, listenAndAccept));
  const targets = receivers.map(({ origin }) => origin);
  await api.addWebhooks(found.id, targets, TYPES);
  await api.call("PUT", `workspaces/${found.id}/thresholds`, { thresholds: THRESHOLDS });
  return { contestant, receivers };
}

export async function measureDestinations({ contestant, receivers }: Notifying): Promise<Measured[]> {
  try {
    return (await measureShapes(contestant, SHAPES_MEASURED)).measured;
  } finally {
    for (const receiver of receivers) receiver.close();
  }
}

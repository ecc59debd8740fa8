/**
 * The cost of an event from the commit that raises it to the receiver's answer, compared with the same traffic
 * without a destination.
 */
import path from "node:path";
import { once } from "node:events";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { CreatedKeyAnswer, WorkspaceAnswer } from "../../../src/dev/operator-client.ts";
import type { BuiltWorker } from "../build.ts";
import { startService } from "../contestants.ts";
import type { BuiltWorkers, Contestant } from "../contestants.ts";
import { OperatorApi } from "../operator-api.ts";
import { applySql, start } from "../start.ts";
import type { RunningWorker } from "../start.ts";
import { MeterClient } from "./meter-client.ts";
import { sendPaced } from "./pace.ts";
import type { Pace } from "./pace.ts";
import { BATCHES, measureShapes, SLOW, STEADY } from "./shapes.ts";
import type { Measured, Shape } from "./shapes.ts";
import { sumOf, times } from "./usage.ts";
import type { Usage } from "./usage.ts";

export interface EventCost {
  name: string;
  /** Additional to the cost of the same signals without a destination. */
  usage: Usage;
  events: number;
}

const TOKEN = "bench";
const PACE: Pace = { perSecond: 1, calls: 60 };
const POINTS = 50;
/** Leases have expired and pending alarms have rung within this time. */
const AFTERWARDS_MS = 130_000;

const KINDS: { name: string; events: string[]; destinations: number }[] = [
  { name: "a crossing, to one destination", events: ["person.score_crossed"], destinations: 1 },
  { name: "scoring signals, one a second, to one destination", events: ["person.scored"], destinations: 1 },
  { name: "scoring signals, one a second, to two destinations", events: ["person.scored"], destinations: 2 },
];

export async function startForEvents(service: BuiltWorker, stateDir: string): Promise<RunningWorker> {
  // As on a developer's machine, where receivers on loopback are allowed.
  const running = await start(service, { stateDir, vars: { OPERATOR_TOKEN: TOKEN, SIGN_IN: "local" } });
  await applySql(running, "DB", path.join(path.dirname(service.configPath), "migrations/d1"));
  return running;
}

export async function measureEvents(running: RunningWorker): Promise<EventCost[]> {
  const receiver = createServer((request, response) => {
    request.resume().on("end", () => response.end("ok"));
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const target = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/in`;
  try {
    const api = new OperatorApi(running.origin, TOKEN);
    const meter = new MeterClient(running);
    const none = await measure(running, meter, await provision(api, "without-destinations", target, [], 0));
    const costs: EventCost[] = [];
    for (const [index, { name, events, destinations }] of KINDS.entries()) {
      console.error(`… events: ${name}`);
      const key = await provision(api, `informed-${index}`, target, events, destinations);
      const usage = await measure(running, meter, key);
      costs.push({ name, usage: sumOf(usage, times(none, -1)), events: PACE.calls * destinations });
    }
    return costs;
  } finally {
    receiver.closeAllConnections();
    receiver.close();
    await running.stop();
  }
}

/** Signals, each of which lets a new person cross the threshold. */
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
  events: readonly string[],
  destinations: number,
): Promise<string> {
  await api.call("PUT", `plans/${slug}`, { name: slug, signal_limit: 1_000_000, paid: true });
  const { id } = await api.post<WorkspaceAnswer>("workspaces", { slug, name: slug, plan: slug });
  const { key } = await api.post<CreatedKeyAnswer>(`workspaces/${id}/keys`, { name: slug });
  const rule = {
    name: "visits",
    event: "Visit",
    match: "all",
    conditions: [],
    scoring_signal: "visit",
    points: POINTS,
  };
  await api.post(`workspaces/${id}/rules`, rule);
  await api.call("PUT", `workspaces/${id}/thresholds`, { thresholds: [POINTS] });
  for (let n = 0; n < destinations; n++)
    await api.post(`workspaces/${id}/destinations`, { name: slug, type: "webhook", target, events });
  return key;
}

const SHAPES_MEASURED: readonly Shape[] = [SLOW, STEADY, BATCHES];
const DESTINATIONS = 2;
const EVENTS = ["person.scored", "person.score_crossed", "usage.level", "period.closed", "dead_letters.added"];
/** Every score is compared with it and none reaches it, because a crossing is a separate delivery; see events.ts. */
const THRESHOLDS = [1_000_000];

interface Telling {
  contestant: Contestant;
  receivers: Server[];
}

/** A workspace with two destinations, for the cost of notifying them: some of the shapes' traffic again. */
export async function startTelling(
  workers: Pick<BuiltWorkers, "service" | "sink">,
  stateDir: string,
): Promise<Telling> {
  // Receivers on this machine are allowed only with local sign-in.
  const contestant = await startService("service", workers, stateDir, { SIGN_IN: "local" });
  const api = new OperatorApi(contestant.running.origin, TOKEN);
  const found = (await api.list<{ id: string; slug: string }>("workspaces")).find(({ slug }) => slug === "bench");
  if (found === undefined) throw new Error("there is no workspace to tell of");
  const receivers = await Promise.all(Array.from({ length: DESTINATIONS }, listen));
  for (const [index, receiver] of receivers.entries()) {
    const target = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    const wanted = { name: `Receiver ${index}`, type: "webhook", target, events: EVENTS };
    await api.post(`workspaces/${found.id}/destinations`, wanted);
  }
  await api.call("PUT", `workspaces/${found.id}/thresholds`, { thresholds: THRESHOLDS });
  return { contestant, receivers };
}

export async function measureDestinations({ contestant, receivers }: Telling): Promise<Measured[]> {
  try {
    return (await measureShapes(contestant, SHAPES_MEASURED)).measured;
  } finally {
    for (const receiver of receivers) receiver.close();
  }
}

/** Takes everything. */
function listen(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume().once("end", () => response.end());
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(server));
  });
}

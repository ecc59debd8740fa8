/**
 * `npm run bench -- growth`: the cost of a workspace with a million stored signals compared with workspaces of a
 * thousand, filled beforehand and measured in turn. Fails if the large one costs more than MAX_RATIO times a small
 * one.
 */
import path from "node:path";
import { execFileSync } from "node:child_process";
import { Bencher } from "./bencher.ts";
import { SERVICE_CONFIG, benchWorker, build } from "./build.ts";
import { median } from "./figures.ts";
import type { TrafficName, WorkspaceSize } from "./fill-order.ts";
import { emailOf, EVENTS, signalIdOf } from "./growth-traffic.ts";
import { fillWorkspaces, VARS, type FilledWorkspace } from "./growth-workspaces.ts";
import { LoadGenerator, type LoadCall, type LoadResult } from "./load.ts";
import { PAGE_VIEWS_A_MINUTE } from "../../src/limits.ts";
import { OperatorApi, signIn } from "./operator-api.ts";
import { start } from "./start.ts";
import { groupIn, signalOf } from "./traffic.ts";

interface GrowthOptions {
  rounds: number;
  /** Signals of the large workspace, which has a tenth as many people. */
  signals: number;
}

/** Costs by size, in the order of the sizes. */
export interface Growth {
  name: string;
  unit: "ms a call" | "µs a signal";
  costs: number[];
}

export const MAX_RATIO = 1.3;
/** Calls per kind and round. */
const READ_CALLS = 30;

/** Small, small with as many rules as the large one (which shows the cost of rules), large. */
export function sizesOf(signals: number): WorkspaceSize[] {
  return [
    { signals: 1_000, people: 100, rules: 5 },
    { signals: 1_000, people: 100, rules: 500 },
    { signals, people: signals / 10, rules: 500 },
  ];
}

export async function measureGrowth(
  { rounds, signals }: GrowthOptions,
  scratch: string,
  failures: string[],
): Promise<{ growth: Growth[]; pages: PageTime[] }> {
  const service = await build(SERVICE_CONFIG, path.join(scratch, "build/service"));
  const filler = await build(SERVICE_CONFIG, path.join(scratch, "build/fill"), benchWorker("fill.ts"));
  const stateDir = path.join(scratch, "state");
  const sizes = sizesOf(signals);
  const large = sizes.length - 1;
  // A new small workspace for each round and the warm-up, because a few rounds of signals would make it larger.
  const small = Array.from({ length: rounds + 1 }, () => sizes.slice(0, large)).flat();
  console.error(`… filling a workspace with ${signals.toLocaleString("en")} signals, and ${small.length} small ones`);
  const workspaces = await fillWorkspaces(service, filler, stateDir, [...small, ...sizes.slice(large)]);
  const ofRound = (round: number): FilledWorkspace[] => [
    ...workspaces.slice(round * large, (round + 1) * large),
    ...workspaces.slice(-1),
  ];

  const running = await start(service, { stateDir, vars: VARS });
  const generator = new LoadGenerator();
  const bencher = new Bencher("growth", running, generator, failures);
  const measured = new Map<string, { unit: Growth["unit"]; rounds: number[][] }>();
  let pages: PageTime[] = [];
  try {
    // Otherwise the system would write a gigabyte during the next measurement.
    execFileSync("sync");
    for (let round = 0; round <= rounds; round++) {
      console.error(round === 0 ? "… warming up" : `… round ${round} of ${rounds}`);
      for (const { name, unit, measure } of measuresOf(bencher, round)) {
        const costs: number[] = [];
        for (const workspace of ofRound(round)) costs.push(await measure(workspace));
        const all = measured.get(name) ?? { unit, rounds: [] };
        if (round > 0) all.rounds.push(costs);
        measured.set(name, all);
      }
    }
    console.error("… pages");
    for (const workspace of workspaces.slice(-1)) {
      pages = await measurePages(workspace, running.origin, VARS.OPERATOR_TOKEN, (calls) => bencher.load(calls));
    }
    for (const workspace of workspaces) failures.push(...(await bencher.audit(workspace)));
  } finally {
    generator.stop();
    await running.stop();
  }
  const growth = [...measured].map(([name, all]) => ({
    name,
    unit: all.unit,
    costs: sizes.map((_, index) => median(all.rounds.map((costs) => costs[index] ?? Number.NaN))),
  }));
  return { growth, pages };
}

/** Costs above the limit. */
export function tooDear(growth: Growth[]): string[] {
  return growth.flatMap(({ name, costs }) => {
    const ratio = ratiosOf(costs).reduce((most, candidate) => Math.max(most, candidate), 0);
    return ratio <= MAX_RATIO ? [] : [`growth: ${name}: ${ratio.toFixed(2)} times, more than ${MAX_RATIO}`];
  });
}

/** The ratios of the large one to each small one. */
function ratiosOf(costs: number[]): number[] {
  return costs.slice(0, -1).map((cost) => (costs.at(-1) ?? Number.NaN) / cost);
}

interface Measure {
  name: string;
  unit: Growth["unit"];
  measure: (workspace: FilledWorkspace) => Promise<number>;
}

function measuresOf(bencher: Bencher, round: number): Measure[] {
  return [
    ...READS.map((read): Measure => {
      const callsOf = (workspace: FilledWorkspace): LoadCall[] =>
        Array.from({ length: READ_CALLS }, (_, index) => ({
          method: "GET",
          path: `/operator/workspaces/${workspace.id}/${read.path(workspace, round * READ_CALLS + index)}`,
          token: VARS.OPERATOR_TOKEN,
        }));
      return {
        name: read.name,
        unit: "ms a call",
        measure: async (level) => (await bencher.load(callsOf(level))).p50Ms,
      };
    }),
    {
      name: "Ingest, to the 202",
      unit: "ms a call",
      measure: async (workspace) => {
        const { p50Ms } = await bencher.load(ingestCalls(workspace));
        await bencher.settle(workspace);
        return p50Ms;
      },
    },
    {
      name: "Processing, CPU from the call to the settled row",
      unit: "µs a signal",
      measure: async (workspace) => {
        const before = bencher.running.cpuMicroseconds();
        await bencher.load(batchCalls(workspace, PROCESSED_SIGNALS, PROCESSED_BATCH));
        await bencher.settle(workspace);
        return (bencher.running.cpuMicroseconds() - before) / PROCESSED_SIGNALS;
      },
    },
  ];
}

/** Calls per round. */
const INGEST_CALLS = 300;
const PROCESSED_SIGNALS = 2_000;
const PROCESSED_BATCH = 500;

/** Reads: paths under the workspace, each time for another record. */
export const READS: { name: string; path(workspace: FilledWorkspace, index: number): string }[] = [
  { name: "The signal queue's groups", path: () => "events" },
  { name: "A person's page: the person", path: ({ size }, index) => `people?email=${personOf(size.people, index)}` },
  { name: "A person's page: the signals", path: ({ size }, index) => `signals?email=${personOf(size.people, index)}` },
  { name: "People, the latest", path: () => "people" },
  { name: "Signals, the latest", path: () => "signals" },
  { name: "Signals of an event", path: (_, index) => `signals?event=${eventOf(index)}&limit=10` },
  { name: "Signals in cold storage", path: () => "signals?status=anonymous" },
  {
    name: "A signal's trace",
    path: ({ size, order }, index) => `signals/${signalIdOf(some(size.signals, index), order)}`,
  },
  { name: "Usage", path: () => "usage" },
  { name: "Books", path: () => "books" },
  { name: "Mapping rules, the latest five", path: () => "rules?limit=5" },
];

function ingestCalls(workspace: FilledWorkspace): LoadCall[] {
  const webhook = `/api/signal-staging/webhook/${workspace.key}`;
  return newSignals(workspace, INGEST_CALLS).map((body) => ({ method: "POST", path: webhook, body }));
}

/** Calls with new signals in batches. */
export function batchCalls(
  workspace: FilledWorkspace,
  signals: number,
  batch: number,
  traffic?: TrafficName,
): LoadCall[] {
  const webhook = `/api/signal-staging/webhook/${workspace.key}/batch`;
  const bodyOf = () => `[${newSignals(workspace, batch, traffic).join(",")}]`;
  return Array.from({ length: signals / batch }, () => ({ method: "POST", path: webhook, body: bodyOf() }));
}

/** A new batch of signals. */
export function newSignals(workspace: FilledWorkspace, count: number, traffic = workspace.order.traffic): string[] {
  const first = workspace.sent;
  workspace.sent += count;
  return Array.from({ length: count }, (_, index) =>
    signalOf(first + index, { ...workspace.order, traffic }, Date.now()),
  );
}

function personOf(people: number, index: number): string {
  return encodeURIComponent(emailOf(some(people, index)));
}

/** Frequent groups: each fills a page in a small workspace too. */
function eventOf(index: number): string {
  return encodeURIComponent(EVENTS[index % 10] ?? "");
}

/** A scattered number below `count`. */
function some(count: number, index: number): number {
  return (index * 7_919 + 17) % count;
}

export interface PageTime {
  name: string;
  p50Ms: number;
}

/** Median from the request to the last byte, on one connection. */
export const MAX_PAGE_MS = 50;
/** The page that people see first. */
const MAX_OVERVIEW_MS = 30;
const OVERVIEW = "Overview";
/** Requests per page. */
const PAGE_CALLS = 31;
/** One person may open PAGE_VIEWS_A_MINUTE pages. */
const PAGES_A_PERSON = Math.floor(PAGE_VIEWS_A_MINUTE / PAGE_CALLS);

interface Known {
  workspace: FilledWorkspace;
  ruleId: string;
}

/** Paths under /w/{workspace}, each time for another record if that matters. */
const PAGES: { name: string; path: (known: Known, index: number) => string }[] = [
  { name: OVERVIEW, path: () => "" },
  { name: "Search", path: ({ workspace }, index) => `search?q=${emailAt(workspace, index)}` },
  { name: "Search without a result", path: (_, index) => `search?q=nobody-${index}` },
  { name: "Signal queue", path: () => "signals" },
  { name: "Signal queue, names that contain something rare", path: () => "signals?q=Tried%20Report" },
  { name: "Signal queue, most signals", path: () => "signals?sort=count" },
  { name: "Event group", path: ({ workspace }, index) => `signals/group?${groupOf(workspace, index)}` },
  { name: "All signals", path: () => "signals/all" },
  { name: "All signals of an event and a status", path: () => `signals/all?event=${eventOf(7)}&status=held` },
  { name: "All signals of a person", path: ({ workspace }, index) => `signals/all?email=${emailAt(workspace, index)}` },
  {
    name: "Signal",
    path: ({ workspace }, index) => `signals/${signalIdOf(some(workspace.size.signals, index), workspace.order)}`,
  },
  { name: "Dead letters", path: () => "signals/dead-letters" },
  { name: "Mapping rules", path: () => "rules" },
  { name: "New rule", path: () => `rules/new?event=${eventOf(0)}` },
  { name: "Rule editor", path: ({ ruleId }) => `rules/${ruleId}` },
  { name: "Versions of a rule", path: ({ ruleId }) => `rules/${ruleId}/versions` },
  { name: "People", path: () => "people" },
  { name: "People, last seen", path: () => "people?sort=last_seen" },
  { name: "People, highest score", path: () => "people?sort=score" },
  { name: "People, last seen the longest ago", path: () => "people?sort=last_seen_up" },
  { name: "People of a part of a name, highest score", path: (_, index) => `people?q=ane%20${index}&sort=score` },
  { name: "People of a part of an email that most have", path: () => "people?q=example&sort=last_seen" },
  { name: "People of a part of an email that nobody has", path: () => "people?q=nobody-has-this" },
  { name: "People of a score, last seen", path: () => "people?score=1&sort=last_seen" },
  { name: "Person", path: ({ workspace }, index) => `people/${emailAt(workspace, index)}` },
  { name: "Accounts", path: () => "accounts" },
  { name: "Usage", path: () => "usage" },
  { name: "Usage, plan", path: () => "usage/plan" },
  { name: "Usage, ledger", path: () => "usage/ledger" },
  { name: "Rejections", path: () => "rejections" },
  { name: "Live", path: () => "live" },
  { name: "API keys", path: () => "settings/api-keys" },
  { name: "Connect", path: () => "connect" },
  { name: "Members", path: () => "settings/members" },
  { name: "Notifications", path: () => "settings/notifications" },
  { name: "Activity", path: () => "settings/activity" },
];

/** Signs in at a service with local sign-in. */
export async function measurePages(
  workspace: FilledWorkspace,
  origin: string,
  operatorToken: string,
  load: (calls: LoadCall[]) => Promise<LoadResult>,
): Promise<PageTime[]> {
  const api = new OperatorApi(origin, operatorToken);
  const newOwner = async (email: string): Promise<string> => {
    await api.call("POST", `workspaces/${workspace.id}/members`, { email, role: "owner" });
    return signIn(origin, email);
  };
  const [rule] = (await api.get<{ items: { id: string }[] }>(`workspaces/${workspace.id}/rules?limit=1`)).items;
  const known = { workspace, ruleId: rule?.id ?? "" };
  const times: PageTime[] = [];
  let cookie = "";
  for (const [nth, { name, path: pathOf }] of PAGES.entries()) {
    if (nth % PAGES_A_PERSON === 0) cookie = await newOwner(`owner-${nth}@example.com`);
    const calls = Array.from({ length: PAGE_CALLS }, (_, index) => ({
      method: "GET" as const,
      path: `/w/${workspace.slug}/${pathOf(known, index)}`,
      cookie,
    }));
    times.push({ name, p50Ms: (await load(calls)).p50Ms });
  }
  return times;
}

/** Pages above the time limit. */
export function tooSlow(pages: readonly PageTime[]): string[] {
  return pages.flatMap(({ name, p50Ms }) => {
    const most = name === OVERVIEW ? MAX_OVERVIEW_MS : MAX_PAGE_MS;
    return p50Ms <= most ? [] : [`growth: ${name}: ${p50Ms.toFixed(0)} ms, more than ${most}`];
  });
}

function emailAt({ size }: FilledWorkspace, index: number): string {
  return personOf(size.people, index);
}

function groupOf({ order }: FilledWorkspace, index: number): string {
  return new URLSearchParams({ ...groupIn(index, order) }).toString();
}

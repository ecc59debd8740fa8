/** The calls whose cost must not grow with the workspace. */
import type { FilledWorkspace } from "./growth-workspaces.ts";
import { EVENTS, emailOf, signalIdOf } from "./growth-traffic.ts";
import type { LoadCall } from "./load.ts";
import { signalOf } from "./traffic.ts";

/** Calls per round. */
const INGEST_CALLS = 300;
export const PROCESSED_SIGNALS = 2_000;
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

export function ingestCalls(workspace: FilledWorkspace): LoadCall[] {
  const path = `/api/signal-staging/webhook/${workspace.key}`;
  return newSignals(workspace, INGEST_CALLS).map((body) => ({ method: "POST", path, body }));
}

export function processingCalls(workspace: FilledWorkspace): LoadCall[] {
  const path = `/api/signal-staging/webhook/${workspace.key}/batch`;
  return Array.from({ length: PROCESSED_SIGNALS / PROCESSED_BATCH }, () => ({
    method: "POST",
    path,
    body: `[${newSignals(workspace, PROCESSED_BATCH).join(",")}]`,
  }));
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

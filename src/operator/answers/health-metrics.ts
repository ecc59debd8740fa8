/** The figures of many workspaces as an OpenMetrics text, which Prometheus and most others read. */
// oxlint-disable-next-line typescript/triple-slash-reference -- declares modules, so it is none; whoever reads this file needs it
/// <reference path="./prom-client.d.ts" />
import type { Registry as AnyRegistry } from "prom-client";
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Registry from "prom-client/lib/registry.js";
import { type HealthWord, wordOf } from "../../domain/health/alarm.ts";
import type { WorkspaceHealth } from "../../workspace/all-health.ts";
import type { Health } from "../../workspace/read-health.ts";

export const METRICS_TYPE = Registry.OPENMETRICS_CONTENT_TYPE;

const PREFIX = "signal_ingestion_";

interface Figure {
  name: string;
  type: "gauge" | "counter";
  help: string;
  read: (health: Health, nowMs: number) => number;
}

const WORDS: Record<HealthWord, number> = { ok: 0, late: 1, stuck: 2 };

/** What the objects of a workspace say of it. */
const FIGURES: readonly Figure[] = [
  {
    name: "oldest_waiting_seconds",
    type: "gauge",
    help: "Age of the oldest accepted signal that is not recorded yet; 0 when none waits.",
    read: ({ waitingSinceMs }, nowMs) => (waitingSinceMs === null ? 0 : Math.max(0, nowMs - waitingSinceMs) / 1_000),
  },
  gauge("waiting_signals", "Accepted signals that are not recorded yet.", ({ waiting }) => waiting),
  gauge("outbox_bytes", "What the Quota Counter's database takes.", ({ outbox }) => outbox.bytes),
  gauge("outbox_max_bytes", "From here on senders get 503.", ({ outbox }) => outbox.maxBytes),
  gauge("store_bytes", "What the Signal Store's database takes.", ({ store }) => store.bytes),
  gauge("store_max_bytes", "From here on nothing is recorded.", ({ store }) => store.maxBytes),
  gauge("dead_letters", "Signals that could not be processed.", ({ deadLetters }) => deadLetters),
  gauge("failing_jobs", "Jobs of the store that have failed since they last succeeded.", (of) => of.failingJobs.length),
  gauge("books_balanced", "1 where each signal answered with 202 is in exactly one place.", (of) =>
    Number(of.booksBalanced),
  ),
  gauge("held_signals", "Signals held until the billing period ends.", ({ books }) => books.held),
  counter("accepted_signals", "Signals answered with 202, held ones included.", ({ books }) => books.accepted),
  counter("duplicate_signals", "Signals answered with 202 that were repetitions.", ({ books }) => books.duplicates),
  gauge("failing_destinations", "Destinations that the last delivery has not reached.", destinations(false)),
  gauge("lost_signals", "Signals answered with 202 that restores have lost.", ({ books }) => books.lost),
  gauge("switched_off_destinations", "Destinations that the service has switched off.", destinations(true)),
];

/** @param total how many workspaces there are, so that whoever asks sees whether there are more than those found. */
export function metricsText(found: readonly WorkspaceHealth[], total: number, nowMs: number): Promise<string> {
  const registry: AnyRegistry<typeof METRICS_TYPE> = new Registry();
  registry.setContentType(METRICS_TYPE);
  const registers = [registry];
  new Gauge({ name: `${PREFIX}workspaces`, help: "Workspaces of this deployment.", registers }).set(total);
  const status = metric(
    { name: "status", type: "gauge", help: "0: ok. 1: late, look at it today. 2: stuck, look at it now." },
    registers,
  );
  const metrics = FIGURES.map((figure) => ({ figure, metric: metric(figure, registers) }));
  for (const { id, slug, alarms, health } of found) {
    const labels = { workspace: id, slug };
    status.inc(labels, WORDS[wordOf(alarms)]);
    // An object that did not answer has a status and no other figure.
    if (health !== null) for (const { figure, metric: one } of metrics) one.inc(labels, figure.read(health, nowMs));
  }
  return registry.metrics();
}

function metric({ name, type, help }: Omit<Figure, "read">, registers: AnyRegistry<typeof METRICS_TYPE>[]) {
  const options = { name: PREFIX + name, help, labelNames: ["workspace", "slug"], registers };
  return type === "counter" ? new Counter(options) : new Gauge(options);
}

function destinations(areOff: boolean): Figure["read"] {
  return ({ failingDestinations }) => failingDestinations.filter(({ off }) => (off !== null) === areOff).length;
}

function gauge(name: string, help: string, read: Figure["read"]): Figure {
  return { name, type: "gauge", help, read };
}

function counter(name: string, help: string, read: Figure["read"]): Figure {
  return { name, type: "counter", help, read };
}

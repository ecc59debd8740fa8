/** A workspace's health in numbers: the same ones for OpenMetrics and for Analytics Engine, in the same order. */
import { wordOf } from "../domain/health/alarm.ts";
import type { HealthWord } from "../domain/health/alarm.ts";
import type { WorkspaceHealth } from "./all-health.ts";
import type { Health } from "./read-health.ts";

interface Figure {
  name: string;
  type: "gauge" | "counter";
  help: string;
  read: (health: Health, nowMs: number) => number;
}

const WORDS: Record<HealthWord, number> = { ok: 0, late: 1, stuck: 2 };

const OF_HEALTH: readonly Figure[] = [
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

export const FIGURES: readonly Pick<Figure, "name" | "type" | "help">[] = [
  { name: "status", type: "gauge", help: "0: ok. 1: late, look at it today. 2: stuck, look at it now." },
  ...OF_HEALTH,
];

/** A workspace's figures in the order of FIGURES; null where its objects did not answer. */
export function figuresOf({ alarms, health }: WorkspaceHealth, nowMs: number): (number | null)[] {
  return [WORDS[wordOf(alarms)], ...OF_HEALTH.map(({ read }) => (health === null ? null : read(health, nowMs)))];
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

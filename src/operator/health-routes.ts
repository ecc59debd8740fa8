/** Health of one workspace and of all workspaces, for monitoring systems. */
import type { Context } from "hono";
import type { Registry as AnyRegistry } from "prom-client";
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Registry from "prom-client/lib/registry.js";
import * as z from "zod";
import { problem } from "../http/problem.ts";
import { workspacesByAge } from "../d1/workspaces.ts";
import { DISABLED_REASONS } from "../domain/notifications/destination.ts";
import { ALARMS, wordOf, type HealthAlarm, type HealthWord } from "../domain/health/alarm.ts";
import {
  HEALTH_PAGE_WORKSPACES,
  healthOfAll,
  queueBacklogs,
  type QueueBacklog,
  type WorkspaceHealth,
  healthWithin,
  type Health,
} from "../use-cases/read-health.ts";
import { count, idOf, instant, type DomainValue, operationsOf, type OperatorEnv } from "./operation.ts";
import { booksAnswer } from "./usage-routes.ts";

const operation = operationsOf("Health", "workspace");

const word = z
  .enum(["ok", "late", "stuck"])
  .describe(
    "`late`: look at it today. `stuck`: look at it now; it does not recover without help, or senders notice it.",
  );

const alarmList = z
  .array(
    z
      .object({
        alarm: z.enum(ALARMS).describe("The heading of its section in docs/operate.md."),
        status: word,
        says: z.string().describe("The problem and its solution."),
      })
      .meta({ id: "HealthAlarm" }),
  )
  .describe("Current problems, most severe first.");
const filled = { bytes: count, max_bytes: count.describe("At this size nothing new is accepted.") };

const figures = {
  store: z.object(filled).describe("Size of the workspace's signals, people and accounts."),
  outbox: z.object({
    ...filled,
    signals: count.describe("Accepted signals that wait to be processed."),
    oldest_at: instant.nullable().describe("When the oldest waiting signal was received."),
  }),
  dead_letters: z.object({ signals: count, latest_at: instant.nullable() }),
  failing_chores: z.array(
    z.object({
      chore: z.string().meta({ example: "cold" }),
      since: instant,
      error: z.string().describe("Of the first failure."),
    }),
  ),
  failing_destinations: z
    .array(
      z.object({
        id: idOf("dst", "Of the destination."),
        name: z.string(),
        since: instant.describe("No delivery has succeeded since then."),
        switched_off: z
          .enum(DISABLED_REASONS)
          .nullable()
          .describe("`gone`: it answered 410. `failing`: no delivery succeeded for days. Null: it is still tried."),
        switched_off_at: instant.nullable(),
      }),
    )
    .describe("Failing destinations, and those that the service has switched off. Paused ones are left out."),
  books: booksAnswer,
  duplicates_covered_seconds: count.describe(
    "Period in which duplicates of signals with an id are detected: seven days, or less while memory is short.",
  ),
};

const workspaceHealth = z
  .object({ status: word, alarms: alarmList, ...z.object(figures).partial().shape })
  .meta({ id: "WorkspaceHealth", description: "If `unreachable` is one of the alarms, only status and alarms." });

const allHealth = z
  .object({
    status: word,
    says: z.string().describe("The most severe alarm's sentence, or that all is well."),
    workspaces: z
      .object({ asked: count, not_asked: count, ok: count, late: count, stuck: count })
      .describe("Numbers of workspaces on this page, by status."),
    items: z
      .array(
        z.object({ workspace_id: idOf("ws", "Of the workspace."), slug: z.string(), status: word, alarms: alarmList }),
      )
      .describe("Workspaces that are not `ok`."),
    queues: z
      .array(
        z.object({
          queue: z.enum(["signals", "deliveries"]),
          messages: count.describe("Messages that wait. A message has up to 60 KB of signals."),
          bytes: count,
          oldest_at: instant.nullable().describe("When the oldest waiting message was sent."),
        }),
      )
      .describe("The queues that all workspaces share. A queue that does not answer within five seconds is left out."),
    next_page: z.int().nullable().describe("Null on the last page."),
  })
  .meta({ id: "Health" });

function figuresOf({ store, outbox, ...health }: Health) {
  return {
    store,
    outbox: { ...outbox, signals: health.waiting, oldestAtMs: health.waitingSinceMs },
    deadLetters: { signals: health.deadLetters, latestAtMs: health.deadLetterMs },
    failingChores: health.failingChores,
    failingDestinations: health.failingDestinations.map(({ off, ...destination }) => ({
      ...destination,
      switchedOff: off?.reason ?? null,
      switchedOffAtMs: off?.sinceMs ?? null,
    })),
    books: health.books,
    duplicatesCoveredSeconds: Math.floor(health.duplicatesCoveredMs / 1_000),
  };
}

export function summaryOf(
  found: readonly WorkspaceHealth[],
  queues: readonly QueueBacklog[],
  nextPage: number | null,
): DomainValue<z.output<typeof allHealth>> {
  const items = found
    .filter(({ alarms }) => alarms.length > 0)
    .map(({ id, slug, alarms }) => ({ workspaceId: id, slug, ...statusOf(alarms) }));
  const status = wordOf(items.map((item) => ({ word: item.status })));
  const worst = items.find((item) => item.status === status && status !== "ok");
  const notAsked = items.filter((item) => item.alarms[0]?.alarm === "not_asked").length;
  const sum = (counted: HealthWord): number => items.filter((item) => item.status === counted).length;
  return {
    status,
    says: worst === undefined ? "All is well." : `${worst.slug}: ${worst.alarms[0]?.says}`,
    workspaces: {
      asked: found.length - notAsked,
      notAsked,
      ok: found.length - items.length,
      late: sum("late") - notAsked,
      stuck: sum("stuck"),
    },
    items,
    queues: [...queues],
    nextPage,
  };
}

function statusOf(alarms: readonly HealthAlarm[]) {
  return { status: wordOf(alarms), alarms: alarms.map(({ word: status, ...alarm }) => ({ ...alarm, status })) };
}

// oxlint-disable-next-line typescript/triple-slash-reference -- declares the modules of prom-client for every reader of this file
/// <reference path="./prom-client.d.ts" />

const METRICS_TYPE = Registry.OPENMETRICS_CONTENT_TYPE;
const PREFIX = "signal_ingestion_";
const WORDS: Record<HealthWord, number> = { ok: 0, late: 1, stuck: 2 };

type Figure = [name: string, help: string, read: (health: Health, nowMs: number) => number];

const FIGURES: Figure[] = [
  [
    "oldest_waiting_seconds",
    "Age of the oldest accepted signal that is not recorded yet; 0: none waits.",
    ({ waitingSinceMs }, nowMs) => (waitingSinceMs === null ? 0 : Math.max(0, nowMs - waitingSinceMs) / 1_000),
  ],
  ["waiting_signals", "Accepted signals that are not recorded yet.", ({ waiting }) => waiting],
  ["outbox_bytes", "Size of the Quota Counter's database.", ({ outbox }) => outbox.bytes],
  ["outbox_max_bytes", "At this size senders get 503.", ({ outbox }) => outbox.maxBytes],
  ["store_bytes", "Size of the Signal Store's database.", ({ store }) => store.bytes],
  ["store_max_bytes", "At this size nothing is recorded.", ({ store }) => store.maxBytes],
  ["dead_letters", "Signals that could not be processed.", ({ deadLetters }) => deadLetters],
  [
    "failing_chores",
    "Chores of the store's alarm that have failed since their last success.",
    (of) => of.failingChores.length,
  ],
  ["store_alarms", "Alarms of the Signal Store in the last hour, at most 1,000.", (of) => of.alarms.store.all],
  ["counter_alarms", "Alarms of the Quota Counter in the last hour, at most 1,000.", (of) => of.alarms.counter.all],
  ["books_balanced", "1: each signal answered with 202 is in exactly one place.", (of) => Number(of.booksBalanced)],
  ["held_signals", "Signals held until the billing period ends.", ({ books }) => books.held],
  ["accepted_signals", "Signals answered with 202, held signals included.", ({ books }) => books.accepted],
  ["duplicate_signals", "Signals answered with 202 that were repetitions.", ({ books }) => books.duplicates],
  ["failing_destinations", "Destinations whose last delivery failed.", (of) => countDestinations(of, false)],
  ["switched_off_destinations", "Destinations that the service has switched off.", (of) => countDestinations(of, true)],
];
/** Figures that only grow. */
const COUNTERS = ["accepted_signals", "duplicate_signals"];

function countDestinations({ failingDestinations }: Health, areOff: boolean): number {
  return failingDestinations.filter(({ off }) => (off !== null) === areOff).length;
}

function metricsText({ total, found, queues }: HealthPage, nowMs: number): Promise<string> {
  const registry: AnyRegistry<typeof METRICS_TYPE> = new Registry();
  registry.setContentType(METRICS_TYPE);
  const registers = [registry];
  const metric = (name: string, help: string) => {
    const options = { name: PREFIX + name, help, labelNames: ["workspace", "slug"], registers };
    return COUNTERS.includes(name) ? new Counter(options) : new Gauge(options);
  };
  new Gauge({ name: `${PREFIX}workspaces`, help: "Workspaces of this deployment.", registers }).set(total);
  const status = metric("status", "0: ok. 1: late, look at it today. 2: stuck, look at it now.");
  const metrics = FIGURES.map(([name, help, read]) => ({ metric: metric(name, help), read }));
  for (const { id, slug, alarms, health } of found) {
    const labels = { workspace: id, slug };
    status.inc(labels, WORDS[wordOf(alarms)]);
    // Null: an object did not answer.
    if (health !== null) for (const figure of metrics) figure.metric.inc(labels, figure.read(health, nowMs));
  }
  const queueGauge = (name: string, help: string) =>
    new Gauge({ name: `${PREFIX}queue_${name}`, help, labelNames: ["queue"], registers });
  const messages = queueGauge("messages", "Messages of all workspaces that wait in the queue.");
  const bytes = queueGauge("bytes", "Size of these messages.");
  const oldest = queueGauge("oldest_seconds", "Age of the oldest of these messages; 0: none waits.");
  for (const { queue, ...backlog } of queues) {
    messages.set({ queue }, backlog.messages);
    bytes.set({ queue }, backlog.bytes);
    oldest.set({ queue }, backlog.oldestAtMs === null ? 0 : Math.max(0, nowMs - backlog.oldestAtMs) / 1_000);
  }
  return registry.metrics();
}

const COST =
  `An answer has at most ${HEALTH_PAGE_WORKSPACES} workspaces, oldest first; use \`page\` for the others. It takes at most ` +
  "fifteen seconds and names the workspaces that were not asked in time. Each workspace costs a call to each of its objects: " +
  "at list price $0.30 for a million workspaces, $0.45 with destinations.";

const query = z.strictObject({
  page: z.coerce.number().int().min(1).max(10_000).default(1).describe("Number of the page, from 1."),
});

const healthQuery = query.extend({
  expect: z
    .literal("ok")
    .exactOptional()
    .describe(
      "Answers 503 `not_ok` while a workspace of the page is `late` or `stuck`: for monitors that see only the status code.",
    ),
});

export const healthRoutes = [
  operation("GET", "/health", {
    summary: "Health of all workspaces",
    description: `One word for a monitor, and the workspaces that are not \`ok\`, each with instructions. ${COST}`,
    query: healthQuery,
    answers: { 200: "The most severe status and its workspaces." },
    schema: allHealth,
    async handle(c, { query: { page, expect } }) {
      const { total, found, queues } = await healthOfPage(c, page);
      const summary = summaryOf(found, queues, page * HEALTH_PAGE_WORKSPACES < total ? page + 1 : null);
      if (expect === undefined || summary.status === "ok") return summary;
      return problem(c, { status: 503, code: "not_ok", title: "Not ok", detail: `${summary.status}: ${summary.says}` });
    },
  }),
  operation("GET", "/metrics", {
    summary: "Figures of all workspaces",
    description: `In the OpenMetrics text format, for Prometheus and its like. ${COST}`,
    query,
    answers: { 200: "The figures." },
    content: { [METRICS_TYPE.split(";")[0] ?? ""]: z.string() },
    async handle(c, { query: { page } }) {
      const read = await healthOfPage(c, page);
      return c.body(await metricsText(read, Date.now()), 200, { "content-type": METRICS_TYPE });
    },
  }),
  operation("GET", "/workspaces/:workspace_id/health", {
    summary: "Health of a workspace",
    scope: "read",
    description:
      "Storage, waiting signals and failures; or which objects did not answer within five seconds. If a workspace is full, " +
      "accepted signals wait and are not lost.",
    answers: { 200: "The health of the workspace." },
    schema: workspaceHealth,
    async handle(c) {
      const { alarms, health } = await healthWithin(c.env, c.var.workspace.id);
      return { ...statusOf(alarms), ...(health !== null && figuresOf(health)) };
    },
  }),
];

interface HealthPage {
  total: number;
  found: WorkspaceHealth[];
  queues: QueueBacklog[];
}

async function healthOfPage(c: Context<OperatorEnv>, page: number): Promise<HealthPage> {
  const limit = HEALTH_PAGE_WORKSPACES;
  const { total, workspaces } = await workspacesByAge(c.var.db, { offset: (page - 1) * limit, limit });
  const [found, queues] = await Promise.all([healthOfAll(c.env, workspaces), queueBacklogs(c.env)]);
  return { total, found, queues };
}

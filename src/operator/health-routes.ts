/** Health of one workspace and of all workspaces, for monitoring systems. */
import type { Registry as AnyRegistry } from "prom-client";
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Registry from "prom-client/lib/registry.js";
import * as z from "zod";
import type { ControlDatabase } from "../control/database.ts";
import { openRestores } from "../control/restores.ts";
import { workspacesByAge } from "../control/workspaces.ts";
import { ALARMS, wordOf, type HealthAlarm, type HealthWord } from "../domain/health/alarm.ts";
import type { AppEnv } from "../env.ts";
import {
  HEALTH_PAGE_WORKSPACES,
  healthOfAll,
  type WorkspaceHealth,
  healthWithin,
  type Health,
} from "../workspace/read-health.ts";
import { answer, count, idOf, instant, toJson } from "./answers.ts";
import { operator } from "./environment.ts";
import { operationsOf } from "./operation.ts";
import { booksAnswer } from "./usage-routes.ts";

const operation = operationsOf("Health");

const word = z.enum(["ok", "late", "stuck"]).meta({
  description:
    "`late`: look at it today. `stuck`: look at it now; it does not recover by itself, or senders notice it.",
});

const alarmList = z
  .array(
    z
      .object({
        alarm: z.enum(ALARMS).meta({ description: "The heading of its section in docs/operate.md." }),
        status: word,
        says: z.string().meta({ description: "What is wrong, and what to do." }),
      })
      .meta({ id: "HealthAlarm" }),
  )
  .meta({ description: "What is wrong, most severe first." });
const filled = { bytes: count, max_bytes: count.meta({ description: "At this size nothing new is accepted." }) };

const figures = {
  store: z.object(filled).meta({ description: "Size of the workspace's signals, people and accounts." }),
  outbox: z.object({
    ...filled,
    signals: count.meta({ description: "Accepted signals that wait to be processed." }),
    oldest_at: instant.nullable().meta({ description: "When the oldest waiting signal was received." }),
  }),
  dead_letters: z.object({ signals: count, latest_at: instant.nullable() }),
  failing_jobs: z.array(
    z.object({
      job: z.string().meta({ example: "cold" }),
      since: instant,
      error: z.string().meta({ description: "Of the first failure." }),
    }),
  ),
  failing_destinations: z
    .array(
      z.object({
        id: idOf("dst", "Of the destination."),
        name: z.string(),
        since: instant.meta({ description: "No delivery has succeeded since then." }),
        switched_off: z.enum(["gone", "failing"]).nullable().meta({
          description: "`gone`: it answered 410. `failing`: no delivery succeeded for days. Null: it is still tried.",
        }),
        switched_off_at: instant.nullable(),
      }),
    )
    .meta({
      description: "Failing destinations, and those that the service has switched off. Paused ones are left out.",
    }),
  books: booksAnswer,
  duplicates_covered_seconds: count.meta({
    description:
      "How far back signals with an id of their own are compared with others: seven days, or less while memory is short.",
  }),
};

const workspaceHealth = z
  .object({ status: word, alarms: alarmList, ...z.object(figures).partial().shape })
  .meta({ id: "WorkspaceHealth", description: "If `unreachable` is one of the alarms, only status and alarms." });

const allHealth = z
  .object({
    status: word,
    says: z.string().meta({ description: "The most severe alarm's sentence, or that all is well." }),
    workspaces: z
      .object({ asked: count, not_asked: count, ok: count, late: count, stuck: count })
      .meta({ description: "Numbers of workspaces on this page, by status." }),
    items: z
      .array(
        z.object({ workspace_id: idOf("ws", "Of the workspace."), slug: z.string(), status: word, alarms: alarmList }),
      )
      .meta({ description: "Workspaces that are not `ok`." }),
    next_page: z.int().nullable().meta({ description: "Null on the last page." }),
  })
  .meta({ id: "Health" });

function figuresOf({ store, outbox, ...health }: Health) {
  return {
    store,
    outbox: { ...outbox, signals: health.waiting, oldestAtMs: health.waitingSinceMs },
    deadLetters: { signals: health.deadLetters, latestAtMs: health.deadLetterMs },
    failingJobs: health.failingJobs,
    failingDestinations: health.failingDestinations.map(({ off, ...destination }) => ({
      ...destination,
      switchedOff: off?.reason ?? null,
      switchedOffAtMs: off?.sinceMs ?? null,
    })),
    books: health.books,
    duplicatesCoveredSeconds: Math.floor(health.duplicatesCoveredMs / 1_000),
  };
}

export function allHealthJson(found: readonly WorkspaceHealth[], nextPage: number | null): z.output<typeof allHealth> {
  const items = found
    .filter((item) => item.alarms.length > 0)
    .map(({ id, slug, alarms: raised }) => ({
      workspaceId: id,
      slug,
      status: wordOf(raised),
      alarms: raised.map(withStatus),
    }));
  const status = wordOf(items.map((item) => ({ word: item.status })));
  const worst = items.find((item) => item.status === status && status !== "ok");
  const notAsked = items.filter((item) => item.alarms[0]?.alarm === "not_asked").length;
  const sum = (counted: HealthWord): number => items.filter((item) => item.status === counted).length;
  return toJson(allHealth, {
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
    nextPage,
  });
}

function withStatus({ word: status, ...alarm }: HealthAlarm) {
  return { ...alarm, status };
}

/** Figures of many workspaces in the OpenMetrics text format, as Prometheus reads it. */
// oxlint-disable-next-line typescript/triple-slash-reference -- declares modules, so it is none; whoever reads this file needs it
/// <reference path="./prom-client.d.ts" />

const METRICS_TYPE = Registry.OPENMETRICS_CONTENT_TYPE;

const PREFIX = "signal_ingestion_";

interface Figure {
  name: string;
  type: "gauge" | "counter";
  help: string;
  read: (health: Health, nowMs: number) => number;
}

const WORDS: Record<HealthWord, number> = { ok: 0, late: 1, stuck: 2 };

/** Figures reported by a workspace's objects. */
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
function metricsText(found: readonly WorkspaceHealth[], total: number, nowMs: number): Promise<string> {
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
    // An object that did not answer has a status and no further figures.
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

const COST =
  `An answer has at most ${HEALTH_PAGE_WORKSPACES} workspaces, oldest first; use \`page\` for the others. It takes at most ` +
  "fifteen seconds and names the workspaces that were not asked in time. Each workspace costs a call to each of its objects: " +
  "at list price $0.30 for a million workspaces, $0.45 with destinations.";

const query = z.strictObject({
  page: z.coerce.number().int().min(1).max(10_000).default(1).meta({ description: "Number of the page, from 1." }),
});

export const healthRoutes = operator
  .createApp()
  .get(
    "/health",
    operation({
      summary: "Health of all workspaces",
      description: `One word for a monitor, and the workspaces that are not \`ok\`, each with instructions. ${COST}`,
      query,
      answers: { 200: { description: "The most severe status and its workspaces.", schema: allHealth } },
    }),
    async (c) => {
      const { page } = c.req.valid("query");
      const { total, found } = await healthOfPage(c.env, c.var.db, page);
      return c.json(allHealthJson(found, page * HEALTH_PAGE_WORKSPACES < total ? page + 1 : null));
    },
  )
  .get(
    "/metrics",
    operation({
      summary: "Figures of all workspaces",
      description: `In the OpenMetrics text format, for Prometheus and its like. ${COST}`,
      query,
      answers: {
        200: { description: "The figures.", content: { [METRICS_TYPE.split(";")[0] ?? ""]: z.string() } },
      },
    }),
    async (c) => {
      const { total, found } = await healthOfPage(c.env, c.var.db, c.req.valid("query").page);
      return c.body(await metricsText(found, total, Date.now()), 200, { "content-type": METRICS_TYPE });
    },
  )
  .get(
    "/workspaces/:workspace_id/health",
    operation({
      summary: "Health of a workspace",
      description:
        "Storage, waiting signals and failures; or which objects did not answer within five seconds. If a workspace is full, " +
        "accepted signals wait and are not lost.",
      answers: { 200: { description: "The health of the workspace.", schema: workspaceHealth } },
    }),
    async (c) => {
      const { db, workspace } = c.var;
      const open = await openRestores(db, [workspace.id]);
      const { alarms: raised, health } = await healthWithin(c.env, workspace.id, open.get(workspace.id) ?? []);
      const status = { status: wordOf(raised), alarms: raised.map(withStatus) };
      return answer(c, workspaceHealth, { ...status, ...(health !== null && figuresOf(health)) });
    },
  );

/** The health of a page of workspaces, from 1. */
async function healthOfPage(
  env: AppEnv["Bindings"],
  db: ControlDatabase,
  page: number,
): Promise<{ total: number; found: WorkspaceHealth[] }> {
  const limit = HEALTH_PAGE_WORKSPACES;
  const { total, workspaces } = await workspacesByAge(db, { offset: (page - 1) * limit, limit });
  const open = await openRestores(
    db,
    workspaces.map(({ id }) => id),
  );
  const found = await healthOfAll(env, workspaces, open);
  return { total, found };
}

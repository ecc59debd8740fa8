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
import { booksAnswer, booksJson } from "./usage-routes.ts";
import { operator } from "./environment.ts";
import { operation } from "./operation.ts";
import { count, idOf, instant, isoOrNull } from "./schema-parts.ts";
import {
  HEALTH_PAGE_WORKSPACES,
  healthOfAll,
  type WorkspaceHealth,
  healthWithin,
  type Health,
  type HealthOrAlarm,
} from "../workspace/read-health.ts";

const word = z.enum(["ok", "late", "stuck"]).meta({
  description: "`late`: look at it today. `stuck`: it gets no better by itself, or senders notice it; look at it now.",
});

const alarm = z
  .object({
    alarm: z.enum(ALARMS).meta({ description: "The heading of its page in docs/operate.md." }),
    status: word,
    says: z.string().meta({ description: "What is wrong, and what to do." }),
  })
  .meta({ id: "HealthAlarm" });

const alarmList = z.array(alarm).meta({ description: "What is wrong, the gravest first." });
const filled = { bytes: count, max_bytes: count.meta({ description: "From here on it takes nothing new." }) };

const figures = z.object({
  store: z.object(filled).meta({ description: "What the workspace's signals, people and accounts take." }),
  outbox: z.object({
    ...filled,
    signals: count.meta({ description: "Accepted, and waiting to be processed." }),
    oldest_at: instant.nullable().meta({ description: "When the oldest of them was received." }),
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
        since: instant.meta({ description: "Nothing has reached it from then on." }),
        switched_off: z.enum(["gone", "failing"]).nullable().meta({
          description:
            "`gone`: it has answered 410. `failing`: nothing has reached it for days. Null: it is still tried.",
        }),
        switched_off_at: instant.nullable(),
      }),
    )
    .meta({ description: "Those that fail, or that the service has switched off; none that somebody has paused." }),
  books: booksAnswer,
  duplicates_covered_seconds: count.meta({
    description:
      "How far back signals with an id of their own are compared with others: seven days, or less while memory is short.",
  }),
});

const healthAnswer = z
  .object({ status: word, alarms: alarmList, ...figures.partial().shape })
  .meta({ id: "WorkspaceHealth", description: "Status and alarms alone where `unreachable` is one of them." });

const allHealthAnswer = z
  .object({
    status: word,
    says: z.string().meta({ description: "The gravest alarm's sentence, or that all is well." }),
    workspaces: z
      .object({ asked: count, not_asked: count, ok: count, late: count, stuck: count })
      .meta({ description: "Of this page; those asked by status." }),
    items: z
      .array(
        z.object({ workspace_id: idOf("ws", "Of the workspace."), slug: z.string(), status: word, alarms: alarmList }),
      )
      .meta({ description: "Those that are not `ok`." }),
    next_page: z.int().nullable().meta({ description: "Null on the last page." }),
  })
  .meta({ id: "Health" });

function healthJson({ alarms: found, health }: HealthOrAlarm): z.infer<typeof healthAnswer> {
  return { status: wordOf(found), alarms: found.map(alarmJson), ...(health !== null && figuresJson(health)) };
}

function figuresJson({ store, outbox, ...health }: Health): z.infer<typeof figures> {
  return {
    store: { bytes: store.bytes, max_bytes: store.maxBytes },
    outbox: {
      bytes: outbox.bytes,
      max_bytes: outbox.maxBytes,
      signals: health.waiting,
      oldest_at: isoOrNull(health.waitingSinceMs),
    },
    dead_letters: { signals: health.deadLetters, latest_at: isoOrNull(health.deadLetterMs) },
    failing_jobs: health.failingJobs.map(({ job, sinceMs, error }) => ({
      job,
      since: new Date(sinceMs).toISOString(),
      error,
    })),
    failing_destinations: health.failingDestinations.map(({ id, name, sinceMs, off }) => ({
      id,
      name,
      since: new Date(sinceMs).toISOString(),
      switched_off: off?.reason ?? null,
      switched_off_at: isoOrNull(off?.sinceMs ?? null),
    })),
    books: booksJson(health.books),
    duplicates_covered_seconds: Math.floor(health.duplicatesCoveredMs / 1_000),
  };
}

export function allHealthJson(
  found: readonly WorkspaceHealth[],
  nextPage: number | null,
): z.infer<typeof allHealthAnswer> {
  const items = found
    .filter((item) => item.alarms.length > 0)
    .map(({ id, slug, alarms: wrong }) => ({
      workspace_id: id,
      slug,
      status: wordOf(wrong),
      alarms: wrong.map(alarmJson),
    }));
  const status = wordOf(items.map((item) => ({ word: item.status })));
  const worst = items.find((item) => item.status === status && status !== "ok");
  const notAsked = items.filter((item) => item.alarms[0]?.alarm === "not_asked").length;
  const of = (which: string): number => items.filter((item) => item.status === which).length;
  return {
    status,
    says: worst === undefined ? "All is well." : `${worst.slug}: ${worst.alarms[0]?.says}`,
    workspaces: {
      asked: found.length - notAsked,
      not_asked: notAsked,
      ok: found.length - items.length,
      late: of("late") - notAsked,
      stuck: of("stuck"),
    },
    items,
    next_page: nextPage,
  };
}

function alarmJson({ alarm: name, word: status, says }: HealthAlarm): z.infer<typeof alarm> {
  return { alarm: name, status, says };
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
  `At most ${HEALTH_PAGE_WORKSPACES} workspaces in an answer, oldest first; \`page\` has the others. It takes fifteen seconds at ` +
  "most, and says which workspaces there was no time to ask. Each takes a call of each of its objects, and wakes them: at " +
  "list price $0.30 for a million workspaces asked, $0.45 with destinations.";

const query = z.strictObject({
  page: z.coerce.number().int().min(1).max(10_000).default(1).meta({ description: "From 1 on." }),
});

export const healthRoutes = operator
  .createApp()
  .get(
    "/health",
    operation({
      tag: "Health",
      summary: "How all workspaces are",
      description: `One word for a monitor, and the workspaces that are not \`ok\`, each with what to do. ${COST}`,
      query,
      answers: { 200: { description: "The gravest word, and where it comes from.", schema: allHealthAnswer } },
    }),
    async (c) => {
      const { page } = c.req.valid("query");
      const { total, found } = await healthOfPage(c.env, c.get("db"), page);
      return c.json(allHealthJson(found, page * HEALTH_PAGE_WORKSPACES < total ? page + 1 : null));
    },
  )
  .get(
    "/metrics",
    operation({
      tag: "Health",
      summary: "The figures of all workspaces",
      description: `In the OpenMetrics text format, for Prometheus and its like. ${COST}`,
      query,
      answers: {
        200: { description: "The figures.", content: { [METRICS_TYPE.split(";")[0] ?? ""]: z.string() } },
      },
    }),
    async (c) => {
      const { total, found } = await healthOfPage(c.env, c.get("db"), c.req.valid("query").page);
      return c.body(await metricsText(found, total, Date.now()), 200, { "content-type": METRICS_TYPE });
    },
  )
  .get(
    "/workspaces/:workspace_id/health",
    operation({
      tag: "Health",
      summary: "How a workspace is",
      description:
        "How full it is, what waits and what fails, or that its objects did not answer within five seconds, and which. " +
        "Nothing that was accepted is lost when a workspace is full: it waits.",
      answers: { 200: { description: "Where it stands.", schema: healthAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const open = await openRestores(c.get("db"), [id]);
      return c.json(healthJson(await healthWithin(c.env, id, open.get(id) ?? [])));
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

/** How health is said: of one workspace with its figures, of many with what is wrong. */
import * as z from "zod";
import type { HealthAlarm } from "../../domain/health/alarm.ts";
import { ALARMS, wordOf } from "../../domain/health/alarm.ts";
import type { WorkspaceHealth } from "../../workspace/all-health.ts";
import type { Health, HealthOrAlarm } from "../../workspace/read-health.ts";
import { booksAnswer, booksJson } from "./quota-answers.ts";
import { count, idOf, instant, isoOrNull } from "../schema-parts.ts";

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

const alarms = z.array(alarm).meta({ description: "What is wrong, the gravest first." });
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

export const healthAnswer = z
  .object({ status: word, alarms, ...figures.partial().shape })
  .meta({ id: "WorkspaceHealth", description: "Status and alarms alone where `unreachable` is one of them." });

export const allHealthAnswer = z
  .object({
    status: word,
    says: z.string().meta({ description: "The gravest alarm's sentence, or that all is well." }),
    workspaces: z
      .object({ asked: count, not_asked: count, ok: count, late: count, stuck: count })
      .meta({ description: "Of this page; those asked by status." }),
    items: z
      .array(z.object({ workspace_id: idOf("ws", "Of the workspace."), slug: z.string(), status: word, alarms }))
      .meta({ description: "Those that are not `ok`." }),
    next_page: z.int().nullable().meta({ description: "Null on the last page." }),
  })
  .meta({ id: "Health" });

export function healthJson({ alarms: found, health }: HealthOrAlarm): z.infer<typeof healthAnswer> {
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
    .filter((one) => one.alarms.length > 0)
    .map(({ id, slug, alarms: wrong }) => ({
      workspace_id: id,
      slug,
      status: wordOf(wrong),
      alarms: wrong.map(alarmJson),
    }));
  const status = wordOf(items.map((one) => ({ word: one.status })));
  const worst = items.find((one) => one.status === status && status !== "ok");
  const notAsked = items.filter((one) => one.alarms[0]?.alarm === "not_asked").length;
  const of = (which: string): number => items.filter((one) => one.status === which).length;
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

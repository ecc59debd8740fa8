/** Usage, books and rejected calls of a workspace. */
import * as z from "zod";
import { keyNames, listKeys } from "../d1/api-keys.ts";
import { DAY_MS, dayOf } from "../domain/duration.ts";
import { eachVerdict } from "../domain/quota/quota.ts";
import { reject } from "../domain/result.ts";
import { time } from "../http/fields.ts";
import { REJECTIONS } from "../http/rejection-table.ts";
import { DAYS_COUNTED, REJECTIONS_KEPT } from "../limits.ts";
import { usageOf } from "../use-cases/configure-workspace.ts";
import { quotaCounter } from "../use-cases/objects.ts";
import { readBooks } from "../use-cases/read-health.ts";
import {
  count,
  idOf,
  instant,
  KEY_NAME,
  listOf,
  listQuery,
  listQueryOf,
  mayRead,
  operationsOf,
  storeOf,
} from "./operation.ts";

const operation = operationsOf("Quota", "usage");

const period = {
  period_start: instant,
  period_end: instant,
  signal_limit: count,
  overages: z.boolean(),
  ...eachVerdict(() => count),
  accepted: count.describe(
    "Within the limit, or with overages enabled; also released signals. Unlike in the books, without held signals.",
  ),
  held: count.describe("Beyond the limit, in the extra room."),
  overage: count.describe("Accepted beyond the limit with overages enabled."),
  streak: count.describe("Consecutive periods over the allowance."),
};
const usage = z
  .object({
    ...period,
    extra_room_removed: z.boolean(),
    history: z.array(z.object(period)).describe("Closed periods, newest first."),
  })
  .meta({ id: "Usage" });

export const booksAnswer = z
  .object({
    accepted: count.describe("All signals answered with 202. Unlike in usage, including held signals."),
    processed: count,
    duplicates: count,
    held: count.describe("Held now, without released and purged signals."),
    purged: count.describe(
      "Held signals and dead letters deleted with their person, signals still held when their period ended, and misfits kept for 90 days.",
    ),
    dead_lettered: count,
    in_flight: z.int().describe("Answered with 202 and not recorded yet."),
    balanced: z.boolean().describe("Every signal answered with 202 is recorded or on its way."),
  })
  .meta({ id: "Books" });

const rejection = z
  .object({
    first_at: instant,
    last_at: instant,
    key_id: z.string(),
    key_name: z.string().nullable().describe(KEY_NAME),
    status: z.int(),
    code: z.string(),
    cause: z
      .string()
      .nullable()
      .describe("The cause of a 401, such as `secret_wrong`. The answer to the sender does not contain it."),
    detail: z.string().describe("The detail in the answer to the first call, without text from the body."),
    request_id: z.string().describe("Of the first call."),
    calls: count.describe(
      "Calls rejected for this reason. A call an hour or more after the previous one begins a new entry.",
    ),
    signals: count.describe("Signals rejected in these calls. A call with an unknown number of signals counts as one."),
  })
  .meta({ id: "RejectionEntry" });

const keyUsage = z
  .object({
    key_id: idOf("key", "Of the key."),
    name: z.string(),
    signals: count.describe("Accepted and held signals of the billing period that are recorded."),
    days: z
      .array(z.object({ day: z.string().meta({ format: "date", example: "2026-11-20" }), signals: count }))
      .describe("The latest 30 days (UTC), the oldest first, by receipt."),
    signal_limit: count.nullable().describe("Of the key and the keys that it replaced or that replace it. Null: none."),
    limit_used: count
      .nullable()
      .describe(
        "Signals of the billing period that count against the limit, those in flight included. Null: no limit.",
      ),
  })
  .meta({ id: "KeyUsage" });

const booksQuery = z.strictObject({
  period: z
    .union([z.literal("current"), time])
    .optional()
    .describe("`current`, or the start of a period. Default: since the workspace was created."),
});

export const usageRoutes = [
  operation("GET", "/workspaces/:workspace_id/usage", {
    summary: "Usage of the billing periods",
    scope: "read",
    description: "The sum of `accepted` and `held` counts against the signal limit.",
    answers: { 200: "The current period and the closed periods." },
    schema: usage,
    handle: (c) => usageOf(c.env, c.var.db, c.var.workspace),
  }),
  operation("GET", "/workspaces/:workspace_id/usage/keys", {
    summary: "Usage by API key",
    scope: "keys",
    description:
      "The signals of all keys in the billing period add up to `accepted` and `held` of the usage once none is in flight.",
    query: listQuery,
    answers: { 200: "Keys, newest first." },
    schema: listOf(keyUsage),
    async handle(c, { query }) {
      const { db, workspace } = c.var;
      const [{ items, next }, { budgets, budgetUse, periodStartMs }] = await Promise.all([
        listKeys(db, workspace.id, listQueryOf(query)),
        usageOf(c.env, db, workspace),
      ]);
      const usageByKey = await storeOf(c).keyUsage(periodStartMs);
      const [first, noDays] = [dayOf(Date.now()) - DAYS_COUNTED + 1, Array.from({ length: DAYS_COUNTED }, () => 0)];
      const usageOfKeys = items.map(({ id, name, firstKeyId, signalLimit }) => {
        const { signals, days } = usageByKey[id] ?? { signals: 0, days: noDays };
        const isoDay = (index: number) => new Date((first + index) * DAY_MS).toISOString().slice(0, 10);
        return {
          keyId: id,
          name,
          signals,
          days: days.map((ofDay, index) => ({ day: isoDay(index), signals: ofDay })),
          signalLimit,
          limitUsed: firstKeyId in budgets ? (budgetUse[firstKeyId] ?? 0) : null,
        };
      });
      return { items: usageOfKeys, next };
    },
  }),
  operation("GET", "/workspaces/:workspace_id/books", {
    summary: "Books: where every accepted signal is",
    scope: "read",
    description: "accepted = processed + duplicates + held + purged + dead_lettered + in_flight, at any moment.",
    query: booksQuery,
    answers: { 200: "The books." },
    schema: booksAnswer,
    async handle(c, { query: { period: asked } }) {
      const { db, workspace } = c.var;
      if (asked === undefined) return readBooks(c.env, workspace.id, undefined);
      const { periodStartMs, history } = await usageOf(c.env, db, workspace);
      const startMs = asked === "current" ? periodStartMs : Date.parse(asked);
      const isPeriod = startMs === periodStartMs || history.some((closed) => closed.periodStartMs === startMs);
      if (!isPeriod) return reject([{ path: "period", message: "no billing period starts then" }]);
      return readBooks(c.env, workspace.id, startMs);
    },
  }),
  operation("GET", "/workspaces/:workspace_id/rejections", {
    summary: "Rejected calls",
    scope: "read",
    description:
      "Calls with a known key. Calls with the same key and reason share an entry with a count. Entries are kept for 30 days, without anything of a body.",
    query: z.strictObject({ limit: z.coerce.number().int().min(1).max(REJECTIONS_KEPT).default(REJECTIONS_KEPT) }),
    answers: { 200: "Entries, latest calls first." },
    schema: listOf(rejection),
    async handle(c, { query }) {
      const { db, workspace } = c.var;
      const found = await quotaCounter(c.env, workspace.id).rejections(query.limit);
      const shown = mayRead(c, "keys") ? found : [];
      const names = await keyNames(
        db,
        workspace.id,
        shown.map(({ keyId }) => keyId),
      );
      const items = found.map((entry) => {
        return { ...entry, keyName: names.get(entry.keyId)?.name ?? null, status: REJECTIONS[entry.code].status };
      });
      return { items, next: null };
    },
  }),
];

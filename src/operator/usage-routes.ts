/** Usage, books and refused calls of a workspace. */
import * as z from "zod";
import { iso } from "../control/database.ts";
import { keyNames } from "../control/api-keys.ts";
import type { Rejection } from "../domain/keys/refusal.ts";
import type { Balance } from "../domain/quota/balance.ts";
import { REFUSALS } from "../http/refusal-table.ts";
import { REJECTIONS_KEPT } from "../limits.ts";
import { operator } from "./environment.ts";
import { operation, validationFailed } from "./operation.ts";
import { count, instant, listOf, time } from "./schema-parts.ts";
import type { ClosedPeriod, Usage } from "../quota/protocol.ts";
import { quotaCounter } from "../workspace/objects.ts";
import { readBooks } from "../workspace/read-health.ts";
import { usageOf } from "../workspace/read-usage.ts";

const periodFields = {
  period_start: instant,
  period_end: instant,
  signal_limit: count,
  overages: z.boolean(),
  accepted: count.meta({
    description:
      "Within the limit, or with overages on; those released since too. Held ones are apart, unlike in the books.",
  }),
  held: count.meta({ description: "Beyond the limit, in the extra room." }),
  rejected: count,
  overage: count.meta({ description: "Accepted beyond the limit with overages on." }),
  streak: count.meta({ description: "Consecutive periods over the allowance." }),
};
const usageAnswer = z
  .object({
    ...periodFields,
    extra_room_removed: z.boolean(),
    history: z.array(z.object(periodFields)).meta({ description: "Closed periods, newest first." }),
  })
  .meta({ id: "Usage" });

function usageJson({ extraRoomRemoved, history, ...usage }: Usage): z.infer<typeof usageAnswer> {
  return { ...periodJson(usage), extra_room_removed: extraRoomRemoved, history: history.map(periodJson) };
}

function periodJson(period: ClosedPeriod) {
  return {
    period_start: iso(period.periodStartMs),
    period_end: iso(period.periodEndMs),
    signal_limit: period.signalLimit,
    overages: period.overages,
    accepted: period.accepted,
    held: period.held,
    rejected: period.rejected,
    overage: period.overage,
    streak: period.streak,
  };
}

export const booksAnswer = z
  .object({
    accepted: count.meta({ description: "Every signal answered with 202, held ones included, unlike in usage." }),
    processed: count,
    duplicates: count,
    held: count.meta({ description: "Held now: those released or purged since are no longer." }),
    purged: count.meta({ description: "Were held when their period ended." }),
    dead_lettered: count,
    lost: count.meta({ description: "Accepted, and gone since a restore of the workspace from a backup." }),
    in_flight: z.int().meta({ description: "Answered with 202 and not recorded yet." }),
    balanced: z.boolean().meta({ description: "Everything answered with 202 is recorded, or still on its way." }),
  })
  .meta({ id: "Books" });

export function booksJson({ deadLettered, inFlight, ...books }: Balance): z.infer<typeof booksAnswer> {
  return { ...books, dead_lettered: deadLettered, in_flight: inFlight };
}

const rejectionAnswer = z
  .object({
    first_at: instant,
    last_at: instant,
    key_id: z.string(),
    key_name: z.string().nullable(),
    status: z.int(),
    code: z.string(),
    cause: z
      .string()
      .nullable()
      .meta({ description: "Of a 401: what its sender is not told, such as `secret_wrong`." }),
    detail: z.string().meta({
      description: "What the sender of the first call was told, without what that repeated of the body.",
    }),
    request_id: z.string().meta({ description: "Of the first call." }),
    calls: count.meta({ description: "Calls refused for this reason, none an hour or more after the one before." }),
    signals: count.meta({ description: "Signals refused in them; a call of which that is not known counts as one." }),
  })
  .meta({ id: "Rejection" });

function rejectionJson(rejection: Rejection, keyName: string | null): z.infer<typeof rejectionAnswer> {
  const { firstAtMs, lastAtMs, keyId, code, cause, detail, requestId, calls, signals } = rejection;
  return {
    first_at: iso(firstAtMs),
    last_at: iso(lastAtMs),
    key_id: keyId,
    key_name: keyName,
    status: REFUSALS[code].status,
    code,
    cause,
    detail,
    request_id: requestId,
    calls,
    signals,
  };
}

const booksQuery = z.strictObject({
  period: z
    .union([z.literal("current"), time])
    .optional()
    .meta({ description: "`current`, or the start of a period. Since the workspace began, when left out." }),
});

export const usageRoutes = operator
  .createApp()
  .get(
    "/workspaces/:workspace_id/usage",
    operation({
      tag: "Quota",
      summary: "Usage of the billing periods",
      description: "accepted + held are what counts against the signal limit.",
      answers: { 200: { description: "The current period, and the closed ones.", schema: usageAnswer } },
    }),
    async (c) => c.json(usageJson(await usageOf(c.env, c.get("db"), c.get("workspace")))),
  )
  .get(
    "/workspaces/:workspace_id/books",
    operation({
      tag: "Quota",
      summary: "Where every signal is that was answered with 202",
      description: "accepted = processed + duplicates + held + purged + dead_lettered + in_flight, at any moment.",
      query: booksQuery,
      answers: { 200: { description: "The books.", schema: booksAnswer } },
    }),
    async (c) => {
      const workspace = c.get("workspace");
      const { id } = workspace;
      const { period } = c.req.valid("query");
      if (period === undefined) return c.json(booksJson(await readBooks(c.env, id, undefined)));
      const { periodStartMs, history } = await usageOf(c.env, c.get("db"), workspace);
      const startMs = period === "current" ? periodStartMs : Date.parse(period);
      const isPeriod = startMs === periodStartMs || history.some((closed) => closed.periodStartMs === startMs);
      if (!isPeriod) return validationFailed(c, [{ path: "period", message: "no billing period starts then" }]);
      return c.json(booksJson(await readBooks(c.env, id, startMs)));
    },
  )
  .get(
    "/workspaces/:workspace_id/rejections",
    operation({
      tag: "Quota",
      summary: "Refused calls",
      description:
        "Calls with a known key, those of a key and a reason as one entry with a count. Kept for 30 days; nothing of a body is.",
      query: z.strictObject({ limit: z.coerce.number().int().min(1).max(REJECTIONS_KEPT).default(REJECTIONS_KEPT) }),
      answers: { 200: { description: "Entries, those with the latest calls first.", schema: listOf(rejectionAnswer) } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const rejections = await quotaCounter(c.env, id).rejections(c.req.valid("query").limit);
      const keyIds = rejections.map(({ keyId }) => keyId);
      const names = await keyNames(c.get("db"), id, keyIds);
      const items = rejections.map((rejection) => rejectionJson(rejection, names.get(rejection.keyId) ?? null));
      return c.json({ items, next: null });
    },
  );

/** Usage, books and refused calls of a workspace. */
import * as z from "zod";
import { keyNames } from "../../control/stored-keys.ts";
import { REJECTIONS_KEPT } from "../../limits.ts";
import { operator } from "../environment.ts";
import { readBooks } from "../../workspace/read-books.ts";
import { quotaCounter } from "../../workspace/objects.ts";
import { operation, validationFailed } from "../operation.ts";
import {
  booksAnswer,
  booksJson,
  rejectionAnswer,
  rejectionJson,
  usageAnswer,
  usageJson,
} from "../answers/quota-answers.ts";
import { usageOf } from "../../workspace/read-usage.ts";
import { listOf, time } from "../schema-parts.ts";

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
      const items = rejections.map((one) => rejectionJson(one, names.get(one.keyId) ?? null));
      return c.json({ items, next: null });
    },
  );

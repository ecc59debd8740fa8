/** What happened to the signals of a workspace: quota, books, the signal queue, traces, people, refused calls. */
import * as z from "zod";
import { findKey, keyNames } from "../control/keys.ts";
import { balanceBooks, readAgain, type Books } from "../domain/books.ts";
import { REJECTIONS_KEPT } from "../limits.ts";
import type { SignalFilter } from "../store/protocol.ts";
import { operator } from "./environment.ts";
import { quotaCounter, signalStore } from "./objects.ts";
import {
  booksAnswer,
  booksJson,
  deadLetterAnswer,
  deadLetterJson,
  eventAnswer,
  eventJson,
  inFlightJson,
  personAnswer,
  personJson,
  RECORDED_STATUSES,
  rejectionAnswer,
  rejectionJson,
  signalAnswer,
  signalJson,
  traceAnswer,
  traceJson,
  usageAnswer,
  usageJson,
} from "./observe-answers.ts";
import { notFound, operation, validationFailed } from "./operation.ts";
import { usageOf } from "./quota.ts";
import { email, filteredPageQuery, listOf, mapPage, pageQuery, time, toPage } from "./schemas.ts";

const BOOK_READINGS = 3;

const booksQuery = z.strictObject({
  period: z
    .union([z.literal("current"), time])
    .optional()
    .meta({ description: "`current`, or the start of a period. Since the workspace began, when left out." }),
});

const signalQuery = filteredPageQuery({
  event: z.string().min(1).optional().meta({ description: "Exactly this event name." }),
  email: email.optional(),
  status: z
    .enum(RECORDED_STATUSES)
    .optional()
    .meta({ description: "Signals in flight are not listed; each can be had by its id." }),
});

export const observeRoutes = operator
  .createApp()
  .get(
    "/workspaces/:workspace_id/usage",
    operation({
      tag: "Quota",
      summary: "Usage of the billing periods",
      answers: { 200: { description: "The current period, and the closed ones.", schema: usageAnswer } },
    }),
    async (c) => c.json(usageJson(await usageOf(c.env, c.get("db"), c.get("workspace").id))),
  )
  .get(
    "/workspaces/:workspace_id/books",
    operation({
      tag: "Quota",
      summary: "Where every accepted signal is",
      description: "accepted = processed + duplicates + held + purged + dead_lettered + in_flight, at any moment.",
      query: booksQuery,
      answers: { 200: { description: "The books.", schema: booksAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const { period } = c.req.valid("query");
      if (period === undefined) return c.json(booksJson(await readBooks(c.env, id, undefined)));
      const { periodStartMs, history } = await usageOf(c.env, c.get("db"), id);
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
      summary: "The latest refused calls",
      description: "Calls with a known key. Bodies are not kept.",
      query: z.strictObject({ limit: z.coerce.number().int().min(1).max(REJECTIONS_KEPT).default(REJECTIONS_KEPT) }),
      answers: { 200: { description: "Refused calls, newest first.", schema: listOf(rejectionAnswer) } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const [rejections, names] = await Promise.all([
        quotaCounter(c.env, id).rejections(c.req.valid("query").limit),
        keyNames(c.get("db"), id),
      ]);
      const items = rejections.map((one) => rejectionJson(one, names.get(one.keyId) ?? null));
      return c.json({ items, next: null });
    },
  )
  .get(
    "/workspaces/:workspace_id/events",
    operation({
      tag: "Signals",
      summary: "The signal queue, grouped by event name",
      query: pageQuery,
      answers: { 200: { description: "Event groups, the latest first.", schema: listOf(eventAnswer) } },
    }),
    async (c) => {
      const page = await signalStore(c.env, c.get("workspace").id).events(toPage(c.req.valid("query")));
      return c.json(mapPage(page, eventJson));
    },
  )
  .get(
    "/workspaces/:workspace_id/signals",
    operation({
      tag: "Signals",
      summary: "Find signals",
      query: signalQuery,
      answers: { 200: { description: "Signals, newest first.", schema: listOf(signalAnswer) } },
    }),
    async (c) => {
      const query = c.req.valid("query");
      const filter: SignalFilter = {};
      if (query.event !== undefined) filter.event = query.event;
      if (query.email !== undefined) filter.email = query.email;
      if (query.status !== undefined) filter.status = query.status;
      const page = await signalStore(c.env, c.get("workspace").id).signals(filter, toPage(query));
      return c.json(mapPage(page, signalJson));
    },
  )
  .get(
    "/workspaces/:workspace_id/signals/:signal_id",
    operation({
      tag: "Signals",
      summary: "Follow one signal",
      description: "From receipt to score: verdict, duplicate of, whose, rules that matched, points.",
      answers: { 200: { description: "The whole trace.", schema: traceAnswer } },
    }),
    async (c) => {
      const { id } = c.get("workspace");
      const [signalId, db] = [c.req.param("signal_id"), c.get("db")];
      const keyName = async (keyId: string) => (await findKey(db, id, keyId))?.name ?? null;
      const store = signalStore(c.env, id);
      const trace = await store.signal(signalId);
      if (trace !== null) return c.json(traceJson(trace, await keyName(trace.keyId)));
      const waiting = await quotaCounter(c.env, id).inFlight(signalId);
      if (waiting !== null) return c.json(inFlightJson(waiting, await keyName(waiting.keyId)));
      // It may have arrived in the store, and been settled, between the two questions.
      const arrived = await store.signal(signalId);
      return arrived === null ? notFound(c, "signal") : c.json(traceJson(arrived, await keyName(arrived.keyId)));
    },
  )
  .get(
    "/workspaces/:workspace_id/people",
    operation({
      tag: "Signals",
      summary: "People and their scores",
      query: filteredPageQuery({ email: email.optional() }),
      answers: { 200: { description: "People.", schema: listOf(personAnswer) } },
    }),
    async (c) => {
      const query = c.req.valid("query");
      const filter = query.email === undefined ? {} : { email: query.email };
      const page = await signalStore(c.env, c.get("workspace").id).people(filter, toPage(query));
      return c.json(mapPage(page, personJson));
    },
  )
  .get(
    "/workspaces/:workspace_id/dead-letters",
    operation({
      tag: "Signals",
      summary: "Signals that could not be processed",
      query: pageQuery,
      answers: { 200: { description: "Dead letters.", schema: listOf(deadLetterAnswer) } },
    }),
    async (c) => {
      const page = await signalStore(c.env, c.get("workspace").id).deadLetters(toPage(c.req.valid("query")));
      return c.json(mapPage(page, deadLetterJson));
    },
  );

/** Counter, store, counter: see domain/books.ts. Read again while signals come in, for a sharper picture. */
async function readBooks(env: Env, workspaceId: string, periodStartMs: number | undefined): Promise<Books> {
  const counter = quotaCounter(env, workspaceId);
  for (let reading = 1; ; reading++) {
    const before = await counter.books(periodStartMs);
    const totals = await signalStore(env, workspaceId).totals(periodStartMs);
    const after = await counter.books(periodStartMs);
    if (!readAgain(before, after) || reading === BOOK_READINGS) return balanceBooks(before, totals, after);
  }
}

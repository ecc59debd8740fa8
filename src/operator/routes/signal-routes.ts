/** What became of the signals of a workspace: the signal queue, traces, people and their scores, dead letters. */
import * as z from "zod";
import { findKey } from "../../control/stored-keys.ts";
import { SEARCHED_TRAITS, traitsInWords } from "../../domain/signal/traits.ts";
import { IDENTITY_MAX_LENGTH } from "../../limits.ts";
import type { SignalFilter } from "../../store/protocol/recorded-signals.ts";
import { byOperator, operator } from "../environment.ts";
import { replay } from "../../workspace/replay-dead-letters.ts";
import { releaseForWorkspace } from "../../workspace/release-held.ts";
import { signalStore } from "../../workspace/objects.ts";
import { followSignal } from "../../workspace/follow-signal.ts";
import { notFound, operation } from "../operation.ts";
import { personAnswer, personJson } from "../answers/person-answers.ts";
import { email, filteredPageQuery, listOf, mapPage, pageQuery, pageAsked } from "../schema-parts.ts";
import {
  deadLetterAnswer,
  deadLetterJson,
  eventAnswer,
  eventJson,
  inFlightJson,
  RECORDED_STATUSES,
  signalAnswer,
  signalJson,
  traceAnswer,
  traceJson,
} from "../answers/signal-answers.ts";

/** Dead letters named in one replay. */
const REPLAY_MAX_IDS = 1_000;

const underWay = z.boolean().optional().meta({
  description:
    "True where it takes longer than a few seconds: the service goes on by itself, and the audit log gets the numbers.",
});

const signalQuery = filteredPageQuery({
  event: z.string().min(1).optional().meta({ description: "Exactly this event name." }),
  email: email.optional(),
  status: z
    .enum(RECORDED_STATUSES)
    .optional()
    .meta({ description: "Signals in flight are not listed; each can be had by its id." }),
});

const peopleQuery = filteredPageQuery({
  email: email.optional(),
  q: z
    .string()
    .trim()
    .min(1)
    .max(IDENTITY_MAX_LENGTH)
    .optional()
    .meta({
      description: `Part of a person's email, ${traitsInWords(SEARCHED_TRAITS, "or")}, in any letter case, with or without accents.`,
    }),
});

export const signalRoutes = operator
  .createApp()
  .get(
    "/workspaces/:workspace_id/events",
    operation({
      tag: "Signals",
      summary: "The signal queue, grouped by event name",
      query: pageQuery,
      answers: { 200: { description: "Event groups, the latest first.", schema: listOf(eventAnswer) } },
    }),
    async (c) => {
      const page = await signalStore(c.env, c.get("workspace").id).events(pageAsked(c.req.valid("query")));
      return c.json(mapPage(page, eventJson));
    },
  )
  .get(
    "/workspaces/:workspace_id/signals",
    operation({
      tag: "Signals",
      summary: "Find signals",
      description:
        "A page of several filters, or of `processed`, may have fewer signals than asked for, even none, and still a " +
        "`next`: it ends after 2,000 signals that were looked at.",
      query: signalQuery,
      answers: { 200: { description: "Signals, newest first.", schema: listOf(signalAnswer) } },
    }),
    async (c) => {
      const query = c.req.valid("query");
      const filter: SignalFilter = {};
      if (query.event !== undefined) filter.event = query.event;
      if (query.email !== undefined) filter.email = query.email;
      if (query.status !== undefined) filter.status = query.status;
      const page = await signalStore(c.env, c.get("workspace").id).signals(filter, pageAsked(query));
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
      const found = await followSignal(c.env, id, signalId);
      if (found === null) return notFound(c, "signal");
      return "recorded" in found
        ? c.json(traceJson(found.recorded, await keyName(found.recorded.keyId)))
        : c.json(inFlightJson(found.inFlight, await keyName(found.inFlight.keyId)));
    },
  )
  .get(
    "/workspaces/:workspace_id/people",
    operation({
      tag: "Signals",
      summary: "People and their scores",
      description:
        "The newest first. A search gives all whom it finds; where they are more than 5,000, or the workspace has more " +
        "than 250,000 people, in the order of their emails, and a page may then be short of people and still have a `next`.",
      query: peopleQuery,
      answers: { 200: { description: "People.", schema: listOf(personAnswer) } },
    }),
    async (c) => {
      const query = c.req.valid("query");
      const filter = {
        ...(query.email === undefined ? {} : { email: query.email }),
        ...(query.q === undefined ? {} : { text: query.q }),
      };
      const page = await signalStore(c.env, c.get("workspace").id).people(filter, pageAsked(query));
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
      const page = await signalStore(c.env, c.get("workspace").id).deadLetters(pageAsked(c.req.valid("query")));
      return c.json(mapPage(page, deadLetterJson));
    },
  )
  .post(
    "/workspaces/:workspace_id/dead-letters/replay",
    operation({
      tag: "Signals",
      summary: "Replay dead letters",
      description:
        "Sends them through the queue once more, all or those with the given ids. They keep their ids and are not counted again.",
      body: z
        .strictObject({ ids: z.array(z.string()).max(REPLAY_MAX_IDS).optional() })
        .meta({ id: "DeadLetterReplay" }),
      bodyExample: {},
      answers: {
        200: {
          description: "How many are on their way.",
          schema: z.object({ replayed: z.int(), under_way: underWay }),
        },
      },
    }),
    async (c) => {
      const { ids } = c.req.valid("json");
      const workspaceId = c.get("workspace").id;
      const { replayed, isUnderWay } = await replay(c.env, c.get("db"), workspaceId, ids ?? null, byOperator());
      return c.json({ replayed, ...(isUnderWay ? { under_way: true } : {}) });
    },
  )
  .post(
    "/workspaces/:workspace_id/held/release",
    operation({
      tag: "Signals",
      summary: "Release held signals",
      description:
        "For a workspace that has upgraded or switched overages on: makes as many held signals accepted as now fit, oldest first, and sends them through the queue again. Each is counted once. Never automatic.",
      answers: {
        200: {
          description: "How many were released, and how many are held still.",
          schema: z.object({ released: z.int(), still_held: z.int(), under_way: underWay }),
        },
      },
    }),
    async (c) => {
      const { released, stillHeld, isUnderWay } = await releaseForWorkspace(
        c.env,
        c.get("db"),
        c.get("workspace").id,
        byOperator(),
      );
      return c.json({ released, still_held: stillHeld, ...(isUnderWay ? { under_way: true } : {}) });
    },
  );

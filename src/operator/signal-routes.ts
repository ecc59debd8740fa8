/** Signals, traces, event groups, people with their scores, and dead letters of a workspace. */
import * as z from "zod";
import { iso } from "../control/database.ts";
import { findKey } from "../control/api-keys.ts";
import { grouped } from "../domain/text.ts";
import { emailProblemOf } from "../domain/signal/normalise.ts";
import { ADMITTED_VERDICTS } from "../domain/quota/quota.ts";
import { ENDPOINT_TYPES, SIGNAL_KINDS, SIGNAL_STATUSES, TRACE_STATUSES } from "../domain/signal/signal.ts";
import { SEARCHED_TRAITS, eachTrait, traitsInWords } from "../domain/signal/traits.ts";
import { IDENTITY_MAX_LENGTH, PERSON_IDENTITIES_LISTED, PERSON_MAX_IDS, PERSON_SCORES_LISTED } from "../limits.ts";
import { byOperator, operator } from "./environment.ts";
import { notFound, operation } from "./operation.ts";
import {
  count,
  emailAddress,
  filteredPageQuery,
  idOf,
  instant,
  isoOrNull,
  listOf,
  mapPage,
  pageAsked,
  pageQuery,
} from "./schema-parts.ts";
import type { Person } from "../store/protocol/people-and-accounts.ts";
import type {
  DeadLetter,
  SignalFilter,
  SignalSummary,
  SignalTrace,
  EventGroup,
} from "../store/protocol/stored-signals.ts";
import type { Admission } from "../wire/admission.ts";
import { followSignal } from "../workspace/follow-signal.ts";
import { signalStore } from "../workspace/objects.ts";
import { releaseForWorkspace, replay } from "../workspace/release-and-replay.ts";

const payload = z.unknown().meta({ description: "The JSON as it was sent." });

const deadLetterAnswer = z
  .object({ id: idOf("sig", "Of the signal."), reason: z.string(), received_at: instant, dead_at: instant, payload })
  .meta({ id: "DeadLetter" });

function deadLetterJson({ receivedAtMs, deadAtMs, ...letter }: DeadLetter): z.infer<typeof deadLetterAnswer> {
  return { ...letter, received_at: iso(receivedAtMs), dead_at: iso(deadAtMs) };
}

const eventAnswer = z
  .object({
    event: z.string(),
    source: z.string(),
    count,
    held: count,
    anonymous: count,
    first_seen: instant,
    last_seen: instant,
    sample: z.object({ id: z.string(), payload }).meta({ description: "The latest signal of the group." }),
  })
  .meta({ id: "EventGroup" });

function eventJson({ firstSeenMs, lastSeenMs, ...group }: EventGroup): z.infer<typeof eventAnswer> {
  return { ...group, first_seen: iso(firstSeenMs), last_seen: iso(lastSeenMs) };
}

const summaryFields = {
  id: idOf("sig", "Of the signal."),
  status: z.enum(TRACE_STATUSES),
  kind: z.enum([...SIGNAL_KINDS, "unknown"]),
  event: z.string().nullable(),
  source: z.string().nullable(),
  email: z.string().nullable(),
  received_at: instant,
};
const signalAnswer = z.object(summaryFields).meta({ id: "Signal" });

function signalJson(signal: SignalSummary): z.infer<typeof signalAnswer> {
  const { id, status, kind, event, source, email, receivedAtMs } = signal;
  return { id, status, kind, event, source, email, received_at: iso(receivedAtMs) };
}

const traceAnswer = z
  .object({
    ...summaryFields,
    endpoint: z.enum(ENDPOINT_TYPES),
    key_id: z.string(),
    key_name: z.string().nullable(),
    verdict: z.enum(ADMITTED_VERDICTS),
    ordinal: z.int().meta({ description: "Place in its billing period." }),
    signal_limit: count.meta({ description: "The plan's, at that moment." }),
    recorded_at: instant.nullable(),
    duplicate_of: z.string().nullable(),
    held_until: instant.nullable(),
    dead_reason: z.string().nullable(),
    anonymous_id: z.string().nullable(),
    user_id: z.string().nullable(),
    person: z
      .object({
        email: z.string(),
        by: z.enum(["email", "user_id", "anonymous_id"]).meta({ description: "What named the person." }),
        linked_at: instant.nullable(),
      })
      .nullable(),
    email_problem: z.string().nullable().meta({
      description: "Why the email that the payload has names nobody; null: it names somebody, or there is none.",
    }),
    rules_tried: count,
    rules_matched: z.array(
      z.object({
        rule_id: z.string(),
        rule_version: z.int(),
        scoring_signal: z.string(),
        points: z.int(),
        scored: z.boolean().meta({
          description: "False: the rule scores a person once a day, or once ever, and had scored this one already.",
        }),
        scored_by: z.string().nullable().meta({ description: "The signal that it has scored in place of this one." }),
      }),
    ),
    points: z.int(),
    deleted_at: instant
      .nullable()
      .meta({ description: "When its person was deleted, and with them all that it said of them." }),
    payload,
    in_cold_storage: z.boolean().meta({
      description:
        "Whether the payload is kept there, as long as nobody knows the visitor. It is null while cold storage does not answer.",
    }),
    payload_lost: z
      .boolean()
      .meta({ description: "Whether a restore of the workspace from a backup has lost the payload." }),
  })
  .meta({ id: "SignalTrace" });

function traceJson(trace: SignalTrace, keyName: string | null): z.infer<typeof traceAnswer> {
  return {
    ...signalJson(trace),
    endpoint: trace.endpoint,
    key_id: trace.keyId,
    key_name: keyName,
    verdict: trace.verdict,
    ordinal: trace.ordinal,
    signal_limit: trace.signalLimit,
    recorded_at: iso(trace.recordedAtMs),
    duplicate_of: trace.duplicateOf,
    held_until: isoOrNull(trace.heldUntilMs),
    dead_reason: trace.deadReason,
    anonymous_id: trace.anonymousId,
    user_id: trace.userId,
    person: trace.person && {
      email: trace.person.email,
      by: trace.person.by,
      linked_at: isoOrNull(trace.person.linkedAtMs),
    },
    email_problem: trace.kind === "account" ? null : emailProblemOf(trace.payload),
    rules_tried: trace.rulesTried,
    rules_matched: trace.rulesMatched.map((rule) => ({
      rule_id: rule.ruleId,
      rule_version: rule.ruleVersion,
      scoring_signal: rule.scoringSignal,
      points: rule.points,
      scored: rule.scored,
      scored_by: rule.scoredBy,
    })),
    points: trace.points,
    deleted_at: isoOrNull(trace.deletedAtMs),
    payload: trace.payload,
    in_cold_storage: trace.inColdStorage,
    payload_lost: trace.payloadLost,
  };
}

/** A signal that waits in the outbox: only its admission is known. */
function inFlightJson(signal: Admission, keyName: string | null): z.infer<typeof traceAnswer> {
  return {
    id: signal.id,
    status: "in_flight",
    kind: "unknown",
    event: null,
    source: null,
    email: null,
    received_at: iso(signal.receivedAtMs),
    endpoint: signal.endpoint,
    key_id: signal.keyId,
    key_name: keyName,
    verdict: signal.verdict,
    ordinal: signal.ordinal,
    signal_limit: signal.signalLimit,
    recorded_at: null,
    duplicate_of: null,
    held_until: signal.verdict === "held" ? iso(signal.periodEndMs) : null,
    dead_reason: null,
    anonymous_id: null,
    user_id: null,
    person: null,
    email_problem: null,
    rules_tried: 0,
    rules_matched: [],
    points: 0,
    deleted_at: null,
    payload: null,
    in_cold_storage: false,
    payload_lost: false,
  };
}

const personAnswer = z
  .object({
    email: z.string(),
    ...eachTrait(() => z.string().nullable()),
    score: z.int(),
    first_seen: instant,
    last_seen: instant,
    identities: z
      .array(z.object({ kind: z.enum(["anonymous_id", "user_id"]), value: z.string(), linked_at: instant }))
      .meta({ description: `Newest first, at most ${PERSON_IDENTITIES_LISTED}.` }),
    identities_dropped: z.int().meta({
      description: `Older ids that were dropped: a person keeps the latest ${grouped(PERSON_MAX_IDS)} of each kind. One that an identify call names once more comes back.`,
    }),
    scoring_signals: z
      .array(
        z.object({
          scoring_signal: z.string(),
          points: z.int(),
          rule_id: z.string(),
          rule_version: z.int(),
          signal_id: z.string(),
          at: instant,
        }),
      )
      .meta({ description: `Newest first, at most ${PERSON_SCORES_LISTED}.` }),
  })
  .meta({ id: "Person" });

function personJson(person: Person): z.infer<typeof personAnswer> {
  const { firstSeenMs, lastSeenMs, idsDropped, identities, scoringSignals, ...fields } = person;
  return {
    ...fields,
    first_seen: iso(firstSeenMs),
    last_seen: iso(lastSeenMs),
    identities: identities.map(({ kind, value, linkedAtMs }) => ({ kind, value, linked_at: iso(linkedAtMs) })),
    identities_dropped: idsDropped,
    scoring_signals: scoringSignals.map((scored) => ({
      scoring_signal: scored.scoringSignal,
      points: scored.points,
      rule_id: scored.ruleId,
      rule_version: scored.ruleVersion,
      signal_id: scored.signalId,
      at: iso(scored.atMs),
    })),
  };
}

/** Maximum dead letters named in one replay. */
const REPLAY_MAX_IDS = 1_000;

const underWay = z.boolean().optional().meta({
  description:
    "True where it takes longer than a few seconds: the service goes on by itself, and the audit log gets the numbers.",
});

const signalQuery = filteredPageQuery({
  event: z.string().min(1).optional().meta({ description: "Exactly this event name." }),
  email: emailAddress.optional(),
  status: z
    .enum(SIGNAL_STATUSES)
    .optional()
    .meta({ description: "Signals in flight are not listed; each can be had by its id." }),
});

const peopleQuery = filteredPageQuery({
  email: emailAddress.optional(),
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

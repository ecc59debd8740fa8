/** Signals, traces, event groups, people with their scores, and dead letters of a workspace. */
import type { Context } from "hono";
import * as z from "zod";
import { findKey } from "../d1/api-keys.ts";
import { OCCURRED_FROM } from "../domain/signal/occurred-at.ts";
import { ADMITTED_VERDICTS } from "../domain/quota/quota.ts";
import { ENDPOINT_TYPES, SIGNAL_KINDS, SIGNAL_STATUSES, TRACE_STATUSES } from "../domain/signal/signal.ts";
import { SEARCHED_TRAITS, eachTrait, traitsInWords } from "../domain/signal/traits.ts";
import type { Problems } from "../domain/signal/normalise.ts";
import { isPlausibleEmail } from "../domain/signal/identity.ts";
import { recordId, shortText, boundedText } from "../http/fields.ts";
import { grouped } from "../domain/text.ts";
import {
  EMAIL_MAX_LENGTH,
  IDENTITY_MAX_LENGTH,
  PERSON_IDENTITIES_LISTED,
  PERSON_MAX_IDS,
  PERSON_SCORES_LISTED,
  MISFIT_KEPT_DAYS,
} from "../limits.ts";
import type { ListQuery } from "../platform/list-page.ts";
import type { ListedPeople } from "../store/protocol/people-and-accounts.ts";
import type { Admission } from "../wire/message.ts";
import { exclusionName } from "../d1/exclusions.ts";
import { followSignal, releaseHeldSignals, replayDeadLetters } from "../use-cases/signal-operations.ts";
import {
  listQueryOf,
  contextOf,
  count,
  filteredPageQuery,
  idOf,
  instant,
  KEY_NAME,
  listOf,
  mayRead,
  operationsOf,
  listQuery,
  sentPayload,
  storeOf,
  type OperatorEnv,
} from "./operation.ts";

const operation = operationsOf("Signals", "signal");

const deadLetter = z
  .object({
    id: idOf("sig", "Of the signal."),
    key_id: idOf("key", "Of the key."),
    reason: z.string(),
    received_at: instant,
    dead_at: instant,
    payload: sentPayload,
    misfit: z
      .boolean()
      .describe(
        `The payload template of its key does not fit it. It waits ${MISFIT_KEPT_DAYS} days for a replay with a template that does.`,
      ),
  })
  .meta({ id: "DeadLetter" });

const eventGroup = z
  .object({
    event: z.string(),
    source: z.string(),
    count,
    held: count,
    anonymous: count,
    first_seen: instant,
    last_seen: instant,
    sample: z.object({ id: z.string(), payload: sentPayload }).describe("The latest signal of the group."),
  })
  .meta({ id: "EventGroup" });

const signal = z
  .object({
    id: idOf("sig", "Of the signal."),
    status: z.enum(TRACE_STATUSES),
    kind: z.enum([...SIGNAL_KINDS, "unknown"]),
    event: z.string().nullable(),
    source: z.string().nullable(),
    email: z.string().nullable(),
    received_at: instant,
    occurred_at: instant.describe("When it happened, as the payload says; never after the receipt."),
    occurred_from: z
      .enum(OCCURRED_FROM)
      .describe(
        "The field that the time came from. `received`: no field has a usable time, or the signal is in flight.",
      ),
  })
  .meta({ id: "Signal" });

const lapse = {
  lapses_at: instant.nullable().describe("When the points lapse. Null: never."),
  lapsed: z.boolean().describe("True: the points have lapsed and do not count in the score."),
};

const trace = z
  .object({
    ...signal.shape,
    endpoint: z.enum(ENDPOINT_TYPES),
    key_id: z.string(),
    key_name: z.string().nullable().describe(KEY_NAME),
    verdict: z.enum(ADMITTED_VERDICTS),
    ordinal: z.int().describe("The signal's number in its billing period."),
    signal_limit: count.describe("The plan's limit at that moment."),
    recorded_at: instant.nullable(),
    duplicate_of: z.string().nullable(),
    same_id: z
      .boolean()
      .describe(
        "Of a duplicate: whether it has the id of the first signal, as its payload template maps it. False: the same content.",
      ),
    held_until: instant.nullable(),
    dead_reason: z.string().nullable(),
    anonymous_id: z.string().nullable(),
    user_id: z.string().nullable(),
    mapped: z.boolean().describe("Whether the payload template of its key made its fields."),
    misfit: z.boolean().describe("Whether the payload template of its key does not fit it."),
    person: z
      .object({
        email: z.string(),
        by: z.enum(["email", "user_id", "anonymous_id"]).describe("The kind of id that identified the person."),
        linked_at: instant.nullable(),
      })
      .nullable(),
    email_problem: z.string().nullable().describe("Why the payload's email is unusable. Null: it is usable or absent."),
    id_problem: z
      .string()
      .nullable()
      .describe("Why ids of the payload identify no person. Null: they are usable or absent."),
    traits_problem: z
      .string()
      .nullable()
      .describe("Which traits of a group call are not used, and why. Null: all are."),
    time_problem: z.string().nullable().describe("Why a time in the payload is not used. Null: it is used or absent."),
    rules_tried: count,
    rules_matched: z.array(
      z.object({
        rule_id: z.string(),
        rule_version: z.int(),
        scoring_signal: z.string(),
        points: z.int(),
        scored: z
          .boolean()
          .describe("False: the rule scores a person once a day or once ever, and had scored this person already."),
        scored_by: z.string().nullable().describe("The signal that scored instead of this signal."),
        ...lapse,
      }),
    ),
    excluded_by: z
      .object({ id: idOf("exc", "Of the exclusion."), name: z.string().nullable() })
      .nullable()
      .describe("The exclusion that covers the signal, so that it never scores. Null: none does."),
    points: z.int().describe("Of rules that scored, without points that have lapsed."),
    deleted_at: instant.nullable().describe("When the signal's person was deleted, with their data."),
    payload: sentPayload,
    in_cold_storage: z
      .boolean()
      .describe(
        "Whether the payload is in cold storage, for a signal of an unknown visitor. While cold storage does not answer, the payload is null.",
      ),
    payload_lost: z.boolean().describe("Whether the payload is missing in cold storage."),
  })
  .meta({ id: "SignalTrace" });

export const person = z
  .object({
    email: z.string(),
    ...eachTrait(() => z.string().nullable()),
    score: z.int().describe("Without points that have lapsed."),
    recomputing: z
      .boolean()
      .describe(
        "True: a signal that scored has left the person, and the match that counts instead is still searched. The score may rise.",
      ),
    next_lapse_at: instant.nullable().describe("When the next points lapse. Null: no points will lapse."),
    account: z
      .object({ external_id: z.string(), name: z.string().nullable() })
      .nullable()
      .describe("The account that the person belongs to."),
    first_seen: instant,
    last_seen: instant,
    identities: z
      .array(z.object({ kind: z.enum(["anonymous_id", "user_id"]), value: z.string(), linked_at: instant }))
      .describe(`Newest first, at most ${PERSON_IDENTITIES_LISTED}.`),
    identities_dropped: z
      .int()
      .describe(
        `Older ids that were dropped: a person keeps the latest ${grouped(PERSON_MAX_IDS)} of each kind. A dropped id comes back when an identify call names it again.`,
      ),
    scoring_signals: z
      .array(
        z.object({
          scoring_signal: z.string(),
          points: z.int(),
          rule_id: z.string(),
          rule_version: z.int(),
          signal_id: z.string(),
          at: instant.describe("When the signal was received."),
          occurred_at: instant,
          ...lapse,
        }),
      )
      .describe(`Newest first, at most ${PERSON_SCORES_LISTED}.`),
  })
  .meta({ id: "Person" });

const REPLAY_MAX_IDS = 1_000;

const underWay = z
  .boolean()
  .optional()
  .describe(
    "True if the work takes longer than a few seconds: it continues in the background, and the audit log gets the numbers.",
  );
const replayed = z.object({ replayed: z.int(), under_way: underWay });
const released = z.object({ released: z.int(), still_held: z.int(), under_way: underWay });

const emailFilter = boundedText(EMAIL_MAX_LENGTH, { trim: true })
  .toLowerCase()
  .refine(isPlausibleEmail, "not an email address")
  .meta({ format: "email", example: "jane@example.com" })
  .optional();

const signalQuery = filteredPageQuery({
  event: shortText().min(1).optional().describe("Exactly this event name."),
  email: emailFilter,
  status: z.enum(SIGNAL_STATUSES).optional().describe("Signals in flight are not listed; follow them by id."),
});

const peopleQuery = filteredPageQuery({
  email: emailFilter,
  account: boundedText(IDENTITY_MAX_LENGTH).min(1).optional().describe("External id of the people's account."),
  q: boundedText(IDENTITY_MAX_LENGTH, { trim: true })
    .min(1)
    .optional()
    .describe(
      `Part of a person's email, ${traitsInWords(SEARCHED_TRAITS, "or")}, in any letter case, with or without accents.`,
    ),
});

export const signalRoutes = [
  operation("GET", "/workspaces/:workspace_id/events", {
    summary: "The signal queue, grouped by event name",
    scope: "read",
    query: listQuery,
    answers: { 200: "Event groups, latest first." },
    schema: listOf(eventGroup),
    handle: (c, { query }) => storeOf(c).events(listQueryOf(query)),
  }),
  operation("GET", "/workspaces/:workspace_id/signals", {
    summary: "Find signals",
    scope: "read",
    description:
      "With several filters, or for `processed`, a page may have fewer signals than requested, or none, and still a " +
      "`next`: each page reads at most 2,000 signals.",
    query: signalQuery,
    answers: { 200: "Signals, newest first." },
    schema: listOf(signal),
    handle: (c, { query: { event, email, status, ...page } }) =>
      storeOf(c).signals({ event, email, status }, listQueryOf(page)),
  }),
  operation("GET", "/workspaces/:workspace_id/signals/:signal_id", {
    summary: "Follow one signal",
    scope: "read",
    description: "From receipt to score: verdict, original of a duplicate, person, matching rules, points.",
    answers: { 200: "The whole trace." },
    schema: trace,
    async handle(c) {
      const { db, workspace } = c.var;
      const found = await followSignal(c.env, workspace.id, c.req.param("signal_id"));
      if (found === null) return null;
      const { keyId } = "recorded" in found ? found.recorded : found.inFlight;
      const keyName = mayRead(c, "keys") ? ((await findKey(db, workspace.id, keyId))?.name ?? null) : null;
      if ("inFlight" in found) return { ...traceInFlight(found.inFlight), keyName };
      const { excludedBy: excluding, problems } = found.recorded;
      const name = excluding === null ? null : await exclusionName(db, workspace.id, excluding);
      const excludedBy = excluding === null ? null : { id: excluding, name };
      return { ...found.recorded, keyName, excludedBy, ...shownProblems(problems) };
    },
  }),
  operation("GET", "/workspaces/:workspace_id/people", {
    summary: "People and their scores",
    scope: "read",
    description:
      "Newest first. If a search finds more than 5,000 people, or the workspace has more than 250,000, the results are in " +
      "the order of their emails, and a page may have fewer people than requested and still a `next`.",
    query: peopleQuery,
    answers: { 200: "People." },
    schema: listOf(person),
    handle: (c, { query: { q: text, email, account, ...page } }) =>
      readPeople(c, { email, text, account }, listQueryOf(page)),
  }),
  operation("GET", "/workspaces/:workspace_id/dead-letters", {
    summary: "Signals that could not be processed",
    scope: "read",
    query: listQuery,
    answers: { 200: "Dead letters." },
    schema: listOf(deadLetter),
    handle: (c, { query }) => storeOf(c).deadLetters(listQueryOf(query)),
  }),
  operation("POST", "/workspaces/:workspace_id/dead-letters/replay", {
    summary: "Replay dead letters",
    description:
      "Sends all dead letters, or those with the given ids, through the queue again. They keep their ids and are not counted again.",
    body: z.strictObject({ ids: z.array(recordId).max(REPLAY_MAX_IDS).optional() }).meta({ id: "DeadLetterReplay" }),
    bodyExample: {},
    answers: { 200: "The number of replayed dead letters." },
    schema: replayed,
    handle: async (c, { body: { ids = null } }) => withUnderWay(await replayDeadLetters(contextOf(c), ids)),
  }),
  operation("POST", "/workspaces/:workspace_id/held/release", {
    summary: "Release held signals",
    description:
      "For a workspace that has upgraded or enabled overages: accepts as many held signals as now fit, oldest first, and sends them through the queue again. Each is counted once. Held signals are never released automatically.",
    answers: { 200: "The numbers of released and still held signals." },
    schema: released,
    handle: async (c) => {
      const release = await releaseHeldSignals(contextOf(c));
      return release && withUnderWay(release);
    },
  }),
];

export async function readPeople(c: Context<OperatorEnv>, filter: ListedPeople, page: ListQuery) {
  const { items, next } = await storeOf(c).people(filter, page);
  return { items: items.map(({ idsDropped, ...rest }) => ({ ...rest, identitiesDropped: idsDropped })), next };
}

/** An answer has `under_way` only if the work continues. */
function withUnderWay<Counts extends { isUnderWay: boolean }>({ isUnderWay, ...counts }: Counts) {
  return { ...counts, ...(isUnderWay && { underWay: true }) };
}

function shownProblems({ email, id, traits, time }: Problems) {
  return {
    emailProblem: email ?? null,
    idProblem: id ?? null,
    traitsProblem: traits ?? null,
    timeProblem: time ?? null,
  };
}

/** Of a signal in the outbox, only the admission is known. */
function traceInFlight(admission: Admission) {
  return {
    ...admission,
    status: "in_flight",
    kind: "unknown",
    event: null,
    source: null,
    email: null,
    occurredAtMs: admission.receivedAtMs,
    occurredFrom: "received",
    recordedAtMs: null,
    duplicateOf: null,
    sameId: false,
    heldUntilMs: admission.verdict === "held" ? admission.periodEndMs : null,
    deadReason: null,
    anonymousId: null,
    userId: null,
    mapped: false,
    misfit: false,
    person: null,
    ...shownProblems({}),
    rulesTried: 0,
    rulesMatched: [],
    excludedBy: null,
    points: 0,
    deletedAtMs: null,
    payload: null,
    inColdStorage: false,
    payloadLost: false,
  } as const;
}

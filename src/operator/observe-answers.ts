/** What the operator API tells of signals, people, quota and books: answer schemas, and the records turned into them. */
import * as z from "zod";
import type { Books } from "../domain/books.ts";
import type { ClosedPeriod, InFlightSignal, Rejection, Usage } from "../quota/protocol.ts";
import type { DeadLetter, EventGroup, Person, SignalSummary, SignalTrace } from "../store/protocol.ts";
import { statusOf } from "./codes.ts";
import { idOf, instant, isoOrNull } from "./schemas.ts";

const iso = (ms: number): string => new Date(ms).toISOString();

const endpointType = z.enum(["signal_staging", "product_org"]);
const payload = z.unknown().meta({ description: "The JSON as it was sent." });
const count = z.int().min(0);

const periodFields = {
  period_start: instant,
  period_end: instant,
  signal_limit: count,
  overages: z.boolean(),
  accepted: count,
  held: count,
  rejected: count,
  overage: count.meta({ description: "Accepted beyond the limit with overages on." }),
  streak: count.meta({ description: "Consecutive periods over the allowance." }),
};
export const usageAnswer = z
  .object({
    ...periodFields,
    extra_room_removed: z.boolean(),
    history: z.array(z.object(periodFields)).meta({ description: "Closed periods, newest first." }),
  })
  .meta({ id: "Usage" });

export function usageJson({ extraRoomRemoved, history, ...usage }: Usage): z.infer<typeof usageAnswer> {
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
    accepted: count.meta({ description: "Every signal answered with 202, held ones included." }),
    processed: count,
    duplicates: count,
    held: count,
    purged: count,
    dead_lettered: count,
    in_flight: z.int().meta({ description: "Accepted and not recorded yet." }),
    balanced: z.boolean().meta({ description: "Everything accepted is recorded, or still on its way." }),
  })
  .meta({ id: "Books" });

export function booksJson({ deadLettered, inFlight, ...books }: Books): z.infer<typeof booksAnswer> {
  return { ...books, dead_lettered: deadLettered, in_flight: inFlight };
}

export const deadLetterAnswer = z
  .object({ id: idOf("sig", "Of the signal."), reason: z.string(), received_at: instant, dead_at: instant, payload })
  .meta({ id: "DeadLetter" });

export function deadLetterJson({ receivedAtMs, deadAtMs, ...letter }: DeadLetter): z.infer<typeof deadLetterAnswer> {
  return { ...letter, received_at: iso(receivedAtMs), dead_at: iso(deadAtMs) };
}

export const eventAnswer = z
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

export function eventJson({ firstSeenMs, lastSeenMs, ...group }: EventGroup): z.infer<typeof eventAnswer> {
  return { ...group, first_seen: iso(firstSeenMs), last_seen: iso(lastSeenMs) };
}

/** What the store knows; a signal that is still in flight is known by its id only. */
export const RECORDED_STATUSES = ["processed", "held", "anonymous", "duplicate", "purged", "dead"] as const;

const summaryFields = {
  id: idOf("sig", "Of the signal."),
  status: z.enum([...RECORDED_STATUSES, "in_flight"]),
  kind: z.enum(["signal", "identify", "account", "unknown"]),
  event: z.string().nullable(),
  source: z.string().nullable(),
  email: z.string().nullable(),
  received_at: instant,
};
export const signalAnswer = z.object(summaryFields).meta({ id: "Signal" });

export function signalJson(signal: SignalSummary): z.infer<typeof signalAnswer> {
  const { id, status, kind, event, source, email, receivedAtMs } = signal;
  return { id, status, kind, event, source, email, received_at: iso(receivedAtMs) };
}

export const traceAnswer = z
  .object({
    ...summaryFields,
    endpoint: endpointType,
    key_id: z.string(),
    key_name: z.string().nullable(),
    verdict: z.enum(["accepted", "held"]),
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
    rules_tried: count,
    rules_matched: z.array(
      z.object({ rule_id: z.string(), rule_version: z.int(), scoring_signal: z.string(), points: z.int() }),
    ),
    points: z.int(),
    payload,
  })
  .meta({ id: "SignalTrace" });

export function traceJson(trace: SignalTrace, keyName: string | null): z.infer<typeof traceAnswer> {
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
    rules_tried: trace.rulesTried,
    rules_matched: trace.rulesMatched.map((rule) => ({
      rule_id: rule.ruleId,
      rule_version: rule.ruleVersion,
      scoring_signal: rule.scoringSignal,
      points: rule.points,
    })),
    points: trace.points,
    payload: trace.payload,
  };
}

/** Admitted and waiting in the outbox: nothing but its admission is known yet. */
export function inFlightJson(signal: InFlightSignal, keyName: string | null): z.infer<typeof traceAnswer> {
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
    rules_tried: 0,
    rules_matched: [],
    points: 0,
    payload: null,
  };
}

export const personAnswer = z
  .object({
    email: z.string(),
    name: z.string().nullable(),
    company: z.string().nullable(),
    title: z.string().nullable(),
    score: z.int(),
    first_seen: instant,
    last_seen: instant,
    identities: z.array(z.object({ kind: z.enum(["anonymous_id", "user_id"]), value: z.string(), linked_at: instant })),
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
      .meta({ description: "Newest first, at most 100." }),
  })
  .meta({ id: "Person" });

export function personJson(person: Person): z.infer<typeof personAnswer> {
  const { firstSeenMs, lastSeenMs, identities, scoringSignals, ...fields } = person;
  return {
    ...fields,
    first_seen: iso(firstSeenMs),
    last_seen: iso(lastSeenMs),
    identities: identities.map(({ kind, value, linkedAtMs }) => ({ kind, value, linked_at: iso(linkedAtMs) })),
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

export const rejectionAnswer = z
  .object({
    at: instant,
    key_id: z.string(),
    key_name: z.string().nullable(),
    status: z.int(),
    code: z.string(),
    detail: z.string().nullable(),
    request_id: z.string(),
    signals: count.meta({ description: "Signals refused in the call; 1 where that is not known." }),
  })
  .meta({ id: "Rejection" });

export function rejectionJson(rejection: Rejection, keyName: string | null): z.infer<typeof rejectionAnswer> {
  const { atMs, keyId, code, detail, requestId, signals } = rejection;
  const status = statusOf(code);
  return { at: iso(atMs), key_id: keyId, key_name: keyName, status, code, detail, request_id: requestId, signals };
}

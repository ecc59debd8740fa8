/** Signals, event groups and dead letters: what is answered, and the records turned into it. */
import * as z from "zod";
import { iso } from "../../control/database.ts";
import { emailProblemOf } from "../../domain/signal/normalise.ts";
import { VERDICTS } from "../../domain/signal/signal.ts";
import type { Admission } from "../../wire/admission.ts";
import type { DeadLetter, SignalSummary, SignalTrace } from "../../store/protocol/recorded-signals.ts";
import type { EventGroup } from "../../store/protocol/signal-queue.ts";
import { count, idOf, instant, isoOrNull } from "../schema-parts.ts";

const payload = z.unknown().meta({ description: "The JSON as it was sent." });

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
    endpoint: z.enum(["signal_staging", "product_org"]),
    key_id: z.string(),
    key_name: z.string().nullable(),
    verdict: z.enum(VERDICTS),
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

/** Admitted and waiting in the outbox: nothing but its admission is known yet. */
export function inFlightJson(signal: Admission, keyName: string | null): z.infer<typeof traceAnswer> {
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

/**
 * The data of each notification type, with the field names of the JSON that is sent. The types and the OpenAPI document derive from these
 * schemas. Other modules import only types from here: zod must not be loaded before the first signal.
 */
import * as z from "zod";
import { eachVerdict } from "../quota/quota.ts";

const count = z.int().min(0);
const instant = z.string().meta({ format: "date-time", example: "2026-11-01T00:00:00.000Z" });
const email = z.string().meta({ example: "jane@example.com" });
const score = z.number().describe("Of the person.");
const key = { key_id: id("key", "Of the key."), key_name: z.string() };
const lastUsed = instant.nullable().describe("The last authenticated call. Null: there was none.");
const period = { period_start: instant, period_end: instant };
const accountThresholdPassed = z.object({
  external_id: z.string().meta({ example: "acme-42" }),
  name: z.string().nullable().describe("Null: no name is known."),
  threshold: z.number(),
  score: z.number().describe("Of the account: the sum of its people's scores."),
  score_before: z.number(),
});

function id(prefix: string, description: string) {
  return z.string().meta({ description, example: `${prefix}_019a6c3e-7b52-7c1d-9f60-3e1b2a4c5d6f` });
}

export const NOTIFICATION_DATA = {
  "person.score_crossed": z.object({
    email,
    threshold: z.number(),
    score,
    score_before: z.number(),
    signal_id: id(
      "sig",
      "Of the latest signal that changed the score. Null: the signal belongs to another person by now.",
    ).nullable(),
  }),
  "person.score_fell": z.object({ email, threshold: z.number(), score, score_before: z.number() }),
  "account.score_crossed": accountThresholdPassed,
  "account.score_fell": accountThresholdPassed,
  "person.scored": z.object({
    scoring_signals: z.array(
      z.object({
        email,
        scoring_signal: z.string(),
        points: z.number(),
        score,
        rule_id: id("rule", "Of the mapping rule that matched."),
        signal_id: id("sig", "Of the signal."),
        event: z.string(),
        received_at: instant,
      }),
    ),
  }),
  /**
   * One notification instead of many `person.scored`. If a visitor's signals make the person cross a threshold, a
   * `person.score_crossed` follows as well. Crossings by a rule or by many lapsed points are only counted here.
   */
  "people.rescored": z.object({
    cause: z.enum(["rule_applied", "exclusions_applied", "signals_linked", "points_lapsed"]),
    rule_id: z.string().nullable().describe("Of the rule that was applied. Null: of none."),
    email: z.string().nullable().describe("Of the person who got the linked signals."),
    added: count.describe("Added scoring signals."),
    changed: count,
    removed: count,
    points: z.number().describe("Sum of the changes of all scores."),
    thresholds: z.array(z.object({ threshold: z.number(), risen: count, fallen: count })),
  }),
  "usage.level": z.object({
    level: z.enum(["80", "100", "200", "first_rejection"]).describe("Percent of the signal limit."),
    used: count,
    signal_limit: count,
    overages: z.boolean(),
    ...period,
  }),
  "period.closed": z.object({
    ...period,
    signal_limit: count,
    overages: z.boolean(),
    ...eachVerdict(() => count),
    accepted: count.describe("Within the limit, or with overages enabled; without held signals."),
    overage: count,
    streak: count.describe("Periods in a row over the limit, this one included."),
    extra_room_removed: z.boolean(),
  }),
  "key.expiring": z.object({
    ...key,
    expires_at: instant,
    days: z.int().describe("The key expires in at most this many days: 30, 7 or 1."),
    successor_id: z.string().nullable().describe("Of the key that replaces it after a rotation."),
    last_used_at: lastUsed,
  }),
  "key.silent": z.object({ ...key, days: z.int(), last_used_at: lastUsed }),
  "key.usage_level": z.object({
    key_id: id("key", "Of the key that counted last. The keys that it replaced share its limit."),
    level: z.enum(["80", "100"]).describe("Percent of the key's signal limit."),
    used: count.describe("Accepted and held signals of the billing period."),
    signal_limit: count,
    ...period,
  }),
  "key.public": z.object({
    key_id: id("key", "Of the key."),
    origin: z
      .string()
      .describe("Of the page that made the call. `null`: the page has no name.")
      .meta({ example: "https://www.example.com" }),
  }),
  "rejections.burst": z.object({
    key_id: key.key_id,
    from: instant,
    to: instant,
    calls: count,
    rejected: count,
    codes: z.record(z.string(), count).meta({ description: "Rejected calls by code.", example: { body_not_json: 60 } }),
  }),
  "dead_letters.added": z.object({
    signals: count,
    reasons: z.record(z.string(), count).meta({ description: "Signals by reason.", example: { rules_too_slow: 3 } }),
  }),
  "misfits.expiring": z.object({
    signals: count,
    purged_from: instant.describe("When the first of them is purged; the others follow within a day."),
  }),
  "processing.late": z.object({ oldest_at: instant, signals: count }),
  "destination.disabled": z.object({
    destination_id: id("dst", "Of the destination."),
    destination_name: z.string(),
    reason: z
      .enum(["gone", "failing"])
      .describe("`gone`: it answered 410. `failing`: no delivery succeeded for five days."),
  }),
  "destination.test": z.object({ message: z.string() }),
};

export type NotificationData = { [Type in keyof typeof NOTIFICATION_DATA]: z.output<(typeof NOTIFICATION_DATA)[Type]> };

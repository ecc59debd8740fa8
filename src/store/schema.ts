/**
 * The Signal Store's own tables. `npm run migrations` generates migrations/signal-store from this file. Times are
 * milliseconds since 1970. Each index earns its place: a row is written for each of them with every signal.
 */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { MappingRule } from "../domain/mapping-rule.ts";
import type { EndpointType, Verdict } from "../domain/signal.ts";
import type { NamedBy, RuleJobStatus, SignalStatus } from "./protocol.ts";

export type SignalKind = "signal" | "identify" | "account" | "unknown";

/** Every signal that has arrived, in the order in which it did. */
export const signals = sqliteTable(
  "signals",
  {
    seq: integer("seq").primaryKey(),
    id: text("id").notNull(),
    status: text("status").$type<SignalStatus>().notNull(),
    kind: text("kind").$type<SignalKind>().notNull(),
    event: text("event"),
    source: text("source"),
    personId: integer("person_id"),
    /** What named its person. */
    namedBy: text("named_by").$type<NamedBy>(),
    email: text("email"),
    userId: text("user_id"),
    anonymousId: text("anonymous_id"),
    keyId: text("key_id").notNull(),
    endpoint: text("endpoint").$type<EndpointType>().notNull(),
    verdict: text("verdict").$type<Verdict>().notNull(),
    ordinal: integer("ordinal").notNull(),
    signalLimit: integer("signal_limit").notNull(),
    receivedAt: integer("received_at").notNull(),
    recordedAt: integer("recorded_at").notNull(),
    periodStart: integer("period_start").notNull(),
    periodEnd: integer("period_end").notNull(),
    /** SHA-256 of the canonical form, base64url; null where it can be no duplicate, and for held ones that are gone. */
    contentHash: text("content_hash"),
    duplicateOf: text("duplicate_of"),
    /** When an anonymous signal became a person's. */
    linkedAt: integer("linked_at"),
    rulesTried: integer("rules_tried").notNull(),
    deadReason: text("dead_reason"),
    /** As sent; null for duplicates and once purged. */
    payload: text("payload"),
  },
  (table) => [
    uniqueIndex("signals_id").on(table.id),
    index("signals_originals")
      .on(table.contentHash)
      .where(sql`content_hash IS NOT NULL AND status <> 'duplicate'`),
    index("signals_duplicates")
      .on(table.contentHash)
      .where(sql`content_hash IS NOT NULL AND status = 'duplicate'`),
    index("signals_event").on(table.event, table.seq),
    index("signals_person")
      .on(table.personId, table.seq)
      .where(sql`person_id IS NOT NULL`),
    index("signals_status")
      .on(table.status, table.seq)
      .where(sql`status <> 'processed'`),
    index("signals_held")
      .on(table.periodEnd)
      .where(sql`status = 'held'`),
    index("signals_anonymous_id")
      .on(table.anonymousId, table.seq)
      .where(sql`status = 'anonymous' AND anonymous_id IS NOT NULL`),
    index("signals_user_id")
      .on(table.userId, table.seq)
      .where(sql`user_id IS NOT NULL AND (status = 'anonymous' OR named_by = 'anonymous_id')`),
  ],
);

/** A person (spec §2.3): created for an email, enriched from traits. */
export const people = sqliteTable("people", {
  id: integer("id").primaryKey(),
  email: text("email").notNull().unique(),
  name: text("name"),
  company: text("company"),
  title: text("title"),
  /** Receipt and ordinal of the signal that each trait was taken from: the latest wins, field by field. */
  nameAt: integer("name_at").notNull().default(0),
  nameOrdinal: integer("name_ordinal").notNull().default(0),
  companyAt: integer("company_at").notNull().default(0),
  companyOrdinal: integer("company_ordinal").notNull().default(0),
  titleAt: integer("title_at").notNull().default(0),
  titleOrdinal: integer("title_ordinal").notNull().default(0),
  /** Sum of the points of the person's scoring signals. */
  score: integer("score").notNull().default(0),
  firstSeen: integer("first_seen").notNull(),
  lastSeen: integer("last_seen").notNull(),
});

/** Identity resolution records (spec §2.3): an anonymous id or user id and the person it belongs to. */
export const identities = sqliteTable(
  "identities",
  {
    kind: text("kind").$type<"anonymous_id" | "user_id">().notNull(),
    value: text("value").notNull(),
    personId: integer("person_id").notNull(),
    linkedAt: integer("linked_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.kind, table.value] }), index("identities_person").on(table.personId)],
);

/** At most one per signal and rule. */
export const scoringSignals = sqliteTable(
  "scoring_signals",
  {
    id: integer("id").primaryKey(),
    signalId: text("signal_id").notNull(),
    ruleId: text("rule_id").notNull(),
    ruleVersion: integer("rule_version").notNull(),
    personId: integer("person_id").notNull(),
    scoringSignal: text("scoring_signal").notNull(),
    points: integer("points").notNull(),
    at: integer("at").notNull(),
  },
  (table) => [
    uniqueIndex("scoring_signals_once").on(table.signalId, table.ruleId),
    index("scoring_signals_person").on(table.personId, table.id),
    index("scoring_signals_rule").on(table.ruleId, table.id),
  ],
);

/** The signal queue: signals by event name and source, counted as they come. */
export const eventGroups = sqliteTable(
  "event_groups",
  {
    event: text("event").notNull(),
    source: text("source").notNull(),
    count: integer("count").notNull(),
    held: integer("held").notNull(),
    anonymous: integer("anonymous").notNull(),
    firstSeen: integer("first_seen").notNull(),
    lastSeen: integer("last_seen").notNull(),
    /** The original of the latest receipt, whose ordinal is beside it: signals of one commit share their time. */
    sampleId: text("sample_id").notNull(),
    sampleOrdinal: integer("sample_ordinal").notNull(),
  },
  (table) => [primaryKey({ columns: [table.event, table.source] }), index("event_groups_last").on(table.lastSeen)],
);

/** The store's side of the books, per billing period. */
export const totals = sqliteTable("totals", {
  periodStart: integer("period_start").primaryKey(),
  processed: integer("processed").notNull(),
  duplicates: integer("duplicates").notNull(),
  held: integer("held").notNull(),
  purged: integer("purged").notNull(),
  deadLettered: integer("dead_lettered").notNull(),
});

/** Rules that are, or were, applied to what is stored: one row for each rule, the latest time. */
export const ruleJobs = sqliteTable(
  "rule_jobs",
  {
    ruleId: text("rule_id").primaryKey(),
    /** As it is applied; null: it is deleted or disabled, and its scoring signals are removed. */
    rule: text("rule", { mode: "json" }).$type<MappingRule>(),
    /** The workspace's, when the rule was read: signals that were run through older rules are not taken any more. */
    rulesVersion: integer("rules_version").notNull(),
    status: text("status").$type<RuleJobStatus>().notNull(),
    requestedAt: integer("requested_at").notNull(),
    startedAt: integer("started_at"),
    finishedAt: integer("finished_at"),
    /** The last signal to be looked at: later ones have been run through this rule, or a newer one, as they came. */
    lastSeq: integer("last_seq").notNull(),
    /** How far it is: the event and seq of the signal, then (event null) the id of the scoring signal looked at last. */
    event: text("event"),
    position: integer("position").notNull(),
    total: integer("total").notNull(),
    scanned: integer("scanned").notNull(),
    matched: integer("matched").notNull(),
    added: integer("added").notNull(),
    changed: integer("changed").notNull(),
    removed: integer("removed").notNull(),
  },
  (table) => [
    index("rule_jobs_unfinished")
      .on(table.requestedAt)
      .where(sql`status <> 'done'`),
    index("rule_jobs_rules_version").on(table.rulesVersion),
  ],
);

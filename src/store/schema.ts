/**
 * The Signal Store's own tables. `npm run migrations` generates migrations/signal-store from this file. Times are
 * milliseconds since 1970. Each index earns its place: a row is written for each of them with every signal.
 */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { AccountField } from "../domain/payload-template.ts";
import type { Claims } from "./accounts.ts";
import type { DayCounts } from "../domain/day-counts.ts";
import type { MappingRule } from "../domain/mapping-rule.ts";
import type { EndpointType, Verdict } from "../domain/signal.ts";
import type { VisitorId } from "./link.ts";
import type { NamedBy, RuleJobStatus, SignalStatus } from "./protocol.ts";

/** `writing` may or may not be in R2; nothing refers to it. `removing` holds nothing that anybody waits for. */
export type ColdObjectState = "writing" | "stored" | "removing";
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
    /** Of the canonical form, see domain/content-hash.ts; null where it can be no duplicate, and for held ones that are gone. */
    contentHash: text("content_hash"),
    duplicateOf: text("duplicate_of"),
    /** When an anonymous signal became a person's. */
    linkedAt: integer("linked_at"),
    rulesTried: integer("rules_tried").notNull(),
    deadReason: text("dead_reason"),
    /** Kept while the signal is held or dead, for the day it is sent through the queue again. */
    pathSource: text("path_source"),
    idempotencyKey: text("idempotency_key"),
    /** As sent; null for duplicates, once purged, and while it is in cold storage. */
    payload: text("payload"),
    /** The object in R2 that holds a copy of the payload, if it has not been removed since, and the line in it. */
    coldObject: text("cold_object"),
    coldLine: integer("cold_line"),
    /** When its person was deleted: nothing of theirs is left in the row, and it never comes again. */
    erasedAt: integer("erased_at"),
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
      .on(table.periodEnd, table.ordinal)
      .where(sql`status = 'held'`),
    index("signals_anonymous_id")
      .on(table.anonymousId, table.seq)
      .where(sql`status = 'anonymous' AND anonymous_id IS NOT NULL`),
    index("signals_user_id")
      .on(table.userId, table.seq)
      .where(sql`user_id IS NOT NULL AND (status = 'anonymous' OR named_by = 'anonymous_id')`),
    // Signals that are nobody's, found when a person is deleted. Few: held and duplicate ones only.
    index("signals_aside_email")
      .on(table.email)
      .where(sql`status IN ('held', 'duplicate') AND email IS NOT NULL`),
    index("signals_aside_user_id")
      .on(table.userId)
      .where(sql`status IN ('held', 'duplicate') AND user_id IS NOT NULL`),
    index("signals_aside_anonymous_id")
      .on(table.anonymousId)
      .where(sql`status IN ('held', 'duplicate') AND anonymous_id IS NOT NULL`),
    index("signals_cold")
      .on(table.coldObject)
      .where(sql`cold_object IS NOT NULL AND status = 'anonymous'`),
  ],
);

/** A person (spec §2.3): created for an email, enriched from traits. */
export const people = sqliteTable(
  "people",
  {
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
  },
  (table) => [
    // The orders of the list of people. A row is written for each whenever its column is. The id that ends a cursor is in
    // every index as the row's number; named here as well, it would not be used to find the cursor's place.
    index("people_last_seen").on(table.lastSeen),
    index("people_score").on(table.score),
    index("people_name")
      .on(sql`name COLLATE NOCASE`)
      .where(sql`name IS NOT NULL`),
  ],
);

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
    /** Of what `count` counts, by day of receipt; null: none yet. In the row, so that it costs no rows of its own. */
    days: text("days", { mode: "json" }).$type<DayCounts>(),
  },
  (table) => [
    primaryKey({ columns: [table.event, table.source] }),
    // In the order of the signal queue, and only what it shows.
    index("event_groups_shown")
      .on(sql`last_seen DESC`, table.event, table.source)
      .where(sql`count > 0`),
  ],
);

/** The scoring signals of each mapping rule by day of receipt, for as long as it has any. */
export const ruleDays = sqliteTable("rule_days", {
  ruleId: text("rule_id").primaryKey(),
  days: text("days", { mode: "json" }).$type<DayCounts>().notNull(),
});

/** The store's side of the books, per billing period. */
export const totals = sqliteTable("totals", {
  periodStart: integer("period_start").primaryKey(),
  processed: integer("processed").notNull(),
  duplicates: integer("duplicates").notNull(),
  held: integer("held").notNull(),
  purged: integer("purged").notNull(),
  deadLettered: integer("dead_lettered").notNull(),
});

/** Deletions of persons: the receipt, and while it is under way what is to be deleted. See erasure.ts. */
export const erasures = sqliteTable(
  "erasures",
  {
    id: text("id").primaryKey(),
    /** See erased-names.ts. */
    emailHash: text("email_hash").notNull(),
    requestedAt: integer("requested_at").notNull(),
    /** When nothing was left, in R2 neither. */
    finishedAt: integer("finished_at"),
    /** What is still to be looked for; all null once that is done. The row of the person keeps their number taken. */
    email: text("email"),
    visitors: text("visitors", { mode: "json" }).$type<VisitorId[]>(),
    personId: integer("person_id"),
    /** The last dead letter that was read. */
    deadSeq: integer("dead_seq").notNull(),
    people: integer("people").notNull(),
    identities: integer("identities").notNull(),
    signals: integer("signals").notNull(),
    anonymous: integer("anonymous").notNull(),
    held: integer("held").notNull(),
    duplicates: integer("duplicates").notNull(),
    deadLetters: integer("dead_letters").notNull(),
    scoringSignals: integer("scoring_signals").notNull(),
    coldObjects: integer("cold_objects").notNull(),
  },
  (table) => [
    index("erasures_email_hash").on(table.emailHash, table.requestedAt),
    index("erasures_finished").on(table.finishedAt, table.requestedAt),
    index("erasures_person")
      .on(table.personId)
      .where(sql`person_id IS NOT NULL`),
  ],
);

/** What deleted persons were named by, as hashes: signals received before the deletion may still be on their way. */
export const erasedNames = sqliteTable(
  "erased_names",
  { hash: text("hash").primaryKey(), at: integer("at").notNull() },
  (table) => [index("erased_names_at").on(table.at)],
);

/** One row: how long signals are kept. See retention.ts. */
export const retention = sqliteTable("retention", {
  id: integer("id").primaryKey(),
  /** Null: for ever. */
  days: integer("days"),
  /** When signals are looked for that have been kept long enough. */
  nextAt: integer("next_at").notNull(),
  /** Receipt of the latest signal that was deleted: what people are known by may come from one up to then. */
  deletedUntil: integer("deleted_until").notNull(),
});

/** Accounts (design §8.7). Values are JSON, as the payload templates make them; null where none was sent. */
export const productOrgs = sqliteTable(
  "product_orgs",
  {
    id: integer("id").primaryKey(),
    externalId: text("external_id").notNull().unique(),
    name: text("name", { mode: "json" }).$type<unknown>(),
    plan: text("plan", { mode: "json" }).$type<unknown>(),
    userCount: text("user_count", { mode: "json" }).$type<unknown>(),
    recurringRevenue: text("recurring_revenue", { mode: "json" }).$type<unknown>(),
    trialStatus: text("trial_status", { mode: "json" }).$type<unknown>(),
    featureFlags: text("feature_flags", { mode: "json" }).$type<unknown>(),
    attributes: text("attributes", { mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** By target, the latest update that carried it: the latest by receipt wins, field by field. */
    claims: text("claims", { mode: "json" }).$type<Claims>().notNull(),
    firstSeen: integer("first_seen").notNull(),
    lastSeen: integer("last_seen").notNull(),
  },
  (table) => [index("product_orgs_last_seen").on(table.lastSeen)],
);

/** Each time that a field of an account became another value, in order of receipt. See account-history.ts. */
export const productOrgChanges = sqliteTable(
  "product_org_changes",
  {
    productOrgId: integer("product_org_id").notNull(),
    field: text("field").$type<AccountField>().notNull(),
    /** Receipt of the update that carried the value after; its ordinal and its signal are beside it. */
    at: integer("at").notNull(),
    ordinal: integer("ordinal").notNull(),
    signalId: text("signal_id").notNull(),
    before: text("before", { mode: "json" }).$type<unknown>(),
    after: text("after", { mode: "json" }).$type<unknown>().notNull(),
    /** The latest update that carried the value before. */
    beforeAt: integer("before_at"),
    beforeOrdinal: integer("before_ordinal"),
    beforeSignalId: text("before_signal_id"),
  },
  (table) => [
    primaryKey({ columns: [table.productOrgId, table.field, table.at, table.ordinal] }),
    index("product_org_changes_latest").on(table.productOrgId, table.at, table.ordinal),
  ],
);

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

/** Objects in R2 with payloads of anonymous signals: written before the object is, deleted after it. See cold-storage.ts. */
export const coldObjects = sqliteTable(
  "cold_objects",
  {
    id: text("id").primaryKey(),
    state: text("state").$type<ColdObjectState>().notNull(),
    at: integer("at").notNull(),
    /** How often it was asked to be rewritten without the lines that nobody waits for, since it last was. */
    scrub: integer("scrub").notNull().default(0),
  },
  (table) => [
    index("cold_objects_unfinished")
      .on(table.state, table.at)
      .where(sql`state <> 'stored'`),
    index("cold_objects_scrub")
      .on(table.id)
      .where(sql`scrub > 0`),
  ],
);

/** One row: how far the anonymous signals have been packed. */
export const coldProgress = sqliteTable("cold_progress", {
  id: integer("id").primaryKey(),
  packedSeq: integer("packed_seq").notNull(),
});

/** Visitors that are known by now, with earlier signals that are still to become their person's. See link-jobs.ts. */
export const linkJobs = sqliteTable(
  "link_jobs",
  {
    kind: text("kind").$type<"anonymous_id" | "user_id">().notNull(),
    value: text("value").notNull(),
    dueAt: integer("due_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.kind, table.value] }), index("link_jobs_due").on(table.dueAt)],
);

/** Signals, and what is counted as they come: the groups of the signal queue, the books. */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { DayCounts } from "../../domain/day-counts.ts";
import type { EndpointType, Verdict } from "../../domain/signal.ts";
import { BLOCK_ROWS } from "../blocks.ts";
import type { NamedBy, SignalStatus } from "../protocol.ts";
import { SHORT_HASH } from "../twins.ts";

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
      .on(sql.raw(SHORT_HASH))
      .where(sql`content_hash IS NOT NULL AND status <> 'duplicate'`),
    index("signals_duplicates")
      .on(sql.raw(SHORT_HASH))
      .where(sql`content_hash IS NOT NULL AND status = 'duplicate'`),
    index("signals_event").on(sql`seq / ${sql.raw(String(BLOCK_ROWS))}`, table.event),
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
    days: text("days").$type<DayCounts>(),
  },
  (table) => [
    primaryKey({ columns: [table.event, table.source] }),
    // In the order of the signal queue, and only what it shows.
    index("event_groups_shown")
      .on(sql`last_seen DESC`, table.event, table.source)
      .where(sql`count > 0`),
  ],
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

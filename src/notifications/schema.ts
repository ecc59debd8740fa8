/**
 * The tables of Destinations. `npm run migrations` makes migrations of this file; the object uses plain SQL and takes only row types
 * from here. Times are milliseconds since 1970. The generator does not support WITHOUT ROWID: such a table needs a manual edit of the
 * migration that creates it.
 */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { DestinationState, DestinationType, DisabledReason } from "../domain/notifications/destination.ts";
import type { AnyNotificationType } from "../domain/notifications/notification.ts";
import type { DeliveryEnd, DeliveryState } from "./destination-calls.ts";

/** Settings of the workspace, by the names in roster.ts. WITHOUT ROWID. */
export const settings = sqliteTable("settings", { name: text().primaryKey(), value: text().notNull() });

/** WITHOUT ROWID. */
export const destinations = sqliteTable("destinations", {
  id: text().primaryKey(),
  name: text().notNull(),
  type: text().$type<DestinationType>().notNull(),
  target: text().notNull(),
  /** JSON list of the wanted types. */
  notifications: text().notNull(),
  /** JSON list of the custom headers. */
  headers: text().notNull(),
  pages_url: text().notNull(),
  state: text().$type<DestinationState>().notNull(),
  disabled_reason: text().$type<DisabledReason>(),
  created_ms: integer().notNull(),
  secret: text(),
  /** JSON of a Confirmation (roster.ts) of an email address; null: confirmed, or the type needs none. */
  confirmation: text(),
  failing_since_ms: integer(),
  failing_last_ms: integer(),
  /** Failed attempts since the last success. */
  failures: integer().notNull(),
  /** End of the pause of a failing destination; 0: no pause. */
  not_before_ms: integer().notNull(),
  /** Time of the last success, accurate to a minute. */
  delivered_ms: integer(),
  /** Notifications that were dropped because too many waited. */
  dropped: integer().notNull(),
});

/** Secrets that still sign after a rotation. WITHOUT ROWID. */
export const oldSecrets = sqliteTable(
  "old_secrets",
  { destination_id: text().notNull(), secret: text().notNull(), ends_ms: integer().notNull() },
  (table) => [primaryKey({ columns: [table.destination_id, table.secret] })],
);

/** Ids of received notifications, to ignore repeated calls. WITHOUT ROWID. */
export const notificationsSeen = sqliteTable("notifications_seen", { id: text().primaryKey() });

/** Notifications of the stored deliveries. */
export const notifications = sqliteTable("notifications", {
  seq: integer().primaryKey(),
  id: text().notNull(),
  type: text().$type<AnyNotificationType>().notNull(),
  time_ms: integer().notNull(),
  /** JSON of the notification's data; null: the notification was about a deleted person. */
  data: text(),
});

/** WITHOUT ROWID. */
export const deliveries = sqliteTable(
  "deliveries",
  {
    destination_id: text().notNull(),
    id: text().notNull(),
    /** Id of its first notification, sent as webhook-id. */
    notification_id: text().notNull(),
    type: text().$type<AnyNotificationType>().notNull(),
    /** See LANES. */
    lane: integer().notNull(),
    /** JSON list of the `seq` of its notifications. It grows until the consumer takes the delivery. */
    notifications: text().notNull(),
    /** Bytes of its notifications, plus an estimate for its rows. */
    bytes: integer().notNull(),
    state: text().$type<DeliveryState>().notNull(),
    end_reason: text().$type<DeliveryEnd>(),
    /** Time of the next attempt; null: the delivery has ended. */
    due_ms: integer(),
    /** Start of the attempt in progress; null: none is in progress. */
    taken_ms: integer(),
    /** Number of the next attempt or of the attempt in progress, from 1. */
    attempt: integer().notNull(),
    /** Failed attempts since the retry schedule started. */
    failed: integer().notNull(),
    /** JSON list of the results. */
    attempts: text().notNull(),
    /** 1: the delivery named a deleted person, so answers are not stored. */
    answers_hidden: integer().notNull(),
    created_ms: integer().notNull(),
    /** Null: it waits. */
    ended_ms: integer(),
  },
  (table) => [
    primaryKey({ columns: [table.destination_id, table.id] }),
    index("deliveries_due")
      .on(table.destination_id, table.lane, table.due_ms)
      .where(sql`due_ms IS NOT NULL`),
  ],
);

/** Failed deliveries that are no longer stored, by the hour in which they failed. WITHOUT ROWID. */
export const failedNotKept = sqliteTable(
  "failed_not_kept",
  { destination_id: text().notNull(), hour_ms: integer().notNull(), deliveries: integer().notNull() },
  (table) => [primaryKey({ columns: [table.destination_id, table.hour_ms] })],
);

/** The latest notice of each kind about a key, so that none is repeated. WITHOUT ROWID. */
export const keyNotices = sqliteTable(
  "key_notices",
  {
    key_id: text().notNull(),
    notice: text().notNull(),
    /** The fact that the notice reported, such as the expiry. Another value is a new notice. */
    of: text().notNull(),
  },
  (table) => [primaryKey({ columns: [table.key_id, table.notice] })],
);

/** Hashes of deleted people's emails, because sources may still forward notifications of them. WITHOUT ROWID. */
export const deletedPeople = sqliteTable("deleted_people", {
  email_hash: text().primaryKey(),
  /** Notifications raised until then are about the deleted person. */
  at_ms: integer().notNull(),
});

/** Switched-off destinations that the activity log does not contain yet. WITHOUT ROWID. */
export const switchedOff = sqliteTable("switched_off", {
  destination_id: text().primaryKey(),
  at_ms: integer().notNull(),
  /** JSON of the name and the reason. */
  detail: text().notNull(),
});

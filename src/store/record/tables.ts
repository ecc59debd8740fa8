/** What is counted as signals come, and what could not be processed. */
import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { DayCounts } from "../../domain/quota/day-counts.ts";

/** The signal queue: signals by event name and source. WITHOUT ROWID: the migration says so by hand. */
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
    /** Day of `last_seen`, in days since 1970: an index on the time would be written with every signal. */
    lastDay: integer("last_day").notNull(),
    /** The original of the latest receipt, whose ordinal is beside it: signals of one commit share their time. */
    sampleId: text("sample_id").notNull(),
    sampleOrdinal: integer("sample_ordinal").notNull(),
    /** The sample's line; a negative number is one of the log of held signals. */
    sampleSeq: integer("sample_seq").notNull(),
    /** Counts of the group's signals by day of receipt; what is in `count` is in these. */
    days: text("days").$type<DayCounts>().notNull().default(""),
  },
  (table) => [primaryKey({ columns: [table.event, table.source] }), index("event_groups_last_day").on(table.lastDay)],
);

/** What could not be processed, until it is replayed; and those of deleted persons, of which nothing is left. */
export const deadLetters = sqliteTable(
  "dead_letters",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull(),
    status: text("status").$type<"dead" | "purged">().notNull(),
    admission: text("admission").notNull(),
    reason: text("reason").notNull(),
    payload: text("payload"),
    recordedAt: integer("recorded_at").notNull(),
    receivedAt: integer("received_at").notNull(),
    erasedAt: integer("erased_at"),
  },
  (table) => [index("dead_letters_id").on(table.id)],
);

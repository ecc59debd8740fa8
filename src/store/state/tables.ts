/** What is counted as signals come, and what mapping rules have made of them. */
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { DayCounts } from "../../domain/quota/day-counts.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";

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

/** What a rule, as it was in one version, says of a signal that it matches. Lines and lists name it by its number. */
export const outcomes = sqliteTable(
  "rule_outcomes",
  {
    id: integer("id").primaryKey(),
    ruleId: text("rule_id").notNull(),
    ruleVersion: integer("rule_version").notNull(),
    scoringSignal: text("scoring_signal").notNull(),
    points: integer("points").notNull(),
    /** How often the rule scores a person; null: each time. */
    frequency: text("frequency").$type<NonNullable<RuleMatch["frequency"]>>(),
  },
  (table) => [uniqueIndex("rule_outcomes_rule").on(table.ruleId, table.ruleVersion)],
);

/**
 * The signal that counts, for each person, of rules that score a person once a day, or once ever; see once.ts. WITHOUT
 * ROWID.
 */
export const once = sqliteTable(
  "once",
  {
    personId: integer("person_id").notNull(),
    ruleId: text("rule_id").notNull(),
    /** UTC day of the signal's receipt, in days since 1970. */
    day: integer("day").notNull(),
    signalId: text("signal_id").notNull(),
  },
  (table) => [primaryKey({ columns: [table.personId, table.ruleId, table.day] })],
);

/** What each mapping rule has scored: how many times, and how many on each of the latest days of receipt. */
export const ruleDays = sqliteTable("rule_days", {
  ruleId: text("rule_id").primaryKey(),
  count: integer("count").notNull(),
  days: text("days").$type<DayCounts>().notNull(),
});

/** People, by what they are known, and what they have scored. */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { BLOCK_ROWS } from "../blocks.ts";

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
    /** See timelines.ts. */
    recentSignals: text("recent_signals").notNull().default(""),
    recentScoringSignals: text("recent_scoring_signals").notNull().default(""),
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
    index("scoring_signals_rule").on(sql`id / ${sql.raw(String(BLOCK_ROWS))}`, table.ruleId),
  ],
);

/**
 * Whose the signals are, and the scoring signals: without those that are named in the rows of people, see timelines.ts.
 * Both WITHOUT ROWID, and kept by triggers of signals and scoring_signals: migration 0006 says so by hand, and a migration
 * that makes any of these tables anew has to say it again.
 */
export const personSignals = sqliteTable(
  "person_signals",
  { personId: integer("person_id").notNull(), seq: integer("seq").notNull() },
  (table) => [primaryKey({ columns: [table.personId, table.seq] })],
);
export const personScoringSignals = sqliteTable(
  "person_scoring_signals",
  { personId: integer("person_id").notNull(), id: integer("id").notNull() },
  (table) => [primaryKey({ columns: [table.personId, table.id] })],
);

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

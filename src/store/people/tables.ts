/** People, by what they are known, and the lists of their signals. */
import { sql } from "drizzle-orm";
import { eachTrait } from "../../domain/signal/traits.ts";
import { blob, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** A person (spec §2.3): created for an email, enriched from traits. Their numbers are never used twice. */
export const people = sqliteTable(
  "people",
  {
    id: integer("id").primaryKey(),
    email: text("email").notNull(),
    ...eachTrait(() => text()),
    /** Searchable traits in their search form: see stored-person.ts. */
    names: text("names").notNull().default(""),
    /** The signals that the traits were taken from, see trait-receipts.ts: the latest wins, field by field. */
    traitOrders: text("trait_orders").notNull().default(""),
    /** Sum of the points that the person's signals have scored. */
    score: integer("score").notNull().default(0),
    firstSeen: integer("first_seen").notNull(),
    lastSeen: integer("last_seen").notNull(),
    /** Day of `last_seen`, in days since 1970: an index on the time would be written with every signal. */
    lastDay: integer("last_day").notNull(),
    /** The latest entries of the list of the person's signals, see timelines.ts. */
    recent: text("recent").notNull().default(""),
    /**
     * Number of the person's ids in `identities`, and number of dropped ones. A person keeps at most PERSON_MAX_IDS
     * of a kind.
     */
    anonymousIds: integer("anonymous_ids").notNull().default(0),
    userIds: integer("user_ids").notNull().default(0),
    idsDropped: integer("ids_dropped").notNull().default(0),
  },
  (table) => [
    // Indexes that order the list of people. An index row is written whenever a statement names its column.
    index("people_last_day").on(table.lastDay),
    index("people_score")
      .on(table.score)
      .where(sql`score <> 0`),
    // This index finds people by their email, and by a part of it or of the traits. No two have the same email:
    // known-people.ts looks first.
    index("people_email").on(table.email, table.names),
  ],
);

/**
 * Identity resolution records (spec §2.3): an anonymous id or user id, and the persons it has been claimed for, in order
 * of receipt (claims.ts). Keys: visitor-keys.ts. WITHOUT ROWID: the migration says so by hand.
 */
export const identities = sqliteTable(
  "identities",
  {
    key: blob("key").notNull(),
    at: integer("at").notNull(),
    ordinal: integer("ordinal").notNull(),
    personId: integer("person_id").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.key, table.at, table.ordinal] }),
    index("identities_person").on(table.personId, table.at, table.ordinal),
  ],
);

/**
 * Pairs of ids of one visitor, from an identify without email or an alias, stored in both directions. WITHOUT ROWID.
 */
export const pairs = sqliteTable(
  "pairs",
  {
    key: blob("key").notNull(),
    otherKey: blob("other_key").notNull(),
    at: integer("at").notNull(),
    ordinal: integer("ordinal").notNull(),
  },
  (table) => [primaryKey({ columns: [table.key, table.otherKey] })],
);

/** Lists of lines, see timelines.ts. WITHOUT ROWID. */
export const timelines = sqliteTable(
  "timelines",
  { list: blob("list").notNull(), firstSeq: integer("first_seq").notNull(), entries: text("entries").notNull() },
  (table) => [primaryKey({ columns: [table.list, table.firstSeq] })],
);

/** Visitors that are known by now, with earlier signals that are still to become their person's. See linking.ts. */
export const linkJobs = sqliteTable(
  "link_jobs",
  {
    key: blob("key").notNull(),
    dueAt: integer("due_at").notNull(),
    /** JSON of LinkCounts: changes of scores by the job's steps, which are notified at its end. */
    counts: text("counts").notNull().default("[]"),
  },
  (table) => [primaryKey({ columns: [table.key] }), index("link_jobs_due").on(table.dueAt)],
);

/**
 * People whose times and traits are being recounted, see recount.ts. Lines before this one remain; null: all remain.
 */
export const recounts = sqliteTable("recounts", {
  personId: integer("person_id").primaryKey(),
  before: integer("before"),
});

/**
 * Rules that score once a day, or once ever, with a removed match: the person's line after which a replacing match is
 * searched. See replacements.ts. WITHOUT ROWID.
 */
export const replacements = sqliteTable(
  "replacements",
  {
    personId: integer("person_id").notNull(),
    ruleId: text("rule_id").notNull(),
    behindSeq: integer("behind_seq").notNull(),
  },
  (table) => [primaryKey({ columns: [table.personId, table.ruleId] })],
);

/** Hashes of deleted people's names, because signals received before the deletion may still be in transit. */
export const deletedNames = sqliteTable(
  "deleted_names",
  {
    hash: text("hash").notNull(),
    /** Signals received after this time are not the deleted person's. */
    at: integer("at").notNull(),
    /** Start of the person's ownership of an id with several owners, some of whom may have been deleted. */
    since: integer("since").notNull(),
  },
  (table) => [primaryKey({ columns: [table.hash, table.since] }), index("deleted_names_at").on(table.at)],
);

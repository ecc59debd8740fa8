/** Deletions of persons, and how long signals are kept. */
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export type ErasureStep = "identities" | "lines" | "held" | "dead_letters" | "cold";

/** Deletions of persons: the receipt, and while it is under way what is to be deleted. See erasure.ts. */
export const erasures = sqliteTable(
  "erasures",
  {
    id: text("id").primaryKey(),
    /** See erased-names.ts. */
    emailHash: text("email_hash").notNull(),
    requestedAt: integer("requested_at").notNull(),
    /** When it was asked for last: what is received later is somebody new's. */
    askedAt: integer("asked_at").notNull(),
    /** When nothing was left, in R2 neither. */
    finishedAt: integer("finished_at"),
    /** What is still to be looked for, null once that is done. Null too: there was no such person. */
    email: text("email"),
    personId: integer("person_id"),
    /** Where it goes on: see erasure.ts. */
    step: text("step").$type<ErasureStep>().notNull(),
    position: integer("position").notNull(),
    people: integer("people").notNull(),
    identities: integer("identities").notNull(),
    signals: integer("signals").notNull(),
    anonymous: integer("anonymous").notNull(),
    held: integer("held").notNull(),
    deadLetters: integer("dead_letters").notNull(),
    scoringSignals: integer("scoring_signals").notNull(),
    coldObjects: integer("cold_objects").notNull(),
  },
  (table) => [
    index("erasures_email_hash").on(table.emailHash, table.requestedAt),
    index("erasures_finished").on(table.finishedAt, table.requestedAt),
  ],
);

/** What deleted persons were named by, as hashes: signals received before the deletion may still be on their way. */
export const erasedNames = sqliteTable(
  "erased_names",
  {
    hash: text("hash").primaryKey(),
    /** What is received later is nobody's of them. */
    at: integer("at").notNull(),
    /** Since when an id was the person's, where others had it too. */
    since: integer("since").notNull(),
  },
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

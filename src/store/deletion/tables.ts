/** Deletions of persons, and how long signals are kept. */
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export type DeletionStage = "identities" | "lines" | "held" | "dead_letters" | "cold";

/** Deletions of people: the receipt, and the remaining work while in progress. See person-deletions.ts. */
export const deletions = sqliteTable(
  "deletions",
  {
    id: text("id").primaryKey(),
    /** The email's hash, by which a receipt is found: see people/deleted-names.ts. */
    emailHash: text("email_hash").notNull(),
    requestedAt: integer("requested_at").notNull(),
    /** Latest request for the deletion: signals received later belong to a new person. */
    askedAt: integer("asked_at").notNull(),
    /** Completion, including R2; null: in progress. */
    finishedAt: integer("finished_at"),
    /** The email that is still to be looked for; null once that is done, and where there was no such person. */
    email: text("email"),
    personId: integer("person_id"),
    /** The step that is next, and how far it is: see person-deletions.ts. */
    step: text("step").$type<DeletionStage>().notNull(),
    position: integer("position").notNull(),
    people: integer("people").notNull(),
    identities: integer("identities").notNull(),
    signals: integer("signals").notNull(),
    anonymous: integer("anonymous").notNull(),
    held: integer("held").notNull(),
    deadLetters: integer("dead_letters").notNull(),
    scoringSignals: integer("scoring_signals").notNull(),
    coldObjects: integer("cold_objects").notNull(),
    /** 1 until Destinations have deleted the person, else 0. */
    handOver: integer("hand_over").notNull().default(0),
  },
  (table) => [
    index("deletions_email_hash").on(table.emailHash, table.requestedAt),
    index("deletions_finished").on(table.finishedAt, table.requestedAt),
  ],
);

/** One row: the retention. See retention.ts. */
export const retention = sqliteTable("retention", {
  id: integer("id").primaryKey(),
  /** Days for which signals are kept; null: forever. */
  days: integer("days"),
  /** When retention next looks for signals that have been kept long enough. */
  nextAt: integer("next_at").notNull(),
  /** Receipt of the latest deleted signal: names of people may come from signals up to then. */
  deletedUntil: integer("deleted_until").notNull(),
});

/** Deletions of persons, and how long signals are kept. */
import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { VisitorId } from "../link.ts";

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

/** What of the payloads is in R2. */
import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** `writing` may or may not be in R2; nothing refers to it. `removing` holds nothing that anybody waits for. */
export type ColdObjectState = "writing" | "stored" | "removing";

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

/** What could not be processed. */
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

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
    deletedAt: integer("deleted_at"),
  },
  (table) => [index("dead_letters_id").on(table.id), index("dead_letters_received").on(table.receivedAt)],
);

/** Events that the store has raised, and that nobody has taken over yet: src/events/raised-events.ts. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const raisedEvents = sqliteTable("raised_events", {
  /** Where it ends in all that was ever raised, in characters. */
  row: integer("row").primaryKey(),
  /** JSON of an array of them. */
  body: text("body").notNull(),
});

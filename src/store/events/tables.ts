/** Events that the store has raised, and that nobody has taken over yet: src/notifications/raised-events.ts. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const raisedEvents = sqliteTable("raised_notifications", {
  /** Where the row ends in all that was ever raised, in characters. */
  row: integer("row").primaryKey(),
  /** JSON of an array of events. */
  body: text("body").notNull(),
});

/** Notifications that the store has raised and Destinations has not taken: src/notifications/raised-events.ts. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const raisedEvents = sqliteTable("raised_notifications", {
  /** End position of the row among everything ever raised, in characters. */
  row: integer("row").primaryKey(),
  /** JSON of an array of events. */
  body: text("body").notNull(),
});

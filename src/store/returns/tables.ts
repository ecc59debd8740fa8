/** Releases of held signals and replays of dead letters. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Jobs that send signals again: for a day after their numbers stand in the audit log. See return-jobs.ts. */
export const returns = sqliteTable("returns", {
  /** Id of the audit log's entry of the call that began the job. */
  id: text("id").primaryKey(),
  /** JSON of a ReturnScope. */
  scope: text("scope").notNull(),
  /** JSON of the ids of the entries of later calls that asked for the same. */
  joined: text("joined").notNull().default("[]"),
  requestedAt: integer("requested_at").notNull(),
  /** The last place, among the held signals or the dead letters, when the job began: later signals are not part of it. */
  last: integer("last").notNull(),
  /** How many signals were held in the period when the job began. */
  held: integer("held").notNull(),
  /** Number of the page that is next, and where it begins. */
  page: integer("page").notNull(),
  cursor: integer("cursor").notNull(),
  sent: integer("sent").notNull(),
  /** When the job goes on. */
  dueAt: integer("due_at").notNull(),
  endedAt: integer("ended_at"),
  /** When the audit log had the numbers. */
  loggedAt: integer("logged_at"),
});

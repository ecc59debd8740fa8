/** The tables of both logs, in drizzle's language (see store/schema.ts). */
import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

// Both logs have the same tables: `signals` for recorded signals, `held` for held signals. Only log/ uses them.

export const heads = sqliteTable("heads", {
  log: integer().primaryKey(),
  next_seq: integer().notNull(),
  meta: text().notNull(),
  facts: blob().notNull(),
  payloads: blob().notNull(),
});

/** Summarizes the lines, so that a walk reads only segments that may have a wanted line. */
function segmentsOf(log: string) {
  return sqliteTable(
    `${log}_segments`,
    {
      first_seq: integer().primaryKey(),
      last_seq: integer().notNull(),
      /** Range of the times in the signal ids, without ids in the `late` table. */
      first_ms: integer().notNull(),
      last_ms: integer().notNull(),
      received_from: integer().notNull(),
      received_to: integer().notNull(),
      ordinal_from: integer().notNull(),
      ordinal_to: integer().notNull(),
      /** The earliest end of a billing period of the held lines; without held lines, the latest end of all lines. */
      period_end: integer().notNull(),
      /** See `statusLetter`. */
      statuses: text().notNull(),
      /** The object in R2 that has the payloads; null: the payloads are in the store, or lost. */
      cold: text(),
      cold_offset: integer().notNull().default(0),
      /** Bytes of the payloads in the object, or PAYLOADS_LOST. */
      cold_bytes: integer().notNull().default(0),
      /** See `groupMark`. */
      groups: blob().$type<ArrayBuffer>().notNull(),
    },
    (table) => {
      const time = index(`${log}_segments_time`).on(table.first_ms);
      if (log === "signals") return [time];
      // For segments with lines that are still held: the next purge, and the order of release.
      const hasHeld = sql`instr(statuses, 'h') > 0`;
      return [
        time,
        index("held_segments_due").on(table.period_end).where(hasHeld),
        index("held_segments_order").on(table.ordinal_from).where(hasHeld),
      ];
    },
  );
}

function factsOf(log: string) {
  return sqliteTable(`${log}_facts`, {
    first_seq: integer().primaryKey(),
    version: integer().notNull().default(0),
    /** HASH_BYTES of each line. */
    hashes: blob().notNull(),
    facts: blob().notNull(),
  });
}

function payloadsOf(log: string) {
  return sqliteTable(`${log}_payloads`, { first_seq: integer().primaryKey(), payloads: blob().notNull() });
}

/** Lines that the time in their id cannot find, see stored-log.ts. WITHOUT ROWID. */
function lateOf(log: string) {
  return sqliteTable(`${log}_late`, { id: text().notNull(), seq: integer().notNull() }, (table) => [
    primaryKey({ columns: [table.id, table.seq] }),
  ]);
}

export const signalsSegments = segmentsOf("signals");
export const signalsFacts = factsOf("signals");
export const signalsPayloads = payloadsOf("signals");
export const signalsLate = lateOf("signals");
export const heldSegments = segmentsOf("held");
export const heldFacts = factsOf("held");
export const heldPayloads = payloadsOf("held");
export const heldLate = lateOf("held");

/** Objects in R2, see log/cold.ts. A row is written before its object and deleted after it. */
export const coldObjects = sqliteTable(
  "cold_objects",
  {
    key: text().primaryKey(),
    /** `writing`: may be in R2, not used yet. `stored`: in use. `gaps`: in use, and some of its segments were dropped. `removing`. */
    state: text().notNull(),
    at: integer().notNull(),
    /** Bounds of the object's segments. */
    first_seq: integer().notNull(),
    last_seq: integer().notNull(),
  },
  // Every batch looks for unfinished objects, among up to a thousand a day.
  (table) => [index("cold_objects_state").on(table.state, table.at)],
);

/** Segments with deleted payloads that must leave R2. */
export const coldScrubs = sqliteTable("cold_scrubs", { first_seq: integer().primaryKey() });

export type SegmentRow = typeof signalsSegments.$inferSelect;

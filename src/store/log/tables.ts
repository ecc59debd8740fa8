/**
 * The tables of a log. `signals` is the log of what has been recorded, `held` that of held signals. Statements on them
 * are plain SQL, in this folder only.
 */
import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The head of each log: lines that are in no segment yet. Padded, so that SQLite writes only the pages that differ. */
export const heads = sqliteTable("heads", {
  log: integer("log").primaryKey(),
  nextSeq: integer("next_seq").notNull(),
  /** JSON of what whoever keeps the log adds to it, see head.ts. */
  meta: text("meta").notNull(),
  facts: blob("facts").notNull(),
  payloads: blob("payloads").notNull(),
});

function segmentsOf(log: string) {
  return sqliteTable(
    `${log}_segments`,
    {
      firstSeq: integer("first_seq").primaryKey(),
      lastSeq: integer("last_seq").notNull(),
      firstMs: integer("first_ms").notNull(),
      lastMs: integer("last_ms").notNull(),
      receivedFrom: integer("received_from").notNull(),
      receivedTo: integer("received_to").notNull(),
      ordinalFrom: integer("ordinal_from").notNull(),
      ordinalTo: integer("ordinal_to").notNull(),
      periodEnd: integer("period_end").notNull(),
      statuses: text("statuses").notNull(),
      cold: text("cold"),
      coldOffset: integer("cold_offset").notNull().default(0),
      coldBytes: integer("cold_bytes").notNull().default(0),
      groups: blob("groups").notNull(),
    },
    (table) => [
      index(`${log}_segments_time`).on(table.firstMs),
      // This index tells when held signals are purged next. It is partial: only the log of held signals has it, for lines
      // that are still held.
      ...(log === "held"
        ? [
            index("held_segments_due")
              .on(table.periodEnd)
              .where(sql`instr(statuses, 'h') > 0`),
            // The order in which held signals are released.
            index("held_segments_order")
              .on(table.ordinalFrom)
              .where(sql`instr(statuses, 'h') > 0`),
          ]
        : []),
    ],
  );
}

function factsOf(log: string) {
  return sqliteTable(`${log}_facts`, {
    firstSeq: integer("first_seq").primaryKey(),
    version: integer("version").notNull().default(0),
    /** HASH_BYTES of each line. */
    hashes: blob("hashes").notNull(),
    facts: blob("facts").notNull(),
  });
}

function payloadsOf(log: string) {
  return sqliteTable(`${log}_payloads`, {
    firstSeq: integer("first_seq").primaryKey(),
    payloads: blob("payloads").notNull(),
  });
}

/** Lines whose ids are not of the time of their segment. WITHOUT ROWID: the migration says so by hand. */
function lateOf(log: string) {
  return sqliteTable(`${log}_late`, { id: text("id").notNull(), seq: integer("seq").notNull() }, (table) => [
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

/** Objects in R2 with payloads of segments: written before the object is, deleted after it. See cold.ts. */
export const coldObjects = sqliteTable(
  "cold_objects",
  {
    key: text("key").primaryKey(),
    /**
     * The state: `writing` may or may not be in R2, and nothing refers to it; `unknown` was found in R2 after a restore of the
     * workspace, and an undo may need it; `removing` holds nothing that anybody needs.
     */
    state: text("state").$type<"writing" | "stored" | "unknown" | "removing">().notNull(),
    at: integer("at").notNull(),
    /** First and last line between which the object's segments are. */
    firstSeq: integer("first_seq").notNull(),
    lastSeq: integer("last_seq").notNull(),
  },
  // Every batch asks whether an object is not finished, of up to a thousand that a day makes.
  (table) => [index("cold_objects_state").on(table.state, table.at)],
);

/** Segments in R2 with payloads of which no copy may be left: their lines say which. See cold.ts. */
export const coldScrubs = sqliteTable("cold_scrubs", { firstSeq: integer("first_seq").primaryKey() });

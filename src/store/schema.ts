/**
 * The tables of the Signal Store. `npm run migrations` generates the migrations from this file. Times are milliseconds since 1970.
 * The generator does not support WITHOUT ROWID: such a table needs an edit of its migration by hand, each time it is created anew.
 */
import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { DayCounts } from "../domain/quota/day-counts.ts";
import type { RuleMatch } from "../domain/rules/mapping-rule.ts";

export * from "./accounts/tables.ts";
export * from "./deletion/tables.ts";
export * from "./events/tables.ts";
export * from "./people/tables.ts";
export * from "./rules/tables.ts";

// Both logs have the same tables: `signals` for recorded signals, `held` for held signals. Only log/ uses these tables.

/** The head of each log. Padded, so that SQLite writes only the pages that differ. See log/head.ts. */
export const heads = sqliteTable("heads", {
  log: integer("log").primaryKey(),
  nextSeq: integer("next_seq").notNull(),
  /** JSON of the data other than lines. */
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
      // Partial indexes of the held log, for segments with lines that are still held: the next purge, and the order of release.
      ...(log === "held"
        ? [
            index("held_segments_due")
              .on(table.periodEnd)
              .where(sql`instr(statuses, 'h') > 0`),
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

/** Lines that the time in their id cannot find, see log/log.ts. WITHOUT ROWID. */
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

/** Objects in R2, see log/cold.ts. A row is written before its object and deleted after it. */
export const coldObjects = sqliteTable(
  "cold_objects",
  {
    key: text("key").primaryKey(),
    /**
     * `writing`: may be in R2, not used yet. `unknown`: found in R2 after a restore, and needed if the restore is undone. `removing`: no
     * longer needed.
     */
    state: text("state").$type<"writing" | "stored" | "unknown" | "removing">().notNull(),
    at: integer("at").notNull(),
    /** Bounds of the object's segments. */
    firstSeq: integer("first_seq").notNull(),
    lastSeq: integer("last_seq").notNull(),
  },
  // Every batch looks for unfinished objects, among up to a thousand a day.
  (table) => [index("cold_objects_state").on(table.state, table.at)],
);

/** Segments with deleted payloads that must leave R2, see log/cold.ts. */
export const coldScrubs = sqliteTable("cold_scrubs", { firstSeq: integer("first_seq").primaryKey() });

/** Dead letters, and what deletions leave of them. */
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

/** The groups of the signal queue. WITHOUT ROWID. */
export const eventGroups = sqliteTable(
  "event_groups",
  {
    event: text("event").notNull(),
    source: text("source").notNull(),
    count: integer("count").notNull(),
    held: integer("held").notNull(),
    anonymous: integer("anonymous").notNull(),
    firstSeen: integer("first_seen").notNull(),
    lastSeen: integer("last_seen").notNull(),
    /** Day of `last_seen`, in days since 1970. An index on the time would be written with every signal. */
    lastDay: integer("last_day").notNull(),
    /** The original of the latest signal, and the ordinal of the latest signal. */
    sampleId: text("sample_id").notNull(),
    sampleOrdinal: integer("sample_ordinal").notNull(),
    /** The sample's line. A negative number is a line of the held log. */
    sampleSeq: integer("sample_seq").notNull(),
    /** `count` by day. */
    days: text("days").$type<DayCounts>().notNull().default(""),
  },
  (table) => [primaryKey({ columns: [table.event, table.source] }), index("event_groups_last_day").on(table.lastDay)],
);

/** The outcome of each rule version. Lines and timelines name an outcome by its id. */
export const outcomes = sqliteTable(
  "rule_outcomes",
  {
    id: integer("id").primaryKey(),
    ruleId: text("rule_id").notNull(),
    ruleVersion: integer("rule_version").notNull(),
    scoringSignal: text("scoring_signal").notNull(),
    points: integer("points").notNull(),
    /** Null: the rule scores every signal. */
    frequency: text("frequency").$type<NonNullable<RuleMatch["frequency"]>>(),
  },
  (table) => [uniqueIndex("rule_outcomes_rule").on(table.ruleId, table.ruleVersion)],
);

/** The signal that counts if a rule scores a person once, see state/rule-outcomes.ts. WITHOUT ROWID. */
export const once = sqliteTable(
  "once",
  {
    personId: integer("person_id").notNull(),
    ruleId: text("rule_id").notNull(),
    /** UTC day on which the signal was received, in days since 1970. */
    day: integer("day").notNull(),
    signalId: text("signal_id").notNull(),
  },
  (table) => [primaryKey({ columns: [table.personId, table.ruleId, table.day] })],
);

/** Counts of each mapping rule: scores in all, and on each of the latest days. */
export const ruleDays = sqliteTable("rule_days", {
  ruleId: text("rule_id").primaryKey(),
  count: integer("count").notNull(),
  days: text("days").$type<DayCounts>().notNull(),
});

/** Releases and replays, see returns/return-jobs.ts. Kept until a day after the audit log has their numbers. */
export const returns = sqliteTable("returns", {
  /** Id of the audit entry of the call that began the job. */
  id: text("id").primaryKey(),
  /** JSON of a ReturnScope. */
  scope: text("scope").notNull(),
  /** JSON list of the audit entries of later calls with the same scope. */
  joined: text("joined").notNull().default("[]"),
  requestedAt: integer("requested_at").notNull(),
  /** The last place when the job began. Later signals are not part of the job. */
  last: integer("last").notNull(),
  /** Number of held signals in the period when the job began. */
  held: integer("held").notNull(),
  /** Number of the next page, and where it begins. */
  page: integer("page").notNull(),
  cursor: integer("cursor").notNull(),
  sent: integer("sent").notNull(),
  dueAt: integer("due_at").notNull(),
  endedAt: integer("ended_at"),
  /** When the audit log got the numbers. */
  loggedAt: integer("logged_at"),
});

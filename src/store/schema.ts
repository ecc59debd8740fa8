/**
 * The tables of the Signal Store. `npm run migrations` makes migrations of this file; the store uses plain SQL and takes only row types
 * from here. Times are milliseconds since 1970, days are days since 1970. The generator does not support WITHOUT ROWID: such a table
 * needs a manual edit of each migration that creates it.
 */
import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { AccountField } from "../domain/accounts/payload-template.ts";
import type { DayCounts } from "../domain/day-counts.ts";
import type { RuleMatch } from "../domain/rules/mapping-rule.ts";
import type { DeadLetterStatus } from "../domain/signal/signal.ts";
import { eachTrait } from "../domain/signal/traits.ts";
import type { RuleJobStatus } from "./protocol/store-operations.ts";

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
      /** Of the held lines, the earliest end of a billing period; without held lines, the latest end of all lines. */
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

/** Lines that the time in their id cannot find, see log/log.ts. WITHOUT ROWID. */
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
    /** `writing`: may be in R2, not used yet. `stored`: in use. `removing`. */
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

export const deadLetters = sqliteTable(
  "dead_letters",
  {
    seq: integer().primaryKey({ autoIncrement: true }),
    id: text().notNull(),
    /** `purged`: by a deletion. */
    status: text().$type<DeadLetterStatus>().notNull(),
    admission: text().notNull(),
    reason: text().notNull(),
    payload: text(),
    recorded_at: integer().notNull(),
    received_at: integer().notNull(),
    deleted_at: integer(),
  },
  (table) => [index("dead_letters_id").on(table.id), index("dead_letters_received").on(table.received_at)],
);

/** Groups of the signal queue. WITHOUT ROWID. */
export const eventGroups = sqliteTable(
  "event_groups",
  {
    event: text().notNull(),
    source: text().notNull(),
    count: integer().notNull(),
    held: integer().notNull(),
    anonymous: integer().notNull(),
    first_seen: integer().notNull(),
    last_seen: integer().notNull(),
    /** Day of `last_seen`. An index on the time would be written with every signal. */
    last_day: integer().notNull(),
    /** The original of the latest signal, and the ordinal of the latest signal. */
    sample_id: text().notNull(),
    sample_ordinal: integer().notNull(),
    /** A negative number is a line of the held log. */
    sample_seq: integer().notNull(),
    days: text().$type<DayCounts>().notNull().default(""),
  },
  (table) => [primaryKey({ columns: [table.event, table.source] }), index("event_groups_last_day").on(table.last_day)],
);

/** Lines and timelines name an outcome by its id. */
export const ruleOutcomes = sqliteTable(
  "rule_outcomes",
  {
    id: integer().primaryKey(),
    rule_id: text().notNull(),
    rule_version: integer().notNull(),
    scoring_signal: text().notNull(),
    points: integer().notNull(),
    frequency: text().$type<NonNullable<RuleMatch["frequency"]>>(),
    last_days: integer().$type<NonNullable<RuleMatch["lastDays"]>>(),
  },
  (table) => [uniqueIndex("rule_outcomes_rule").on(table.rule_id, table.rule_version)],
);

/** The signal that counts if a rule scores a person once, see state/rule-outcomes.ts. WITHOUT ROWID. */
export const once = sqliteTable(
  "once",
  {
    person_id: integer().notNull(),
    rule_id: text().notNull(),
    /** UTC day of the occurrence. */
    day: integer().notNull(),
    signal_id: text().notNull(),
    /** For a once-ever rule whose points lapse: the outcome that counts, and the day from which its points count. */
    outcome: integer(),
    from_day: integer(),
  },
  (table) => [primaryKey({ columns: [table.person_id, table.rule_id, table.day] })],
);

/** Number of scores of each mapping rule. */
export const ruleDays = sqliteTable("rule_days", {
  rule_id: text().primaryKey(),
  count: integer().notNull(),
  days: text().$type<DayCounts>().notNull(),
});

/** Releases and replays, until a day after the audit log has their numbers. */
export const returns = sqliteTable("returns", {
  /** Id of the audit entry of the call that began the job. */
  id: text().primaryKey(),
  /** JSON of a ResendScope. */
  scope: text().notNull(),
  /** JSON list of the audit entries of later calls with the same scope. */
  joined: text().notNull().default("[]"),
  requested_at: integer().notNull(),
  /** Of a replay: the last dead letter when the job began. */
  last: integer().notNull(),
  /** Held signals of the period when the job began. */
  held: integer().notNull(),
  page: integer().notNull(),
  cursor: integer().notNull(),
  sent: integer().notNull(),
  due_at: integer().notNull(),
  ended_at: integer(),
  logged_at: integer(),
});

/** A person (spec §2.3). Their numbers are never used twice. */
export const people = sqliteTable(
  "people",
  {
    id: integer().primaryKey(),
    email: text().notNull(),
    ...eachTrait(() => text()),
    /** The searchable traits, see people/people.ts. */
    names: text().notNull().default(""),
    /** Received order of the signals that the traits came from: the latest wins, field by field. */
    trait_orders: text().notNull().default(""),
    score: integer().notNull().default(0),
    /** The part of the score that lapses, see people/scoring.ts, and when its next part does; null: nothing lapses. */
    lapses: text().notNull().default(""),
    next_lapse_at: integer(),
    account: text(),
    first_seen: integer().notNull(),
    last_seen: integer().notNull(),
    last_day: integer().notNull(),
    /** The latest entries of the person's timeline, see people/timelines.ts. */
    recent: text().notNull().default(""),
    /** Number of the person's ids in `identities`, and of dropped ids. A person keeps PERSON_MAX_IDS of a kind. */
    anonymous_ids: integer().notNull().default(0),
    user_ids: integer().notNull().default(0),
    ids_dropped: integer().notNull().default(0),
  },
  (table) => [
    // A statement that names an indexed column writes the index too.
    index("people_last_day").on(table.last_day),
    index("people_score")
      .on(table.score)
      .where(sql`score <> 0`),
    // Finds people by email, and by a part of the email or the traits. Emails are unique, because the store looks first.
    index("people_email").on(table.email, table.names),
    index("people_next_lapse")
      .on(table.next_lapse_at)
      .where(sql`next_lapse_at IS NOT NULL`),
    index("people_account")
      .on(table.account)
      .where(sql`account IS NOT NULL`),
  ],
);

/** An anonymous id or user id, and the persons that it was claimed for, in order of receipt (spec §2.3). WITHOUT ROWID. */
export const identities = sqliteTable(
  "identities",
  {
    key: blob().notNull(),
    at: integer().notNull(),
    ordinal: integer().notNull(),
    person_id: integer().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.key, table.at, table.ordinal] }),
    index("identities_person").on(table.person_id, table.at, table.ordinal),
  ],
);

/** Pairs of ids of one visitor, from an identify without email or an alias, in both directions. WITHOUT ROWID. */
export const pairs = sqliteTable(
  "pairs",
  { key: blob().notNull(), other_key: blob().notNull(), at: integer().notNull(), ordinal: integer().notNull() },
  (table) => [primaryKey({ columns: [table.key, table.other_key] })],
);

/** Lists of lines, see people/timelines.ts. WITHOUT ROWID. */
export const timelines = sqliteTable(
  "timelines",
  { list: blob().notNull(), first_seq: integer().notNull(), entries: text().notNull() },
  (table) => [primaryKey({ columns: [table.list, table.first_seq] })],
);

/** Known visitors with earlier signals that must still be linked, see people/linking.ts. */
export const linkJobs = sqliteTable(
  "link_jobs",
  {
    key: blob().notNull(),
    due_at: integer().notNull(),
    /** JSON of LinkCounts: changes of scores by the job's steps, which are notified at its end. */
    counts: text().notNull().default("[]"),
  },
  (table) => [primaryKey({ columns: [table.key] }), index("link_jobs_due").on(table.due_at)],
);

/** People whose times and traits are being recounted, see people/people.ts. Lines before this line remain; null: all remain. */
export const recounts = sqliteTable("recounts", { person_id: integer().primaryKey(), before: integer() });

/** Rules that score once and whose match was removed. A replacement is searched after this line, see people/scoring.ts. WITHOUT ROWID. */
export const replacements = sqliteTable(
  "replacements",
  { person_id: integer().notNull(), rule_id: text().notNull(), behind_seq: integer().notNull() },
  (table) => [primaryKey({ columns: [table.person_id, table.rule_id] })],
);

/** Hashes of deleted people's names, because signals received before the deletion may still be in transit. */
export const deletedNames = sqliteTable(
  "deleted_names",
  {
    hash: text().notNull(),
    /** Signals received after this time are not the deleted person's. */
    at: integer().notNull(),
    /** When the person claimed an id that several people claimed. Some of them may be deleted already. */
    since: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.hash, table.since] }), index("deleted_names_at").on(table.at)],
);

/** Jobs that apply a rule to stored signals: the latest job of each rule. */
export const ruleJobs = sqliteTable(
  "rule_jobs",
  {
    rule_id: text().primaryKey(),
    /** JSON of the rule as it is applied; null: it is deleted or disabled, and its scores are removed. */
    rule: text(),
    /** Version of the rule. Outcomes of newer versions stay. Null: the rule is deleted, so there will be none. */
    rule_version: integer(),
    /** The workspace's rules version when this rule was read. Signals evaluated with older rules are refused. */
    rules_version: integer().notNull(),
    status: text().$type<RuleJobStatus>().notNull(),
    requested_at: integer().notNull(),
    started_at: integer(),
    finished_at: integer(),
    /** Later than now if a payload could not be read. */
    due_at: integer().notNull(),
    /** The last line to process. Later lines were recorded with this version of the rule or a newer one. */
    last_seq: integer().notNull(),
    /** With a person: the start of the last processed row of the person's timeline. */
    position: integer().notNull(),
    /** The person whose timeline is searched for scores of dropped signals; null: the job processes lines. */
    person_id: integer(),
    total: integer().notNull(),
    scanned: integer().notNull(),
    matched: integer().notNull(),
    added: integer().notNull(),
    changed: integer().notNull(),
    removed: integer().notNull(),
    /** Notified at the end of the job. `crossings`: JSON of Crossings. */
    points: integer().notNull().default(0),
    crossings: text().notNull().default("[]"),
  },
  (table) => [
    index("rule_jobs_unfinished")
      .on(table.due_at)
      .where(sql`status <> 'done'`),
    index("rule_jobs_rules_version").on(table.rules_version),
  ],
);

/** Wait to be handed to Destinations. */
export const raisedNotifications = sqliteTable("raised_notifications", {
  /** End position of the row among everything ever raised, in characters. */
  row: integer().primaryKey(),
  /** JSON of an array of events. */
  body: text().notNull(),
});

/** The receipt, and the remaining work while a deletion is in progress. */
export const deletions = sqliteTable(
  "deletions",
  {
    id: text().primaryKey(),
    /** A receipt is found by this hash. */
    email_hash: text().notNull(),
    requested_at: integer().notNull(),
    /** Latest request for the deletion: signals received later belong to a new person. */
    asked_at: integer().notNull(),
    /** Completion, including R2; null: in progress. */
    finished_at: integer(),
    /** The email that is still searched for; null: the search is done, or there was no such person. */
    email: text(),
    person_id: integer(),
    /** The next step, and the last line or dead letter that it has processed. */
    step: text().$type<"identities" | "lines" | "held" | "dead_letters" | "cold">().notNull(),
    position: integer().notNull(),
    people: integer().notNull(),
    identities: integer().notNull(),
    signals: integer().notNull(),
    anonymous: integer().notNull(),
    held: integer().notNull(),
    dead_letters: integer().notNull(),
    scoring_signals: integer().notNull(),
    cold_objects: integer().notNull(),
    /** 1 until Destinations have deleted the person, else 0. */
    hand_over: integer().notNull().default(0),
  },
  (table) => [
    index("deletions_email_hash").on(table.email_hash, table.requested_at),
    index("deletions_finished").on(table.finished_at, table.requested_at),
  ],
);

export const retention = sqliteTable("retention", {
  id: integer().primaryKey(),
  days: integer(),
  next_at: integer().notNull(),
  /** When the latest deleted signal was received: names of people may come from signals up to then. */
  deleted_until: integer().notNull(),
});

/** Values are JSON, as the payload templates make them (design §8.7); null: none was sent. */
export const accounts = sqliteTable(
  "accounts",
  {
    id: integer().primaryKey(),
    external_id: text().notNull().unique(),
    name: text(),
    plan: text(),
    user_count: text(),
    recurring_revenue: text(),
    trial_status: text(),
    feature_flags: text(),
    attributes: text().notNull(),
    /** JSON of ValueClaims, by target. */
    claims: text().notNull(),
    first_seen: integer().notNull(),
    last_seen: integer().notNull(),
    score: integer().notNull().default(0),
    people: integer().notNull().default(0),
  },
  (table) => [index("accounts_last_seen").on(table.last_seen)],
);

export const accountChanges = sqliteTable(
  "account_changes",
  {
    account_id: integer().notNull(),
    field: text().$type<AccountField>().notNull(),
    /** The update that carried the value after. */
    at: integer().notNull(),
    ordinal: integer().notNull(),
    signal_id: text().notNull(),
    before: text(),
    after: text().notNull(),
    /** The latest update that carried the value before. */
    before_at: integer(),
    before_ordinal: integer(),
    before_signal_id: text(),
  },
  (table) => [
    primaryKey({ columns: [table.account_id, table.field, table.at, table.ordinal] }),
    index("account_changes_latest").on(table.account_id, table.at, table.ordinal),
  ],
);

export type SegmentRow = typeof signalsSegments.$inferSelect;
export type DeadLetterRow = typeof deadLetters.$inferSelect;
export type EventGroupRow = typeof eventGroups.$inferSelect;
export type PersonRow = typeof people.$inferSelect;
export type RuleJobRow = typeof ruleJobs.$inferSelect;
export type DeletionRow = typeof deletions.$inferSelect;
export type AccountRow = typeof accounts.$inferSelect;
export type AccountChangeRow = typeof accountChanges.$inferSelect;
export type RuleOutcomeRow = typeof ruleOutcomes.$inferSelect;
export type ResendJobRow = typeof returns.$inferSelect;

/**
 * The tables of the Signal Store. `npm run migrations` makes migrations of this file; the store uses plain SQL and takes only row types
 * from here. Times are milliseconds since 1970, days are days since 1970. The generator does not support WITHOUT ROWID: such a table
 * needs a manual edit of the migration that creates it.
 */
import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { AccountField } from "../domain/accounts/payload-template.ts";
import type { DayCounts } from "../domain/duration.ts";
import type { RuleMatch } from "../domain/rules/mapping-rule.ts";
import type { DeadLetterStatus } from "../domain/signal/signal.ts";
import { eachTrait } from "../domain/signal/traits.ts";
import type { RuleJobStatus } from "./protocol/store-operations.ts";

export const deadLetters = sqliteTable(
  "dead_letters",
  {
    seq: integer().primaryKey({ autoIncrement: true }),
    id: text().notNull(),
    /** `purged`: by a deletion, or a misfit after MISFIT_KEPT_DAYS. */
    status: text().$type<DeadLetterStatus>().notNull(),
    admission: text().notNull(),
    reason: text().notNull(),
    /** As sent; of a misfit, as a zstd frame. */
    payload: text().$type<string | ArrayBuffer>(),
    recorded_at: integer().notNull(),
    received_at: integer().notNull(),
    deleted_at: integer(),
    /** JSON of `Problems`; null: there are none. */
    problems: text(),
    /** Bytes of the payload of a waiting misfit; null: another dead letter, or purged. */
    misfit_bytes: integer(),
  },
  (table) => [
    index("dead_letters_id").on(table.id),
    index("dead_letters_received").on(table.received_at),
    index("dead_letters_misfits")
      .on(table.recorded_at)
      .where(sql`misfit_bytes IS NOT NULL`),
  ],
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
export const singleScores = sqliteTable(
  "single_scores",
  {
    person_id: integer().notNull(),
    rule_id: text().notNull(),
    /** UTC day of the occurrence. */
    day: integer().notNull(),
    signal_id: text().notNull(),
    /** Line of the signal. */
    seq: integer().notNull(),
    /** For a once-ever rule whose points lapse: the outcome that counts, and the day from which its points count. */
    outcome: integer(),
    from_day: integer(),
  },
  (table) => [primaryKey({ columns: [table.person_id, table.rule_id, table.day] })],
);

/** Number of scores of each mapping rule. WITHOUT ROWID. */
export const ruleDays = sqliteTable("rule_days", {
  rule_id: text().primaryKey(),
  count: integer().notNull(),
  days: text().$type<DayCounts>().notNull(),
});

/** Admitted signals of each key and billing period, see state/key-days.ts. WITHOUT ROWID. */
export const keyDays = sqliteTable(
  "key_days",
  {
    key_id: text().notNull(),
    /** When the billing period began. */
    period_start: integer().notNull(),
    count: integer().notNull(),
    days: text().$type<DayCounts>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.key_id, table.period_start] })],
);

/** Releases and replays, until a day after the audit log has their numbers. */
export const resendJobs = sqliteTable("resend_jobs", {
  /** Id of the audit entry of the call that began the job. */
  id: text().primaryKey(),
  /** JSON of a ResendScope. */
  scope: text().notNull(),
  /** JSON list of the audit entries of later calls with the same scope. */
  joined: text().notNull().default("[]"),
  requested_at: integer().notNull(),
  /** For a replay: the last dead letter when the job began. */
  last: integer().notNull(),
  /** Held signals of the period when the job began. */
  held: integer().notNull(),
  batch: integer().notNull(),
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
    /** While `replacements` has rows of the person: the score that was last compared with thresholds; else null. */
    score_before: integer(),
    /** The part of the score that lapses, see people/scoring.ts, and when its next part does; null: nothing lapses. */
    lapses: text().notNull().default(""),
    next_lapse_at: integer(),
    account: text(),
    first_seen: integer().notNull(),
    last_seen: integer().notNull(),
    last_day: integer().notNull(),
    /** The latest entries of the person's timeline, see people/timelines.ts. */
    recent: text().notNull().default(""),
    /** JSON of a PersonBase: what comes from lines that retention has dropped; empty: none was. */
    base: text().notNull().default(""),
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
    index("people_recomputed")
      .on(table.account)
      .where(sql`score_before IS NOT NULL`),
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

/** Lists of lines, see people/timelines.ts. The sums come before the entries, so that SQLite reads them without the entries. WITHOUT ROWID. */
export const timelines = sqliteTable(
  "timelines",
  {
    list: blob().notNull(),
    from_seq: integer().notNull(),
    /** Earliest and latest occurrence; null: the list of a visitor. */
    first_ms: integer(),
    last_ms: integer(),
    /** The fields that the lines carry, a bit each, and the latest receipt of a line with a field. */
    fields: integer().notNull().default(0),
    traits_at: integer().notNull().default(0),
    /** The first day on which an entry of a dropped line can go; null: none can. */
    lapse_day: integer(),
    entries: text().notNull(),
  },
  (table) => [primaryKey({ columns: [table.list, table.from_seq] })],
);

/** Known visitors with earlier signals that must still be linked, see people/linking.ts. WITHOUT ROWID. */
export const linkJobs = sqliteTable(
  "link_jobs",
  {
    key: blob().notNull(),
    due_at: integer().notNull(),
    /** JSON of LinkCounts: changes of scores by the job's steps, which a notification reports at its end. */
    counts: text().notNull().default("[]"),
  },
  (table) => [primaryKey({ columns: [table.key] }), index("link_jobs_due").on(table.due_at)],
);

/** Rules that score once and whose match was removed. A replacement is searched after this line, see people/replacements.ts. WITHOUT ROWID. */
export const replacements = sqliteTable(
  "replacements",
  { person_id: integer().notNull(), rule_id: text().notNull(), behind_seq: integer().notNull() },
  (table) => [
    primaryKey({ columns: [table.person_id, table.rule_id] }),
    index("replacements_rule").on(table.rule_id, table.person_id),
  ],
);

/** Thresholds that people passed in the current run of lapses. Raised when the run ends, see people/lapse-run.ts. WITHOUT ROWID. */
export const lapseCrossings = sqliteTable(
  "lapse_crossings",
  {
    person_id: integer().notNull(),
    threshold: integer().notNull(),
    score: integer().notNull(),
    score_before: integer().notNull(),
    at: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.person_id, table.threshold] })],
);

/** Hashes of deleted people's names: of the email, and of each id with each claim. They outlast signals in transit. WITHOUT ROWID. */
export const deletedNames = sqliteTable(
  "deleted_names",
  {
    hash: text().notNull(),
    /** See `markOfName`; null: an email of which only the hash is known. */
    mark: integer(),
    /** Received order of the claim by which the person had the id; 0 and 0: the name is the email. */
    at: integer().notNull(),
    ordinal: integer().notNull(),
    /** `person_id` of the deletion. */
    deletion: integer().notNull(),
    /** Signals received after this time are not the deleted person's. */
    until: integer().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.hash, table.at, table.ordinal, table.deletion] }),
    index("deleted_names_deletion").on(table.deletion),
  ],
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
    /** The workspace's rules version when this rule was read. Signals evaluated with older rules are rejected. */
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
    /** Reported at the end of the job. `crossings`: JSON of Crossings. */
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

/** Notifications and deletions that wait to be forwarded to Destinations. */
export const raisedNotifications = sqliteTable("raised_notifications", {
  /** End position of the row among everything ever raised, in characters. */
  row: integer().primaryKey(),
  /** JSON of an array of notifications. */
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
    last_requested_at: integer().notNull(),
    /** Completion, including R2; null: in progress. */
    finished_at: integer(),
    /** The number of the person; an unused number if there was no such person. Ids that are found later are claimed for this number. */
    person_id: integer().notNull(),
    /** The next step, and the last line or dead letter that it has processed. `cold`: the search is done. */
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
    to_forward: integer().notNull().default(0),
  },
  (table) => [
    index("deletions_email_hash").on(table.email_hash, table.requested_at),
    index("deletions_finished").on(table.finished_at, table.requested_at),
    index("deletions_last_requested").on(table.last_requested_at),
    uniqueIndex("deletions_person").on(table.person_id),
  ],
);

export const retention = sqliteTable("retention", {
  id: integer().primaryKey(),
  days: integer(),
  next_at: integer().notNull(),
  /** When the latest deleted signal was received: names of people may come from signals up to then. */
  deleted_until: integer().notNull(),
});

/** Values are JSON, as the payload templates make them; null: none was sent. */
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
    /** JSON of ValueOrigins, by target. */
    claims: text().notNull(),
    /** Earliest receipt of an update, or of a group call with traits; null: only members have named the account. */
    first_named_at: integer(),
    /** The earliest of `first_named_at` and `people.first_seen` of the members. */
    first_seen: integer().notNull(),
    last_seen: integer().notNull(),
    score: integer().notNull().default(0),
    /** While a member has a `score_before`: the score that was last compared with thresholds; else null. */
    score_before: integer(),
    people: integer().notNull().default(0),
    /** JSON of HistorySizes: how much `account_changes` has of each field. */
    histories: text().notNull().default("{}"),
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

export type DeadLetterRow = typeof deadLetters.$inferSelect;
export type EventGroupRow = typeof eventGroups.$inferSelect;
export type PersonRow = typeof people.$inferSelect;
export type RuleJobRow = typeof ruleJobs.$inferSelect;
export type DeletionRow = typeof deletions.$inferSelect;
export type AccountRow = typeof accounts.$inferSelect;
export type AccountChangeRow = typeof accountChanges.$inferSelect;
export type RuleOutcomeRow = typeof ruleOutcomes.$inferSelect;
export type ResendJobRow = typeof resendJobs.$inferSelect;

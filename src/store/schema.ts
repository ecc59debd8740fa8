/**
 * The tables of the Signal Store. `npm run migrations` generates the migrations from this file. Times are milliseconds since 1970.
 * The generator does not support WITHOUT ROWID: such a table needs an edit of its migration by hand, each time it is created anew.
 */
import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { AccountField } from "../domain/accounts/payload-template.ts";
import type { DayCounts } from "../domain/quota/day-counts.ts";
import type { MappingRule, RuleMatch } from "../domain/rules/mapping-rule.ts";
import type { DeadLetterStatus } from "../domain/signal/signal.ts";
import { eachTrait } from "../domain/signal/traits.ts";
import type { ValueClaims } from "./accounts/accounts.ts";
import type { Crossings } from "./state/raise-events.ts";
import type { RuleJobStatus } from "./protocol/store-operations.ts";

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
    status: text("status").$type<DeadLetterStatus>().notNull(),
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

/** Releases and replays, see return-jobs.ts. Kept until a day after the audit log has their numbers. */
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

/** A person (spec §2.3): created for an email, enriched from traits. Their numbers are never used twice. */
export const people = sqliteTable(
  "people",
  {
    id: integer("id").primaryKey(),
    email: text("email").notNull(),
    ...eachTrait(() => text()),
    /** The searchable traits as they are searched, see people/people.ts. */
    names: text("names").notNull().default(""),
    /** Received order of the signals that the traits came from: the latest wins, field by field. */
    traitOrders: text("trait_orders").notNull().default(""),
    /** Sum of the points that the person's signals have scored. */
    score: integer("score").notNull().default(0),
    firstSeen: integer("first_seen").notNull(),
    lastSeen: integer("last_seen").notNull(),
    /** Day of `last_seen`, in days since 1970: an index on the time would be written with every signal. */
    lastDay: integer("last_day").notNull(),
    /** The latest entries of the list of the person's signals, see timelines.ts. */
    recent: text("recent").notNull().default(""),
    /**
     * Number of the person's ids in `identities`, and number of dropped ones. A person keeps at most PERSON_MAX_IDS
     * of a kind.
     */
    anonymousIds: integer("anonymous_ids").notNull().default(0),
    userIds: integer("user_ids").notNull().default(0),
    idsDropped: integer("ids_dropped").notNull().default(0),
  },
  (table) => [
    // Indexes that order the list of people. An index row is written whenever a statement names its column.
    index("people_last_day").on(table.lastDay),
    index("people_score")
      .on(table.score)
      .where(sql`score <> 0`),
    // This index finds people by their email, and by a part of it or of the traits. No two have the same email:
    // people/people.ts looks first.
    index("people_email").on(table.email, table.names),
  ],
);

/**
 * Identity resolution records (spec §2.3): an anonymous id or user id, and the persons it has been claimed for, in order
 * of receipt (people/identities.ts). Keys: people/visitors.ts. WITHOUT ROWID: the migration says so by hand.
 */
export const identities = sqliteTable(
  "identities",
  {
    key: blob("key").notNull(),
    at: integer("at").notNull(),
    ordinal: integer("ordinal").notNull(),
    personId: integer("person_id").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.key, table.at, table.ordinal] }),
    index("identities_person").on(table.personId, table.at, table.ordinal),
  ],
);

/**
 * Pairs of ids of one visitor, from an identify without email or an alias, stored in both directions. WITHOUT ROWID.
 */
export const pairs = sqliteTable(
  "pairs",
  {
    key: blob("key").notNull(),
    otherKey: blob("other_key").notNull(),
    at: integer("at").notNull(),
    ordinal: integer("ordinal").notNull(),
  },
  (table) => [primaryKey({ columns: [table.key, table.otherKey] })],
);

/** Lists of lines, see timelines.ts. WITHOUT ROWID. */
export const timelines = sqliteTable(
  "timelines",
  { list: blob("list").notNull(), firstSeq: integer("first_seq").notNull(), entries: text("entries").notNull() },
  (table) => [primaryKey({ columns: [table.list, table.firstSeq] })],
);

/** Visitors that are known by now, with earlier signals that are still to become their person's. See linking.ts. */
export const linkJobs = sqliteTable(
  "link_jobs",
  {
    key: blob("key").notNull(),
    dueAt: integer("due_at").notNull(),
    /** JSON of LinkCounts: changes of scores by the job's steps, which are notified at its end. */
    counts: text("counts").notNull().default("[]"),
  },
  (table) => [primaryKey({ columns: [table.key] }), index("link_jobs_due").on(table.dueAt)],
);

/**
 * People whose times and traits are being recounted, see recount.ts. Lines before this one remain; null: all remain.
 */
export const recounts = sqliteTable("recounts", {
  personId: integer("person_id").primaryKey(),
  before: integer("before"),
});

/**
 * Rules that score once a day, or once ever, with a removed match: the person's line after which a replacing match is
 * searched. See people/scoring.ts. WITHOUT ROWID.
 */
export const replacements = sqliteTable(
  "replacements",
  {
    personId: integer("person_id").notNull(),
    ruleId: text("rule_id").notNull(),
    behindSeq: integer("behind_seq").notNull(),
  },
  (table) => [primaryKey({ columns: [table.personId, table.ruleId] })],
);

/** Hashes of deleted people's names, because signals received before the deletion may still be in transit. */
export const deletedNames = sqliteTable(
  "deleted_names",
  {
    hash: text("hash").notNull(),
    /** Signals received after this time are not the deleted person's. */
    at: integer("at").notNull(),
    /** Start of the person's ownership of an id with several owners, some of whom may have been deleted. */
    since: integer("since").notNull(),
  },
  (table) => [primaryKey({ columns: [table.hash, table.since] }), index("deleted_names_at").on(table.at)],
);

/** Jobs that apply a rule to stored signals: one row per rule, for its latest job. See rule-jobs.ts. */
export const ruleJobs = sqliteTable(
  "rule_jobs",
  {
    ruleId: text("rule_id").primaryKey(),
    /** The rule as it is applied; null: it is deleted or disabled, and what it scored is removed. */
    rule: text("rule", { mode: "json" }).$type<MappingRule>(),
    /** Version of the rule: what newer versions have made is let alone. Null: it is deleted, there will be none. */
    ruleVersion: integer("rule_version"),
    /**
     * The workspace's rules version when this rule was read: signals processed with older rules are no longer
     * accepted.
     */
    rulesVersion: integer("rules_version").notNull(),
    status: text("status").$type<RuleJobStatus>().notNull(),
    requestedAt: integer("requested_at").notNull(),
    startedAt: integer("started_at"),
    finishedAt: integer("finished_at"),
    /** When the job goes on: later than now where a payload could not be had. */
    dueAt: integer("due_at").notNull(),
    /** The last line to process: later ones were recorded with this version of the rule or a newer one. */
    lastSeq: integer("last_seq").notNull(),
    /** The line that was looked at last; with a person, where the row of their list begins that was looked at last. */
    position: integer("position").notNull(),
    /** The person whose list is being gone through for scores of dropped signals; null: lines are. */
    personId: integer("person_id"),
    total: integer("total").notNull(),
    scanned: integer("scanned").notNull(),
    matched: integer("matched").notNull(),
    added: integer("added").notNull(),
    changed: integer("changed").notNull(),
    removed: integer("removed").notNull(),
    /** Changes of scores by the job's steps, notified at its end. */
    points: integer("points").notNull().default(0),
    crossings: text("crossings", { mode: "json" }).$type<Crossings[]>().notNull().default([]),
  },
  (table) => [
    index("rule_jobs_unfinished")
      .on(table.dueAt)
      .where(sql`status <> 'done'`),
    index("rule_jobs_rules_version").on(table.rulesVersion),
  ],
);

export const raisedEvents = sqliteTable("raised_notifications", {
  /** End position of the row among everything ever raised, in characters. */
  row: integer("row").primaryKey(),
  /** JSON of an array of events. */
  body: text("body").notNull(),
});

export type DeletionStage = "identities" | "lines" | "held" | "dead_letters" | "cold";

/** Deletions of people: the receipt, and the remaining work while in progress. See person-deletions.ts. */
export const deletions = sqliteTable(
  "deletions",
  {
    id: text("id").primaryKey(),
    /** The email's hash, by which a receipt is found: see deletion/deleted-names.ts. */
    emailHash: text("email_hash").notNull(),
    requestedAt: integer("requested_at").notNull(),
    /** Latest request for the deletion: signals received later belong to a new person. */
    askedAt: integer("asked_at").notNull(),
    /** Completion, including R2; null: in progress. */
    finishedAt: integer("finished_at"),
    /** The email that is still to be looked for; null once that is done, and where there was no such person. */
    email: text("email"),
    personId: integer("person_id"),
    /** The step that is next, and how far it is: see person-deletions.ts. */
    step: text("step").$type<DeletionStage>().notNull(),
    position: integer("position").notNull(),
    people: integer("people").notNull(),
    identities: integer("identities").notNull(),
    signals: integer("signals").notNull(),
    anonymous: integer("anonymous").notNull(),
    held: integer("held").notNull(),
    deadLetters: integer("dead_letters").notNull(),
    scoringSignals: integer("scoring_signals").notNull(),
    coldObjects: integer("cold_objects").notNull(),
    /** 1 until Destinations have deleted the person, else 0. */
    handOver: integer("hand_over").notNull().default(0),
  },
  (table) => [
    index("deletions_email_hash").on(table.emailHash, table.requestedAt),
    index("deletions_finished").on(table.finishedAt, table.requestedAt),
  ],
);

/** One row: the retention. See retention.ts. */
export const retention = sqliteTable("retention", {
  id: integer("id").primaryKey(),
  /** Days for which signals are kept; null: forever. */
  days: integer("days"),
  /** When retention next looks for signals that have been kept long enough. */
  nextAt: integer("next_at").notNull(),
  /** Receipt of the latest deleted signal: names of people may come from signals up to then. */
  deletedUntil: integer("deleted_until").notNull(),
});

/** Accounts (design §8.7). Values are JSON, as the payload templates make them; null where none was sent. */
export const accounts = sqliteTable(
  "accounts",
  {
    id: integer("id").primaryKey(),
    externalId: text("external_id").notNull().unique(),
    name: text("name", { mode: "json" }).$type<unknown>(),
    plan: text("plan", { mode: "json" }).$type<unknown>(),
    userCount: text("user_count", { mode: "json" }).$type<unknown>(),
    recurringRevenue: text("recurring_revenue", { mode: "json" }).$type<unknown>(),
    trialStatus: text("trial_status", { mode: "json" }).$type<unknown>(),
    featureFlags: text("feature_flags", { mode: "json" }).$type<unknown>(),
    attributes: text("attributes", { mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** The latest update that carried each value, by target: the latest by receipt wins, field by field. */
    claims: text("claims", { mode: "json" }).$type<ValueClaims>().notNull(),
    firstSeen: integer("first_seen").notNull(),
    lastSeen: integer("last_seen").notNull(),
  },
  (table) => [index("accounts_last_seen").on(table.lastSeen)],
);

/** Changes of accounts' fields, each with the value before and after, in order of receipt. See accounts.ts. */
export const accountChanges = sqliteTable(
  "account_changes",
  {
    accountId: integer("account_id").notNull(),
    field: text("field").$type<AccountField>().notNull(),
    /** Receipt of the update that carried the value after; its ordinal and its signal are beside it. */
    at: integer("at").notNull(),
    ordinal: integer("ordinal").notNull(),
    signalId: text("signal_id").notNull(),
    before: text("before", { mode: "json" }).$type<unknown>(),
    after: text("after", { mode: "json" }).$type<unknown>().notNull(),
    /** The latest update that carried the value before. */
    beforeAt: integer("before_at"),
    beforeOrdinal: integer("before_ordinal"),
    beforeSignalId: text("before_signal_id"),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.field, table.at, table.ordinal] }),
    index("account_changes_latest").on(table.accountId, table.at, table.ordinal),
  ],
);

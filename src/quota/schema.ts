/**
 * The tables of the Quota Counter. `npm run migrations` makes migrations of this file; the counter uses plain SQL and takes only row
 * types from here. Times are milliseconds since 1970 unless a comment says days. The generator does not support WITHOUT ROWID: such a
 * table needs a manual edit of the migration that creates it.
 */
import { sql } from "drizzle-orm";
import { blob, check, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { RejectionCode } from "../domain/keys/rejection.ts";
import { eachVerdict } from "../domain/quota/quota.ts";

/** Signals by verdict. The default is for rows that are older than a new verdict. */
const verdicts = () => eachVerdict(() => integer().notNull().default(0));

/** Counts of the current billing period, in one row. The outbox may have newer counts, see ledger.ts. */
export const ledger = sqliteTable(
  "ledger",
  {
    id: integer().primaryKey(),
    /** When the workspace's first billing period began. */
    anchor_ms: integer().notNull(),
    period_start_ms: integer().notNull(),
    period_end_ms: integer().notNull(),
    ...verdicts(),
    overage: integer().notNull(),
    /** Consecutive paid periods beyond the limit, with overages off. */
    streak: integer().notNull(),
    /** Signals admitted since the counter exists. */
    admitted: integer().notNull(),
    /** The number of the next outbox row. */
    next_row: integer().notNull(),
    /** Start of the UTC day of the last count. */
    day_ms: integer().notNull(),
    /** Usage levels that raised a notification, see domain/quota/usage-levels.ts. */
    notified: integer().notNull(),
    /** The next two are 0 or 1. */
    late: integer().notNull(),
    extra_room_removed: integer().notNull(),
    /** JSON of the signal limits of keys, by first key (domain/quota/key-budget.ts). Of the newest configuration. */
    budgets: text().notNull().default("{}"),
    /** JSON of the ordinals that count against them. */
    budget_use: text().notNull().default("{}"),
  },
  () => [check("ledger_one_row", sql`id = 1`)],
);

/** Every version of the workspace's configuration, for ever: the newest holds now, and each period has the one at its end. */
export const configurations = sqliteTable("configurations", {
  /** Also the time from which the configuration applies. */
  config_version: integer().primaryKey(),
  signal_limit: integer().notNull(),
  /** The next two are 0 or 1. */
  paid: integer().notNull(),
  overages: integer().notNull(),
});

/** Ended billing periods, for ever. */
export const closedPeriods = sqliteTable("closed_periods", {
  period_start_ms: integer().primaryKey(),
  period_end_ms: integer().notNull(),
  /** As configured at the period's end, like the next. */
  signal_limit: integer().notNull(),
  /** 0 or 1. */
  overages: integer().notNull(),
  ...verdicts(),
  overage: integer().notNull(),
  streak: integer().notNull(),
});

/** Signals of each UTC day since the start of the period, for thirteen months. WITHOUT ROWID. */
export const usageDays = sqliteTable(
  "usage_days",
  { period_start_ms: integer().notNull(), day_ms: integer().notNull(), ...verdicts() },
  (table) => [primaryKey({ columns: [table.period_start_ms, table.day_ms] })],
);

/** Counted signals that the Signal Store has not confirmed, see outbox.ts. `body` is last: queries for counts and ages do not read it. */
export const outbox = sqliteTable("outbox", {
  row: integer().primaryKey(),
  /** When the signals were admitted. */
  at: integer().notNull(),
  period_start: integer().notNull(),
  /** Signals of the row. */
  count: integer().notNull(),
  /** Bytes of the body; 0: the row is settled, and stays only for its counts. */
  bytes: integer().notNull(),
  /** The ledger's counts after this row. */
  ...verdicts(),
  overage: integer().notNull(),
  admitted: integer().notNull(),
  budget_use: text().notNull().default("{}"),
  body: blob().$type<ArrayBuffer>().notNull(),
});

/** Outbox rows that a bug made unparsable: kept for inspection, without blocking others. */
export const unreadableRows = sqliteTable("unreadable_rows", {
  row: integer().primaryKey(),
  at: integer().notNull(),
  period_start: integer().notNull(),
  count: integer().notNull(),
  body: blob().$type<ArrayBuffer>().notNull(),
});

/** Deactivated keys. WITHOUT ROWID. */
export const deactivatedKeys = sqliteTable("deactivated_keys", {
  key_id: text().primaryKey(),
  at_ms: integer().notNull(),
});

/** When rotations end keys, see keys.ts. A row is never deleted, unless its rotation failed. WITHOUT ROWID. */
export const keyEnds = sqliteTable("key_ends", {
  key_id: text().primaryKey(),
  end_ms: integer().notNull(),
});

/** Keys that a browser has used, with its first call, for ever. WITHOUT ROWID. */
export const publicKeys = sqliteTable("public_keys", {
  key_id: text().primaryKey(),
  /** Origin of the page, see domain/keys/browser-origin.ts. */
  origin: text().notNull(),
  at_ms: integer().notNull(),
});

/** Calls by key and UTC day, see keys.ts. WITHOUT ROWID. */
export const calls = sqliteTable(
  "calls",
  {
    key_id: text().notNull(),
    /** Days since 1970. */
    day: integer().notNull(),
    /** Calls with an accepted signal. A partly rejected call also counts as rejected. */
    accepted: integer().notNull(),
    rejected: integer().notNull(),
    /** The last call with the right secret; 0: none. */
    used_ms: integer().notNull(),
    /** The last call with an accepted signal; 0: none. */
    accepted_ms: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.key_id, table.day] })],
);

/** Rejected calls, see domain/keys/rejection.ts. WITHOUT ROWID. */
export const rejections = sqliteTable(
  "rejections",
  {
    key_id: text().notNull(),
    code: text().$type<RejectionCode>().notNull(),
    /** Why a call got 401; empty for every other code. */
    cause: text().notNull(),
    /** The first call of the entry. */
    request_id: text().notNull(),
    detail: text().notNull(),
    calls: integer().notNull(),
    signals: integer().notNull(),
    first_ms: integer().notNull(),
    last_ms: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.key_id, table.code, table.cause, table.request_id] })],
);

/** Signals that this period's releases have counted. The store lists them as held until they are recorded. WITHOUT ROWID. */
export const released = sqliteTable("released", { id: text().primaryKey(), period_start: integer().notNull() });

/** The last sent batch of each recent release or replay. WITHOUT ROWID. */
export const resendJobs = sqliteTable("resend_jobs", {
  job: text().primaryKey(),
  batch: integer().notNull(),
  /** End of the batch, see ResendBatch. */
  through: integer().notNull(),
  /** Signals sent by the job. */
  sent: integer().notNull(),
});

/** Notifications that wait to be forwarded to Destinations. */
export const raisedNotifications = sqliteTable("raised_notifications", {
  /** End position of the row among everything ever raised, in characters. */
  row: integer().primaryKey(),
  /** JSON of an array of notifications. */
  body: text().notNull(),
});

/** The types that destinations want, in one row. */
export const wantedNotifications = sqliteTable(
  "wanted_notifications",
  {
    id: integer().primaryKey(),
    /** JSON of WantedNotifications. */
    wanted: text().notNull(),
  },
  () => [check("wanted_notifications_one_row", sql`id = 1`)],
);

export type LedgerRow = typeof ledger.$inferSelect & typeof configurations.$inferSelect;
export type StoredOutboxRow = typeof outbox.$inferSelect;
export type ResendJobRow = typeof resendJobs.$inferSelect;

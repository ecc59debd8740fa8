/** Tables of accounts and of their changes. */
import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import type { ValueClaims } from "./accounts.ts";

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

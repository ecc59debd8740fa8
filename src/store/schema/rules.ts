/** Mapping rules as they are applied to what is stored, and what each has scored. */
import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { DayCounts } from "../../domain/day-counts.ts";
import type { MappingRule } from "../../domain/mapping-rule.ts";
import type { RuleJobStatus } from "../rule-protocol.ts";

/** Rules that are, or were, applied to what is stored: one row for each rule, the latest time. */
export const ruleJobs = sqliteTable(
  "rule_jobs",
  {
    ruleId: text("rule_id").primaryKey(),
    /** As it is applied; null: it is deleted or disabled, and its scoring signals are removed. */
    rule: text("rule", { mode: "json" }).$type<MappingRule>(),
    /** The workspace's, when the rule was read: signals that were run through older rules are not taken any more. */
    rulesVersion: integer("rules_version").notNull(),
    status: text("status").$type<RuleJobStatus>().notNull(),
    requestedAt: integer("requested_at").notNull(),
    startedAt: integer("started_at"),
    finishedAt: integer("finished_at"),
    /** The last signal to be looked at: later ones have been run through this rule, or a newer one, as they came. */
    lastSeq: integer("last_seq").notNull(),
    /** How far it is: the event and seq of the signal, then (event null) the id of the scoring signal looked at last. */
    event: text("event"),
    position: integer("position").notNull(),
    total: integer("total").notNull(),
    scanned: integer("scanned").notNull(),
    matched: integer("matched").notNull(),
    added: integer("added").notNull(),
    changed: integer("changed").notNull(),
    removed: integer("removed").notNull(),
  },
  (table) => [
    index("rule_jobs_unfinished")
      .on(table.requestedAt)
      .where(sql`status <> 'done'`),
    index("rule_jobs_rules_version").on(table.rulesVersion),
  ],
);

/** The scoring signals of each mapping rule by day of receipt, for as long as it has any. */
export const ruleDays = sqliteTable("rule_days", {
  ruleId: text("rule_id").primaryKey(),
  days: text("days").$type<DayCounts>().notNull(),
});

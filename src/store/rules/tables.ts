/** Tables of jobs that apply mapping rules to stored signals. */
import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { MappingRule } from "../../domain/rules/mapping-rule.ts";
import type { Crossings } from "../events/score-news.ts";
import type { RuleJobStatus } from "../protocol/store-operations.ts";

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

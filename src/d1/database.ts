/**
 * The control plane in D1: what people edit and the edge reads. First its tables, then helpers that its queries share. No
 * full key and no secret is ever stored here. `npm run migrations` generates migrations/d1 from this file. Times are ISO 8601
 * UTC text.
 */
import { getTableColumns, sql, type SQL } from "drizzle-orm";
import { drizzle, type DrizzleD1Database } from "drizzle-orm/d1";
import {
  type SQLiteColumn,
  type SQLiteTable,
  index,
  integer,
  primaryKey,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
import type { AlarmName } from "../domain/health/alarm.ts";
import type { MappingCondition } from "../domain/rules/comparators.ts";
import type { Exclusion } from "../domain/rules/exclusion.ts";
import type { PointsLastDays, RuleFrequency } from "../domain/rules/mapping-rule.ts";
import type { RevocationReason, TokenScope } from "../domain/keys/api-token.ts";
import type { Role } from "../domain/keys/role.ts";
import type { OveragePrice } from "../domain/quota/billing.ts";
import type { KeyTemplate, MisfitHandling, SuccessStatus } from "../domain/template/key-template.ts";
import type { EndpointType } from "../domain/signal/signal.ts";
import type { JsonObject } from "../domain/json/json-value.ts";

export const plans = sqliteTable("plans", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  /** Signals per billing period (the allowance). */
  signalLimit: integer("signal_limit").notNull(),
  /** Only paid plans can lose the extra room (spec §8.5). */
  paid: integer("paid", { mode: "boolean" }).notNull(),
  /** Retention in days after a signal was received; null keeps signals for ever. */
  retentionDays: integer("retention_days"),
  /** Ids of the workspaces that may choose the plan; null means all. */
  offeredTo: text("offered_to", { mode: "json" }).$type<string[]>(),
  /** The price of overages that the Usage page shows; null shows none. */
  overagePrice: text("overage_price", { mode: "json" }).$type<OveragePrice>(),
  /** The newest of its plan_versions. */
  configVersion: integer("config_version").notNull().default(0),
});

/**
 * Every version of a plan's terms, for ever. A version is also the time in milliseconds from which it applies. At any
 * moment, a workspace has its own latest version and the latest version of its plan (workspaces.ts joins them).
 */
export const planVersions = sqliteTable(
  "plan_versions",
  {
    planId: text("plan_id")
      .notNull()
      .references(() => plans.id),
    version: integer("version").notNull(),
    signalLimit: integer("signal_limit").notNull(),
    paid: integer("paid", { mode: "boolean" }).notNull(),
    retentionDays: integer("retention_days"),
  },
  (table) => [primaryKey({ columns: [table.planId, table.version] })],
);

/** `closed`: takes no signals, because it moves. `importing`: is not complete yet, and takes none either. */
export type WorkspaceState = "active" | "closed" | "importing" | "ended";

export const workspaces = sqliteTable(
  "workspaces",
  {
    id: text("id").primaryKey(),
    slug: text("slug").notNull().unique(),
    name: text("name").notNull(),
    planId: text("plan_id")
      .notNull()
      .references(() => plans.id),
    overages: integer("overages", { mode: "boolean" }).notNull().default(false),
    /** Start of the first billing period; periods are calendar months. */
    anchor: text("anchor").notNull(),
    /** Incremented by every change of mapping rules or exclusions; the consumer then compiles the rules again. */
    rulesVersion: integer("rules_version").notNull().default(0),
    createdAt: text("created_at").notNull(),
    /** The newest of its workspace_versions. The version of its configuration is the higher of this one and its plan's. */
    configVersion: integer("config_version").notNull().default(0),
    /** Jurisdiction of the workspace's objects: JURISDICTION when it was created. It never changes. */
    jurisdiction: text("jurisdiction").notNull().default(""),
    /** The row of an ended workspace stays, because its id is never used again. */
    state: text("state").$type<WorkspaceState>().notNull().default("active"),
  },
  // With the version, so that a change of a plan reads one row and not all of its workspaces.
  (table) => [index("workspaces_plan").on(table.planId, table.configVersion)],
);

function workspaceId() {
  return text("workspace_id")
    .notNull()
    .references(() => workspaces.id);
}

/** Every version of a workspace's part of its configuration, for ever, like plan_versions. */
export const workspaceVersions = sqliteTable(
  "workspace_versions",
  {
    workspaceId: workspaceId(),
    version: integer("version").notNull(),
    planId: text("plan_id")
      .notNull()
      .references(() => plans.id),
    overages: integer("overages", { mode: "boolean" }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.version] })],
);

/**
 * Workspaces in which an object has a new alarm since the watch over all workspaces last asked (use-cases/watch-health.ts).
 * The rows name no workspace by reference: an object reports without asking whether its workspace is still here.
 */
export const healthReports = sqliteTable("health_reports", {
  workspaceId: text("workspace_id").primaryKey(),
  reportedAt: text("reported_at").notNull(),
});

/** Alarms that the watch has posted as new and not yet as gone. */
export const openAlarms = sqliteTable(
  "open_alarms",
  {
    workspaceId: text("workspace_id").notNull(),
    alarm: text("alarm").$type<AlarmName>().notNull(),
    since: text("since").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.alarm] })],
);

/** What an ended workspace had. */
export interface EndCounts {
  signals: number;
  people: number;
  keys: number;
  rules: number;
  members: number;
  destinations: number;
  coldObjects: number;
}

/** Receipts of ended workspaces. A later end deletes those of more than 31 days ago. */
export const endedWorkspaces = sqliteTable(
  "ended_workspaces",
  {
    workspaceId: text("workspace_id")
      .primaryKey()
      .references(() => workspaces.id),
    /** The row in `workspaces` has lost it, so that another workspace can take it. */
    slug: text("slug").notNull(),
    requestedAt: text("requested_at").notNull(),
    /** Null: in progress. */
    finishedAt: text("finished_at"),
    counts: text("counts", { mode: "json" }).$type<EndCounts>().notNull(),
  },
  (table) => [index("ended_workspaces_finished").on(table.finishedAt)],
);

/** Imports under way, until they are finished or ended. */
export const workspaceImports = sqliteTable("workspace_imports", {
  workspaceId: text("workspace_id")
    .primaryKey()
    .references(() => workspaces.id),
  /** The workspace that was exported. */
  sourceId: text("source_id").notNull(),
  manifest: text("manifest", { mode: "json" }).$type<JsonObject>().notNull(),
  /** Numbers of the imported parts. */
  parts: text("parts", { mode: "json" }).$type<number[]>().notNull(),
  continuedAt: text("continued_at").notNull(),
});

const IMPORTED_KEY_HASH = sql.raw("row ->> 'key_hash'");

/** Rows of the control plane that an import has brought, until it is finished: their ids may still be the source's. */
export const importedRows = sqliteTable(
  "imported_rows",
  {
    workspaceId: workspaceId(),
    part: integer("part").notNull(),
    line: integer("line").notNull(),
    tableName: text("table_name").notNull(),
    row: text("row").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.workspaceId, table.part, table.line] }),
    index("imported_rows_keys").on(IMPORTED_KEY_HASH).where(sql.raw("table_name = 'api_keys'")),
  ],
);

/** Deletions of persons, for 31 days: the import of an older file repeats them. Without the email itself. */
export const deletions = sqliteTable(
  "deletions",
  {
    id: text("id").primaryKey(),
    workspaceId: workspaceId(),
    requestedAt: text("requested_at").notNull(),
    /** The hash by which the Signal Store remembers the email (domain/signal/identity.ts). */
    emailHash: text("email_hash").notNull(),
  },
  (table) => [
    index("deletions_workspace").on(table.workspaceId, table.requestedAt),
    index("deletions_age").on(table.requestedAt),
  ],
);

export const members = sqliteTable(
  "members",
  {
    workspaceId: workspaceId(),
    email: text("email").notNull(),
    role: text("role").$type<Role>().notNull(),
    createdAt: text("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.email] }), index("members_email").on(table.email)],
);

/** Sessions of signed-in people. Empty with Cloudflare Access, which has its own sessions. */
export const sessions = sqliteTable(
  "sessions",
  {
    /** SHA-256 of the cookie's token, hexadecimal. */
    tokenHash: text("token_hash").primaryKey(),
    email: text("email").notNull(),
    /** Name of the way to sign in that opened the session, which holds only while that is on. */
    driver: text("driver").notNull(),
    createdAt: text("created_at").notNull(),
    expiresAt: text("expires_at").notNull(),
  },
  (table) => [index("sessions_email").on(table.email), index("sessions_expiry").on(table.expiresAt)],
);

/** Sign-ins in progress at the OpenID provider. */
export const signInAttempts = sqliteTable(
  "sign_in_attempts",
  {
    /** SHA-256 of the cookie's token, hexadecimal. */
    tokenHash: text("token_hash").primaryKey(),
    state: text("state").notNull(),
    nonce: text("nonce").notNull(),
    /** PKCE's secret half. */
    codeVerifier: text("code_verifier").notNull(),
    /** The page to go to once signed in. */
    target: text("target").notNull(),
    expiresAt: text("expires_at").notNull(),
  },
  (table) => [index("sign_in_attempts_expiry").on(table.expiresAt)],
);

/**
 * SQL expression: when a key expires, as sortable text; `9999` means never. SQLite uses the index `api_keys_active` only for
 * a query with exactly this expression. It contains no comma, because drizzle-kit would split it there.
 */
export const KEY_ENDS_AT = sql.raw(
  "CASE WHEN expires_at < overlap_ends_at THEN expires_at WHEN overlap_ends_at IS NOT NULL THEN overlap_ends_at" +
    " WHEN expires_at IS NOT NULL THEN expires_at ELSE '9999' END",
);

/** API keys (spec §2.1). */
export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text("id").primaryKey(),
    workspaceId: workspaceId(),
    name: text("name").notNull(),
    endpointType: text("endpoint_type").$type<EndpointType>().notNull(),
    /** SHA-256 of the whole key, hexadecimal. */
    keyHash: text("key_hash").notNull(),
    keyFirst8: text("key_first8").notNull(),
    keyLast4: text("key_last4").notNull(),
    /** SHA-256 of the shared secret, hexadecimal; null: none needed. */
    secretHash: text("secret_hash"),
    /** Id in payload_templates; null: the key has none. A successor has the id of the key that it replaces. */
    templateId: text("template_id"),
    createdAt: text("created_at").notNull(),
    /** The actor that created the key, as in the audit log. */
    createdBy: text("created_by").notNull().default("operator"),
    /** The requested expiration, which a successor inherits. */
    expiresAt: text("expires_at"),
    /** End of the overlap after a rotation; null if the key was not rotated. */
    overlapEndsAt: text("overlap_ends_at"),
    deactivatedAt: text("deactivated_at"),
    /** The first key of its rotation chain: its own id, if it replaced none. */
    firstKeyId: text("first_key_id").notNull(),
    /** Id of the key that this key replaced by rotation. */
    successorOf: text("successor_of"),
    /** Inactivity alert: notify after this many days without a call. Null means no alert. */
    silentAfterDays: integer("silent_after_days"),
    /** What the edge does with a signal that the template does not fit. A key without a template rejects. */
    misfits: text("misfits").$type<MisfitHandling>().notNull().default("reject"),
    /** Status for success at an address with a source: some vendors take only 200 for success. */
    answer: integer("answer").$type<SuccessStatus>().notNull().default(202),
    /** SHA-256 of the form's idempotency token, hexadecimal; null if no form created the key. */
    formToken: text("form_token"),
  },
  (table) => [
    uniqueIndex("api_keys_hash").on(table.keyHash),
    uniqueIndex("api_keys_form").on(table.workspaceId, table.formToken),
    index("api_keys_successor").on(table.workspaceId, table.successorOf),
    index("api_keys_workspace").on(table.workspaceId, table.id),
    // Rows of keys are never deleted. With these two indexes the limits in new-keys.ts read only the rows that they count.
    index("api_keys_active").on(table.workspaceId, KEY_ENDS_AT).where(sql.raw("deactivated_at IS NULL")),
    index("api_keys_templates").on(table.templateId).where(sql.raw("template_id IS NOT NULL")),
  ],
);

/** Budgets of keys (domain/quota/key-budget.ts), one for a rotation chain. A key without one has no row. */
export const keyBudgets = sqliteTable(
  "key_budgets",
  {
    firstKeyId: text("first_key_id").primaryKey(),
    workspaceId: workspaceId(),
    /** Signals of a billing period. */
    signalLimit: integer("signal_limit").notNull(),
  },
  (table) => [index("key_budgets_workspace").on(table.workspaceId)],
);

/**
 * Payload templates of keys. A change adds a version, because signals on their way and held signals keep the version that
 * admitted them. A key's successors share its template, so that a key can be rotated however full the workspace's share
 * is. The rows are deleted some time after the last of their keys ended (new-keys.ts), and the keys keep the id.
 */
export const payloadTemplates = sqliteTable(
  "payload_templates",
  {
    /** The id of the first key that has it. */
    id: text("id").notNull(),
    workspaceId: workspaceId(),
    /** Empty: the template was removed. */
    template: text("template", { mode: "json" }).$type<KeyTemplate>().notNull(),
    version: integer("version").notNull(),
    /** When the next version was added; null: this is the newest. */
    replacedAt: text("replaced_at"),
  },
  (table) => [
    primaryKey({ columns: [table.id, table.version] }),
    index("payload_templates_workspace").on(table.workspaceId),
  ],
);

/** API tokens of workspaces. A row is never deleted. */
export const apiTokens = sqliteTable(
  "api_tokens",
  {
    id: text("id").primaryKey(),
    workspaceId: workspaceId(),
    name: text("name").notNull(),
    /** SHA-256 of the whole token, hexadecimal. */
    tokenHash: text("token_hash").notNull(),
    tokenFirst8: text("token_first8").notNull(),
    tokenLast4: text("token_last4").notNull(),
    scopes: text("scopes", { mode: "json" }).$type<TokenScope[]>().notNull(),
    createdAt: text("created_at").notNull(),
    /** A member's email, or `operator`. The token is revoked when this member is no owner or admin any more. */
    createdBy: text("created_by").notNull(),
    expiresAt: text("expires_at"),
    revokedAt: text("revoked_at"),
    revokedReason: text("revoked_reason").$type<RevocationReason>(),
    /** The last authenticated call, exact to a minute. */
    lastUsedAt: text("last_used_at"),
    /** SHA-256 of the form's idempotency token, hexadecimal; null if no form created the token. */
    formToken: text("form_token"),
  },
  (table) => [
    uniqueIndex("api_tokens_hash").on(table.tokenHash),
    uniqueIndex("api_tokens_form").on(table.workspaceId, table.formToken),
    index("api_tokens_workspace").on(table.workspaceId, table.id),
    // The limit and the change of a role read only tokens that are not revoked.
    index("api_tokens_not_revoked").on(table.workspaceId, table.createdBy).where(sql.raw("revoked_at IS NULL")),
  ],
);

export const mappingRules = sqliteTable(
  "mapping_rules",
  {
    id: text("id").primaryKey(),
    workspaceId: workspaceId(),
    name: text("name").notNull(),
    event: text("event").notNull(),
    match: text("match").$type<"all" | "any">().notNull(),
    conditions: text("conditions", { mode: "json" }).$type<MappingCondition[]>().notNull(),
    scoringSignal: text("scoring_signal").notNull(),
    points: integer("points").notNull(),
    enabled: integer("enabled", { mode: "boolean" }).notNull().default(true),
    /** Incremented by every change of this rule; scoring signals name it. */
    version: integer("version").notNull().default(1),
    createdAt: text("created_at").notNull(),
    updatedAt: text("updated_at").notNull(),
    /** The rule's size (domain/rules/rule-content.ts): the sum of a workspace's is bounded. */
    size: integer("size").notNull().default(0),
    frequency: text("frequency").$type<RuleFrequency>().notNull().default("every_time"),
    /** The author of this version: an actor as in the audit log. */
    updatedBy: text("updated_by").notNull().default("operator"),
    /** Null: the points always count. */
    pointsLastDays: integer("points_last_days").$type<PointsLastDays>(),
  },
  (table) => [index("mapping_rules_workspace").on(table.workspaceId, table.id)],
);

/** Earlier versions of mapping rules (rule-changes.ts limits them). */
export const ruleVersions = sqliteTable(
  "rule_versions",
  {
    workspaceId: workspaceId(),
    ruleId: text("rule_id").notNull(),
    version: integer("version").notNull(),
    size: integer("size").notNull(),
    at: text("at").notNull(),
    by: text("by").notNull(),
    name: text("name").notNull(),
    event: text("event").notNull(),
    match: text("match").$type<"all" | "any">().notNull(),
    scoringSignal: text("scoring_signal").notNull(),
    points: integer("points").notNull(),
    frequency: text("frequency").$type<RuleFrequency>().notNull(),
    enabled: integer("enabled", { mode: "boolean" }).notNull(),
    conditions: text("conditions", { mode: "json" }).$type<MappingCondition[]>().notNull(),
    pointsLastDays: integer("points_last_days").$type<PointsLastDays>(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.ruleId, table.version] })],
);

/** Versions of a workspace's list of exclusions, the newest of which counts (exclusions.ts). */
export const exclusionVersions = sqliteTable(
  "exclusion_versions",
  {
    workspaceId: workspaceId(),
    version: integer("version").notNull(),
    at: text("at").notNull(),
    by: text("by").notNull(),
    exclusions: text("exclusions", { mode: "json" }).$type<Exclusion[]>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.version] })],
);

export const auditLog = sqliteTable(
  "audit_log",
  {
    id: text("id").primaryKey(),
    /** Null for a change of a plan, and for the export and the end of a workspace, which outlast it. */
    workspaceId: text("workspace_id"),
    at: text("at").notNull(),
    /** A member's email, `operator`, `service`, or an API token (domain/keys/api-token.ts). */
    actor: text("actor").notNull(),
    /** Such as `key.created`, `key.deactivated`, `rule.updated`. */
    action: text("action").notNull(),
    target: text("target").notNull(),
    detail: text("detail", { mode: "json" }).$type<JsonObject>().notNull(),
  },
  (table) => [
    index("audit_log_workspace").on(table.workspaceId, table.id),
    index("audit_log_action").on(table.workspaceId, table.action, table.id),
    index("audit_log_actor").on(table.workspaceId, table.actor, table.id),
    index("audit_log_target").on(table.workspaceId, table.target, table.id),
  ],
);

// The database and its queries

export type ControlDatabase = DrizzleD1Database;

/** A session has the two methods that drizzle calls: `prepare` and `batch`. */
export function controlDatabase(d1: D1Database | D1DatabaseSession): ControlDatabase {
  return drizzle(d1 as D1Database);
}

export const OPERATOR = "operator";

/** The actor and time of a change, for the audit log. */
export interface Change {
  /** A member's email, OPERATOR, `service`, or an API token (domain/keys/api-token.ts). */
  actor: string;
  nowMs: number;
}

export interface ControlContext {
  db: ControlDatabase;
  workspaceId: string;
  by: Change;
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Whether the table has a row that meets the condition. */
export function hasRow(table: SQLiteTable, condition: SQL | undefined): SQL<number> {
  return sql`EXISTS (SELECT 1 FROM ${table} WHERE ${condition})`;
}

/**
 * The statement that inserts the row if the condition holds at this point of its batch. A workspace that has ended gets no rows, also
 * by a call that began before.
 */
export function insertIf<T extends SQLiteTable>(db: ControlDatabase, table: T, row: T["$inferSelect"], condition: SQL) {
  const values: Readonly<Record<string, unknown>> = row;
  const columns = Object.entries(getTableColumns(table));
  const encoded = columns.map(([name, column]) => sql.param(values[name], column));
  return db
    .insert(table)
    .select(
      sql`select ${sql.join(encoded, sql`, `)} where (${condition}) and not ${endIsNoted(values["workspaceId"])}`,
    );
}

/** Whether the end of the workspace with this id is noted. A row of no workspace has none. */
export function endIsNoted(id: unknown): SQL<number> {
  return hasRow(endedWorkspaces, sql`${endedWorkspaces.workspaceId} = ${id ?? null}`);
}

/** Whether the column has one of these values. Passes them as one parameter, because a D1 statement takes at most 100. */
export function isOneOf(column: SQLiteColumn, values: readonly string[]): SQL {
  return sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

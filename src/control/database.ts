/** The control plane's database, and helpers that its queries share. */
import type { Page, PageOf } from "../platform/list-page.ts";
import { sql, type SQL } from "drizzle-orm";
import { drizzle, type DrizzleD1Database } from "drizzle-orm/d1";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";

export type ControlDatabase = DrizzleD1Database;

/** A session has the two methods that drizzle calls: `prepare` and `batch`. */
export function controlDatabase(d1: D1Database | D1DatabaseSession): ControlDatabase {
  return drizzle(d1 as D1Database);
}

/** The actor of the deployer's own systems. */
export const OPERATOR = "operator";

/** The actor and time of a change, for the audit log. */
export interface Change {
  /** A member's email, OPERATOR, or an API token (domain/keys/api-token.ts). */
  actor: string;
  nowMs: number;
}

/** The changed workspace, and the actor and time of the change. */
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

/** Whether the column has one of these values. Passes them as one parameter, because a D1 statement takes at most 100. */
export function isOneOf(column: SQLiteColumn, values: readonly string[]): SQL {
  return sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

/** Turns up to `page.limit + 1` rows into a page with a cursor. `key` returns the sort key of a row. */
export function pageOf<T>(rows: T[], page: Page, key: (row: T) => string): PageOf<T> {
  const items = rows.slice(0, page.limit);
  const last = items.at(-1);
  return { items, next: rows.length > page.limit && last !== undefined ? key(last) : null };
}

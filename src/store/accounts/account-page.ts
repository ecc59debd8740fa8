/** Accounts as the pages show them: the list, and one account with where its values come from and how they changed. */
import { and, asc, desc, eq, lt, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { drizzle } from "drizzle-orm/durable-sqlite";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import {
  ACCOUNT_CHANGE_CHARACTERS,
  ACCOUNT_HISTORY_SHOWN,
  ACCOUNT_LIST_CHARACTERS,
  ACCOUNT_PAGE_MAX_CHARACTERS,
  TEMPLATE_MAX_MAPPINGS,
} from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { Log } from "../log/log.ts";
import type {
  Account,
  AccountChange,
  AccountFilter,
  AccountPage,
  AccountsQuery,
  AccountSummary,
  ShownChange,
} from "../protocol/people-and-accounts.ts";
import { accountChanges, accounts } from "./tables.ts";

type Database = DrizzleSqliteDODatabase;

/**
 * The beginning of a value, which may be as large as a signal: as much of its JSON text as is shown, and one character more
 * to tell that it goes on.
 */
const beginning = (column: SQLiteColumn, characters: number) =>
  sql<string | null>`substr(${column}, 1, ${characters + 1})`;

const SUMMARY = {
  id: accounts.id,
  externalId: accounts.externalId,
  name: beginning(accounts.name, ACCOUNT_LIST_CHARACTERS),
  plan: beginning(accounts.plan, ACCOUNT_LIST_CHARACTERS),
  userCount: beginning(accounts.userCount, ACCOUNT_LIST_CHARACTERS),
  recurringRevenue: beginning(accounts.recurringRevenue, ACCOUNT_LIST_CHARACTERS),
  trialStatus: beginning(accounts.trialStatus, ACCOUNT_LIST_CHARACTERS),
  firstSeenMs: accounts.firstSeen,
  lastSeenMs: accounts.lastSeen,
};

export function findAccounts(storage: DurableObjectStorage, query: AccountsQuery, page: Page): PageOf<AccountSummary> {
  const db = drizzle(storage);
  const { id, externalId, lastSeen } = accounts;
  const order: Order =
    "prefix" in query
      ? { value: externalId, kind: "text", id, direction: "up", prefix: query.prefix }
      : { value: query.sort === "newest" ? id : lastSeen, kind: "number", id, direction: "down" };
  const rows = readBehind(order, page, (asked, limit) =>
    db
      .select(SUMMARY)
      .from(accounts)
      .where(asked)
      .orderBy(...ordered(order))
      .limit(limit)
      .all(),
  );
  const last = (row: (typeof rows)[number]) => {
    if ("prefix" in query) return row.externalId;
    return query.sort === "newest" ? row.id : row.lastSeenMs;
  };
  return pageOfRows(
    rows,
    page,
    (row) => cursorOf(row.id, last(row)),
    ({ id: _id, ...account }) => account,
  );
}

/**
 * One account with its changes. Null: there is no such account. @param signals where the updates are found that its values
 * come from.
 */
export function readAccountPage(
  storage: DurableObjectStorage,
  signals: Pick<Log, "find">,
  externalId: string,
  page: Page,
): AccountPage | null {
  const db = drizzle(storage);
  const row = db.select().from(accounts).where(eq(accounts.externalId, externalId)).get();
  if (row === undefined) return null;
  const ids = new Set(Object.values(row.claims).map(({ signalId }) => signalId));
  // Looking an update up takes a fraction of a millisecond, and a template has no more targets; an account may have had
  // several.
  const looked = [...ids].slice(0, TEMPLATE_MAX_MAPPINGS);
  const keyOf = new Map(looked.map((id) => [id, signals.find(id)?.facts.admission.keyId] as const));
  return {
    externalId,
    values: valuesOf(row),
    attributes: row.attributes,
    origins: Object.fromEntries(
      Object.entries(row.claims).map(([target, { receivedAtMs: atMs, signalId }]) => [
        target,
        { atMs, signalId, keyId: keyOf.get(signalId) ?? null },
      ]),
    ),
    firstSeenMs: row.firstSeen,
    lastSeenMs: row.lastSeen,
    changes: listChanges(db, row.id, page),
  };
}

/** An account's changes, the newest first, those of one update by field. The cursor is receipt, ordinal and field. */
function listChanges(db: Database, accountId: number, page: Page): PageOf<ShownChange> {
  const { field, at, ordinal, signalId } = accountChanges;
  const [, lastAt, lastOrdinal, lastField] = /^(\d+)\.(\d+)\.(\w+)$/.exec(page.cursor ?? "") ?? [];
  const rows = db
    .select({
      field,
      before: beginning(accountChanges.before, ACCOUNT_CHANGE_CHARACTERS),
      after: beginning(accountChanges.after, ACCOUNT_CHANGE_CHARACTERS),
      atMs: at,
      ordinal,
      signalId,
    })
    .from(accountChanges)
    .where(
      and(
        eq(accountChanges.accountId, accountId),
        lastAt === undefined
          ? undefined
          : sql`(${at}, ${ordinal}, ${field}) < (${Number(lastAt)}, ${Number(lastOrdinal)}, ${lastField})`,
      ),
    )
    .orderBy(desc(at), desc(ordinal), desc(field))
    .limit(page.limit + 1)
    .all();
  return pageOfRows(
    rows,
    page,
    (row) => `${row.atMs}.${row.ordinal}.${row.field}`,
    ({ ordinal: _ordinal, ...change }) => change,
  );
}

// Pages of a list in an order other than that of the rows' numbers: the cursor is the last row's number and its value,
// `42.1795258151637`, and the next page is what stands behind both. Each order has an index on the value, in which the
// row's number comes next by itself.

interface Order {
  /** A column, or one with its collation. */
  value: SQL | SQLiteColumn;
  kind: "number" | "text";
  id: SQLiteColumn;
  direction: "up" | "down";
  /** Only values that begin with this are listed; with a collation of NOCASE, in whatever case. */
  prefix?: string;
}

function cursorOf(id: number, value: number | string): string {
  return `${id}.${value}`;
}

/**
 * The rows of a page, and one more: those of the cursor's own value that come after it, then those beyond. Asked for as
 * `(value, id) > (?, ?)`, SQLite would read all rows of that value, and a hundred thousand people may have a score of 0.
 *
 * @param read ordered by `ordered`.
 */
function readBehind<Found>(
  order: Order,
  { cursor, limit }: Page,
  read: (asked: SQL | undefined, limit: number) => Found[],
): Found[] {
  const { value, id, direction, prefix } = order;
  const last = lastOf(order, cursor);
  const end = prefix === undefined ? sql`` : sql` AND ${value} < ${`${prefix}\u{10FFFF}`}`;
  if (last === null) return read(prefix === undefined ? undefined : sql`${value} >= ${prefix}${end}`, limit + 1);
  // The plus keeps SQLite from beginning at the prefix: the cursor says where to begin.
  const within = prefix === undefined ? sql`` : sql` AND +${value} >= ${prefix}${end}`;
  const beyond = sql.raw(direction === "up" ? ">" : "<");
  const same = read(sql`${value} = ${last.value} AND ${id} ${beyond} ${last.id}${within}`, limit + 1);
  if (same.length > limit) return same;
  return [...same, ...read(sql`${value} ${beyond} ${last.value}${within}`, limit + 1 - same.length)];
}

function ordered({ value, id, direction }: Order): [SQL, SQL] {
  return direction === "up" ? [asc(value), asc(id)] : [desc(value), desc(id)];
}

/** The row that a cursor names; null for the first page, and where the cursor is none. */
function lastOf({ kind }: Order, cursor: string | null): { id: number; value: number | string } | null {
  const [, id, text] = /^(\d{1,15})\.(.*)$/su.exec(cursor ?? "") ?? [];
  if (id === undefined || text === undefined) return null;
  const value = kind === "number" ? Number(text) : text;
  return Number.isNaN(value) ? null : { id: Number(id), value };
}

/** Turns up to `page.limit + 1` rows into a page of items. */
function pageOfRows<Found, T>(
  rows: Found[],
  page: Page,
  key: (row: Found) => string | number,
  item: (row: Found) => T,
): PageOf<T> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return {
    items: shown.map(item),
    next: rows.length > page.limit && last !== undefined ? String(key(last)) : null,
  };
}

type Row = typeof accounts.$inferSelect;

/** Accounts, the newest first, or the one with an external id. A page of very large accounts has fewer than asked for. */
export function listAccounts(storage: DurableObjectStorage, filter: AccountFilter, page: Page): PageOf<Account> {
  const db = drizzle(storage);
  const items: Account[] = [];
  let characters = 0;
  let { cursor } = page;
  for (;;) {
    const row = nextAccount(db, filter, cursor);
    if (row === undefined) return { items, next: null };
    if (items.length >= page.limit || characters > ACCOUNT_PAGE_MAX_CHARACTERS) return { items, next: cursor };
    const account = toAccount(row, readHistory(db, row.id));
    characters += JSON.stringify(account).length;
    items.push(account);
    cursor = String(row.id);
  }
}

function nextAccount(db: Database, { externalId }: AccountFilter, cursor: string | null): Row | undefined {
  return db
    .select()
    .from(accounts)
    .where(
      and(
        externalId === undefined ? undefined : eq(accounts.externalId, externalId),
        cursor === null ? undefined : lt(accounts.id, Number(cursor)),
      ),
    )
    .orderBy(desc(accounts.id))
    .limit(1)
    .get();
}

function readHistory(db: Database, accountId: number): AccountChange[] {
  const { field, before, after, at, signalId } = accountChanges;
  return db
    .select({ field, before, after, atMs: at, signalId })
    .from(accountChanges)
    .where(eq(accountChanges.accountId, accountId))
    .orderBy(desc(at), desc(accountChanges.ordinal), field)
    .limit(ACCOUNT_HISTORY_SHOWN)
    .all();
}

function toAccount(row: Row, history: AccountChange[]): Account {
  return {
    externalId: row.externalId,
    ...valuesOf(row),
    attributes: row.attributes,
    firstSeenMs: row.firstSeen,
    lastSeenMs: row.lastSeen,
    history,
  };
}

/** An account's values by field; null: never sent. */
export function valuesOf(row: Row): Record<AccountField, unknown> {
  return {
    name: row.name,
    plan: row.plan,
    user_count: row.userCount,
    recurring_revenue: row.recurringRevenue,
    trial_status: row.trialStatus,
    feature_flags: row.featureFlags,
  };
}

/** Accounts with their history, as the store answers them. */
import { and, desc, eq, lt } from "drizzle-orm";
import { drizzle, type DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import { ACCOUNT_HISTORY_SHOWN, ACCOUNT_PAGE_MAX_CHARACTERS } from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { Account, AccountChange, AccountFilter } from "../protocol/people-and-accounts.ts";
import { accountChanges, accounts } from "./tables.ts";

type Database = DrizzleSqliteDODatabase;
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

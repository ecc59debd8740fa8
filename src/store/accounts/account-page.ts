/** Accounts as the operator API and the pages show them: lists, and one account with the source and the history of its values. */
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
import type { AccountChangeRow, AccountRow } from "../schema.ts";
import { ACCOUNT_FIELDS, type ValueClaims } from "./accounts.ts";

/** The begin of a JSON text, and one character more that shows whether it is cut: a value may be as large as a signal. */
function beginOf(column: string, characters: number, name: string): string {
  return `substr(${column}, 1, ${characters + 1}) AS ${name}`;
}

const SUMMARY = `id, external_id AS externalId, ${[
  ["name", "name"],
  ["plan", "plan"],
  ["user_count", "userCount"],
  ["recurring_revenue", "recurringRevenue"],
  ["trial_status", "trialStatus"],
]
  .map(([column = "", name = ""]) => beginOf(column, ACCOUNT_LIST_CHARACTERS, name))
  .join(", ")}, first_seen AS firstSeenMs, last_seen AS lastSeenMs`;

type SummaryRow = AccountSummary & { id: number };

/** A page of the list of accounts. An invalid cursor is ignored. The cursor has the number and the sort value of the last account. */
export function findAccounts(sql: SqlStorage, query: AccountsQuery, { cursor, limit }: Page): PageOf<AccountSummary> {
  const [, id = "", last = ""] = /^(\d{1,15})\.(.*)$/su.exec(cursor ?? "") ?? [];
  let rows: SummaryRow[];
  if ("prefix" in query) {
    // The plus keeps SQLite from beginning at the prefix: the cursor says where to begin.
    rows = read(sql, "external_id > ? AND +external_id >= ? AND external_id < ? ORDER BY external_id LIMIT ?", [
      last,
      query.prefix,
      `${query.prefix}\u{10FFFF}`,
      limit + 1,
    ]);
  } else {
    const column = query.sort === "newest" ? "id" : "last_seen";
    const behind = id === "" || Number.isNaN(Number(last)) ? [Number.MAX_SAFE_INTEGER, 0] : [Number(last), Number(id)];
    rows = read(sql, `(${column}, id) < (?, ?) ORDER BY ${column} DESC, id DESC LIMIT ?`, [...behind, limit + 1]);
  }
  return pageOf(rows, limit, ({ id: rowId, ...account }) => {
    const value = "prefix" in query ? account.externalId : query.sort === "newest" ? rowId : account.lastSeenMs;
    return { item: account, cursor: `${rowId}.${value}` };
  });
}

function read(sql: SqlStorage, condition: string, values: SqlStorageValue[]): SummaryRow[] {
  return sql.exec(`SELECT ${SUMMARY} FROM accounts WHERE ${condition}`, ...values).toArray() as unknown as SummaryRow[];
}

/** One account with its changes; null: there is none. @param signals finds the updates that set the values. */
export function readAccountPage(
  sql: SqlStorage,
  signals: Pick<Log, "find">,
  externalId: string,
  page: Page,
): AccountPage | null {
  const [row] = sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId);
  if (row === undefined) return null;
  const claims = JSON.parse(row.claims) as ValueClaims;
  // A template has at most this number of targets, but an account may have had several templates.
  const ids = [...new Set(Object.values(claims).map(({ signalId }) => signalId))].slice(0, TEMPLATE_MAX_MAPPINGS);
  const keyIds = new Map(ids.map((id) => [id, signals.find(id)?.facts.admission.keyId] as const));
  const origins = Object.entries(claims).map(([target, { receivedAtMs: atMs, signalId }]) => {
    return [target, { atMs, signalId, keyId: keyIds.get(signalId) ?? null }] as const;
  });
  return {
    externalId,
    values: valuesOf(row),
    attributes: JSON.parse(row.attributes) as Record<string, unknown>,
    origins: Object.fromEntries(origins),
    firstSeenMs: row.first_seen,
    lastSeenMs: row.last_seen,
    changes: listChanges(sql, row.id, page),
  };
}

/** An account's changes, the newest first. The cursor is the received order and the field of the last change. */
function listChanges(sql: SqlStorage, accountId: number, { cursor, limit }: Page): PageOf<ShownChange> {
  const [, at, ordinal, lastField] = /^(\d+)\.(\d+)\.(\w+)$/.exec(cursor ?? "") ?? [];
  const first = [Number.MAX_SAFE_INTEGER, 0, ""];
  const rows = sql.exec<AccountChangeRow>(
    `SELECT field, "at", ordinal, signal_id, ${beginOf('"before"', ACCOUNT_CHANGE_CHARACTERS, '"before"')},
       ${beginOf('"after"', ACCOUNT_CHANGE_CHARACTERS, '"after"')}
     FROM account_changes WHERE account_id = ? AND ("at", ordinal, field) < (?, ?, ?)
     ORDER BY "at" DESC, ordinal DESC, field DESC LIMIT ?`,
    accountId,
    ...(lastField === undefined ? first : [Number(at), Number(ordinal), lastField]),
    limit + 1,
  );
  return pageOf(rows.toArray(), limit, (row) => ({
    item: { field: row.field, before: row.before, after: row.after, atMs: row.at, signalId: row.signal_id },
    cursor: `${row.at}.${row.ordinal}.${row.field}`,
  }));
}

function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  toItem: (row: Row) => { item: Item; cursor: string },
): PageOf<Item> {
  const shown = rows.slice(0, limit).map(toItem);
  return {
    items: shown.map(({ item }) => item),
    next: rows.length > limit ? (shown.at(-1)?.cursor ?? null) : null,
  };
}

/** Accounts with their history, the newest first, or the account with an external id. A page of very large accounts is short. */
export function listAccounts(sql: SqlStorage, { externalId }: AccountFilter, page: Page): PageOf<Account> {
  const items: Account[] = [];
  let [characters, cursor] = [0, page.cursor];
  const rows = sql.exec<AccountRow>(
    `SELECT * FROM accounts WHERE id < ?1 ${externalId === undefined ? "" : "AND external_id = ?2"} ORDER BY id DESC`,
    cursor === null ? Number.MAX_SAFE_INTEGER : Number(cursor),
    ...(externalId === undefined ? [] : [externalId]),
  );
  for (const row of rows) {
    if (items.length >= page.limit || characters > ACCOUNT_PAGE_MAX_CHARACTERS) return { items, next: cursor };
    const account = {
      externalId: row.external_id,
      ...valuesOf(row),
      attributes: JSON.parse(row.attributes) as Record<string, unknown>,
      firstSeenMs: row.first_seen,
      lastSeenMs: row.last_seen,
      history: readHistory(sql, row.id),
    };
    characters += JSON.stringify(account).length;
    items.push(account);
    cursor = String(row.id);
  }
  return { items, next: null };
}

function readHistory(sql: SqlStorage, accountId: number): AccountChange[] {
  const rows = sql.exec<AccountChangeRow>(
    `SELECT * FROM account_changes WHERE account_id = ?
     ORDER BY "at" DESC, ordinal DESC, field LIMIT ?`,
    accountId,
    ACCOUNT_HISTORY_SHOWN,
  );
  return rows.toArray().map(({ field, at: atMs, signal_id: signalId, before, after }) => ({
    field,
    before: parsedOrNull(before),
    after: JSON.parse(after) as unknown,
    atMs,
    signalId,
  }));
}

/** Values by field; null: never sent. */
function valuesOf(row: AccountRow): Record<AccountField, unknown> {
  return Object.fromEntries(ACCOUNT_FIELDS.map((field) => [field, parsedOrNull(row[field])])) as Record<
    AccountField,
    unknown
  >;
}

function parsedOrNull(json: string | null): unknown {
  return json === null ? null : JSON.parse(json);
}

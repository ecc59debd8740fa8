/** Accounts as the operator API and the pages show them: lists, and one account with the source and the history of its values. */
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import {
  ACCOUNT_CHANGE_CHARACTERS,
  ACCOUNT_HISTORY_SHOWN,
  ACCOUNT_LIST_CHARACTERS,
  ACCOUNT_PAGE_MAX_CHARACTERS,
  TEMPLATE_MAX_MAPPINGS,
} from "../../limits.ts";
import { pageOf, type Page, type PageOf } from "../../platform/list-page.ts";
import { areLapsesDue } from "../people/lapse-run.ts";
import type {
  Account,
  AccountChange,
  AccountFilter,
  AccountPage,
  AccountsList,
  AccountsPage,
  AccountsQuery,
  AccountSummary,
  ShownChange,
} from "../protocol/people-and-accounts.ts";
import type { AccountChangeRow, AccountRow } from "../schema.ts";
import { ACCOUNT_FIELDS, type ValueClaims } from "../accounts/accounts.ts";
import type { StoreState } from "../state/store-state.ts";
import { findPeople } from "./people-search.ts";
import { latestScored, toScoringSignals } from "./person-page.ts";

/** The start of a JSON text, which may be as large as a signal. One extra character shows that the text is cut. */
function startOf(column: string, characters: number, name: string): string {
  return `substr(${column}, 1, ${characters + 1}) AS ${name}`;
}

const shortened = (column: string, name = column): string => startOf(column, ACCOUNT_LIST_CHARACTERS, name);
const SUMMARY = `id, external_id AS externalId, ${shortened("name")}, ${shortened("plan")},
  ${shortened("user_count", "userCount")}, ${shortened("recurring_revenue", "recurringRevenue")},
  ${shortened("trial_status", "trialStatus")}, score, people, first_seen AS firstSeenMs, last_seen AS lastSeenMs`;

type SummaryRow = AccountSummary & { id: number };

/** With more accounts, the orders by score and by people fall back to the newest first. */
const ACCOUNTS_SORTED = 10_000;

/** An invalid cursor is ignored. */
export function findAccounts(sql: SqlStorage, query: AccountsQuery, page: Page): AccountsPage {
  const { rows, sorted, cursorOf } = orderedAccounts(sql, query, page);
  const { items, next } = pageOf(rows, page, cursorOf);
  const accounts = items.map(({ id: _id, ...account }) => account);
  return { items: accounts, next, sorted, lapsing: areLapsesDue(sql, Date.now()) };
}

interface AccountRows {
  /** One more than the page, if more follow. */
  rows: SummaryRow[];
  /** False: too many accounts to sort. */
  sorted: boolean;
  cursorOf: (row: SummaryRow) => string;
}

/** The cursor has the number and the sort value of the last account. */
function orderedAccounts(sql: SqlStorage, query: AccountsQuery, { cursor, limit }: Page): AccountRows {
  const [, id = "", last = ""] = /^(\d{1,15})\.(.*)$/su.exec(cursor ?? "") ?? [];
  if ("prefix" in query) {
    // The plus keeps SQLite from beginning at the prefix: the cursor says where to begin.
    const rows = read(sql, "external_id > ? AND +external_id >= ? AND external_id < ? ORDER BY external_id LIMIT ?", [
      last,
      query.prefix,
      `${query.prefix}\u{10FFFF}`,
      limit + 1,
    ]);
    return { rows, sorted: true, cursorOf: (row) => `${row.id}.${row.externalId}` };
  }
  const { sort } = query;
  const after = id === "" || Number.isNaN(Number(last)) ? null : { id: Number(id), value: Number(last) };
  const isByPeople = sort === "score" || sort === "people";
  if (isByPeople && countAccounts(sql) <= ACCOUNTS_SORTED) {
    const rows = accountsByPeople(sql, sort, after, limit);
    return { rows, sorted: true, cursorOf: (row) => `${row.id}.${row[sort]}` };
  }
  const [column, field] = sort === "last_seen" ? (["last_seen", "lastSeenMs"] as const) : (["id", "id"] as const);
  const rows = read(sql, `(${column}, id) < (?, ?) ORDER BY ${column} DESC, id DESC LIMIT ?`, [
    ...(after === null ? [Number.MAX_SAFE_INTEGER, 0] : [after.value, after.id]),
    limit + 1,
  ]);
  return { rows, sorted: !isByPeople, cursorOf: (row) => `${row.id}.${row[field]}` };
}

function countAccounts(sql: SqlStorage): number {
  const counted = sql.exec<{ n: number }>(
    "SELECT count(*) AS n FROM (SELECT 1 FROM accounts LIMIT ?)",
    ACCOUNTS_SORTED + 1,
  );
  return counted.one().n;
}

/** Sorts in memory, because an index would add a written row to each batch of an account. */
function accountsByPeople(
  sql: SqlStorage,
  column: "score" | "people",
  after: { id: number; value: number } | null,
  limit: number,
): SummaryRow[] {
  const all = [...sql.exec(`SELECT id, ${column} FROM accounts`).raw<[id: number, value: number]>()];
  const ids = all
    .filter(([id, value]) => after === null || value < after.value || (value === after.value && id < after.id))
    .sort(([a, valueOfA], [b, valueOfB]) => valueOfB - valueOfA || b - a)
    .slice(0, limit + 1)
    .map(([id]) => id);
  const rows = read(sql, "id IN (SELECT value FROM json_each(?))", [JSON.stringify(ids)]);
  return rows.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
}

function read(sql: SqlStorage, condition: string, values: SqlStorageValue[]): SummaryRow[] {
  return sql.exec(`SELECT ${SUMMARY} FROM accounts WHERE ${condition}`, ...values).toArray() as unknown as SummaryRow[];
}

/** Null: the account is unknown. */
export function readAccountPage(state: StoreState, externalId: string, page: Page): AccountPage | null {
  const { sql, signals } = state;
  const [row] = sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId);
  if (row === undefined) return null;
  const claims = JSON.parse(row.claims) as ValueClaims;
  // A template has at most this number of targets, but an account may have had several templates.
  const ids = [...new Set(Object.values(claims).map(({ signalId }) => signalId))].slice(0, TEMPLATE_MAX_MAPPINGS);
  const keyIds = new Map(ids.map((id) => [id, signals.find(id)?.facts.admission.keyId] as const));
  const origins = Object.entries(claims).map(([target, { receivedAtMs: atMs, signalId, by }]) => {
    return [target, { atMs, signalId, keyId: keyIds.get(signalId) ?? null, by: by ?? "update" }] as const;
  });
  return {
    externalId,
    values: valuesOf(row),
    attributes: JSON.parse(row.attributes) as Record<string, unknown>,
    origins: Object.fromEntries(origins),
    score: row.score,
    people: row.people,
    ...membersOf(state, externalId),
    lapsing: areLapsesDue(sql, Date.now()),
    firstSeenMs: row.first_seen,
    lastSeenMs: row.last_seen,
    changes: listChanges(sql, row.id, page),
  };
}

const TOP_PEOPLE = 10;
const RECENT_PEOPLE = 20;
const LATEST_SCORES = 10;
/** The newest people of an account, sorted by last seen in about 10 ms. */
const MEMBERS_READ = 10_000;
/** The latest signals of each recent person that are read to find scores. */
const RECENT_SIGNALS = 50;

function membersOf(state: StoreState, account: string): Pick<AccountPage, "topPeople" | "latestScores"> {
  const top = findPeople(state, { sort: "score", account }, { cursor: null, limit: TOP_PEOPLE });
  const recent = recentMembers(state.sql, account);
  const scores = recent.flatMap(({ id, email, recent: entries }) => {
    const range = { before: Number.MAX_SAFE_INTEGER, limit: RECENT_SIGNALS };
    const found = latestScored(state, { id, recent: entries }, range);
    return [...found].flatMap(({ entry }) =>
      entry === null ? [] : toScoringSignals(state, id, entry).map((score) => ({ ...score, email })),
    );
  });
  const latestFirst = scores.sort((a, b) => b.occurredAtMs - a.occurredAtMs || b.atMs - a.atMs);
  return { topPeople: top.items, latestScores: latestFirst.slice(0, LATEST_SCORES) };
}

function recentMembers(sql: SqlStorage, account: string): { id: number; email: string; recent: string }[] {
  const newest = sql.exec(
    "SELECT id, last_seen FROM people WHERE account = ? ORDER BY id DESC LIMIT ?",
    account,
    MEMBERS_READ,
  );
  const ids = [...newest.raw<[id: number, lastSeen: number]>()]
    .sort(([, a], [, b]) => b - a)
    .slice(0, RECENT_PEOPLE)
    .map(([id]) => id);
  return sql
    .exec<{ id: number; email: string; recent: string }>(
      "SELECT id, email, recent FROM people WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(ids),
    )
    .toArray();
}

/** An account's changes, the newest first. The cursor is the received order and the field of the last change. */
function listChanges(sql: SqlStorage, accountId: number, page: Page): PageOf<ShownChange> {
  const [, at, ordinal, lastField] = /^(\d+)\.(\d+)\.(\w+)$/.exec(page.cursor ?? "") ?? [];
  const first = [Number.MAX_SAFE_INTEGER, 0, ""];
  const rows = sql.exec<AccountChangeRow>(
    `SELECT field, "at", ordinal, signal_id, ${startOf('"before"', ACCOUNT_CHANGE_CHARACTERS, '"before"')},
       ${startOf('"after"', ACCOUNT_CHANGE_CHARACTERS, '"after"')}
     FROM account_changes WHERE account_id = ? AND ("at", ordinal, field) < (?, ?, ?)
     ORDER BY "at" DESC, ordinal DESC, field DESC LIMIT ?`,
    accountId,
    ...(lastField === undefined ? first : [Number(at), Number(ordinal), lastField]),
    page.limit + 1,
  );
  const { items, next } = pageOf(rows.toArray(), page, (row) => `${row.at}.${row.ordinal}.${row.field}`);
  const changes = items.map(({ field, before, after, at: atMs, signal_id: signalId }) => {
    return { field, before, after, atMs, signalId };
  });
  return { items: changes, next };
}

/** Accounts with their history in an order, or the account with an external id. A page of very large accounts is short. */
export function listAccounts(
  sql: SqlStorage,
  { externalId, sort = "newest" }: AccountFilter,
  page: Page,
): AccountsList {
  const lapsing = areLapsesDue(sql, Date.now());
  if (externalId !== undefined) {
    const rows = sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId);
    return { items: rows.toArray().map((row) => toAccount(sql, row)), next: null, sorted: true, lapsing };
  }
  const { rows, sorted, cursorOf } = orderedAccounts(sql, { sort }, page);
  const items: Account[] = [];
  let [characters, cursor]: [number, string | null] = [0, null];
  for (const summary of rows) {
    if (items.length >= page.limit || characters > ACCOUNT_PAGE_MAX_CHARACTERS) {
      return { items, next: cursor, sorted, lapsing };
    }
    const account = toAccount(sql, sql.exec<AccountRow>("SELECT * FROM accounts WHERE id = ?", summary.id).one());
    characters += JSON.stringify(account).length;
    items.push(account);
    cursor = cursorOf(summary);
  }
  return { items, next: null, sorted, lapsing };
}

function toAccount(sql: SqlStorage, row: AccountRow): Account {
  return {
    externalId: row.external_id,
    ...valuesOf(row),
    attributes: JSON.parse(row.attributes) as Record<string, unknown>,
    score: row.score,
    people: row.people,
    firstSeenMs: row.first_seen,
    lastSeenMs: row.last_seen,
    history: readHistory(sql, row.id),
  };
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

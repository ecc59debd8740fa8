/** Accounts as the operator API and the pages show them: lists, and one account with the source and the history of its values. */
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import {
  ACCOUNT_CHANGE_CHARACTERS,
  ACCOUNT_HISTORY_SHOWN,
  ACCOUNT_LIST_CHARACTERS,
  SLICE_MAX_CHARACTERS,
  TEMPLATE_MAX_MAPPINGS,
} from "../../limits.ts";
import { listPage, type ListQuery, type ListPage } from "../../platform/list-page.ts";
import { areLapsesDue } from "../people/lapse-run.ts";
import type {
  Account,
  AccountChange,
  AccountFilter,
  AccountPage,
  AccountsList,
  AccountsPage,
  AccountsQuery,
  AccountsSort,
  AccountSummary,
  ShownChange,
} from "../protocol/people-and-accounts.ts";
import type { AccountChangeRow, AccountRow } from "../schema.ts";
import { ACCOUNT_FIELDS, isHistoryCut, type ValueOrigins } from "../accounts/accounts.ts";
import { folded } from "../../domain/signal/traits.ts";
import type { ShownState } from "./shown.ts";
import { findPeople } from "./people-search.ts";
import { readLatestScores, scoreCurve } from "./person-page.ts";

/** The start of a JSON text, which may be as large as a signal. One extra character shows that the text is cut. */
function startOf(column: string, characters: number, name: string): string {
  return `substr(${column}, 1, ${characters + 1}) AS ${name}`;
}

const shortened = (column: string, name = column): string => startOf(column, ACCOUNT_LIST_CHARACTERS, name);
const SUMMARY = `id, external_id AS externalId, ${shortened("name")}, ${shortened("plan")},
  ${shortened("user_count", "userCount")}, ${shortened("recurring_revenue", "recurringRevenue")},
  ${shortened("trial_status", "trialStatus")}, score, score_before, people, first_seen AS firstSeenMs,
  last_seen AS lastSeenMs`;

type SummaryRow = Omit<AccountSummary, "recomputing"> & { id: number; score_before: number | null };

type AccountsState = Pick<ShownState, "sql" | "head">;

/**
 * With more accounts, all lists show the newest first, and a search finds only beginnings of the external id. Reading the names of this many
 * takes some 20 ms.
 */
export const ACCOUNTS_SORTED = 10_000;
/** Characters of a name's JSON that a search reads. */
const NAME_SEARCHED = 1_000;

/** An invalid cursor is ignored. */
export function findAccounts(state: AccountsState, query: AccountsQuery, listQuery: ListQuery): AccountsPage {
  const { rows, sorted, cursorOf, total } = orderedAccounts(state.sql, query, listQuery);
  const { items, next } = listPage(rows, listQuery, cursorOf);
  const accounts = items.map(({ id: _id, score_before, ...account }) => {
    return { ...account, recomputing: score_before !== null };
  });
  const found = { items: accounts, next, sorted, lapsing: areLapsesDue(state) };
  return total === null ? found : { ...found, total };
}

interface AccountRows {
  /** One more than the slice has, if more follow. */
  rows: SummaryRow[];
  /** False: too many accounts to sort. */
  sorted: boolean;
  cursorOf: (row: SummaryRow) => string;
  /** Null: too many accounts to count. */
  total: number | null;
}

/** The cursor has the number and the sort value of the last account. */
function orderedAccounts(sql: SqlStorage, query: AccountsQuery, { cursor, limit }: ListQuery): AccountRows {
  const [, id = "", last = ""] = /^(\d{1,15})\.(.*)$/su.exec(cursor ?? "") ?? [];
  const { sort, text = "" } = query;
  const after = id === "" || Number.isNaN(Number(last)) ? null : { id: Number(id), value: Number(last) };
  const count = countAccounts(sql);
  const isSortable = count <= ACCOUNTS_SORTED;
  const total = isSortable ? count : null;
  if (text !== "" && isSortable) {
    const named = namedLike(sql, text);
    const rows = accountsInOrder(sql, sort, after, limit, named);
    return { rows, sorted: true, cursorOf: (row) => `${row.id}.${valueOf(row, sort)}`, total: named.size };
  }
  if (text !== "") {
    // The plus keeps SQLite from beginning at the prefix: the cursor says where to begin.
    const rows = read(sql, "external_id > ? AND +external_id >= ? AND external_id < ? ORDER BY external_id LIMIT ?", [
      last,
      text,
      `${text}\u{10FFFF}`,
      limit + 1,
    ]);
    return { rows, sorted: false, cursorOf: (row) => `${row.id}.${row.externalId}`, total };
  }
  const isByPeople = sort === "score" || sort === "people";
  if (isByPeople && isSortable) {
    const rows = accountsInOrder(sql, sort, after, limit);
    return { rows, sorted: true, cursorOf: (row) => `${row.id}.${valueOf(row, sort)}`, total };
  }
  const [column, field] = sort === "last_seen" ? (["last_seen", "lastSeenMs"] as const) : (["id", "id"] as const);
  const rows = read(sql, `(${column}, id) < (?, ?) ORDER BY ${column} DESC, id DESC LIMIT ?`, [
    ...(after === null ? [Number.MAX_SAFE_INTEGER, 0] : [after.value, after.id]),
    limit + 1,
  ]);
  return { rows, sorted: !isByPeople, cursorOf: (row) => `${row.id}.${row[field]}`, total };
}

function countAccounts(sql: SqlStorage): number {
  const counted = sql.exec<{ n: number }>(
    "SELECT count(*) AS n FROM (SELECT 1 FROM accounts LIMIT ?)",
    ACCOUNTS_SORTED + 1,
  );
  return counted.one().n;
}

/** Sorts in memory, because an index would add a written row to each batch of an account. */
function accountsInOrder(
  sql: SqlStorage,
  sort: AccountsSort,
  after: { id: number; value: number } | null,
  limit: number,
  only?: ReadonlySet<number>,
): SummaryRow[] {
  const all = [...sql.exec(`SELECT id, ${SORT_COLUMN[sort]} FROM accounts`).raw<[id: number, value: number]>()];
  const ids = all
    .filter(([id]) => only === undefined || only.has(id))
    .filter(([id, value]) => after === null || value < after.value || (value === after.value && id < after.id))
    .sort(([a, valueOfA], [b, valueOfB]) => valueOfB - valueOfA || b - a)
    .slice(0, limit + 1)
    .map(([id]) => id);
  const rows = read(sql, "id IN (SELECT value FROM json_each(?))", [JSON.stringify(ids)]);
  return rows.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
}

const SORT_COLUMN = {
  newest: "id",
  last_seen: "last_seen",
  score: "score",
  people: "people",
} as const satisfies Record<AccountsSort, string>;

function valueOf(row: SummaryRow, sort: AccountsSort): number {
  return { newest: row.id, last_seen: row.lastSeenMs, score: row.score, people: row.people }[sort];
}

/** The accounts with the text in their name or external id, in any letter case. */
function namedLike(sql: SqlStorage, text: string): Set<number> {
  const wanted = folded(text);
  const all = sql.exec(`SELECT id, external_id, substr(name, 1, ?) FROM accounts`, NAME_SEARCHED);
  return new Set(
    [...all.raw<[id: number, externalId: string, name: string | null]>()].flatMap(([id, externalId, name]) =>
      // A name is JSON, so a text has quotation marks around it.
      folded(`${externalId}\n${name?.replaceAll(/^"|"$/g, "") ?? ""}`).includes(wanted) ? [id] : [],
    ),
  );
}

function read(sql: SqlStorage, condition: string, values: SqlStorageValue[]): SummaryRow[] {
  return sql.exec(`SELECT ${SUMMARY} FROM accounts WHERE ${condition}`, ...values).toArray() as unknown as SummaryRow[];
}

/** Null: the account is unknown. */
export function readAccountPage(state: ShownState, externalId: string, listQuery: ListQuery): AccountPage | null {
  const { sql, signals } = state;
  const [row] = sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId);
  if (row === undefined) return null;
  const claims = JSON.parse(row.claims) as ValueOrigins;
  // A template has at most this number of targets, but an account may have had several templates.
  const ids = [...new Set(Object.values(claims).map(({ signalId }) => signalId))].slice(0, TEMPLATE_MAX_MAPPINGS);
  const keyIds = new Map(ids.map((id) => [id, signals.find(id)?.facts.admission.keyId] as const));
  const origins = Object.entries(claims).map(([target, { receivedAtMs: atMs, signalId, by }]) => {
    return [target, { atMs, signalId, keyId: keyIds.get(signalId) ?? null, by: by ?? "update" }] as const;
  });
  const recent = recentMembers(sql, externalId);
  const latest = readLatestScores(state, recent);
  const latestScores = latest.scores
    .toSorted((a, b) => b.occurredAtMs - a.occurredAtMs || b.atMs - a.atMs)
    .slice(0, LATEST_SCORES)
    .map(({ person: { email }, seq: _seq, ...score }) => ({ ...score, email }));
  return {
    externalId,
    values: valuesOf(row),
    attributes: JSON.parse(row.attributes) as Record<string, unknown>,
    origins: Object.fromEntries(origins),
    score: row.score,
    recomputing: row.score_before !== null,
    people: row.people,
    topPeople: findPeople(state, { sort: "score", account: externalId }, { cursor: null, limit: TOP_PEOPLE }).items,
    latestScores,
    curve: row.people > recent.length ? null : scoreCurve(latest, row.score),
    lapsing: areLapsesDue(state),
    firstSeenMs: row.first_seen,
    // The account's row has only the day of its people.
    lastSeenMs: Math.max(row.last_seen, ...recent.map(({ last_seen: ms }) => ms)),
    historyCut: isHistoryCut(row.histories),
    changes: listChanges(sql, row.id, listQuery),
  };
}

const TOP_PEOPLE = 10;
const RECENT_PEOPLE = 20;
const LATEST_SCORES = 10;
/** The newest people of an account, sorted by last seen in about 10 ms. */
const MEMBERS_READ = 10_000;

interface Member extends Record<string, SqlStorageValue> {
  id: number;
  email: string;
  recent: string;
  last_seen: number;
}

function recentMembers(sql: SqlStorage, account: string): Member[] {
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
    .exec<Member>(
      "SELECT id, email, recent, last_seen FROM people WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(ids),
    )
    .toArray();
}

/** An account's changes, the newest first. The cursor is the received order and the field of the last change. */
function listChanges(sql: SqlStorage, accountId: number, listQuery: ListQuery): ListPage<ShownChange> {
  const [, at, ordinal, lastField] = /^(\d+)\.(\d+)\.(\w+)$/.exec(listQuery.cursor ?? "") ?? [];
  const first = [Number.MAX_SAFE_INTEGER, 0, ""];
  const rows = sql.exec<AccountChangeRow>(
    `SELECT field, "at", ordinal, signal_id, ${startOf('"before"', ACCOUNT_CHANGE_CHARACTERS, '"before"')},
       ${startOf('"after"', ACCOUNT_CHANGE_CHARACTERS, '"after"')}
     FROM account_changes WHERE account_id = ? AND ("at", ordinal, field) < (?, ?, ?)
     ORDER BY "at" DESC, ordinal DESC, field DESC LIMIT ?`,
    accountId,
    ...(lastField === undefined ? first : [Number(at), Number(ordinal), lastField]),
    listQuery.limit + 1,
  );
  const { items, next } = listPage(rows.toArray(), listQuery, (row) => `${row.at}.${row.ordinal}.${row.field}`);
  const changes = items.map(({ field, before, after, at: atMs, signal_id: signalId }) => {
    return { field, before, after, atMs, signalId };
  });
  return { items: changes, next };
}

/** Accounts with their history in an order, or the account with an external id. A slice of very large accounts is short. */
export function listAccounts(
  state: AccountsState,
  { externalId, sort = "newest" }: AccountFilter,
  listQuery: ListQuery,
): AccountsList {
  const { sql } = state;
  const lapsing = areLapsesDue(state);
  if (externalId !== undefined) {
    const rows = sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId);
    return { items: rows.toArray().map((row) => toAccount(sql, row)), next: null, sorted: true, lapsing };
  }
  const { rows, sorted, cursorOf } = orderedAccounts(sql, { sort }, listQuery);
  const items: Account[] = [];
  let [characters, cursor]: [number, string | null] = [0, null];
  for (const summary of rows) {
    if (items.length >= listQuery.limit || characters > SLICE_MAX_CHARACTERS) {
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
    recomputing: row.score_before !== null,
    people: row.people,
    firstSeenMs: row.first_seen,
    lastSeenMs: row.last_seen,
    historyCut: isHistoryCut(row.histories),
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

/**
 * Accounts as a batch reads and changes them: upserted by external id. For each field, the latest received update counts.
 * A group call only sets fields that no update has set. If the account has room for every update, any order of delivery gives the same
 * account.
 *
 * An account has the sum of its members' scores. It was first seen with the earliest of its members, or when it was first named. The
 * transaction that changes a person also calls `changeMember`, and writes each account once, after all its members.
 */
import { updateRejection, valueBytes } from "../../domain/accounts/account-size.ts";
import {
  ACCOUNT_TARGETS,
  isAccountField,
  type AccountField,
  type AccountRecord,
} from "../../domain/accounts/payload-template.ts";
import { canonicalJson } from "../../domain/signal/canonical-form.ts";
import { FIELD_HISTORY_MAX_BYTES, FIELD_HISTORY_MAX_CHANGES } from "../../limits.ts";
import { insertRow, updateRow } from "../../platform/sql-row.ts";
import { isLater, type ReceivedOrder } from "../../wire/message.ts";
import type { AccountChangeRow, AccountRow, PersonRow } from "../schema.ts";
import type { ScoreNotifications } from "../state/raise-notifications.ts";

/** The update that each value came from, by target, such as `plan` or `attributes.region`. */
export type ValueOrigins = Record<string, ValueOrigin>;

export const ACCOUNT_FIELDS: readonly AccountField[] = ACCOUNT_TARGETS.filter(isAccountField);
const ATTRIBUTE_PREFIX = "attributes.";
/** Maximum values of an account that group calls set. */
export const GROUP_ATTRIBUTES_MAX = 100;

interface Value {
  /** JSON with sorted keys: the same text is the same value. */
  text: string;
  /** The latest update that carried the value. */
  origin: ValueOrigin;
  bytes: number;
}

interface KnownAccount {
  /** Id of the stored row; null: the account is not stored yet. */
  id: number | null;
  /** By target. */
  values: Map<string, Value>;
  histories: HistorySizes;
  bytes: number;
  /** The earliest and the latest receipt of an update, or of a group call with traits; null: only members have named the account. */
  namedMs: { first: number; last: number } | null;
  hasChanged: boolean;
}

/** The name of an account in lists and notifications: JSON, which `nameOf` reads. A long name is left out. */
export const SHORT_NAME = "CASE WHEN length(name) <= 1000 THEN name END";
const READ_SUMS = `SELECT id, score, score_before, people, first_named_at, first_seen, last_seen,
  ${SHORT_NAME} AS name FROM accounts WHERE external_id = ?`;
const NO_CHANGE: MemberChange = {
  score: 0,
  people: 0,
  firstMs: Number.POSITIVE_INFINITY,
  lostFirstMs: Number.POSITIVE_INFINITY,
  seenMs: 0,
  isRecomputed: false,
};
const CREATE = `INSERT INTO accounts (external_id, attributes, claims, first_named_at, first_seen, last_seen)
  VALUES (?1, '{}', '{}', ?2, ?2, ?2) RETURNING id`;

type Member = Pick<PersonRow, "account" | "score" | "score_before" | "first_seen" | "last_seen" | "last_day">;

interface MemberChange {
  score: number;
  people: number;
  /** The earliest time at which a new member was first seen, or a known one, if that is earlier than before; else Infinity. */
  firstMs: number;
  /** The same, as it was before, of members who have left or whose first time is later now. */
  lostFirstMs: number;
  /** When a member was last seen, if that is a later day than before, else 0. */
  seenMs: number;
  /** Whether matches of a member are being replaced. */
  isRecomputed: boolean;
}

export class Accounts {
  readonly #sql: SqlStorage;
  readonly #byExternalId = new Map<string, KnownAccount>();
  /** By external id. */
  readonly #memberChanges = new Map<string, MemberChange>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Applies an update. Returns null, or why the account has no room for the update; then nothing has changed. */
  update(record: AccountRecord, origin: ValueOrigin): string | null {
    const account = this.#account(record.externalId);
    const sent = valuesOf(record, origin);
    const taken = new Map([...sent].filter(([target]) => isLatest(account, target, origin)));
    const rejection = updateRejection(account.bytes, account.values, { sent, taken });
    if (rejection !== null) return rejection;

    const id = this.#noteUpdate(account, record.externalId, origin);
    for (const field of ACCOUNT_FIELDS) {
      const [value, last] = [sent.get(field), account.values.get(field)];
      // No update has set a value of a group call, so the field has no history yet.
      if (value === undefined) continue;
      const of = { accountId: id, field, size: (account.histories[field] ??= { changes: 0, bytes: 0, cut: null }) };
      this.#addToHistory(of, last?.origin.by === "group" ? undefined : last, value);
    }
    for (const [target, value] of taken) setValue(account, target, value);
    return null;
  }

  /**
   * Sets the values of a group call, except values that an account update has set. New values are left out if there is no room for all of
   * them. The call names the account even if none of its values is set.
   */
  setTraits(record: AccountRecord, order: ValueOrigin): void {
    const origin: ValueOrigin = { ...order, by: "group" };
    const sent = valuesOf(record, origin);
    if (sent.size === 0) return;
    const account = this.#account(record.externalId);
    const ofGroups = [...account.values.values()].filter(({ origin: { by } }) => by === "group").length;
    const fresh = [...sent.keys()].filter((target) => !account.values.has(target)).length;
    const hasRoom = ofGroups + fresh <= GROUP_ATTRIBUTES_MAX;
    const taken = new Map(
      [...sent].filter(([target]) => {
        const last = account.values.get(target);
        return last === undefined ? hasRoom : last.origin.by === "group" && isLater(origin, last.origin);
      }),
    );
    this.#noteUpdate(account, record.externalId, origin);
    if (updateRejection(account.bytes, account.values, { sent: taken, taken }) !== null) return;
    for (const [target, value] of taken) setValue(account, target, value);
  }

  /** Notes how a person has changed. @param before null: a new person. @param now null: the person is deleted. */
  changeMember(before: Member | null, now: Member | null): void {
    const isRecomputed = now !== null && now.score_before !== null;
    if (before !== null && now !== null && before.account === now.account) {
      const change: MemberChange = {
        score: now.score - before.score,
        people: 0,
        firstMs: now.first_seen < before.first_seen ? now.first_seen : Number.POSITIVE_INFINITY,
        lostFirstMs: now.first_seen > before.first_seen ? before.first_seen : Number.POSITIVE_INFINITY,
        seenMs: now.last_day > before.last_day ? now.last_seen : 0,
        isRecomputed,
      };
      const isSeen = now.first_seen !== before.first_seen || change.seenMs > 0;
      if (change.score !== 0 || isSeen || isRecomputed || before.score_before !== null)
        this.#addChange(now.account, change);
      return;
    }
    if (before !== null) {
      const left = { score: -before.score, people: -1, lostFirstMs: before.first_seen };
      this.#addChange(before.account, { ...NO_CHANGE, ...left });
    }
    if (now !== null) {
      const joined = { score: now.score, people: 1, firstMs: now.first_seen, seenMs: now.last_seen, isRecomputed };
      this.#addChange(now.account, { ...NO_CHANGE, ...joined });
    }
  }

  /** Call it once, after the rows of all members are written. @param notifications null: no destination subscribes to scores. */
  flush(notifications: ScoreNotifications | null): void {
    for (const [externalId, account] of this.#byExternalId) {
      if (account.hasChanged) this.#addChange(externalId, NO_CHANGE);
    }
    for (const [externalId, change] of this.#memberChanges) this.#write(externalId, change, notifications);
    this.#memberChanges.clear();
    this.#byExternalId.clear();
  }

  #write(externalId: string, change: MemberChange, notifications: ScoreNotifications | null): void {
    const [stored] = this.#sql.exec<SumsRow>(READ_SUMS, externalId);
    const before: Sums = stored ?? NO_SUMS;
    const account = this.#byExternalId.get(externalId);
    const changed = account?.hasChanged === true ? account : null;
    const firstNamedMs = changed?.namedMs?.first ?? before.first_named_at;
    const from = before.score_before ?? before.score;
    const isRecomputed = (change.isRecomputed || before.score_before !== null) && this.#isRecomputed(externalId);
    const now: Sums = {
      first_named_at: firstNamedMs,
      first_seen: this.#firstSeenMs(externalId, change, before.first_seen, firstNamedMs),
      last_seen: Math.max(before.last_seen, change.seenMs, changed?.namedMs?.last ?? 0),
      score: before.score + change.score,
      score_before: isRecomputed ? from : null,
      people: before.people + change.people,
    };
    const isEmpty = now.people === 0 && firstNamedMs === null;
    if (stored === undefined) {
      const row = { external_id: externalId, attributes: "{}", claims: "{}", ...now };
      if (!isEmpty) insertRow(this.#sql, "accounts", row);
    } else if (isEmpty) this.#sql.exec("DELETE FROM accounts WHERE id = ?", stored.id);
    else {
      const values = changed === null ? {} : valueColumns(changed);
      const row = { id: stored.id, ...now, ...values };
      updateRow<Partial<AccountRow>>(this.#sql, "accounts", ["id"], stored, row);
    }
    // While matches of a member are replaced, no threshold counts.
    if (notifications === null || isRecomputed || now.score === from) return;
    // An update of the same batch may have named the account.
    const name = changed === null ? stored?.name : this.#sql.exec<SumsRow>(READ_SUMS, externalId).one().name;
    notifications.compareAccount({ external_id: externalId, name: nameOf(name ?? null), score: now.score }, from);
  }

  /** Whether matches of a member are being replaced. */
  #isRecomputed(externalId: string): boolean {
    const query = "SELECT 1 FROM people WHERE account = ? AND score_before IS NOT NULL LIMIT 1";
    return this.#sql.exec(query, externalId).toArray().length > 0;
  }

  /** Reads the members only if the stored time may be of a member who has left, or whose first time is later now. */
  #firstSeenMs(
    externalId: string,
    { firstMs, lostFirstMs }: MemberChange,
    beforeMs: number,
    firstNamedMs: number | null,
  ): number {
    const namedMs = firstNamedMs ?? Number.POSITIVE_INFINITY;
    if (lostFirstMs > beforeMs || namedMs <= beforeMs) return Math.min(beforeMs, firstMs, namedMs);
    const { ms } = this.#sql
      .exec<{ ms: number | null }>("SELECT min(first_seen) AS ms FROM people WHERE account = ?", externalId)
      .one();
    return Math.min(namedMs, ms ?? Number.POSITIVE_INFINITY);
  }

  #addChange(externalId: string | null, change: MemberChange): void {
    if (externalId === null) return;
    const known = this.#memberChanges.get(externalId) ?? NO_CHANGE;
    this.#memberChanges.set(externalId, {
      score: known.score + change.score,
      people: known.people + change.people,
      firstMs: Math.min(known.firstMs, change.firstMs),
      lostFirstMs: Math.min(known.lostFirstMs, change.lostFirstMs),
      seenMs: Math.max(known.seenMs, change.seenMs),
      isRecomputed: known.isRecomputed || change.isRecomputed,
    });
  }

  /** Creates the account if it is new. Returns its id. */
  #noteUpdate(account: KnownAccount, externalId: string, { receivedAtMs }: ValueOrigin): number {
    account.id ??= this.#sql.exec<{ id: number }>(CREATE, externalId, receivedAtMs).one().id;
    account.hasChanged = true;
    account.namedMs = {
      first: Math.min(account.namedMs?.first ?? receivedAtMs, receivedAtMs),
      last: Math.max(account.namedMs?.last ?? receivedAtMs, receivedAtMs),
    };
    return account.id;
  }

  #addToHistory(of: FieldOfAccount, last: Value | undefined, { text: after, origin }: Value): void {
    const { size } = of;
    if (size.cut !== null && !isLater(origin, size.cut)) return;
    if (last !== undefined && !isLater(origin, last.origin))
      insertLateChange(this.#sql, of, after, origin, last.origin);
    else if (last?.text !== after) {
      insertChange(this.#sql, of, { before: last?.text ?? null, after, origin, beforeLast: last?.origin ?? null });
    }
    if (size.changes > FIELD_HISTORY_MAX_CHANGES || size.bytes > FIELD_HISTORY_MAX_BYTES) cutHistory(this.#sql, of);
  }

  #account(externalId: string): KnownAccount {
    const account = this.#byExternalId.get(externalId) ?? this.#read(externalId) ?? emptyAccount(externalId);
    this.#byExternalId.set(externalId, account);
    return account;
  }

  #read(externalId: string): KnownAccount | undefined {
    const row = this.#sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId).toArray()[0];
    if (row === undefined) return undefined;
    const namedMs = row.first_named_at === null ? null : { first: row.first_named_at, last: 0 };
    const histories = JSON.parse(row.histories) as HistorySizes;
    const account = { ...emptyAccount(externalId), id: row.id, histories, namedMs };
    const attributes = JSON.parse(row.attributes) as Record<string, unknown>;
    for (const [target, origin] of Object.entries(JSON.parse(row.claims) as ValueOrigins)) {
      const text = isAccountField(target)
        ? row[target]
        : canonicalJson(attributes[target.slice(ATTRIBUTE_PREFIX.length)]);
      if (text !== null) setValue(account, target, toValue(target, text, origin));
    }
    return account;
  }
}

type Sums = Pick<AccountRow, "score" | "score_before" | "people" | "first_named_at" | "first_seen" | "last_seen">;
type SumsRow = Sums & Pick<AccountRow, "id" | "name">;
/** The sums of an account that is not stored. */
const NO_SUMS: Sums = {
  score: 0,
  score_before: null,
  people: 0,
  first_named_at: null,
  first_seen: Number.MAX_SAFE_INTEGER,
  last_seen: 0,
};

function valueColumns({ values, histories }: KnownAccount): Partial<AccountRow> {
  return {
    ...Object.fromEntries(ACCOUNT_FIELDS.map((field) => [field, values.get(field)?.text ?? null])),
    attributes: attributesText(values),
    claims: JSON.stringify(Object.fromEntries([...values].map(([target, { origin }]) => [target, origin]))),
    histories: JSON.stringify(histories),
  };
}

/** @param json of the stored name; null: there is none, or it is long. */
export function nameOf(json: string | null): string | null {
  const name: unknown = json === null ? null : JSON.parse(json);
  return name === null || typeof name === "string" ? name : String(json);
}

function emptyAccount(externalId: string): KnownAccount {
  const bytes = Buffer.byteLength(externalId);
  return { id: null, values: new Map(), histories: {}, bytes, namedMs: null, hasChanged: false };
}

function valuesOf({ fields, attributes }: AccountRecord, origin: ValueOrigin): Map<string, Value> {
  const sent = new Map<string, Value>();
  const add = (target: string, value: unknown): void => {
    sent.set(target, toValue(target, canonicalJson(value), origin));
  };
  for (const field of ACCOUNT_FIELDS) if (fields[field] !== undefined) add(field, fields[field]);
  for (const [name, value] of Object.entries(attributes)) add(ATTRIBUTE_PREFIX + name, value);
  return sent;
}

function toValue(target: string, text: string, origin: ValueOrigin): Value {
  return { text, origin, bytes: valueBytes(target, text, JSON.stringify(origin)) };
}

/** Whether an account update sets a value: it is the latest, or the value comes from a group call. */
function isLatest(account: KnownAccount, target: string, origin: ValueOrigin): boolean {
  const last = account.values.get(target);
  return last === undefined || last.origin.by === "group" || isLater(origin, last.origin);
}

function setValue(account: KnownAccount, target: string, value: Value): void {
  account.bytes += value.bytes - (account.values.get(target)?.bytes ?? 0);
  account.values.set(target, value);
}

/** Writes the same text as `canonicalJson`. */
function attributesText(values: ReadonlyMap<string, Value>): string {
  const attributes = [...values].filter(([target]) => target.startsWith(ATTRIBUTE_PREFIX));
  const members = attributes
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([target, { text }]) => `${JSON.stringify(target.slice(ATTRIBUTE_PREFIX.length))}:${text}`);
  return `{${members.join(",")}}`;
}

// The history of a field: its changes in received order, without a gap to the current value. Updates that repeat the value write
// nothing, except the latest repeat, which the next change notes (`beforeLast`). A late update takes its place: the next change gets
// a new value before; within a run of repeats, the history goes there and back; if the next change has the same value, that change moves
// back in time. If no value was sent more than twice, the history is the same for any order of delivery.
//
// A history keeps its latest FIELD_HISTORY_MAX_CHANGES changes with FIELD_HISTORY_MAX_BYTES of values. The account's row knows how much
// there is, so that an update counts nothing. A late update from before the cut is ignored.

/** The signal that set a value: an account update, or a group call. */
interface ValueOrigin extends ReceivedOrder {
  signalId: string;
  by?: "group";
}

/** The size of a field's history in `account_changes`. */
interface HistorySize {
  changes: number;
  /** Bytes of the values before and after. */
  bytes: number;
  /** The latest change that was dropped; null: none was. */
  cut: ReceivedOrder | null;
}

export type HistorySizes = Partial<Record<AccountField, HistorySize>>;

export function isHistoryCut(histories: string): boolean {
  return Object.values(JSON.parse(histories) as HistorySizes).some(({ cut }) => cut !== null);
}

interface FieldOfAccount {
  accountId: number;
  field: AccountField;
  size: HistorySize;
}

interface Change {
  before: string | null;
  after: string;
  origin: ValueOrigin;
  /** The latest update with the value before. */
  beforeLast: ValueOrigin | null;
}

const OF_FIELD = "FROM account_changes WHERE account_id = ? AND field = ?";
const READ_PREVIOUS = `SELECT * ${OF_FIELD} AND ("at", ordinal) < (?, ?) ORDER BY "at" DESC, ordinal DESC LIMIT 1`;
const READ_NEXT = `SELECT * ${OF_FIELD} AND ("at", ordinal) > (?, ?) ORDER BY "at", ordinal LIMIT 1`;
const DELETE = `DELETE ${OF_FIELD} AND "at" = ? AND ordinal = ?`;

function insertChange(sql: SqlStorage, { accountId, field, size }: FieldOfAccount, change: Change): void {
  const { before, after, origin, beforeLast } = change;
  size.changes++;
  size.bytes += bytesOf(change);
  insertRow(sql, "account_changes", {
    account_id: accountId,
    field,
    at: origin.receivedAtMs,
    ordinal: origin.ordinal,
    signal_id: origin.signalId,
    before,
    after,
    before_at: beforeLast?.receivedAtMs ?? null,
    before_ordinal: beforeLast?.ordinal ?? null,
    before_signal_id: beforeLast?.signalId ?? null,
  });
}

/** Adds an update that arrived late to the history. @param last the latest update of the field. */
function insertLateChange(
  sql: SqlStorage,
  of: FieldOfAccount,
  value: string,
  origin: ValueOrigin,
  last: ValueOrigin,
): void {
  const previous = readChange(sql, READ_PREVIOUS, of, origin);
  const next = readChange(sql, READ_NEXT, of, origin);
  const previousLast = next === null ? last : next.beforeLast;
  const isWithin = previous !== null && previousLast !== null && isLater(previousLast, origin);
  // The change before may have been dropped.
  const before = previous?.after ?? next?.before ?? null;

  if (before === value) {
    if (!isWithin && next !== null) replaceChange(sql, of, next, { ...next, beforeLast: origin });
  } else if (isWithin) {
    insertChange(sql, of, { before: previous.after, after: value, origin, beforeLast: previous.origin });
    insertChange(sql, of, { before: value, after: previous.after, origin: previousLast, beforeLast: origin });
  } else if (next?.after === value) {
    replaceChange(sql, of, next, { ...next, origin });
  } else {
    insertChange(sql, of, { before, after: value, origin, beforeLast: previousLast });
    if (next !== null) replaceChange(sql, of, next, { ...next, before: value, beforeLast: origin });
  }
}

function replaceChange(sql: SqlStorage, of: FieldOfAccount, old: Change, change: Change): void {
  sql.exec(DELETE, of.accountId, of.field, old.origin.receivedAtMs, old.origin.ordinal);
  of.size.changes--;
  of.size.bytes -= bytesOf(old);
  insertChange(sql, of, change);
}

function bytesOf({ before, after }: Pick<Change, "before" | "after">): number {
  return Buffer.byteLength(before ?? "") + Buffer.byteLength(after);
}

/** A full history loses a tenth, so that not every change deletes one. */
const CUT_TO = 0.9;

/** Drops the oldest changes. */
function cutHistory(sql: SqlStorage, { accountId, field, size }: FieldOfAccount): void {
  const isTooLong = (): boolean =>
    size.changes > 1 &&
    (size.changes > CUT_TO * FIELD_HISTORY_MAX_CHANGES || size.bytes > CUT_TO * FIELD_HISTORY_MAX_BYTES);
  const oldest = sql.exec<Pick<AccountChangeRow, "at" | "ordinal" | "before" | "after">>(
    `SELECT "at", ordinal, "before", "after" ${OF_FIELD} ORDER BY "at", ordinal`,
    accountId,
    field,
  );
  for (const change of oldest) {
    if (!isTooLong()) break;
    size.changes--;
    size.bytes -= bytesOf(change);
    size.cut = { receivedAtMs: change.at, ordinal: change.ordinal };
  }
  const { receivedAtMs = 0, ordinal = 0 } = size.cut ?? {};
  sql.exec(`DELETE ${OF_FIELD} AND ("at", ordinal) <= (?, ?)`, accountId, field, receivedAtMs, ordinal);
}

function readChange(sql: SqlStorage, query: string, of: FieldOfAccount, at: ValueOrigin): Change | null {
  const [row] = sql.exec<AccountChangeRow>(query, of.accountId, of.field, at.receivedAtMs, at.ordinal);
  if (row === undefined) return null;
  const { before_at: beforeAt, before_ordinal: beforeOrdinal, before_signal_id: beforeSignalId } = row;
  const hasBefore = beforeAt !== null && beforeOrdinal !== null && beforeSignalId !== null;
  return {
    before: row.before,
    after: row.after,
    origin: { receivedAtMs: row.at, ordinal: row.ordinal, signalId: row.signal_id },
    beforeLast: hasBefore ? { receivedAtMs: beforeAt, ordinal: beforeOrdinal, signalId: beforeSignalId } : null,
  };
}

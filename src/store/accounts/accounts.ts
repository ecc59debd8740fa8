/**
 * Accounts as a batch reads and changes them (design §8.7): upserted by external id. For each field, the latest received update wins.
 * So any order of delivery gives the same account, as long as the account has room for every update.
 */
import { updateRefusal, valueBytes } from "../../domain/accounts/account-size.ts";
import { ACCOUNT_TARGETS, type AccountField, type AccountRecord } from "../../domain/accounts/payload-template.ts";
import { canonicalJson } from "../../domain/signal/canonical-form.ts";
import { insertRow } from "../../platform/sql-row.ts";
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";
import type { AccountChangeRow, AccountRow } from "../schema.ts";

/** The update that each value came from, by target, such as `plan` or `attributes.region`. */
export type ValueClaims = Record<string, ValueClaim>;

export const ACCOUNT_FIELDS: readonly AccountField[] = ACCOUNT_TARGETS.filter((target) => target !== "external_id");
const ATTRIBUTE_PREFIX = "attributes.";

interface Value {
  /** JSON with sorted keys: the same text is the same value. */
  text: string;
  /** The latest update that carried the value. */
  claim: ValueClaim;
  bytes: number;
}

interface Stored {
  /** Null: the account is not stored yet. */
  id: number | null;
  /** By target. */
  values: Map<string, Value>;
  bytes: number;
  firstSeen: number;
  lastSeen: number;
  hasChanged: boolean;
}

const CREATE = `INSERT INTO accounts (external_id, attributes, claims, first_seen, last_seen)
  VALUES (?1, '{}', '{}', ?2, ?2) RETURNING id`;

const WRITE = `UPDATE accounts SET ${ACCOUNT_FIELDS.map((field) => `${field} = ?`).join(", ")},
  attributes = ?, claims = ?, first_seen = ?, last_seen = ? WHERE id = ?`;

export class Accounts {
  readonly #sql: SqlStorage;
  readonly #byExternalId = new Map<string, Stored>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Applies an update. Returns null, or why the account has no room for the update; then nothing has changed. */
  update(record: AccountRecord, claim: ValueClaim): string | null {
    const account = this.#account(record.externalId, claim.receivedAtMs);
    const sent = valuesSent(record, claim);
    const taken = new Map([...sent].filter(([target]) => isNews(account, target, claim)));
    const refusal = updateRefusal(account.bytes, account.values, { sent, taken });
    if (refusal !== null) return refusal;

    account.id ??= this.#create(record.externalId, claim.receivedAtMs);
    account.hasChanged = true;
    account.firstSeen = Math.min(account.firstSeen, claim.receivedAtMs);
    account.lastSeen = Math.max(account.lastSeen, claim.receivedAtMs);
    for (const field of ACCOUNT_FIELDS) {
      const value = sent.get(field);
      if (value !== undefined) this.#remember(account.id, account.values.get(field), field, value);
    }
    for (const [target, value] of taken) setValue(account, target, value);
    return null;
  }

  /** Writes each account that the batch has changed, once. */
  write(): void {
    for (const { id, values, firstSeen, lastSeen, hasChanged } of this.#byExternalId.values()) {
      if (!hasChanged) continue;
      this.#sql.exec(
        WRITE,
        ...ACCOUNT_FIELDS.map((field) => values.get(field)?.text ?? null),
        attributesText(values),
        JSON.stringify(Object.fromEntries([...values].map(([target, { claim }]) => [target, claim]))),
        firstSeen,
        lastSeen,
        id,
      );
    }
  }

  /** Adds an update to the history of a field: at the end if it changes the latest value, or in its place if it arrived late. */
  #remember(accountId: number, last: Value | undefined, field: AccountField, { text: after, claim }: Value): void {
    const of = { accountId, field };
    if (last !== undefined && !isLater(claim, last.claim)) insertLateChange(this.#sql, of, after, claim, last.claim);
    else if (last?.text !== after) {
      insertChange(this.#sql, of, { before: last?.text ?? null, after, claim, beforeLast: last?.claim ?? null });
    }
  }

  #account(externalId: string, atMs: number): Stored {
    const account = this.#byExternalId.get(externalId) ?? this.#read(externalId) ?? emptyAccount(externalId, atMs);
    this.#byExternalId.set(externalId, account);
    return account;
  }

  #read(externalId: string): Stored | undefined {
    const row = this.#sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId).toArray()[0];
    if (row === undefined) return undefined;
    const account = { ...emptyAccount(externalId, row.first_seen), id: row.id, lastSeen: row.last_seen };
    const attributes = JSON.parse(row.attributes) as Record<string, unknown>;
    for (const [target, claim] of Object.entries(JSON.parse(row.claims) as ValueClaims)) {
      const text = isField(target) ? row[target] : canonicalJson(attributes[target.slice(ATTRIBUTE_PREFIX.length)]);
      if (text !== null) setValue(account, target, toValue(target, text, claim));
    }
    return account;
  }

  #create(externalId: string, atMs: number): number {
    return this.#sql.exec<{ id: number }>(CREATE, externalId, atMs).one().id;
  }
}

function emptyAccount(externalId: string, atMs: number): Stored {
  const bytes = Buffer.byteLength(externalId);
  return { id: null, values: new Map(), bytes, firstSeen: atMs, lastSeen: atMs, hasChanged: false };
}

/** The values of an update, by target. */
function valuesSent({ fields, attributes }: AccountRecord, claim: ValueClaim): Map<string, Value> {
  const sent = new Map<string, Value>();
  const add = (target: string, value: unknown): void => {
    sent.set(target, toValue(target, canonicalJson(value), claim));
  };
  for (const field of ACCOUNT_FIELDS) if (fields[field] !== undefined) add(field, fields[field]);
  for (const [name, value] of Object.entries(attributes)) add(ATTRIBUTE_PREFIX + name, value);
  return sent;
}

function toValue(target: string, text: string, claim: ValueClaim): Value {
  return { text, claim, bytes: valueBytes(target, text, JSON.stringify(claim)) };
}

function isNews(account: Stored, target: string, claim: ValueClaim): boolean {
  const last = account.values.get(target);
  return last === undefined || isLater(claim, last.claim);
}

function setValue(account: Stored, target: string, value: Value): void {
  account.bytes += value.bytes - (account.values.get(target)?.bytes ?? 0);
  account.values.set(target, value);
}

function isField(target: string): target is AccountField {
  return ACCOUNT_FIELDS.some((field) => field === target);
}

/** The attributes as `canonicalJson` writes them. */
function attributesText(values: ReadonlyMap<string, Value>): string {
  const attributes = [...values].filter(([target]) => target.startsWith(ATTRIBUTE_PREFIX));
  const members = attributes
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([target, { text }]) => `${JSON.stringify(target.slice(ATTRIBUTE_PREFIX.length))}:${text}`);
  return `{${members.join(",")}}`;
}

// The history of a field: its changes in received order, without a gap to the current value. Updates that repeat the value write
// nothing, except the latest repeat, which the next change notes (`beforeLast`). A late update takes its place: the change behind it gets
// a new value before; within a run of repeats, the history goes there and back; if the next change has the same value, that change moves
// back in time. If no value was sent more than twice, the history is the same for any order of delivery.

/** The update that set a value. */
interface ValueClaim extends ReceivedOrder {
  signalId: string;
}

interface FieldOfAccount {
  accountId: number;
  field: AccountField;
}

/** Values are JSON texts. */
interface Change {
  before: string | null;
  after: string;
  claim: ValueClaim;
  /** The latest update with the value before. */
  beforeLast: ValueClaim | null;
}

const OF_FIELD = "FROM account_changes WHERE account_id = ? AND field = ?";
const READ_PREVIOUS = `SELECT * ${OF_FIELD} AND ("at", ordinal) < (?, ?) ORDER BY "at" DESC, ordinal DESC LIMIT 1`;
const READ_NEXT = `SELECT * ${OF_FIELD} AND ("at", ordinal) > (?, ?) ORDER BY "at", ordinal LIMIT 1`;
const DELETE = `DELETE ${OF_FIELD} AND "at" = ? AND ordinal = ?`;

function insertChange(sql: SqlStorage, { accountId, field }: FieldOfAccount, change: Change): void {
  const { before, after, claim, beforeLast } = change;
  insertRow(sql, "account_changes", {
    account_id: accountId,
    field,
    at: claim.receivedAtMs,
    ordinal: claim.ordinal,
    signal_id: claim.signalId,
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
  claim: ValueClaim,
  last: ValueClaim,
): void {
  const previous = readChange(sql, READ_PREVIOUS, of, claim);
  const next = readChange(sql, READ_NEXT, of, claim);
  const previousLast = next === null ? last : next.beforeLast;
  const isWithin = previous !== null && previousLast !== null && isLater(previousLast, claim);

  if (previous?.after === value) {
    if (!isWithin && next !== null) replaceChange(sql, of, next, { ...next, beforeLast: claim });
  } else if (isWithin) {
    insertChange(sql, of, { before: previous.after, after: value, claim, beforeLast: previous.claim });
    insertChange(sql, of, { before: value, after: previous.after, claim: previousLast, beforeLast: claim });
  } else if (next?.after === value) {
    replaceChange(sql, of, next, { ...next, claim });
  } else {
    const before = previous?.after ?? null;
    insertChange(sql, of, { before, after: value, claim, beforeLast: previousLast });
    if (next !== null) replaceChange(sql, of, next, { ...next, before: value, beforeLast: claim });
  }
}

function replaceChange(sql: SqlStorage, of: FieldOfAccount, old: Change, change: Change): void {
  sql.exec(DELETE, of.accountId, of.field, old.claim.receivedAtMs, old.claim.ordinal);
  insertChange(sql, of, change);
}

function readChange(sql: SqlStorage, query: string, of: FieldOfAccount, at: ValueClaim): Change | null {
  const [row] = sql.exec<AccountChangeRow>(query, of.accountId, of.field, at.receivedAtMs, at.ordinal);
  if (row === undefined) return null;
  const { before_at: beforeAt, before_ordinal: beforeOrdinal, before_signal_id: beforeSignalId } = row;
  const hasBefore = beforeAt !== null && beforeOrdinal !== null && beforeSignalId !== null;
  return {
    before: row.before,
    after: row.after,
    claim: { receivedAtMs: row.at, ordinal: row.ordinal, signalId: row.signal_id },
    beforeLast: hasBefore ? { receivedAtMs: beforeAt, ordinal: beforeOrdinal, signalId: beforeSignalId } : null,
  };
}

/**
 * Accounts as a batch reads and changes them (design §8.7): upserted by external id. For each field, the latest received update counts.
 * A group call only sets fields that no update has set. If the account has room for every update, any order of delivery gives the same
 * account.
 *
 * An account has the sum of its members' scores. The transaction that changes a person also calls `changeMember`.
 */
import { updateRefusal, valueBytes } from "../../domain/accounts/account-size.ts";
import {
  ACCOUNT_TARGETS,
  isAccountField,
  type AccountField,
  type AccountRecord,
} from "../../domain/accounts/payload-template.ts";
import { canonicalJson } from "../../domain/signal/canonical-form.ts";
import { insertRow, updateRow } from "../../platform/sql-row.ts";
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";
import type { AccountChangeRow, AccountRow, PersonRow } from "../schema.ts";
import type { ScoreNews } from "../state/raise-events.ts";

/** The update that each value came from, by target, such as `plan` or `attributes.region`. */
export type ValueClaims = Record<string, ValueClaim>;

export const ACCOUNT_FIELDS: readonly AccountField[] = ACCOUNT_TARGETS.filter(isAccountField);
const ATTRIBUTE_PREFIX = "attributes.";
/** Maximum values of an account that group calls set. */
export const GROUP_ATTRIBUTES_MAX = 100;

interface Value {
  /** JSON with sorted keys: the same text is the same value. */
  text: string;
  /** The latest update that carried the value. */
  claim: ValueClaim;
  bytes: number;
}

interface KnownAccount {
  /** Of the stored row; null: the account is not stored yet. */
  id: number | null;
  /** By target. */
  values: Map<string, Value>;
  bytes: number;
  firstSeenMs: number;
  lastSeenMs: number;
  hasChanged: boolean;
}

/** The name of an account in lists and notifications: JSON, which `nameOf` reads. A long name is left out. */
export const SHORT_NAME = "CASE WHEN length(name) <= 1000 THEN name END";
const READ_SUMS = `SELECT id, score, people, first_seen, last_seen, claims = '{}' AS is_bare,
  ${SHORT_NAME} AS name FROM accounts WHERE external_id = ?`;
const CREATE = `INSERT INTO accounts (external_id, attributes, claims, first_seen, last_seen)
  VALUES (?1, '{}', '{}', ?2, ?2) RETURNING id`;

type Member = Pick<PersonRow, "account" | "score" | "last_seen" | "last_day">;

interface MemberChange {
  score: number;
  people: number;
  /** When a member was last seen, if that is a later day than before, else 0. */
  seenMs: number;
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
  update(record: AccountRecord, claim: ValueClaim): string | null {
    const account = this.#account(record.externalId, claim.receivedAtMs);
    const sent = valuesOf(record, claim);
    const taken = new Map([...sent].filter(([target]) => isLatest(account, target, claim)));
    const refusal = updateRefusal(account.bytes, account.values, { sent, taken });
    if (refusal !== null) return refusal;

    const id = this.#noteUpdate(account, record.externalId, claim);
    for (const field of ACCOUNT_FIELDS) {
      const [value, last] = [sent.get(field), account.values.get(field)];
      // No update has set a value of a group call, so the field has no history yet.
      if (value !== undefined) this.#addToHistory(id, last?.claim.by === "group" ? undefined : last, field, value);
    }
    for (const [target, value] of taken) setValue(account, target, value);
    return null;
  }

  /** Sets the values of a group call, except values that an account update has set. Values without room are left out. */
  setTraits(record: AccountRecord, order: ValueClaim): void {
    const claim: ValueClaim = { ...order, by: "group" };
    const account = this.#account(record.externalId, claim.receivedAtMs);
    const taken = new Map(
      [...valuesOf(record, claim)].filter(([target]) => {
        const last = account.values.get(target);
        return last === undefined || (last.claim.by === "group" && isLater(claim, last.claim));
      }),
    );
    const attributes = [...account.values.values()].filter(({ claim: { by } }) => by === "group").length;
    if (taken.size === 0 || attributes + taken.size > GROUP_ATTRIBUTES_MAX) return;
    if (updateRefusal(account.bytes, account.values, { sent: taken, taken }) !== null) return;
    this.#noteUpdate(account, record.externalId, claim);
    for (const [target, value] of taken) setValue(account, target, value);
  }

  /** Notes how a person has changed. @param before null: a new person. @param now null: the person is deleted. */
  changeMember(before: Member | null, now: Member | null): void {
    if (before?.account === now?.account && now !== null && before !== null) {
      const seenMs = now.last_day > before.last_day ? now.last_seen : 0;
      if (now.score !== before.score || seenMs > 0) this.#addChange(now.account, now.score - before.score, 0, seenMs);
      return;
    }
    if (before !== null) this.#addChange(before.account, -before.score, -1, 0);
    if (now !== null) this.#addChange(now.account, now.score, 1, now.last_seen);
  }

  /** @param news null: no destination subscribes to scores. */
  write(news: ScoreNews | null): void {
    for (const [externalId, account] of this.#byExternalId) {
      if (account.hasChanged && !this.#memberChanges.has(externalId)) this.#addChange(externalId, 0, 0, 0);
    }
    for (const [externalId, change] of this.#memberChanges) this.#write(externalId, change, news);
    this.#memberChanges.clear();
    this.#byExternalId.clear();
  }

  #write(externalId: string, { score, people, seenMs }: MemberChange, news: ScoreNews | null): void {
    const [before] = this.#sql.exec<SumsRow>(READ_SUMS, externalId);
    const account = this.#byExternalId.get(externalId);
    const changed = account?.hasChanged === true ? account : null;
    if (before === undefined) {
      if (people > 0) {
        insertRow(this.#sql, "accounts", {
          external_id: externalId,
          attributes: "{}",
          claims: "{}",
          first_seen: seenMs,
          last_seen: seenMs,
          score,
          people,
        });
      }
    } else if (people < 0 && before.people + people === 0 && before.is_bare === 1 && changed === null) {
      this.#sql.exec("DELETE FROM accounts WHERE id = ?", before.id);
    } else {
      const { is_bare: _bare, name: _name, ...stored } = before;
      updateRow<Partial<AccountRow>>(this.#sql, "accounts", ["id"], stored, {
        ...stored,
        ...(changed !== null && valueColumns(changed.values)),
        first_seen: Math.min(before.first_seen, changed?.firstSeenMs ?? before.first_seen),
        last_seen: Math.max(before.last_seen, seenMs, changed?.lastSeenMs ?? 0),
        score: before.score + score,
        people: before.people + people,
      });
    }
    if (score === 0) return;
    const from = before?.score ?? 0;
    news?.noteAccountScore({ external_id: externalId, name: nameOf(before?.name ?? null), score: from + score }, from);
  }

  #addChange(externalId: string | null, score: number, people: number, seenMs: number): void {
    if (externalId === null) return;
    const change = this.#memberChanges.get(externalId) ?? { score: 0, people: 0, seenMs: 0 };
    this.#memberChanges.set(externalId, {
      score: change.score + score,
      people: change.people + people,
      seenMs: Math.max(change.seenMs, seenMs),
    });
  }

  /** Creates the account if it is new. Returns its id. */
  #noteUpdate(account: KnownAccount, externalId: string, { receivedAtMs }: ValueClaim): number {
    account.id ??= this.#sql.exec<{ id: number }>(CREATE, externalId, receivedAtMs).one().id;
    account.hasChanged = true;
    account.firstSeenMs = Math.min(account.firstSeenMs, receivedAtMs);
    account.lastSeenMs = Math.max(account.lastSeenMs, receivedAtMs);
    return account.id;
  }

  #addToHistory(accountId: number, last: Value | undefined, field: AccountField, { text: after, claim }: Value): void {
    const of = { accountId, field };
    if (last !== undefined && !isLater(claim, last.claim)) insertLateChange(this.#sql, of, after, claim, last.claim);
    else if (last?.text !== after) {
      insertChange(this.#sql, of, { before: last?.text ?? null, after, claim, beforeLast: last?.claim ?? null });
    }
  }

  #account(externalId: string, atMs: number): KnownAccount {
    const account = this.#byExternalId.get(externalId) ?? this.#read(externalId) ?? emptyAccount(externalId, atMs);
    this.#byExternalId.set(externalId, account);
    return account;
  }

  #read(externalId: string): KnownAccount | undefined {
    const row = this.#sql.exec<AccountRow>("SELECT * FROM accounts WHERE external_id = ?", externalId).toArray()[0];
    if (row === undefined) return undefined;
    const account = { ...emptyAccount(externalId, row.first_seen), id: row.id, lastSeenMs: row.last_seen };
    const attributes = JSON.parse(row.attributes) as Record<string, unknown>;
    for (const [target, claim] of Object.entries(JSON.parse(row.claims) as ValueClaims)) {
      const text = isAccountField(target)
        ? row[target]
        : canonicalJson(attributes[target.slice(ATTRIBUTE_PREFIX.length)]);
      if (text !== null) setValue(account, target, toValue(target, text, claim));
    }
    return account;
  }
}

type SumsRow = Pick<AccountRow, "id" | "score" | "people" | "first_seen" | "last_seen" | "name"> & { is_bare: number };

function valueColumns(values: ReadonlyMap<string, Value>): Partial<AccountRow> {
  return {
    ...Object.fromEntries(ACCOUNT_FIELDS.map((field) => [field, values.get(field)?.text ?? null])),
    attributes: attributesText(values),
    claims: JSON.stringify(Object.fromEntries([...values].map(([target, { claim }]) => [target, claim]))),
  };
}

/** @param json of the stored name; null: there is none, or it is long. */
export function nameOf(json: string | null): string | null {
  const name: unknown = json === null ? null : JSON.parse(json);
  return name === null || typeof name === "string" ? name : String(json);
}

function emptyAccount(externalId: string, atMs: number): KnownAccount {
  const bytes = Buffer.byteLength(externalId);
  return { id: null, values: new Map(), bytes, firstSeenMs: atMs, lastSeenMs: atMs, hasChanged: false };
}

function valuesOf({ fields, attributes }: AccountRecord, claim: ValueClaim): Map<string, Value> {
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

/** Whether an account update sets a value: it is the latest, or the value comes from a group call. */
function isLatest(account: KnownAccount, target: string, claim: ValueClaim): boolean {
  const last = account.values.get(target);
  return last === undefined || last.claim.by === "group" || isLater(claim, last.claim);
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

/** The signal that set a value: an account update, or a group call. */
interface ValueClaim extends ReceivedOrder {
  signalId: string;
  by?: "group";
}

interface FieldOfAccount {
  accountId: number;
  field: AccountField;
}

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

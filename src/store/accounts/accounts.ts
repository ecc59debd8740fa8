/**
 * Accounts as a batch sees and changes them (design §8.7): upserted by external id; the latest by receipt wins, field by
 * field, so that any order of delivery ends in the same account, as long as the account has room for every update.
 * Plain SQL: no query builder has a say in what is written for an update.
 */
import { updateRefusal, valueBytes } from "../../domain/accounts/account-size.ts";
import { canonicalJson } from "../../domain/signal/canonical-form.ts";
import { ACCOUNT_TARGETS } from "../../domain/accounts/payload-template.ts";
import type { AccountField, AccountRecord } from "../../domain/accounts/payload-template.ts";
import { appendChange, insertLateChange } from "./account-history.ts";
import type { ValueClaim } from "./account-history.ts";
import { isLater } from "../receipt.ts";

/** The update that each value came from, by target, such as `plan` or `attributes.region`. */
export type ValueClaims = Record<string, ValueClaim>;

const FIELDS: readonly AccountField[] = ACCOUNT_TARGETS.filter((target) => target !== "external_id");
const ATTRIBUTE_PREFIX = "attributes.";

interface Value {
  /** JSON with sorted keys: the same text is the same value. */
  text: string;
  /** The latest update that carried the value. */
  claim: ValueClaim;
  bytes: number;
}

interface Stored {
  /** Number of the account's row; null: no update has been taken in yet. */
  id: number | null;
  /** The account's values by target. */
  values: Map<string, Value>;
  bytes: number;
  firstSeen: number;
  lastSeen: number;
  hasChanged: boolean;
}

type Row = Record<AccountField, string | null> & {
  id: number;
  attributes: string;
  claims: string;
  first_seen: number;
  last_seen: number;
};

const READ = `SELECT id, ${FIELDS.join(", ")}, attributes, claims, first_seen, last_seen
  FROM product_orgs WHERE external_id = ?`;

const CREATE = `INSERT INTO product_orgs (external_id, attributes, claims, first_seen, last_seen)
  VALUES (?1, '{}', '{}', ?2, ?2) RETURNING id`;

const WRITE = `UPDATE product_orgs SET ${FIELDS.map((field) => `${field} = ?`).join(", ")},
  attributes = ?, claims = ?, first_seen = ?, last_seen = ? WHERE id = ?`;

export class Accounts {
  readonly #sql: SqlStorage;
  readonly #byExternalId = new Map<string, Stored>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /**
   * Takes in an update, once: the caller has seen to it that its signal was not recorded before.
   *
   * @returns null, or why the account has no room for the update. Then nothing has been written, the account is what it
   *   was, and the update is to become a dead letter with this reason.
   */
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
    for (const field of FIELDS) {
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
        ...FIELDS.map((field) => values.get(field)?.text ?? null),
        attributesText(values),
        JSON.stringify(Object.fromEntries([...values].map(([target, { claim }]) => [target, claim]))),
        firstSeen,
        lastSeen,
        id,
      );
    }
  }

  /**
   * Enters an update in the field's history: at the end where it changes the latest value, and in its place where it came
   * late.
   */
  #remember(accountId: number, last: Value | undefined, field: AccountField, { text: after, claim }: Value): void {
    const of = { accountId, field };
    if (last !== undefined && !isLater(claim, last.claim)) insertLateChange(this.#sql, of, after, claim, last.claim);
    else if (last?.text !== after) {
      appendChange(this.#sql, of, { before: last?.text ?? null, after, claim, beforeLast: last?.claim ?? null });
    }
  }

  #account(externalId: string, atMs: number): Stored {
    const account = this.#byExternalId.get(externalId) ?? this.#read(externalId) ?? emptyAccount(externalId, atMs);
    this.#byExternalId.set(externalId, account);
    return account;
  }

  #read(externalId: string): Stored | undefined {
    const row = this.#sql.exec<Row>(READ, externalId).toArray()[0];
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

/** The values that an update carries, by target. */
function valuesSent({ fields, attributes }: AccountRecord, claim: ValueClaim): Map<string, Value> {
  const sent = new Map<string, Value>();
  const add = (target: string, value: unknown) => sent.set(target, toValue(target, canonicalJson(value), claim));
  for (const field of FIELDS) if (fields[field] !== undefined) add(field, fields[field]);
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
  return FIELDS.some((field) => field === target);
}

/** The attributes as a JSON text, sorted as `canonicalJson` would have it. */
function attributesText(values: ReadonlyMap<string, Value>): string {
  const attributes = [...values].filter(([target]) => target.startsWith(ATTRIBUTE_PREFIX));
  const members = attributes
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([target, { text }]) => `${JSON.stringify(target.slice(ATTRIBUTE_PREFIX.length))}:${text}`);
  return `{${members.join(",")}}`;
}

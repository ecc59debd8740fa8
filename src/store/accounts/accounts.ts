/**
 * Accounts as a batch sees and changes them (design §8.7): upserted by external id; the latest by receipt wins, field by
 * field, so that any order of delivery ends in the same account. Plain SQL, as in store/tables.ts.
 */
import { canonicalJson } from "../../domain/canonical-form.ts";
import { ACCOUNT_TARGETS } from "../../domain/payload-template.ts";
import type { AccountField, AccountRecord } from "../../domain/payload-template.ts";
import { appendChange, insertLateChange } from "./account-history.ts";
import type { Claim } from "./account-history.ts";
import { isLater } from "../people.ts";

/** By target, such as `plan` or `attributes.region`. */
export type Claims = Record<string, Claim>;

const FIELDS: readonly AccountField[] = ACCOUNT_TARGETS.filter((target) => target !== "external_id");

/** Values are JSON texts, with sorted keys: the same text is the same value. */
interface Stored extends Record<AccountField, string | null> {
  id: number;
  attributes: Record<string, unknown>;
  claims: Claims;
  firstSeen: number;
  lastSeen: number;
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

  /** Once per update: the caller has seen to it that its signal was not recorded before. */
  update(record: AccountRecord, claim: Claim): void {
    const account = this.#account(record.externalId, claim.receivedAtMs);
    account.firstSeen = Math.min(account.firstSeen, claim.receivedAtMs);
    account.lastSeen = Math.max(account.lastSeen, claim.receivedAtMs);
    for (const field of FIELDS) {
      const value = record.fields[field];
      if (value !== undefined) this.#set(account, field, canonicalJson(value), claim);
    }
    for (const [name, value] of Object.entries(record.attributes)) {
      const target = `attributes.${name}`;
      const last = account.claims[target];
      if (last !== undefined && !isLater(claim, last)) continue;
      account.attributes[name] = value;
      account.claims[target] = claim;
    }
  }

  /** One write per account of the batch. */
  write(): void {
    for (const account of this.#byExternalId.values()) {
      this.#sql.exec(
        WRITE,
        ...FIELDS.map((field) => account[field]),
        canonicalJson(account.attributes),
        JSON.stringify(account.claims),
        account.firstSeen,
        account.lastSeen,
        account.id,
      );
    }
  }

  #set(account: Stored, field: AccountField, after: string, claim: Claim): void {
    const last = account.claims[field];
    if (last !== undefined && !isLater(claim, last)) {
      insertLateChange(this.#sql, { accountId: account.id, field }, after, claim, last);
      return;
    }
    const before = account[field];
    account.claims[field] = claim;
    if (before === after) return;
    account[field] = after;
    appendChange(this.#sql, { accountId: account.id, field }, { before, after, claim, beforeLast: last ?? null });
  }

  #account(externalId: string, atMs: number): Stored {
    const known = this.#byExternalId.get(externalId) ?? this.#read(externalId) ?? this.#create(externalId, atMs);
    this.#byExternalId.set(externalId, known);
    return known;
  }

  #read(externalId: string): Stored | undefined {
    const row = this.#sql.exec<Row>(READ, externalId).toArray()[0];
    if (row === undefined) return undefined;
    const { attributes, claims, first_seen: firstSeen, last_seen: lastSeen, ...values } = row;
    return {
      ...values,
      attributes: JSON.parse(attributes) as Stored["attributes"],
      claims: JSON.parse(claims) as Claims,
      firstSeen,
      lastSeen,
    };
  }

  #create(externalId: string, atMs: number): Stored {
    const { id } = this.#sql.exec<{ id: number }>(CREATE, externalId, atMs).one();
    return {
      id,
      name: null,
      plan: null,
      user_count: null,
      recurring_revenue: null,
      trial_status: null,
      feature_flags: null,
      attributes: {},
      claims: {},
      firstSeen: atMs,
      lastSeen: atMs,
    };
  }
}

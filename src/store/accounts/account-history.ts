/**
 * The history of an account's fields: what each became, when, and by which update, in order of receipt. Updates that say
 * what is so already make no entry. An update that arrives late takes its place by its receipt, never at the end: what
 * follows it gets a new value before; where it falls among updates that all said the same, the history goes there and
 * back; where it says what the next change says, that change is moved back in time.
 *
 * So a field's history always leads without a gap to its current value, which is that of the latest receipt. Of updates
 * in a row that say the same, only the first and the last are remembered, so that a sync that changes nothing writes
 * nothing here: after a late one among them, the history goes back with the last, where it may have been one in between.
 * Where no value was said more than twice, the history is the same for any order of delivery.
 */
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import { isLater } from "../receipt.ts";
import type { Receipt } from "../receipt.ts";

/** The receipt and the signal of an update that carried a value. */
export interface ValueClaim extends Receipt {
  signalId: string;
}

export interface FieldOfAccount {
  accountId: number;
  field: AccountField;
}

/** A field's value that became another one. Values are JSON texts. */
interface Change {
  before: string | null;
  after: string;
  claim: ValueClaim;
  /** The latest update that carried the value before. */
  beforeLast: ValueClaim | null;
}

const INSERT = `INSERT INTO product_org_changes (product_org_id, field, "at", ordinal, signal_id, "before", "after",
  before_at, before_ordinal, before_signal_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

const COLUMNS = `"at", ordinal, signal_id, "before", "after", before_at, before_ordinal, before_signal_id`;
const OF_FIELD = "FROM product_org_changes WHERE product_org_id = ? AND field = ?";
const READ_PREVIOUS = `SELECT ${COLUMNS} ${OF_FIELD} AND ("at", ordinal) < (?, ?) ORDER BY "at" DESC, ordinal DESC LIMIT 1`;
const READ_NEXT = `SELECT ${COLUMNS} ${OF_FIELD} AND ("at", ordinal) > (?, ?) ORDER BY "at", ordinal LIMIT 1`;
const DELETE = `DELETE ${OF_FIELD} AND "at" = ? AND ordinal = ?`;

/** Appends a change that is later than all others of its field. */
export function appendChange(sql: SqlStorage, { accountId, field }: FieldOfAccount, change: Change): void {
  const { before, after, claim, beforeLast } = change;
  sql.exec(
    INSERT,
    accountId,
    field,
    claim.receivedAtMs,
    claim.ordinal,
    claim.signalId,
    before,
    after,
    beforeLast?.receivedAtMs ?? null,
    beforeLast?.ordinal ?? null,
    beforeLast?.signalId ?? null,
  );
}

/** Puts an update that came late in its place. @param last the latest update that carried the field, later than `claim`. */
export function insertLateChange(
  sql: SqlStorage,
  of: FieldOfAccount,
  value: string,
  claim: ValueClaim,
  last: ValueClaim,
): void {
  const previous = read(sql, READ_PREVIOUS, of, claim);
  const next = read(sql, READ_NEXT, of, claim);
  const previousLast = next === null ? last : next.beforeLast;
  const isWithin = previous !== null && previousLast !== null && isLater(previousLast, claim);

  if (previous?.after === value) {
    if (!isWithin && next !== null) replace(sql, of, next, { ...next, beforeLast: claim });
  } else if (isWithin) {
    appendChange(sql, of, { before: previous.after, after: value, claim, beforeLast: previous.claim });
    appendChange(sql, of, { before: value, after: previous.after, claim: previousLast, beforeLast: claim });
  } else if (next?.after === value) {
    replace(sql, of, next, { ...next, claim });
  } else {
    const before = previous?.after ?? null;
    appendChange(sql, of, { before, after: value, claim, beforeLast: previousLast });
    if (next !== null) replace(sql, of, next, { ...next, before: value, beforeLast: claim });
  }
}

function replace(sql: SqlStorage, of: FieldOfAccount, old: Change, change: Change): void {
  sql.exec(DELETE, of.accountId, of.field, old.claim.receivedAtMs, old.claim.ordinal);
  appendChange(sql, of, change);
}

function read(sql: SqlStorage, query: string, { accountId, field }: FieldOfAccount, at: ValueClaim): Change | null {
  const row = sql
    .exec<{
      at: number;
      ordinal: number;
      signal_id: string;
      before: string | null;
      after: string;
      before_at: number | null;
      before_ordinal: number | null;
      before_signal_id: string | null;
    }>(query, accountId, field, at.receivedAtMs, at.ordinal)
    .toArray()[0];
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

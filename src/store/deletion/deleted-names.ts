/**
 * Hashes of deleted people's names. A signal received before the deletion and recorded after it must not recreate the
 * person. Held signals and dead letters, which have no person, are found by these names. Hashes are kept while such
 * signals can be in transit.
 */
import { hashOfName } from "../../domain/signal/identity.ts";
import { isLater } from "../../wire/admission.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";
import { afterDeletion } from "../log/line.ts";
import type { Facts } from "../log/line.ts";
import { claimInForce, claimsInStore } from "../people/identities.ts";
import type { IdClaim } from "../people/identities.ts";
import { idsOf, visitorOfPayload } from "../people/visitors.ts";
import type { VisitorId, VisitorNames } from "../people/visitors.ts";
import { admissionOf } from "../state/dead-letters.ts";
import type { DeadLetterRow } from "../state/dead-letters.ts";

export interface Name {
  kind: "email" | VisitorId["kind"];
  value: string;
  /** Start of the deleted person's ownership of a shared id, in milliseconds since 1970. */
  sinceMs?: number;
}

/** Remembers a name of a person who is deleted. @param atMs signals received later are not the deleted person's. */
export function rememberName(sql: SqlStorage, name: Name, atMs: number): void {
  rememberHash(sql, { hash: hashOfName(name), sinceMs: name.sinceMs ?? 0 }, atMs);
}

export function rememberHash(
  sql: SqlStorage,
  { hash, sinceMs }: { hash: string; sinceMs: number },
  atMs: number,
): void {
  sql.exec(
    `INSERT INTO deleted_names (hash, at, since) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET at = max(at, excluded.at)`,
    hash,
    atMs,
    sinceMs,
  );
}

/** The first moment from `nowMs` without another deletion, which separates the names of different deletions. */
export function freeMomentMs(sql: SqlStorage, nowMs: number): number {
  let atMs = nowMs;
  while (sql.exec("SELECT 1 FROM deleted_names WHERE at = ? LIMIT 1", atMs).toArray().length > 0) atMs++;
  return atMs;
}

/**
 * When a person was last deleted whose names are remembered, in milliseconds since 1970: signals received later are no
 * deleted person's. 0: none was.
 */
export function namesDeletedUntilMs(sql: SqlStorage): number {
  return sql.exec<{ at: number | null }>("SELECT max(at) AS at FROM deleted_names").one().at ?? 0;
}

/**
 * Whether a signal belongs to a person deleted after its receipt. An email has priority over ids (design §8.3), and
 * an owned user id over an anonymous id.
 *
 * @param claimsOf current owners of an id.
 */
export function isOfDeleted(
  sql: SqlStorage,
  visitor: VisitorNames,
  receipt: ReceivedOrder,
  claimsOf: (id: VisitorId) => readonly IdClaim[],
): boolean {
  const { email } = visitor;
  if (typeof email === "string") return deletedSince(sql, { kind: "email", value: email }, receipt).length > 0;
  for (const id of idsOf(visitor)) {
    const claims = claimsOf(id);
    const claim = claims.findLast((one) => !isLater(one, receipt));
    // A shared id: the signal belongs to the last owner at its receipt.
    const isTheirs = (sinceMs: number): boolean =>
      claim === undefined || isBetween(claim.receivedAtMs, sinceMs, receipt.receivedAtMs);
    if (deletedSince(sql, id, receipt).some(isTheirs)) return true;
    if (claims.length > 0) return false;
  }
  return false;
}

/**
 * Whether a signal belongs to a person whose deletion is in progress and has not processed the naming id yet. Emails
 * are remembered from the start.
 */
export function isOfOneBeingDeleted(sql: SqlStorage, visitor: VisitorNames, receipt: ReceivedOrder): boolean {
  if (typeof visitor.email === "string") return false;
  const claims = idsOf(visitor).map((id) => claimInForce(claimsInStore(sql, id), receipt));
  const owner = claims.find((claim) => claim !== undefined);
  if (owner === undefined) return false;
  const jobs = sql.exec(
    "SELECT 1 FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL AND person_id = ? AND asked_at >= ?",
    owner.personId,
    receipt.receivedAtMs,
  );
  return jobs.toArray().length > 0;
}

/** Since when a name was theirs, of each person who had it and was deleted after the receipt. */
function deletedSince(sql: SqlStorage, name: Name, { receivedAtMs }: ReceivedOrder): number[] {
  return sql
    .exec<{ since: number }>(
      "SELECT since FROM deleted_names WHERE hash = ? AND at >= ?",
      hashOfName(name),
      receivedAtMs,
    )
    .toArray()
    .map(({ since }) => since);
}

function isBetween(first: number, middle: number, last: number): boolean {
  return first <= middle && middle <= last;
}

export class BeingDeleted {
  readonly #sql: SqlStorage;
  readonly #isAnybody: boolean;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    const jobs = sql.exec("SELECT 1 FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL LIMIT 1");
    this.#isAnybody = jobs.toArray().length > 0;
  }

  /** The facts of a line as its person's deletion will leave them. */
  factsOf(facts: Facts, nowMs: number): Facts {
    if (!this.#isAnybody || facts.deletedAtMs !== null) return facts;
    const { owner, admission } = facts;
    const isLeaving = owner === null ? this.#names(facts, admission) : !this.#isThere(owner.personId);
    return isLeaving ? afterDeletion(facts, nowMs) : facts;
  }

  hasDeadLetter(row: DeadLetterRow): boolean {
    if (!this.#isAnybody || row.status !== "dead") return false;
    const admission = admissionOf(row);
    const visitor = visitorOfPayload(row.payload, admission);
    return visitor !== null && this.#names(visitor, admission);
  }

  #names(visitor: VisitorNames, receipt: ReceivedOrder): boolean {
    const claimsOf = (id: VisitorId) => claimsInStore(this.#sql, id).filter(({ personId }) => this.#isThere(personId));
    return isOfDeleted(this.#sql, visitor, receipt, claimsOf) || isOfOneBeingDeleted(this.#sql, visitor, receipt);
  }

  #isThere(personId: number): boolean {
    return this.#sql.exec("SELECT 1 FROM people WHERE id = ?", personId).toArray().length > 0;
  }
}

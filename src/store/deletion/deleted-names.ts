/**
 * Hashes of deleted people's names. A signal that was received before the deletion and is recorded after it must not create the person
 * again. Held signals and dead letters have no person, so a deletion finds them by these names too. A hash is kept while such signals
 * can be in transit.
 */
import { hashOfName } from "../../domain/signal/identity.ts";
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";
import { type Identities, idsOf, type VisitorNames } from "../people/identities.ts";

/**
 * Remembers a name of a deleted person. Times are milliseconds since 1970.
 *
 * @param sinceMs when the person got an id that has had other owners too; 0: the name is an email. @param atMs signals received later
 *   are not the deleted person's.
 */
export function rememberName(sql: SqlStorage, hash: string, sinceMs: number, atMs: number): void {
  sql.exec(
    `INSERT INTO deleted_names (hash, at, since) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET at = max(at, excluded.at)`,
    hash,
    atMs,
    sinceMs,
  );
}

/** The first moment from `nowMs` without another deletion, because the moment separates the names of different deletions. */
export function freeMomentMs(sql: SqlStorage, nowMs: number): number {
  let atMs = nowMs;
  while (sql.exec("SELECT 1 FROM deleted_names WHERE at = ? LIMIT 1", atMs).toArray().length > 0) atMs++;
  return atMs;
}

/** When the latest deletion was requested whose names are remembered, in milliseconds since 1970; 0: there is none. */
export function namesDeletedUntilMs(sql: SqlStorage): number {
  return sql.exec<{ at: number | null }>("SELECT max(at) AS at FROM deleted_names").one().at ?? 0;
}

/**
 * Whether a signal belongs to a person who was deleted after the signal was received. An email has priority over ids (design §8.3),
 * and a user id with an owner over an anonymous id.
 */
export function isOfDeleted(
  sql: SqlStorage,
  identities: Identities,
  visitor: VisitorNames,
  order: ReceivedOrder,
): boolean {
  if (typeof visitor.email === "string") {
    return deletedOwnersSince(sql, { kind: "email", value: visitor.email }, order).length > 0;
  }
  for (const id of idsOf(visitor)) {
    const claims = identities.claimsOf(id);
    const claim = claims.findLast((earlier) => !isLater(earlier, order));
    // The last owner before the signal has it: the deleted person, or the owner who is left.
    const hasDeletedOwner = deletedOwnersSince(sql, id, order).some(
      (sinceMs) => claim === undefined || (claim.receivedAtMs <= sinceMs && sinceMs <= order.receivedAtMs),
    );
    if (hasDeletedOwner) return true;
    if (claims.length > 0) return false;
  }
  return false;
}

/** For each owner of the name who was deleted after the signal's receipt: the start of the ownership. */
function deletedOwnersSince(
  sql: SqlStorage,
  name: Parameters<typeof hashOfName>[0],
  { receivedAtMs }: ReceivedOrder,
): number[] {
  const rows = sql.exec("SELECT since FROM deleted_names WHERE hash = ? AND at >= ?", hashOfName(name), receivedAtMs);
  return [...rows.raw<[since: number]>()].flat();
}

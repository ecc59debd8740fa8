/**
 * What deleted persons were named by. A signal that was received before the deletion, and recorded after it, must not
 * bring the person back; and what names nobody but by what it says (held signals, dead letters) is found by these names.
 * Only hashes are kept, and only for as long as such a signal may be on its way.
 */
import { hashOfName } from "../../domain/signal/identity.ts";
import { claimInForce } from "./claims.ts";
import type { IdClaim } from "./claims.ts";
import { claimsInStore } from "./identities.ts";
import type { VisitorNames } from "./visitor-names.ts";
import type { VisitorId } from "./visitor-keys.ts";
import { isLater } from "../../wire/admission.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";

export interface Name {
  kind: "email" | VisitorId["kind"];
  value: string;
  /** Since when an id was the deleted person's, in milliseconds since 1970, where others had it too. */
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

/** The first moment from `nowMs` on at which nobody was deleted: by it the names of one deletion are told from others'. */
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
 * Whether a signal is of somebody who has been deleted since it was received. As everywhere, an email counts for more than
 * the ids beside it (design §8.3), and a user id that is somebody's for more than an anonymous id.
 *
 * @param claimsOf to whom an id belongs now.
 */
export function isOfDeleted(
  sql: SqlStorage,
  visitor: VisitorNames,
  receipt: ReceivedOrder,
  claimsOf: (id: VisitorId) => readonly IdClaim[],
): boolean {
  const { email } = visitor;
  if (email !== undefined) return deletedSince(sql, { kind: "email", value: email }, receipt).length > 0;
  for (const id of idsOf(visitor)) {
    const claims = claimsOf(id);
    const claim = claims.findLast((one) => !isLater(one, receipt));
    // Others have had the id too, so that it is the person's who had it last when the signal was received.
    const isTheirs = (sinceMs: number): boolean =>
      claim === undefined || isBetween(claim.receivedAtMs, sinceMs, receipt.receivedAtMs);
    if (deletedSince(sql, id, receipt).some(isTheirs)) return true;
    if (claims.length > 0) return false;
  }
  return false;
}

/**
 * Whether a signal is of somebody whose deletion is under way and has not come to the id that names them, which is not
 * remembered yet: it still says whose it was. Emails are remembered from the beginning.
 */
export function isOfOneBeingDeleted(sql: SqlStorage, visitor: VisitorNames, receipt: ReceivedOrder): boolean {
  if (visitor.email !== undefined) return false;
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

/** The ids of a visitor, first the one that counts for more. */
function idsOf({ userId, anonymousId }: VisitorNames): VisitorId[] {
  const ids: VisitorId[] = [];
  if (userId !== undefined) ids.push({ kind: "user_id", value: userId });
  if (anonymousId !== undefined) ids.push({ kind: "anonymous_id", value: anonymousId });
  return ids;
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

/** Identities as a batch reads and changes them: to whom ids belong, and which ids are one visitor's. */
import { CLAIM_SPREADS_TO, IDENTITY_MAX_CLAIMS, PAIRS_MAX } from "../../limits.ts";
import { isLater } from "../receipt.ts";
import type { Receipt } from "../receipt.ts";
import { addClaim, claimInForce } from "./claims.ts";
import type { Claim } from "./claims.ts";

/** An id of a visitor, as an identify call or a signal names it. */
export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

type Row = { at: number; ordinal: number; person_id: number };

export class Identities {
  readonly #sql: SqlStorage;
  readonly #claims = new Map<string, readonly Claim[]>();
  /** Ids that have become somebody's, in this batch. */
  readonly claimed: VisitorId[] = [];

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** In order of receipt. */
  claimsOf(id: VisitorId): readonly Claim[] {
    const key = keyOf(id);
    let claims = this.#claims.get(key);
    if (claims === undefined) {
      claims = this.#sql
        .exec<Row>(
          // Claims of somebody who is being deleted go page by page: they count for nothing from the beginning.
          `SELECT at, ordinal, person_id FROM identities WHERE kind = ? AND value = ?
             AND EXISTS (SELECT 1 FROM people WHERE people.id = person_id) ORDER BY at, ordinal`,
          id.kind,
          id.value,
        )
        .toArray()
        .map(({ at, ordinal, person_id }) => ({ receivedAtMs: at, ordinal, personId: person_id }));
      this.#claims.set(key, claims);
    }
    return claims;
  }

  /** Undefined: nobody's, as far as is known. */
  ownerAt(id: VisitorId, receipt: Receipt): number | undefined {
    return claimInForce(this.claimsOf(id), receipt)?.personId;
  }

  /**
   * From then on the id is that person's (spec §6, identify); and with it all that it is paired with and nobody's yet, the
   * nearest first, CLAIM_SPREADS_TO of them.
   */
  claim(id: VisitorId, claim: Claim): void {
    const before = this.claimsOf(id);
    const after = addClaim(before, claim, IDENTITY_MAX_CLAIMS);
    if (isEqual(before, after)) return;
    this.#write(id, before, after);
    if (before.length > 0) return;
    const taken = [{ id, claim }];
    for (const one of taken) {
      for (const { other, receipt } of this.#pairsOf(one.id)) {
        if (taken.length === CLAIM_SPREADS_TO) return;
        if (this.claimsOf(other).length > 0) continue;
        const theirs = { ...later(one.claim, receipt), personId: claim.personId };
        this.#write(other, [], [theirs]);
        taken.push({ id: other, claim: theirs });
      }
    }
  }

  /** Two ids of one visitor (design §8.1). Takes effect when one of them is, or becomes, somebody's. */
  pair(one: VisitorId, other: VisitorId, receipt: Receipt): void {
    const [claimsOfOne, claimsOfOther] = [this.claimsOf(one), this.claimsOf(other)];
    if (claimsOfOne.length > 0 && claimsOfOther.length > 0) return;
    if (claimsOfOne.length === 0 && claimsOfOther.length === 0) {
      this.#addPair(one, other, receipt);
      this.#addPair(other, one, receipt);
      return;
    }
    const [known, unknown, claims] = claimsOfOne.length > 0 ? [one, other, claimsOfOne] : [other, one, claimsOfOther];
    const claim = claimInForce(claims, receipt);
    if (claim !== undefined && keyOf(known) !== keyOf(unknown)) {
      this.claim(unknown, { ...later(claim, receipt), personId: claim.personId });
    }
  }

  #write(id: VisitorId, before: readonly Claim[], after: readonly Claim[]): void {
    this.#claims.set(keyOf(id), after);
    this.claimed.push(id);
    for (const { receivedAtMs, ordinal } of before.filter((claim) => !after.includes(claim))) {
      this.#sql.exec(
        "DELETE FROM identities WHERE kind = ? AND value = ? AND at = ? AND ordinal = ?",
        id.kind,
        id.value,
        receivedAtMs,
        ordinal,
      );
    }
    for (const { receivedAtMs, ordinal, personId } of after.filter((claim) => !before.includes(claim))) {
      this.#sql.exec(
        "INSERT OR REPLACE INTO identities (kind, value, at, ordinal, person_id) VALUES (?, ?, ?, ?, ?)",
        id.kind,
        id.value,
        receivedAtMs,
        ordinal,
        personId,
      );
    }
  }

  #pairsOf(id: VisitorId): { other: VisitorId; receipt: Receipt }[] {
    return this.#sql
      .exec<{ other_kind: VisitorId["kind"]; other_value: string; at: number; ordinal: number }>(
        "SELECT other_kind, other_value, at, ordinal FROM pairs WHERE kind = ? AND value = ?",
        id.kind,
        id.value,
      )
      .toArray()
      .map((row) => ({
        other: { kind: row.other_kind, value: row.other_value },
        receipt: { receivedAtMs: row.at, ordinal: row.ordinal },
      }));
  }

  #addPair(id: VisitorId, other: VisitorId, receipt: Receipt): void {
    const pairs = this.#pairsOf(id);
    if (keyOf(id) === keyOf(other) || pairs.length >= PAIRS_MAX) return;
    if (pairs.some((pair) => keyOf(pair.other) === keyOf(other))) return;
    this.#sql.exec(
      "INSERT INTO pairs (kind, value, other_kind, other_value, at, ordinal) VALUES (?, ?, ?, ?, ?, ?)",
      id.kind,
      id.value,
      other.kind,
      other.value,
      receipt.receivedAtMs,
      receipt.ordinal,
    );
  }
}

/** Of an id, in order of receipt; also those of somebody who is being deleted. */
export function claimsInStore(sql: SqlStorage, { kind, value }: VisitorId): Claim[] {
  return sql
    .exec<Row>(
      "SELECT at, ordinal, person_id FROM identities WHERE kind = ? AND value = ? ORDER BY at, ordinal",
      kind,
      value,
    )
    .toArray()
    .map(({ at, ordinal, person_id: personId }) => ({ receivedAtMs: at, ordinal, personId }));
}

function keyOf({ kind, value }: VisitorId): string {
  return `${kind} ${value}`;
}

function later(one: Receipt, other: Receipt): Receipt {
  const { receivedAtMs, ordinal } = isLater(one, other) ? one : other;
  return { receivedAtMs, ordinal };
}

function isEqual(one: readonly Claim[], other: readonly Claim[]): boolean {
  return one.length === other.length && one.every((claim, index) => claim === other[index]);
}

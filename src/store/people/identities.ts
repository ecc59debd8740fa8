/** Identities as a batch reads and changes them: owners of ids, and pairs of ids of one visitor. */
import { isLater } from "../../wire/admission.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";
import { keysOf, visitorKey, visitorList, visitorOfKey } from "./visitors.ts";
import type { VisitorId } from "./visitors.ts";

/** Latest claims kept per identity; an id with that many owners belongs to nobody. */
export const IDENTITY_MAX_CLAIMS = 20;
/** Ids that another id is paired with, before it is known. */
const PAIRS_MAX = 20;
/** Maximum number of ids that follow a paired id to its owner, directly or through others. */
export const CLAIM_SPREADS_TO = 1_000;

type Row = { at: number; ordinal: number; person_id: number };

// Claims of a person being deleted are removed in portions, and are ignored from the start.
const COUNTS = "EXISTS (SELECT 1 FROM people WHERE people.id = person_id)";
const READ = `SELECT at, ordinal, person_id FROM identities WHERE key = ? AND ${COUNTS} ORDER BY at, ordinal`;
/** The claims of several ids, with the place of each id among those that are asked for. */
const READ_MANY = `SELECT keys.key, at, ordinal, person_id FROM json_each(?) AS keys
  CROSS JOIN identities ON identities.key = unhex(keys.value) WHERE ${COUNTS}`;
/** Positions of ids with pairs among the requested ones. */
const PAIRED = `SELECT keys.key AS place FROM json_each(?) AS keys
  WHERE EXISTS (SELECT 1 FROM pairs WHERE pairs.key = unhex(keys.value))`;
const PORTION_VALUES = 500;

type Growth = Record<VisitorId["kind"], number>;

export class Identities {
  readonly #sql: SqlStorage;
  readonly #claims = new Map<string, readonly IdClaim[]>();
  /** Number of claims gained or lost, by person. */
  #grown = new Map<number, Growth>();
  /** Ids that received an owner in this batch. */
  readonly claimed: VisitorId[] = [];

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Reads what will be asked of ids by few statements. Returns the persons that they belong to. */
  preload(ids: readonly VisitorId[]): Set<number> {
    const persons = new Set<number>();
    const byList = new Map(ids.map((id) => [visitorList(id), id] as const));
    for (const portion of portionsOf(byList)) {
      const keys = portion.map(([, id]) => new Uint8Array(visitorKey(id)).toHex());
      const claims = portion.map((): IdClaim[] => []);
      const rows = this.#sql
        .exec(READ_MANY, JSON.stringify(keys))
        .raw<[index: number, at: number, ordinal: number, personId: number]>();
      for (const [index, receivedAtMs, ordinal, personId] of rows) {
        claims[index]?.push({ receivedAtMs, ordinal, personId });
        persons.add(personId);
      }
      for (const [index, [list]] of portion.entries()) this.#claims.set(list, (claims[index] ?? []).sort(byReceipt));
    }
    return persons;
  }

  /** The claims of an id, in order of receipt. */
  claimsOf(id: VisitorId): readonly IdClaim[] {
    const key = visitorList(id);
    let claims = this.#claims.get(key);
    if (claims === undefined) {
      claims = this.#sql
        .exec<Row>(READ, visitorKey(id))
        .toArray()
        .map(({ at, ordinal, person_id }) => ({ receivedAtMs: at, ordinal, personId: person_id }));
      this.#claims.set(key, claims);
    }
    return claims;
  }

  /** Owner of an id at a receipt; undefined: unknown. */
  ownerAt(id: VisitorId, receipt: ReceivedOrder): number | undefined {
    return claimInForce(this.claimsOf(id), receipt)?.personId;
  }

  /**
   * Assigns an id to a person from a receipt on (spec §6, identify), together with unowned ids paired with it,
   * nearest first, up to CLAIM_SPREADS_TO.
   */
  claim(id: VisitorId, claim: IdClaim): void {
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

  /** Pairs two ids of one visitor (design §8.1). The pair matters once one of them has an owner. */
  pair(one: VisitorId, other: VisitorId, receipt: ReceivedOrder): void {
    const [claimsOfOne, claimsOfOther] = [this.claimsOf(one), this.claimsOf(other)];
    if (claimsOfOne.length > 0 && claimsOfOther.length > 0) return;
    if (claimsOfOne.length === 0 && claimsOfOther.length === 0) {
      this.#addPair(one, other, receipt);
      this.#addPair(other, one, receipt);
      return;
    }
    const [known, unknown, claims] = claimsOfOne.length > 0 ? [one, other, claimsOfOne] : [other, one, claimsOfOther];
    const claim = claimInForce(claims, receipt);
    if (claim !== undefined && visitorList(known) !== visitorList(unknown)) {
      this.claim(unknown, { ...later(claim, receipt), personId: claim.personId });
    }
  }

  /** Number of claims gained or lost by each person since the last call. */
  takeGrowth(): ReadonlyMap<number, Growth> {
    const grown = this.#grown;
    this.#grown = new Map();
    return grown;
  }

  /** Removes the owner from up to `count` of a person's oldest ids of a kind. Returns the number. */
  dropOldest(personId: number, kind: VisitorId["kind"], count: number): number {
    const dropped = dropOldestIds(this.#sql, personId, kind, count);
    for (const one of dropped) this.#grow(one, kind, -1);
    this.#claims.clear();
    return dropped.filter((one) => one === personId).length;
  }

  #grow(personId: number, kind: VisitorId["kind"], by: number): void {
    const grown = this.#grown.get(personId) ?? { anonymous_id: 0, user_id: 0 };
    grown[kind] += by;
    this.#grown.set(personId, grown);
  }

  #write(id: VisitorId, before: readonly IdClaim[], after: readonly IdClaim[]): void {
    this.#claims.set(visitorList(id), after);
    this.claimed.push(id);
    const key = visitorKey(id);
    for (const { receivedAtMs, ordinal, personId } of before.filter((claim) => !after.includes(claim))) {
      this.#grow(personId, id.kind, -1);
      this.#sql.exec("DELETE FROM identities WHERE key = ? AND at = ? AND ordinal = ?", key, receivedAtMs, ordinal);
    }
    for (const { receivedAtMs, ordinal, personId } of after.filter((claim) => !before.includes(claim))) {
      this.#grow(personId, id.kind, 1);
      this.#sql.exec(
        "INSERT OR REPLACE INTO identities (key, at, ordinal, person_id) VALUES (?, ?, ?, ?)",
        key,
        receivedAtMs,
        ordinal,
        personId,
      );
    }
  }

  #pairsOf(id: VisitorId): { other: VisitorId; receipt: ReceivedOrder }[] {
    return this.#sql
      .exec<{ other_key: ArrayBuffer; at: number; ordinal: number }>(
        "SELECT other_key, at, ordinal FROM pairs WHERE key = ?",
        visitorKey(id),
      )
      .toArray()
      .map((row) => ({
        other: visitorOfKey(row.other_key),
        receipt: { receivedAtMs: row.at, ordinal: row.ordinal },
      }));
  }

  #addPair(id: VisitorId, other: VisitorId, receipt: ReceivedOrder): void {
    const pairs = this.#pairsOf(id);
    if (visitorList(id) === visitorList(other) || pairs.length >= PAIRS_MAX) return;
    if (pairs.some((pair) => visitorList(pair.other) === visitorList(other))) return;
    this.#sql.exec(
      "INSERT INTO pairs (key, other_key, at, ordinal) VALUES (?, ?, ?, ?)",
      visitorKey(id),
      visitorKey(other),
      receipt.receivedAtMs,
      receipt.ordinal,
    );
  }
}

/** Claims of an id in order of receipt, including those of people being deleted. */
export function claimsInStore(sql: SqlStorage, id: VisitorId): IdClaim[] {
  return sql
    .exec<Row>("SELECT at, ordinal, person_id FROM identities WHERE key = ? ORDER BY at, ordinal", visitorKey(id))
    .toArray()
    .map(({ at, ordinal, person_id: personId }) => ({ receivedAtMs: at, ordinal, personId }));
}

/** Ids that have pairs. */
export function pairedIds(sql: SqlStorage, ids: Iterable<VisitorId>): VisitorId[] {
  return [...portionsOf(ids)].flatMap((portion) => {
    const keys = portion.map((id) => new Uint8Array(visitorKey(id)).toHex());
    const places = sql.exec<{ place: number }>(PAIRED, JSON.stringify(keys)).toArray();
    return places.flatMap(({ place }) => portion[place] ?? []);
  });
}

/**
 * Distinct values in groups that fit a statement: one statement for many takes a third of the work of one for each.
 */
export function* portionsOf<Value>(values: Iterable<Value>): Generator<Value[]> {
  const all = [...new Set(values)];
  for (let from = 0; from < all.length; from += PORTION_VALUES) yield all.slice(from, from + PORTION_VALUES);
}

function byReceipt(one: ReceivedOrder, other: ReceivedOrder): number {
  return isLater(one, other) ? 1 : -1;
}

function later(one: ReceivedOrder, other: ReceivedOrder): ReceivedOrder {
  const { receivedAtMs, ordinal } = isLater(one, other) ? one : other;
  return { receivedAtMs, ordinal };
}

function isEqual(one: readonly IdClaim[], other: readonly IdClaim[]): boolean {
  return one.length === other.length && one.every((claim, index) => claim === other[index]);
}

export interface IdClaim extends ReceivedOrder {
  personId: number;
}

/** Adds a claim in order of receipt, at most `most`. A repeated claim of the current owner changes nothing. */
export function addClaim(claims: readonly IdClaim[], claim: IdClaim, most: number): IdClaim[] {
  const sorted = [...claims, claim].sort((one, other) => (isLater(one, other) ? 1 : -1));
  return sorted.filter(({ personId }, index) => sorted[index - 1]?.personId !== personId).slice(-most);
}

/** The claim that applies to a signal of this receipt; undefined: the id has no owner. */
export function claimInForce(claims: readonly IdClaim[], receipt: ReceivedOrder): IdClaim | undefined {
  return claims.findLast((claim) => !isLater(claim, receipt)) ?? claims[0];
}

const OLDEST = `SELECT key, "at", ordinal FROM identities AS theirs
  WHERE person_id = ? AND key > ? AND key < ? AND NOT EXISTS (SELECT 1 FROM link_jobs WHERE link_jobs.key = theirs.key)
  ORDER BY "at", ordinal LIMIT ?`;
// Earlier claims go too: who had the id before must not have it again. Claims of somebody who is being deleted are the
// deletion's.
const DROP = `DELETE FROM identities WHERE key = ? AND ("at", ordinal) <= (?, ?)
  AND EXISTS (SELECT 1 FROM people WHERE people.id = person_id) RETURNING person_id`;

type OldestRow = { key: ArrayBuffer; at: number; ordinal: number };

/**
 * Drops a person's oldest ids of a kind.
 *
 * @param count how many are to go; fewer do where signals wait to be linked.
 * @returns the person of each claim that was dropped: also persons who had such an id before.
 */
export function dropOldestIds(sql: SqlStorage, personId: number, kind: VisitorId["kind"], count: number): number[] {
  const oldest = sql.exec<OldestRow>(OLDEST, personId, ...keysOf(kind), count).toArray();
  return oldest.flatMap(({ key, at, ordinal }) => {
    deletePairs(sql, key);
    return sql
      .exec<{ person_id: number }>(DROP, key, at, ordinal)
      .toArray()
      .map(({ person_id }) => person_id);
  });
}

/** Deletes the pairs of an id, each of which is there both ways. */
export function deletePairs(sql: SqlStorage, key: ArrayBuffer): void {
  sql.exec("DELETE FROM pairs WHERE (key, other_key) IN (SELECT other_key, key FROM pairs WHERE key = ?)", key);
  sql.exec("DELETE FROM pairs WHERE key = ?", key);
}

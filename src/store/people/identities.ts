/**
 * Whose an id is (spec §2.3): the claims that identify calls have made for it, and pairs of ids of one visitor. A batch reads and
 * changes identities here.
 */
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";
import { keysOf, visitorKey, visitorList, visitorOfKey, type VisitorId } from "./visitors.ts";

/** Latest claims kept per id. An id with so many owners belongs to nobody. */
export const IDENTITY_MAX_CLAIMS = 20;
/** Maximum pairs of an id. */
const PAIRS_MAX = 20;
/** Maximum number of ids that follow a paired id to its owner, directly or through others. */
export const CLAIM_SPREADS_TO = 1_000;
/** Values per statement: one statement for many takes a third of the time of one each. */
const VALUES_PER_STATEMENT = 500;

/** An identify call that gave an id to a person. */
export interface IdClaim extends ReceivedOrder {
  personId: number;
}

type ClaimRow = [index: number, at: number, ordinal: number, personId: number];

// Claims of a person being deleted are removed in portions, and are ignored from the start.
const IS_THERE = "EXISTS (SELECT 1 FROM people WHERE people.id = person_id)";
const READ = `SELECT keys.key, at, ordinal, person_id FROM json_each(?) AS keys
  CROSS JOIN identities ON identities.key = unhex(keys.value)`;
const INSERT = "INSERT OR REPLACE INTO identities (key, at, ordinal, person_id) VALUES (?, ?, ?, ?)";
const OLDEST = `SELECT key, "at", ordinal FROM identities AS theirs
  WHERE person_id = ? AND key > ? AND key < ? AND NOT EXISTS (SELECT 1 FROM link_jobs WHERE link_jobs.key = theirs.key)
  ORDER BY "at", ordinal LIMIT ?`;
// Earlier claims go too: an earlier owner must not get the id back. A deletion removes the claims of its own person.
const DROP = `DELETE FROM identities WHERE key = ? AND ("at", ordinal) <= (?, ?) AND ${IS_THERE} RETURNING person_id`;

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

  /** Reads the claims of ids with few statements. Returns their persons. */
  preload(ids: readonly VisitorId[]): Set<number> {
    const claims = readClaims(this.#sql, ids, `WHERE ${IS_THERE}`);
    for (const [list, ofId] of claims) this.#claims.set(list, ofId);
    return new Set([...claims.values()].flat().map(({ personId }) => personId));
  }

  /** The claims of an id, in received order. */
  claimsOf(id: VisitorId): readonly IdClaim[] {
    const list = visitorList(id);
    if (!this.#claims.has(list)) this.preload([id]);
    return this.#claims.get(list) ?? [];
  }

  /** The owner of an id for a signal received then; undefined: unknown. */
  ownerAt(id: VisitorId, order: ReceivedOrder): number | undefined {
    return claimInForce(this.claimsOf(id), order)?.personId;
  }

  /**
   * Assigns an id to a person from then on (spec §6, identify). Unowned ids that are paired with it follow, nearest first, up to
   * CLAIM_SPREADS_TO.
   */
  claim(id: VisitorId, claim: IdClaim): void {
    const before = this.claimsOf(id);
    const after = addClaim(before, claim, IDENTITY_MAX_CLAIMS);
    if (after.length === before.length && after.every((kept, index) => kept === before[index])) return;
    this.#write(id, before, after);
    if (before.length > 0) return;
    const taken = [{ id, claim }];
    for (const { id: takenId, claim: taking } of taken) {
      for (const { id: pairedId, order } of this.#pairsOf(takenId)) {
        if (taken.length === CLAIM_SPREADS_TO) return;
        if (this.claimsOf(pairedId).length > 0) continue;
        const follows = { ...latest(taking, order), personId: claim.personId };
        this.#write(pairedId, [], [follows]);
        taken.push({ id: pairedId, claim: follows });
      }
    }
  }

  /** Pairs two ids of one visitor (design §8.1). If one of them has an owner, the other follows at once. */
  pair(a: VisitorId, b: VisitorId, order: ReceivedOrder): void {
    if (visitorList(a) === visitorList(b)) return;
    const [claimsOfA, claimsOfB] = [this.claimsOf(a), this.claimsOf(b)];
    if (claimsOfA.length > 0 && claimsOfB.length > 0) return;
    if (claimsOfA.length === 0 && claimsOfB.length === 0) {
      this.#addPair(a, b, order);
      this.#addPair(b, a, order);
      return;
    }
    const claim = claimInForce(claimsOfA.length > 0 ? claimsOfA : claimsOfB, order);
    const unknown = claimsOfA.length > 0 ? b : a;
    if (claim !== undefined) this.claim(unknown, { ...latest(claim, order), personId: claim.personId });
  }

  /** Number of claims that each person gained or lost since the last call. */
  takeGrowth(): ReadonlyMap<number, Growth> {
    const grown = this.#grown;
    this.#grown = new Map();
    return grown;
  }

  /** Drops up to `count` of a person's oldest ids of a kind, but no ids with signals to link. Returns the number. */
  dropOldest(personId: number, kind: VisitorId["kind"], count: number): number {
    const oldest = this.#sql.exec<{ key: ArrayBuffer; at: number; ordinal: number }>(
      OLDEST,
      personId,
      ...keysOf(kind),
      count,
    );
    let dropped = 0;
    for (const { key, at, ordinal } of oldest.toArray()) {
      deletePairs(this.#sql, key);
      for (const { person_id: owner } of this.#sql.exec<{ person_id: number }>(DROP, key, at, ordinal)) {
        this.#grow(owner, kind, -1);
        if (owner === personId) dropped++;
      }
    }
    this.#claims.clear();
    return dropped;
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
      this.#sql.exec(INSERT, key, receivedAtMs, ordinal, personId);
    }
  }

  #pairsOf(id: VisitorId): { id: VisitorId; order: ReceivedOrder }[] {
    const rows = this.#sql.exec<{ other_key: ArrayBuffer; at: number; ordinal: number }>(
      "SELECT other_key, at, ordinal FROM pairs WHERE key = ?",
      visitorKey(id),
    );
    return rows.toArray().map(({ other_key: key, at: receivedAtMs, ordinal }) => ({
      id: visitorOfKey(key),
      order: { receivedAtMs, ordinal },
    }));
  }

  /** A known pair stays as it is. */
  #addPair(id: VisitorId, pairedId: VisitorId, { receivedAtMs, ordinal }: ReceivedOrder): void {
    this.#sql.exec(
      `INSERT OR IGNORE INTO pairs (key, other_key, at, ordinal)
       SELECT ?1, ?2, ?3, ?4 WHERE (SELECT count(*) FROM pairs WHERE key = ?1) < ?5`,
      visitorKey(id),
      visitorKey(pairedId),
      receivedAtMs,
      ordinal,
      PAIRS_MAX,
    );
  }
}

function readClaims(sql: SqlStorage, ids: readonly VisitorId[], condition = ""): Map<string, IdClaim[]> {
  const found = new Map<string, IdClaim[]>();
  const byList = new Map(ids.map((id) => [visitorList(id), id] as const));
  for (const portion of portionsOf(byList)) {
    const keys = portion.map(([, id]) => new Uint8Array(visitorKey(id)).toHex());
    const claims = portion.map((): IdClaim[] => []);
    const rows = sql.exec(`${READ} ${condition}`, JSON.stringify(keys)).raw<ClaimRow>();
    for (const [index, receivedAtMs, ordinal, personId] of rows) {
      claims[index]?.push({ receivedAtMs, ordinal, personId });
    }
    for (const [index, [list]] of portion.entries()) found.set(list, (claims[index] ?? []).sort(inOrder));
  }
  return found;
}

/** Claims of an id in received order, also those of people being deleted. */
export function claimsInStore(sql: SqlStorage, id: VisitorId): IdClaim[] {
  return readClaims(sql, [id]).get(visitorList(id)) ?? [];
}

/** Distinct values in groups for one statement each. */
export function* portionsOf<Value>(values: Iterable<Value>): Generator<Value[]> {
  const all = [...new Set(values)];
  for (let from = 0; from < all.length; from += VALUES_PER_STATEMENT)
    yield all.slice(from, from + VALUES_PER_STATEMENT);
}

/** Adds a claim in received order and keeps the latest `most`. A repeated claim of the current owner changes nothing. */
export function addClaim(claims: readonly IdClaim[], claim: IdClaim, most: number): IdClaim[] {
  const sorted = [...claims, claim].sort(inOrder);
  return sorted.filter(({ personId }, index) => sorted[index - 1]?.personId !== personId).slice(-most);
}

/** The claim that applies to a signal of this order; undefined: the id has no owner. */
export function claimInForce(claims: readonly IdClaim[], order: ReceivedOrder): IdClaim | undefined {
  return claims.findLast((claim) => !isLater(claim, order)) ?? claims[0];
}

/** Deletes the pairs of an id, which are stored in both directions. */
export function deletePairs(sql: SqlStorage, key: ArrayBuffer): void {
  sql.exec("DELETE FROM pairs WHERE (key, other_key) IN (SELECT other_key, key FROM pairs WHERE key = ?)", key);
  sql.exec("DELETE FROM pairs WHERE key = ?", key);
}

function inOrder(a: ReceivedOrder, b: ReceivedOrder): number {
  return isLater(a, b) ? 1 : -1;
}

function latest(a: ReceivedOrder, b: ReceivedOrder): ReceivedOrder {
  const { receivedAtMs, ordinal } = isLater(a, b) ? a : b;
  return { receivedAtMs, ordinal };
}

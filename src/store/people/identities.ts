/**
 * Ids of visitors and their people (spec §2.3). An identify call claims an id for a person. Other calls pair two ids of a visitor.
 * `Identities` reads and changes claims and pairs for a batch. `VisitorLists` removes lines from timelines of visitors.
 */
import { isJsonObject } from "../../domain/json/dot-path.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import { isLater, type Admission, type ReceivedOrder } from "../../wire/admission.ts";
import type { Facts, ListingId } from "../log/line.ts";
import {
  changeEntries,
  keyOf,
  visitorKey,
  visitorList,
  visitorOfKey,
  type ListKey,
  type VisitorId,
} from "./timelines.ts";

/** The names of a visitor, in a normalised signal or in a line of the log. */
export interface VisitorNames {
  email?: string | null;
  userId?: string | null;
  anonymousId?: string | null;
}

/** Names in the payload of a dead letter; null: it is an account update, or unreadable. */
export function visitorOfPayload(payload: string | null, admission: Admission): VisitorNames | null {
  if (payload === null || admission.endpoint !== "signal_staging") return null;
  try {
    const read: unknown = JSON.parse(payload);
    return isJsonObject(read) ? normalise(read, admission.pathSource) : null;
  } catch {
    return null;
  }
}

/** The ids that a signal names, the strongest first (design §8.3). */
export function idsOf({ userId, anonymousId }: VisitorNames): VisitorId[] {
  const ids: VisitorId[] = [];
  if (typeof userId === "string") ids.push({ kind: "user_id", value: userId });
  if (typeof anonymousId === "string") ids.push({ kind: "anonymous_id", value: anonymousId });
  return ids;
}

/** Latest claims kept per id. */
export const IDENTITY_MAX_CLAIMS = 20;
/** Pairs kept per id. */
export const PAIRS_MAX = 20;
/** Maximum ids that a claim assigns through pairs, directly or through other ids. */
export const CLAIM_FOLLOWERS_MAX = 1_000;
/** A statement for many values takes a third of the time of a statement for each. */
const VALUES_PER_STATEMENT = 500;

interface IdClaim extends ReceivedOrder {
  personId: number;
}

// Claims of a person being deleted are removed in portions, and are ignored from the start.
const PERSON_EXISTS = "EXISTS (SELECT 1 FROM people WHERE people.id = person_id)";
const SELECT_CLAIMS = `SELECT keys.key, at, ordinal, person_id FROM json_each(?) AS keys
  CROSS JOIN identities ON identities.key = unhex(keys.value)`;
const INSERT_CLAIM = "INSERT OR REPLACE INTO identities (key, at, ordinal, person_id) VALUES (?, ?, ?, ?)";
const SELECT_OLDEST = `SELECT key, "at", ordinal FROM identities AS theirs
  WHERE person_id = ? AND substr(key, 1, 1) = ? AND NOT EXISTS (SELECT 1 FROM link_jobs WHERE link_jobs.key = theirs.key)
  ORDER BY "at", ordinal LIMIT ?`;
// Earlier claims go too: an earlier person must not get the id back. A deletion removes the claims of the deleted person.
const DELETE_CLAIMS = `DELETE FROM identities WHERE key = ? AND ("at", ordinal) <= (?, ?) AND ${PERSON_EXISTS} RETURNING person_id`;

type IdCounts = Record<VisitorId["kind"], number>;

export class Identities {
  readonly #sql: SqlStorage;
  readonly #claims = new Map<ListKey, readonly IdClaim[]>();
  /** Number of claims gained or lost, by person. */
  #changes = new Map<number, IdCounts>();
  /** Ids that received a person in this batch. */
  readonly claimed: VisitorId[] = [];

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Returns the people who claimed the ids. */
  preload(ids: readonly VisitorId[]): Set<number> {
    const claims = readClaims(this.#sql, ids, `WHERE ${PERSON_EXISTS}`);
    for (const [list, ofId] of claims) this.#claims.set(list, ofId);
    return new Set([...claims.values()].flat().map(({ personId }) => personId));
  }

  /** The claims of an id, in received order. */
  claimsOf(id: VisitorId): readonly IdClaim[] {
    const list = visitorList(id);
    if (!this.#claims.has(list)) this.preload([id]);
    return this.#claims.get(list) ?? [];
  }

  /**
   * Assigns an id to a person from this claim on (spec §6, identify). Ids without a person that are paired with it follow, nearest first,
   * up to CLAIM_FOLLOWERS_MAX.
   */
  claim(id: VisitorId, claim: IdClaim): void {
    const before = this.claimsOf(id);
    const after = addClaim(before, claim);
    if (after.length === before.length && after.every((kept, index) => kept === before[index])) return;
    this.#write(id, before, after);
    if (before.length > 0) return;
    const taken = [{ id, claim }];
    for (const { id: takenId, claim: taking } of taken) {
      for (const { id: pairedId, order } of this.#pairsOf(takenId)) {
        if (taken.length === CLAIM_FOLLOWERS_MAX) return;
        if (this.claimsOf(pairedId).length > 0) continue;
        const following = { ...latest(taking, order), personId: claim.personId };
        this.#write(pairedId, [], [following]);
        taken.push({ id: pairedId, claim: following });
      }
    }
  }

  /** Pairs two ids of one visitor (design §8.1). If one of them has a person, the other follows at once. */
  pair(a: VisitorId, b: VisitorId, order: ReceivedOrder): void {
    if (visitorList(a) === visitorList(b)) return;
    const [claimsOfA, claimsOfB] = [this.claimsOf(a), this.claimsOf(b)];
    if (claimsOfA.length > 0 && claimsOfB.length > 0) return;
    const claim = claimInForce([...claimsOfA, ...claimsOfB], order);
    if (claim === undefined) {
      this.#addPair(a, b, order);
      this.#addPair(b, a, order);
    } else this.claim(claimsOfA.length > 0 ? b : a, { ...latest(claim, order), personId: claim.personId });
  }

  /** Number of claims that each person gained or lost since the last call. */
  takeChanges(): ReadonlyMap<number, IdCounts> {
    const changes = this.#changes;
    this.#changes = new Map();
    return changes;
  }

  /** Drops up to `count` of a person's oldest ids of a kind, but no ids with signals to link. Returns the number. */
  dropOldest(personId: number, kind: VisitorId["kind"], count: number): number {
    const oldest = this.#sql.exec<{ key: ArrayBuffer; at: number; ordinal: number }>(
      SELECT_OLDEST,
      personId,
      // The first byte of a key is its kind.
      visitorKey({ kind, value: "" }),
      count,
    );
    let dropped = 0;
    for (const { key, at, ordinal } of oldest.toArray()) {
      deletePairs(this.#sql, key);
      for (const { person_id: person } of this.#sql.exec<{ person_id: number }>(DELETE_CLAIMS, key, at, ordinal)) {
        this.#count(person, kind, -1);
        if (person === personId) dropped++;
      }
    }
    this.#claims.clear();
    return dropped;
  }

  #count(personId: number, kind: VisitorId["kind"], by: number): void {
    const counts = this.#changes.get(personId) ?? { anonymous_id: 0, user_id: 0 };
    counts[kind] += by;
    this.#changes.set(personId, counts);
  }

  #write(id: VisitorId, before: readonly IdClaim[], after: readonly IdClaim[]): void {
    this.#claims.set(visitorList(id), after);
    this.claimed.push(id);
    const key = visitorKey(id);
    for (const { receivedAtMs, ordinal, personId } of before.filter((claim) => !after.includes(claim))) {
      this.#count(personId, id.kind, -1);
      this.#sql.exec("DELETE FROM identities WHERE key = ? AND at = ? AND ordinal = ?", key, receivedAtMs, ordinal);
    }
    for (const { receivedAtMs, ordinal, personId } of after.filter((claim) => !before.includes(claim))) {
      this.#count(personId, id.kind, 1);
      this.#sql.exec(INSERT_CLAIM, key, receivedAtMs, ordinal, personId);
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

function readClaims(sql: SqlStorage, ids: readonly VisitorId[], condition = ""): Map<ListKey, IdClaim[]> {
  const found = new Map<ListKey, IdClaim[]>();
  for (const lists of portionsOf(ids.map(visitorList))) {
    const claims = lists.map((): IdClaim[] => []);
    const keys = JSON.stringify(lists.map((list) => new Uint8Array(keyOf(list)).toHex()));
    const rows = sql
      .exec(`${SELECT_CLAIMS} ${condition}`, keys)
      .raw<[index: number, at: number, ordinal: number, id: number]>();
    for (const [index, receivedAtMs, ordinal, personId] of rows) {
      claims[index]?.push({ receivedAtMs, ordinal, personId });
    }
    for (const [index, list] of lists.entries()) found.set(list, (claims[index] ?? []).sort(inOrder));
  }
  return found;
}

/** Claims of an id in received order, also those of people being deleted. */
export function claimsInStore(sql: SqlStorage, id: VisitorId): IdClaim[] {
  return readClaims(sql, [id]).get(visitorList(id)) ?? [];
}

/** Distinct values, in portions for one statement each. */
export function* portionsOf<Value>(values: Iterable<Value>): Generator<Value[]> {
  const all = [...new Set(values)];
  for (let from = 0; from < all.length; from += VALUES_PER_STATEMENT)
    yield all.slice(from, from + VALUES_PER_STATEMENT);
}

/** A repeated claim of the current person changes nothing. */
function addClaim(claims: readonly IdClaim[], claim: IdClaim): IdClaim[] {
  const sorted = [...claims, claim].sort(inOrder);
  return sorted.filter(({ personId }, index) => sorted[index - 1]?.personId !== personId).slice(-IDENTITY_MAX_CLAIMS);
}

/** The claim that applies to a signal of this order: the last claim before it, else the first (design §8.3). Undefined: no claims. */
export function claimInForce(claims: readonly IdClaim[], order: ReceivedOrder): IdClaim | undefined {
  return claims.findLast((claim) => !isLater(claim, order)) ?? claims[0];
}

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

/** Collects lines to remove from timelines of visitors. `write` removes them. */
export class VisitorLists {
  readonly #gone = new Map<ListKey, Map<number, "gone">>();
  /** Keys of the ids of dropped lines, in hexadecimal. */
  readonly #keys = new Set<string>();

  /** Removes a line from its timelines, except `kept`. @param facts before the change. */
  remove(seq: number, facts: Facts, kept: readonly ListingId[] = []): void {
    for (const id of idsOf(facts)) {
      if (facts.listedBy.includes(id.kind) && !kept.includes(id.kind)) this.removeFrom(visitorList(id), seq);
    }
  }

  /** Removes a line that is no longer stored. When the last line of an id goes, its pairs go too. */
  drop(seq: number, facts: Facts): void {
    this.remove(seq, facts);
    for (const id of idsOf(facts)) this.#keys.add(new Uint8Array(visitorKey(id)).toHex());
  }

  removeFrom(list: ListKey, seq: number): void {
    const gone = this.#gone.get(list) ?? new Map<number, "gone">();
    this.#gone.set(list, gone.set(seq, "gone"));
  }

  write(sql: SqlStorage): void {
    for (const [list, gone] of this.#gone) changeEntries(sql, list, "", gone);
    for (const keys of portionsOf(this.#keys)) {
      const unlisted = sql.exec<{ key: ArrayBuffer }>(
        `SELECT DISTINCT key FROM pairs WHERE key IN (SELECT unhex(value) FROM json_each(?))
           AND NOT EXISTS (SELECT 1 FROM timelines WHERE list = pairs.key)`,
        JSON.stringify(keys),
      );
      for (const { key } of unlisted.toArray()) deletePairs(sql, key);
    }
    this.#gone.clear();
    this.#keys.clear();
  }
}

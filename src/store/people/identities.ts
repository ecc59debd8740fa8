/**
 * Ids of visitors and their people (spec §2.3). An identify call claims an id for a person. Other calls pair two ids of a visitor.
 * `Identities` reads and changes claims and pairs for a batch. `VisitorLists` removes lines from timelines of visitors.
 */
import { isJsonObject, readPayload } from "../../domain/json/json-value.ts";
import { hashOfName } from "../../domain/signal/identity.ts";
import { cdpCallType, normalise } from "../../domain/signal/normalise.ts";
import type { NormalisedSignal, SignalKind } from "../../domain/signal/signal.ts";
import { isLater, type Admission, type ReceivedOrder } from "../../wire/message.ts";
import { type SignalFacts, type ListingId, afterDeletion, asVisitors, type LinePerson } from "../log/line.ts";
import {
  changeEntries,
  keyOf,
  visitorKey,
  visitorList,
  visitorOfKey,
  type ListKey,
  type VisitorId,
} from "./timelines.ts";
import type { NamedBy } from "../protocol/stored-signals.ts";

/** The names of a visitor, in a normalised signal or in a line of the log. */
export interface VisitorNames {
  email?: string | null;
  userId?: string | null;
  anonymousId?: string | null;
  /** Only of an alias: another id of its user. */
  previousId?: string | null;
}

/** A normalised call, or its line. */
export interface Call extends VisitorNames {
  kind: SignalKind;
}

/** The call in a stored payload; null: it is an account update, unreadable, or a signal for the template of its key. */
export function visitorOfPayload(payload: string | null, admission: Admission): NormalisedSignal | null {
  if (payload === null || admission.endpoint !== "signal_staging") return null;
  try {
    const read = readPayload(payload);
    if (!isJsonObject(read)) return null;
    const isForTemplate = admission.templateVersion !== undefined && cdpCallType(read) === undefined;
    return isForTemplate ? null : normalise(read, admission.pathSource);
  } catch {
    return null;
  }
}

/** The ids that a signal names, the strongest first. */
export function idsOf({ userId, anonymousId }: VisitorNames): VisitorId[] {
  const ids: VisitorId[] = [];
  if (typeof userId === "string") ids.push({ kind: "user_id", value: userId });
  if (typeof anonymousId === "string") ids.push({ kind: "anonymous_id", value: anonymousId });
  return ids;
}

/**
 * The pairs of ids that a call says. Without an email an identify creates no person (spec §6), but ids that are named together belong to one
 * visitor.
 */
export function pairsOfCall({ kind, email, userId, anonymousId, previousId }: Call): [VisitorId, VisitorId][] {
  if (typeof userId !== "string") return [];
  const user: VisitorId = { kind: "user_id", value: userId };
  if (typeof previousId === "string") {
    return [
      [{ kind: "anonymous_id", value: previousId }, user],
      [{ kind: "user_id", value: previousId }, user],
    ];
  }
  const isPair = kind === "identify" && typeof email !== "string" && typeof anonymousId === "string";
  return isPair ? [[{ kind: "anonymous_id", value: anonymousId }, user]] : [];
}

/** Latest claims kept per id. */
export const IDENTITY_MAX_CLAIMS = 20;
/** Pairs kept per id. */
export const PAIRS_MAX = 20;
/** Maximum ids that a claim assigns through pairs, directly or through other ids. */
export const CLAIM_FOLLOWERS_MAX = 1_000;
/** A statement for many values takes a third of the time of a statement for each. */
const VALUES_PER_STATEMENT = 500;

export interface IdClaim extends ReceivedOrder {
  personId: number;
}

// Claims of a person being deleted are the ids that the deletion still has to search. They are ignored here; see `Owners`.
const PERSON_EXISTS = "EXISTS (SELECT 1 FROM people WHERE people.id = person_id)";
const SELECT_CLAIMS = `SELECT keys.key, at, ordinal, person_id FROM json_each(?) AS keys
  CROSS JOIN identities ON identities.key = unhex(keys.value) WHERE ${PERSON_EXISTS}`;
const INSERT_CLAIM = "INSERT OR REPLACE INTO identities (key, at, ordinal, person_id) VALUES (?, ?, ?, ?)";
// An id is as old as its latest claim: an earlier one decides whose the signals before another person's claim are.
const SELECT_OLDEST = `SELECT key, "at", ordinal FROM identities AS theirs
  WHERE person_id = ?1 AND substr(key, 1, 1) = ?2 AND NOT EXISTS (SELECT 1 FROM link_jobs WHERE link_jobs.key = theirs.key)
    AND NOT EXISTS (SELECT 1 FROM identities AS later WHERE later.key = theirs.key AND later.person_id = ?1
      AND (later."at", later.ordinal) > (theirs."at", theirs.ordinal))
  ORDER BY "at", ordinal LIMIT ?3`;
// Earlier claims go too: an earlier person must not get the id back. A deletion removes the claims of the deleted person. The row of a person
// who is new in this batch is not written yet.
const DELETE_CLAIMS = `DELETE FROM identities WHERE key = ? AND ("at", ordinal) <= (?, ?)
  AND NOT EXISTS (SELECT 1 FROM deletions WHERE deletions.person_id = identities.person_id) RETURNING person_id`;

type IdCounts = Record<VisitorId["kind"], number>;

export class Identities {
  readonly #sql: SqlStorage;
  readonly #deleted: DeletedClaims;
  readonly #claims = new Map<ListKey, readonly IdClaim[]>();
  /** Number of claims gained or lost, by person. */
  #changes = new Map<number, IdCounts>();
  /** Ids that received a person in this batch. */
  readonly claimed: VisitorId[] = [];

  constructor(sql: SqlStorage, deleted = new DeletedClaims(sql)) {
    this.#sql = sql;
    this.#deleted = deleted;
  }

  /** Returns the people who claimed the ids. */
  preload(ids: readonly VisitorId[]): Set<number> {
    const claims = readClaims(this.#sql, ids);
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
    const after = addClaim(before, claim, before.length === 0 ? [] : this.#deleted.of(id));
    if (after.length === before.length && after.every((kept, index) => kept === before[index])) return;
    this.#write(id, before, after);
    if (before.length > 0) return;
    const hasPerson = (paired: VisitorId): boolean => this.claimsOf(paired).length > 0;
    for (const following of followersOf(this.#sql, { id, claim }, hasPerson)) {
      this.#write(following.id, [], [following.claim]);
    }
  }

  /** Pairs two ids of one visitor. If one of them has a person, the other follows at once. */
  pair(a: VisitorId, b: VisitorId, order: ReceivedOrder): void {
    if (visitorList(a) === visitorList(b)) return;
    const [claimsOfA, claimsOfB] = [this.claimsOf(a), this.claimsOf(b)];
    if (claimsOfA.length > 0 && claimsOfB.length > 0) return;
    const claim = claimInForce([...claimsOfA, ...claimsOfB], order);
    if (claim === undefined) this.#addPair(a, b, order);
    else this.claim(claimsOfA.length > 0 ? b : a, { ...latest(claim, order), personId: claim.personId });
  }

  /** Number of claims that each person gained or lost since the last call. */
  takeChanges(): ReadonlyMap<number, IdCounts> {
    const changes = this.#changes;
    this.#changes = new Map();
    return changes;
  }

  /** Drops a person's oldest ids of a kind with `count` claims, but no ids with signals to link. Returns the number of ids. */
  dropOldest(personId: number, kind: VisitorId["kind"], count: number): number {
    const oldest = this.#sql.exec<{ key: ArrayBuffer; at: number; ordinal: number }>(
      SELECT_OLDEST,
      personId,
      // The first byte of a key is its kind.
      visitorKey({ kind, value: "" }),
      count,
    );
    let [ids, claims] = [0, 0];
    for (const { key, at, ordinal } of oldest.toArray()) {
      if (claims >= count) break;
      ids++;
      deletePairs(this.#sql, key);
      for (const { person_id: person } of this.#sql.exec<{ person_id: number }>(DELETE_CLAIMS, key, at, ordinal)) {
        this.#count(person, kind, -1);
        if (person === personId) claims++;
      }
    }
    this.#claims.clear();
    return ids;
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

  /** A pair has the order of the latest line that says it, so that it can leave with that line. */
  #addPair(a: VisitorId, b: VisitorId, { receivedAtMs, ordinal }: ReceivedOrder): void {
    this.#sql.exec(
      `WITH both (key, other_key) AS (VALUES (?1, ?2), (?2, ?1))
       INSERT INTO pairs (key, other_key, at, ordinal)
       SELECT key, other_key, ?3, ?4 FROM both
       WHERE EXISTS (SELECT 1 FROM pairs WHERE key = ?1 AND other_key = ?2) OR
         (SELECT max((SELECT count(*) FROM pairs WHERE key = ?1), (SELECT count(*) FROM pairs WHERE key = ?2))) < ?5
       ON CONFLICT DO UPDATE SET at = excluded.at, ordinal = excluded.ordinal
         WHERE (excluded.at, excluded.ordinal) > (pairs.at, pairs.ordinal)`,
      visitorKey(a),
      visitorKey(b),
      receivedAtMs,
      ordinal,
      PAIRS_MAX,
    );
  }
}

/**
 * The ids that follow an id to its person through pairs, nearest first. The caller stores each claim before it takes the next.
 *
 * @param untilMs pairs that were received later do not count.
 */
export function* followersOf(
  sql: SqlStorage,
  first: { id: VisitorId; claim: IdClaim },
  hasPerson: (id: VisitorId) => boolean,
  untilMs = Number.MAX_SAFE_INTEGER,
): Generator<{ id: VisitorId; claim: IdClaim }> {
  const taken = [first];
  for (const { id, claim } of taken) {
    for (const { id: pairedId, order } of pairsOf(sql, id)) {
      if (taken.length === CLAIM_FOLLOWERS_MAX) return;
      if (order.receivedAtMs > untilMs || hasPerson(pairedId)) continue;
      const following = { id: pairedId, claim: { ...latest(claim, order), personId: claim.personId } };
      taken.push(following);
      yield following;
    }
  }
}

function pairsOf(sql: SqlStorage, id: VisitorId): { id: VisitorId; order: ReceivedOrder }[] {
  const rows = sql.exec<{ other_key: ArrayBuffer; at: number; ordinal: number }>(
    "SELECT other_key, at, ordinal FROM pairs WHERE key = ?",
    visitorKey(id),
  );
  return rows.toArray().map(({ other_key: key, at: receivedAtMs, ordinal }) => ({
    id: visitorOfKey(key),
    order: { receivedAtMs, ordinal },
  }));
}

function readClaims(sql: SqlStorage, ids: readonly VisitorId[]): Map<ListKey, IdClaim[]> {
  const found = new Map<ListKey, IdClaim[]>();
  for (const lists of portionsOf(ids.map(visitorList))) {
    const claims = lists.map((): IdClaim[] => []);
    const keys = JSON.stringify(lists.map((list) => new Uint8Array(keyOf(list)).toHex()));
    const rows = sql.exec(SELECT_CLAIMS, keys).raw<[index: number, at: number, ordinal: number, id: number]>();
    for (const [index, receivedAtMs, ordinal, personId] of rows) {
      claims[index]?.push({ receivedAtMs, ordinal, personId });
    }
    for (const [index, list] of lists.entries()) found.set(list, (claims[index] ?? []).sort(inOrder));
  }
  return found;
}

/** Distinct values, in portions for one statement each. */
export function* portionsOf<Value>(values: Iterable<Value>): Generator<Value[]> {
  const all = [...new Set(values)];
  for (let from = 0; from < all.length; from += VALUES_PER_STATEMENT)
    yield all.slice(from, from + VALUES_PER_STATEMENT);
}

/**
 * A repeated claim of the current person changes nothing.
 *
 * @param deleted claims of deleted people: after one of them, the claim of the person who had the id before is not repeated.
 */
export function addClaim(claims: readonly IdClaim[], claim: IdClaim, deleted: readonly IdClaim[] = []): IdClaim[] {
  const sorted = [...claims, ...deleted, claim].sort(inOrder);
  const kept = sorted.filter(({ personId }, index) => sorted[index - 1]?.personId !== personId);
  return kept.filter((keptClaim) => !deleted.includes(keptClaim)).slice(-IDENTITY_MAX_CLAIMS);
}

/** The claim that applies to a signal of this order: the last claim before it, else the first. Undefined: no claims. */
export function claimInForce(claims: readonly IdClaim[], order: ReceivedOrder): IdClaim | undefined {
  return claims.findLast((claim) => !isLater(claim, order)) ?? claims[0];
}

/** @param untilMs pairs that were received later stay. */
export function deletePairs(sql: SqlStorage, key: ArrayBuffer, untilMs = Number.MAX_SAFE_INTEGER): void {
  const theirs = "FROM pairs WHERE key = ?1 AND at <= ?2";
  sql.exec(`DELETE FROM pairs WHERE (key, other_key) IN (SELECT other_key, key ${theirs})`, key, untilMs);
  sql.exec(`DELETE ${theirs}`, key, untilMs);
}

export function inOrder(a: ReceivedOrder, b: ReceivedOrder): number {
  return isLater(a, b) ? 1 : -1;
}

export function latest(a: ReceivedOrder, b: ReceivedOrder): ReceivedOrder {
  const { receivedAtMs, ordinal } = isLater(a, b) ? a : b;
  return { receivedAtMs, ordinal };
}

/** Collects lines to remove from timelines of visitors. `flush` removes them. */
export class VisitorLists {
  readonly #gone = new Map<ListKey, Map<number, "gone">>();
  /** For each line that is no longer stored: the key of its user id, in hexadecimal, and its received order. */
  readonly #dropped: [key: string, receivedAtMs: number, ordinal: number][] = [];

  /** Removes a line from its timelines, except `kept`. @param facts before the change. */
  remove(seq: number, facts: SignalFacts, kept: readonly ListingId[] = []): void {
    for (const id of idsOf(facts)) {
      if (facts.timelineIds.includes(id.kind) && !kept.includes(id.kind)) this.removeFrom(visitorList(id), seq);
    }
  }

  /** Removes a line that is no longer stored. The pair that it is the latest to say goes with it: each pair has a user id. */
  drop(seq: number, facts: SignalFacts): void {
    this.remove(seq, facts);
    const { userId, admission } = facts;
    if (userId === null) return;
    const key = visitorKey({ kind: "user_id", value: userId });
    this.#dropped.push([new Uint8Array(key).toHex(), admission.receivedAtMs, admission.ordinal]);
  }

  removeFrom(list: ListKey, seq: number): void {
    const gone = this.#gone.get(list) ?? new Map<number, "gone">();
    this.#gone.set(list, gone.set(seq, "gone"));
  }

  flush(sql: SqlStorage): void {
    for (const [list, gone] of this.#gone) changeEntries(sql, list, "", gone);
    for (const lines of portionsOf(this.#dropped)) {
      const pairsOfLines = sql.exec<{ key: ArrayBuffer; other_key: ArrayBuffer }>(
        `SELECT pairs.key, other_key FROM json_each(?) AS lines CROSS JOIN pairs ON pairs.key = unhex(lines.value ->> 0)
         WHERE at = lines.value ->> 1 AND ordinal = lines.value ->> 2`,
        JSON.stringify(lines),
      );
      for (const { key, other_key: otherKey } of pairsOfLines.toArray()) {
        sql.exec("DELETE FROM pairs WHERE (key, other_key) IN (VALUES (?1, ?2), (?2, ?1))", key, otherKey);
      }
    }
    this.#gone.clear();
    this.#dropped.length = 0;
  }
}

// The owner of a signal, by the claims of living and deleted people. Its email decides, else its user id, else its anonymous
// id. Claims of a deleted person count for signals received until the deletion was requested. Such a signal belongs to the deletion, so
// that it makes no new person and goes to nobody else.

export type Owner =
  /** `personId` is null if the email names the person, who may be new. */
  | { isDeleted: false; by: NamedBy; personId: number | null }
  /** `personId`: of the deletion. Signals received after `untilMs` are not the deleted person's. */
  | { isDeleted: true; by: NamedBy; personId: number; untilMs: number };

interface DeletedClaim extends IdClaim {
  untilMs: number;
}

type Claim = IdClaim | DeletedClaim;

const SELECT_DELETED = `SELECT hash, at, ordinal, deletion, until FROM json_each(?) AS names
  CROSS JOIN deleted_names ON hash = names.value`;

/** Claims of deleted people, by the hashes of their names. */
export class DeletedClaims {
  readonly #sql: SqlStorage;
  readonly #known = new Map<string, readonly DeletedClaim[]>();
  #untilMs: number | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Signals received later, in milliseconds since 1970, belong to no deletion. 0: no names are remembered. */
  get untilMs(): number {
    const query = "SELECT max(last_requested_at) AS at FROM deletions";
    return (this.#untilMs ??= this.#sql.exec<{ at: number | null }>(query).one().at ?? 0);
  }

  of(name: Name): readonly DeletedClaim[] {
    if (this.untilMs === 0) return [];
    const hash = hashOfName(name);
    this.#load([hash]);
    return this.#known.get(hash) ?? [];
  }

  preload(names: readonly Name[]): void {
    this.#load(names.map(hashOfName));
  }

  /** Call it when a deletion has got a claim of the id. */
  forget(id: VisitorId): void {
    this.#known.delete(hashOfName(id));
  }

  #load(hashes: readonly string[]): void {
    for (const unknown of portionsOf(hashes.filter((hash) => !this.#known.has(hash)))) {
      const found = new Map(unknown.map((hash) => [hash, [] as DeletedClaim[]]));
      const rows = this.#sql
        .exec(SELECT_DELETED, JSON.stringify(unknown))
        .raw<[hash: string, at: number, ordinal: number, deletion: number, until: number]>();
      for (const [hash, receivedAtMs, ordinal, personId, untilMs] of rows) {
        found.get(hash)?.push({ receivedAtMs, ordinal, personId, untilMs });
      }
      for (const [hash, claims] of found) this.#known.set(hash, claims);
    }
  }
}

export class Owners {
  readonly #identities: Identities;
  readonly #deleted: DeletedClaims;

  constructor(identities: Identities, deleted: DeletedClaims) {
    this.#identities = identities;
    this.#deleted = deleted;
  }

  /** Signals received later, in milliseconds since 1970, belong to no deletion. 0: no names are remembered. */
  get namesUntilMs(): number {
    return this.#deleted.untilMs;
  }

  /** Reads the claims of many signals with few statements. */
  preload(visitors: readonly VisitorNames[]): void {
    this.#identities.preload(visitors.flatMap(callIdsOf));
    if (this.namesUntilMs > 0) this.#deleted.preload(visitors.flatMap(namesOf));
  }

  /** Null: it has no owner. @param ofPerson a deleted person whose claims all count, also for signals received after the request. */
  ownerOf(visitor: VisitorNames, order: ReceivedOrder, ofPerson?: number): Owner | null {
    if (typeof visitor.email === "string") {
      const deletions = this.#deletedClaims({ kind: "email", value: visitor.email }, order, ofPerson);
      const first = deletions.toSorted((a, b) => a.untilMs - b.untilMs)[0];
      return first === undefined ? { isDeleted: false, by: "email", personId: null } : ownerBy("email", first);
    }
    for (const id of callIdsOf(visitor)) {
      const claim = claimInForce(this.claimsOf(id, order, ofPerson), order);
      if (claim !== undefined) return ownerBy(id.kind, claim);
    }
    return null;
  }

  /**
   * The living person who gets a line of a deleted person by the claims; null: the deletion removes the line. After the clock was set
   * back, the line may have been received after the request.
   */
  heirOf(facts: SignalFacts): LinePerson | null {
    const { person, admission } = facts;
    const owner = this.ownerOf(facts, admission, person?.personId);
    if (owner === null || owner.isDeleted || owner.personId === null) return null;
    const heir = { personId: owner.personId, by: owner.by };
    if (person === null) return heir;
    // An id that the person has lost (PERSON_MAX_IDS) gives none of their lines to its next person, nor to the person of a weaker id.
    if (person.by !== owner.by) return person.by === "anonymous_id" ? heir : null;
    const id = idsOf(facts).find(({ kind }) => kind === owner.by);
    const claims = id === undefined ? [] : this.claimsOf(id, admission, person.personId);
    return claims.some(({ personId }) => personId === person.personId) ? heir : null;
  }

  /** A line as the deletions that are under way will leave it. @param isPersonGone whether its person is deleted. */
  afterDeletions(facts: SignalFacts, isPersonGone: boolean, nowMs: number): SignalFacts {
    if (facts.deletedAtMs !== null) return facts;
    if (isPersonGone) return this.heirOf(facts) === null ? afterDeletion(facts, nowMs) : asVisitors(facts);
    // A line that is on no timeline of its ids stays with its living person.
    if (facts.person !== null && facts.timelineIds.length === 0) return facts;
    const owner = this.ownerOf(facts, facts.admission);
    // Only its user id takes a line from a living person.
    const isDeleted = owner?.isDeleted === true && (facts.person === null || owner.by === "user_id");
    return isDeleted ? afterDeletion(facts, nowMs) : facts;
  }

  /** The claims of an id that count for a signal, in received order. */
  claimsOf(id: VisitorId, order: ReceivedOrder, ofPerson?: number): readonly Claim[] {
    const living = this.#identities.claimsOf(id);
    const deleted = this.#deletedClaims(id, order, ofPerson);
    return deleted.length === 0 ? living : [...living, ...deleted].sort(inOrder);
  }

  /** Call it when a deletion has got a claim of the id. */
  forget(id: VisitorId): void {
    this.#deleted.forget(id);
  }

  #deletedClaims(name: Name, { receivedAtMs }: ReceivedOrder, ofPerson?: number): DeletedClaim[] {
    if (receivedAtMs > this.namesUntilMs && ofPerson === undefined) return [];
    const claims = this.#deleted.of(name);
    return claims.filter(({ untilMs, personId }) => untilMs >= receivedAtMs || personId === ofPerson);
  }
}

type Name = Parameters<typeof hashOfName>[0];

export function namesOf(visitor: VisitorNames): Name[] {
  const ids = callIdsOf(visitor);
  return typeof visitor.email === "string" ? [{ kind: "email", value: visitor.email }, ...ids] : ids;
}

/** The ids of a call, the strongest first. The previous id of an alias may be of either kind. */
export function callIdsOf(visitor: VisitorNames): VisitorId[] {
  const { previousId: value } = visitor;
  if (typeof value !== "string") return idsOf(visitor);
  return [...idsOf(visitor), { kind: "user_id", value }, { kind: "anonymous_id", value }];
}

function ownerBy(by: NamedBy, claim: Claim): Owner {
  const { personId } = claim;
  return "untilMs" in claim
    ? { isDeleted: true, by, personId, untilMs: claim.untilMs }
    : { isDeleted: false, by, personId };
}

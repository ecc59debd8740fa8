/**
 * Names of deleted people, as hashes. A signal that was received before the deletion and is recorded after it must not create the person
 * again. Held signals and dead letters have no person, so a deletion finds them by these names. If one of them is a call that names
 * further ids, the deletion searches those ids too.
 */
import { EMAIL_MAX_LENGTH, IDENTITY_MAX_LENGTH } from "../../limits.ts";
import { emailAsStored, hashOfName, markOfName, normaliseEmail, usableId } from "../../domain/signal/identity.ts";
import type { Admission, ReceivedOrder } from "../../wire/message.ts";
import {
  addClaim,
  claimInForce,
  deletePairs,
  followersOf,
  idsOf,
  latest,
  pairsOfCall,
  portionsOf,
  visitorOfPayload,
  type Call,
  type IdClaim,
  namesOf,
  type Owner,
  type Owners,
} from "../people/identities.ts";
import { UNFINISHED } from "../state/due.ts";
import { visitorKey, visitorOfKey, type VisitorId } from "../people/timelines.ts";

/** Signals received until this time are the person's if they name the email. @param mark null: only the hash is known. */
export function rememberEmail(
  sql: SqlStorage,
  { hash, mark }: { hash: string; mark: number | null },
  deletion: number,
  untilMs: number,
): void {
  sql.exec(
    `INSERT INTO deleted_names (hash, mark, at, ordinal, deletion, until) VALUES (?, ?, 0, 0, ?, ?)
     ON CONFLICT DO UPDATE SET mark = excluded.mark, until = excluded.until`,
    hash,
    mark,
    deletion,
    untilMs,
  );
}

/** Remembers each claim of the person. Their pairs go at once, because the next person of a shared id would get the paired ids. */
export function rememberIds(sql: SqlStorage, personId: number, untilMs: number): void {
  const claims = sql.exec("SELECT key, at, ordinal FROM identities WHERE person_id = ?", personId);
  const names = [...claims.raw<[key: ArrayBuffer, at: number, ordinal: number]>()].map(([key, at, ordinal]) => {
    const id = visitorOfKey(key);
    return [hashOfName(id), markOfName(id.value), at, ordinal] as const;
  });
  for (const portion of portionsOf(names)) {
    sql.exec(
      `INSERT INTO deleted_names (hash, mark, at, ordinal, deletion, until)
       SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2, ?3 FROM json_each(?1)`,
      JSON.stringify(portion),
      personId,
      untilMs,
    );
  }
  sql.exec(
    `DELETE FROM pairs WHERE (key, other_key) IN (SELECT other_key, pairs.key FROM identities
       CROSS JOIN pairs ON pairs.key = identities.key WHERE person_id = ?)`,
    personId,
  );
  sql.exec("DELETE FROM pairs WHERE key IN (SELECT key FROM identities WHERE person_id = ?)", personId);
}

/**
 * The deletions with a name that is any text of a dead letter: an unreadable payload may name the person in any field.
 *
 * @param marks null: every text is hashed.
 */
export function deletionsNamedIn(
  sql: SqlStorage,
  payload: string | null,
  admission: Admission,
  marks: NameMarks | null = null,
): DeletionsNamed {
  const visitor = visitorOfPayload(payload, admission);
  const texts = [...stringsOf(`${payload ?? ""} ${admission.around ?? ""}`)];
  const names = [
    ...(visitor === null ? [] : namesOf(visitor)),
    ...texts.filter((text) => marks === null || marks.mayName(text)).flatMap(possibleNames),
  ];
  const rows = sql.exec<{ deletion: number }>(
    `SELECT deletion FROM json_each(?) AS names CROSS JOIN deleted_names ON hash = names.value WHERE until >= ?`,
    JSON.stringify(names.map(hashOfName)),
    admission.receivedAtMs,
  );
  return { deletions: new Set([...rows].map(({ deletion }) => deletion)), names: names.length };
}

interface DeletionsNamed {
  deletions: ReadonlySet<number>;
  /** The number of names that were compared: most of the cost. */
  names: number;
}

/**
 * Marks of the names of deletions under way. Lists read many dead letters at once, each with thousands of texts. Most texts have another mark,
 * and need no hash.
 */
export class NameMarks {
  readonly #sql: SqlStorage;
  #marks: ReadonlySet<number | null> | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  mayName(text: string): boolean {
    const marks = (this.#marks ??= this.#read());
    if (marks.has(null) || marks.has(markOfName(text.trim()))) return true;
    return text.includes("@") && marks.has(markOfName(emailAsStored(text)));
  }

  #read(): ReadonlySet<number | null> {
    const query = `SELECT DISTINCT mark FROM deletions CROSS JOIN deleted_names ON deletion = person_id WHERE ${UNFINISHED}`;
    return new Set([...this.#sql.exec(query).raw<[mark: number | null]>()].flat());
  }
}

function possibleNames(text: string): Parameters<typeof hashOfName>[0][] {
  const [email, id] = [normaliseEmail(text), usableId(text)];
  const names: Parameters<typeof hashOfName>[0][] = [];
  if (email !== undefined) names.push({ kind: "email", value: email });
  if (id !== undefined) names.push({ kind: "user_id", value: id }, { kind: "anonymous_id", value: id });
  return names;
}

/**
 * The strings of a JSON text, also of a broken one, that are short enough for names. Like templates, it reads the address of
 * `Jane <jane@example.com>`, and JSON in a text: quoting doubles the backslashes, so there are few levels.
 */
function stringsOf(json: string, strings = new Set<string>()): Set<string> {
  const add = (text: string): void => {
    if (text.length <= Math.max(EMAIL_MAX_LENGTH, IDENTITY_MAX_LENGTH)) strings.add(text);
  };
  for (let start = json.indexOf('"'); start !== -1;) {
    const end = endOfString(json, start);
    if (end === -1) break;
    const text = unescaped(json.slice(start, end + 1));
    add(text);
    const trimmed = text.trimEnd();
    if (trimmed.endsWith(">")) add(trimmed.slice(trimmed.lastIndexOf("<") + 1, -1));
    if (/^[{[]/.test(text)) stringsOf(text, strings);
    start = json.indexOf('"', end + 1);
  }
  return strings;
}

function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === "\\") at++;
    else if (json[at] === '"') return at;
  }
  return -1;
}

function unescaped(quoted: string): string {
  if (!quoted.includes("\\")) return quoted.slice(1, -1);
  try {
    return String(JSON.parse(quoted));
  } catch {
    return quoted.slice(1, -1);
  }
}

/** A later request extends only the email: ids of a call before the first request are the person's until that request. */
function heldUntilMs(
  sql: SqlStorage,
  { personId, untilMs }: Owner & { isDeleted: true },
  order: ReceivedOrder,
): number {
  const [deletion] = sql.exec<{ at: number }>("SELECT requested_at AS at FROM deletions WHERE person_id = ?", personId);
  return deletion !== undefined && order.receivedAtMs <= deletion.at ? Math.min(untilMs, deletion.at) : untilMs;
}

interface GivenIds {
  deletion: number;
  ids: readonly VisitorId[];
}

/**
 * Gives the ids of a call to the deletion that it belongs to, as recording would have given them to the person.
 *
 * @returns the deletion and its new ids, which it has to search; null: there are none.
 */
export function giveIds(sql: SqlStorage, owners: Owners, call: Call, order: ReceivedOrder): GivenIds | null {
  const owner = owners.ownerOf(call, order);
  if (owner === null || !owner.isDeleted) return null;
  const { personId } = owner;
  const untilMs = heldUntilMs(sql, owner, order);
  const ids: VisitorId[] = [];
  const give = (id: VisitorId, claim: IdClaim): void => {
    const before = owners.claimsOf(id, order);
    rememberClaim(sql, id, claim, untilMs);
    // Somebody else's claim before it may still come: the id is searched already.
    if (!addClaim(before, claim).includes(claim)) return owners.forget(id);
    const hasPerson = (paired: VisitorId): boolean => owners.claimsOf(paired, order).length > 0;
    const followers = before.length > 0 ? [] : followersOf(sql, { id, claim }, hasPerson, untilMs);
    const given = [id];
    writeClaim(sql, owners, id, claim, untilMs);
    for (const following of followers) {
      writeClaim(sql, owners, following.id, following.claim, untilMs);
      given.push(following.id);
    }
    for (const each of given) deletePairs(sql, visitorKey(each), untilMs);
    ids.push(...given);
  };
  if (call.kind === "identify" && owner.by === "email") {
    for (const id of idsOf(call)) give(id, { receivedAtMs: order.receivedAtMs, ordinal: order.ordinal, personId });
  } else {
    for (const pair of pairsOfCall(call)) {
      const [free, claim] = freeIdOf(pair, owners, order, owner) ?? [];
      if (free !== undefined && claim !== undefined) give(free, claim);
    }
  }
  return ids.length === 0 ? null : { deletion: personId, ids };
}

/** If one id of a pair belongs to the deletion and nobody has claimed the other: that other id, and the claim that the deletion gets. */
function freeIdOf(
  [a, b]: [VisitorId, VisitorId],
  owners: Owners,
  order: ReceivedOrder,
  { personId }: Owner,
): [VisitorId, IdClaim] | null {
  const [ofA, ofB] = [owners.claimsOf(a, order), owners.claimsOf(b, order)];
  if (ofA.length > 0 === ofB.length > 0) return null;
  const claim = claimInForce([...ofA, ...ofB], order);
  if (claim === undefined || claim.personId !== personId) return null;
  return [ofA.length > 0 ? b : a, { ...latest(claim, order), personId }];
}

/** The rows of `identities` are the ids that the deletion still has to search. */
function writeClaim(sql: SqlStorage, owners: Owners, id: VisitorId, claim: IdClaim, untilMs: number): void {
  const { receivedAtMs, ordinal, personId } = claim;
  sql.exec(
    "INSERT OR IGNORE INTO identities (key, at, ordinal, person_id) VALUES (?, ?, ?, ?)",
    visitorKey(id),
    receivedAtMs,
    ordinal,
    personId,
  );
  rememberClaim(sql, id, claim, untilMs);
  owners.forget(id);
}

function rememberClaim(
  sql: SqlStorage,
  id: VisitorId,
  { receivedAtMs, ordinal, personId }: IdClaim,
  untilMs: number,
): void {
  sql.exec(
    "INSERT OR IGNORE INTO deleted_names (hash, mark, at, ordinal, deletion, until) VALUES (?, ?, ?, ?, ?, ?)",
    hashOfName(id),
    markOfName(id.value),
    receivedAtMs,
    ordinal,
    personId,
    untilMs,
  );
}

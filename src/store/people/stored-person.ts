/**
 * A person's row: as it is read, as it begins, and as it is written, which names the columns that have changed. Plain SQL:
 * this runs for every signal.
 */
import { dayOf } from "../../domain/quota/day-counts.ts";
import { eachTrait, folded, SEARCHED_TRAITS, TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { PersonTraits, TraitName } from "../../domain/signal/traits.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";

export interface PersonColumns extends PersonTraits {
  id: number;
  email: string;
  trait_orders: string;
  score: number;
  first_seen: number;
  last_seen: number;
  last_day: number;
  recent: string;
  anonymous_ids: number;
  user_ids: number;
  ids_dropped: number;
}

/** A row as it is read: the columns in the order of COLUMNS. */
export type RawPerson = [
  id: number,
  email: string,
  traitOrders: string,
  score: number,
  firstSeen: number,
  lastSeen: number,
  lastDay: number,
  recent: string,
  anonymousIds: number,
  userIds: number,
  idsDropped: number,
  ...traits: (string | null)[],
];

const COLUMNS: readonly (keyof PersonColumns)[] = [
  "id",
  "email",
  "trait_orders",
  "score",
  "first_seen",
  "last_seen",
  "last_day",
  "recent",
  "anonymous_ids",
  "user_ids",
  "ids_dropped",
  ...TRAIT_NAMES,
];
const INSERT = `INSERT INTO people (${COLUMNS.join(", ")}, names) VALUES (${COLUMNS.map(() => "?").join(", ")}, ?)`;
const READ = `SELECT ${COLUMNS.join(", ")} FROM people WHERE`;
/** Reads the owner of an id or email. */
export const READ_PERSON = { id: `${READ} id = ?`, email: `${READ} email = ?` } as const;
/** Reads the owners of ids or emails. */
export const READ_PEOPLE = {
  id: `${READ} id IN (SELECT value FROM json_each(?))`,
  email: `${READ} email IN (SELECT value FROM json_each(?))`,
} as const;

/** A person who is named for the first time. */
export function newPerson(id: number, email: string, receivedAtMs: number): PersonColumns {
  return {
    id,
    email,
    trait_orders: "",
    score: 0,
    first_seen: receivedAtMs,
    last_seen: receivedAtMs,
    last_day: dayOf(receivedAtMs),
    recent: "",
    anonymous_ids: 0,
    user_ids: 0,
    ids_dropped: 0,
    ...eachTrait(() => null),
  };
}

export function toPersonColumns(raw: RawPerson): PersonColumns {
  const [id, email, traitOrders, score, firstSeen, lastSeen, lastDay, recent, ...more] = raw;
  const [anonymousIds, userIds, idsDropped, ...traits] = more;
  const person: PersonColumns = {
    id,
    email,
    trait_orders: traitOrders,
    score,
    first_seen: firstSeen,
    last_seen: lastSeen,
    last_day: lastDay,
    recent,
    anonymous_ids: anonymousIds,
    user_ids: userIds,
    ids_dropped: idsDropped,
    ...NO_TRAITS,
  };
  for (const [place, trait] of TRAIT_NAMES.entries()) person[trait] = traits[place] ?? null;
  return person;
}

const NO_TRAITS: Readonly<PersonTraits> = eachTrait(() => null);

/**
 * Writes only the changed columns of a person, because naming an indexed column writes an index row even without a
 * change.
 *
 * @param before the stored person; null: new. @returns whether a column changed.
 */
export function writePerson(sql: SqlStorage, before: PersonColumns | null, now: PersonColumns): boolean {
  if (before === null) {
    sql.exec(INSERT, ...COLUMNS.map((column) => now[column]), searchedText(now));
    return true;
  }
  const changed = COLUMNS.filter((column) => before[column] !== now[column]);
  if (changed.length === 0) return false;
  const isFoundOtherwise = SEARCHED_TRAITS.some((trait) => before[trait] !== now[trait]);
  const written = [...changed, ...(isFoundOtherwise ? ["names"] : [])];
  sql.exec(
    `UPDATE people SET ${written.map((column) => `${column} = ?`).join(", ")} WHERE id = ?`,
    ...changed.map((column) => now[column]),
    ...(isFoundOtherwise ? [searchedText(now)] : []),
    now.id,
  );
  return true;
}

/** The text in which traits are searched: a line each, so that nothing is found that is partly in two. */
function searchedText(person: PersonColumns): string {
  if (SEARCHED_TRAITS.every((trait) => person[trait] === null)) return "";
  return folded(SEARCHED_TRAITS.map((trait) => person[trait] ?? "").join("\n"));
}

export type TraitReceipts = Partial<Record<TraitName, ReceivedOrder>>;

/** Writes a receipt for each trait in the order of TRAIT_NAMES, in base 36; `=` stands for the one before it, nothing for none. */
export function writeReceipts(receipts: TraitReceipts): string {
  let before: ReceivedOrder | undefined;
  const texts = TRAIT_NAMES.map((trait) => {
    const receipt = receipts[trait];
    const isSame = receipt?.receivedAtMs === before?.receivedAtMs && receipt?.ordinal === before?.ordinal;
    before = receipt;
    if (receipt === undefined) return "";
    return isSame ? "=" : `${receipt.receivedAtMs.toString(36)}.${receipt.ordinal.toString(36)}`;
  });
  return texts.join();
}

export function readReceipts(text: string): TraitReceipts {
  const receipts: TraitReceipts = {};
  let before: ReceivedOrder | undefined;
  for (const [index, one] of text.split(",").entries()) {
    if (one !== "=") before = readReceipt(one);
    const trait = TRAIT_NAMES[index];
    if (trait !== undefined && before !== undefined) receipts[trait] = before;
  }
  return receipts;
}

function readReceipt(text: string): ReceivedOrder | undefined {
  const [at, ordinal] = text.split(".");
  if (at === undefined || ordinal === undefined) return undefined;
  return { receivedAtMs: Number.parseInt(at, 36), ordinal: Number.parseInt(ordinal, 36) };
}

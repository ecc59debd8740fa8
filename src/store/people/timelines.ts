/**
 * Timelines list the lines of a person with their times, scores and traits, and the lines that wait until their visitor gets a person. A
 * timeline is text in the order of `seq`, in rows of dozens or hundreds of entries in `timelines`; the ranges of the rows do not overlap. The latest
 * entries of a person are in the row of `people`, which recording writes anyway.
 */
import { PERSON_FIELDS, type PersonField, type Traits } from "../../domain/signal/traits.ts";
import { isUuid, uuidBytes, uuidOfHex } from "../../platform/ids.ts";
import { isLater, type ReceivedOrder } from "../../wire/message.ts";
import { scoringOutcomes, type SignalFacts } from "../log/line.ts";

export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

/** Names a timeline: a person by number, such as `p17`, or a visitor by a letter and the id. */
export type ListKey = string;

const PERSON_LETTER = "p";
const LETTERS = { anonymous_id: "a", user_id: "u" } as const;
/** Second byte of a stored key whose rest is a UUID. */
const UUID_MARK = 0xff;
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];

export function personList(personId: number): ListKey {
  return `${PERSON_LETTER}${personId}`;
}

export function visitorList({ kind, value }: VisitorId): ListKey {
  return LETTERS[kind] + value;
}

export function keyOf(list: ListKey): ArrayBuffer {
  const uuid = uuidBytes(list.slice(1));
  if (uuid === null) return new Uint8Array(encoder.encode(list)).buffer;
  return Uint8Array.of(list.charCodeAt(0), UUID_MARK, ...uuid).buffer;
}

export function visitorKey(id: VisitorId): ArrayBuffer {
  return keyOf(visitorList(id));
}

export function listOfKey(key: ArrayBuffer): ListKey {
  const bytes = new Uint8Array(key);
  if (bytes[1] !== UUID_MARK) return decoder.decode(bytes);
  return String.fromCharCode(bytes[0] ?? 0) + uuidOfHex(Buffer.from(bytes.subarray(2)).toString("hex"));
}

export function visitorOfKey(key: ArrayBuffer): VisitorId {
  const list = listOfKey(key);
  return { kind: list.startsWith(LETTERS.user_id) ? "user_id" : "anonymous_id", value: list.slice(1) };
}

/** Maximum characters of a row of a visitor: hundreds of entries, which a step of linking takes together. */
const VISITOR_ROW_CHARACTERS = 2_000;
/** Maximum characters of a row of a person: dozens of entries. SQLite stores a longer row of this table on a separate page. */
export const PERSON_ROW_CHARACTERS = 960;
/** Maximum characters of the latest entries in the row of `people`. */
const RECENT_ENTRIES_CHARACTERS = 512;

/** The score of a signal, which retention keeps when it drops the signal. */
export interface Scored {
  signalId: string;
  /** When the signal was received and occurred, in milliseconds since 1970. */
  atMs: number;
  occurredMs: number;
  /** Ids of the outcomes, see state/rule-outcomes.ts. */
  outcomes: readonly number[];
}

/** The traits and the account that a line carries. */
interface SentTraits extends ReceivedOrder {
  /** A bit for each field, in the order of PERSON_FIELDS. */
  fields: number;
}

export interface Entry {
  seq: number;
  /** When the signal occurred, in milliseconds since 1970. Lists of visitors have no times. */
  occurredMs?: number;
  /** Null: the line has scored nothing. */
  scored: Scored | null;
  /** Absent: the line carries no traits, or retention has dropped the line. */
  traits?: SentTraits;
  /** Present: retention has dropped the line. `lapseDay`: the entry goes on this UTC day; null: it stays while it scores. */
  dropped?: { lapseDay: number | null };
}

/** The change of an entry. A function returns the new entry; null removes it. */
export type EntryChange = "gone" | ((entry: Entry) => Entry | null);

interface Row {
  [column: string]: SqlStorageValue;
  from_seq: number;
  entries: string;
}

/** Sums of a row, so that most searches read no entries. */
interface RowSums {
  /** Earliest and latest occurrence, in milliseconds since 1970; null: the list of a visitor. */
  first_ms: number | null;
  last_ms: number | null;
  /** All fields that its lines carry, and the latest receipt of a line with a field. */
  fields: number;
  traits_at: number;
  /** The earliest `lapseDay` of its entries; null: there is none. */
  lapse_day: number | null;
}

export function scoredBy(facts: SignalFacts): Scored | null {
  const { admission, occurred } = facts;
  const outcomes = scoringOutcomes(facts);
  if (outcomes.length === 0) return null;
  return { signalId: admission.id, atMs: admission.receivedAtMs, occurredMs: occurred.ms, outcomes };
}

/** The entry of a line on the timeline of its person. */
export function entryOf(seq: number, facts: SignalFacts): Entry {
  const { admission, occurred, traits } = facts;
  const fields = fieldsOf(traits);
  const entry: Entry = { seq, occurredMs: occurred.ms, scored: scoredBy(facts) };
  if (fields !== 0) entry.traits = { fields, receivedAtMs: admission.receivedAtMs, ordinal: admission.ordinal };
  return entry;
}

function fieldsOf(traits: Traits): number {
  return PERSON_FIELDS.reduce((fields, field) => fields | (traits[field] === undefined ? 0 : bitOf(field)), 0);
}

function bitOf(field: PersonField): number {
  return 1 << PERSON_FIELDS.indexOf(field);
}

/**
 * Adds entries, or replaces entries of the same lines.
 *
 * @param text the entries in ascending order, if the caller has written them: then most are stored without writing them again.
 */
export function insertEntries(sql: SqlStorage, list: ListKey, entries: readonly Entry[], text?: string): void {
  let rest = [...entries].sort(bySeq);
  while (rest.length > 0) {
    const row = rowForNew(sql, list, rest[0]?.seq ?? 0);
    const end = row?.next ?? Number.POSITIVE_INFINITY;
    const here = rest.filter(({ seq }) => seq < end);
    const written = here.length === entries.length ? text : undefined;
    rest = rest.slice(here.length);
    if (row === undefined) writeRows(sql, list, here, written);
    else if (areLater(row.entries, here)) appendToRow(sql, list, row, here, written);
    else replaceRow(sql, list, row.from_seq, mergeEntries(readEntries(row.entries), here));
  }
}

/** The latest entries before a line, the latest first. @param recent the entries in the person's row; empty for a visitor. */
export function latestEntries(
  sql: SqlStorage,
  list: ListKey,
  recent: string,
  { before, limit }: { before: number; limit: number },
): Entry[] {
  const found = readEntries(recent).filter(({ seq }) => seq < before);
  const rows = sql.exec<Row>(
    "SELECT from_seq, entries FROM timelines WHERE list = ? AND from_seq < ? ORDER BY from_seq DESC",
    keyOf(list),
    before,
  );
  let stored = 0;
  for (const row of rows) {
    const here = readEntries(row.entries).filter(({ seq }) => seq < before);
    found.push(...here);
    stored += here.length;
    if (stored >= limit) break;
  }
  return found.sort((a, b) => b.seq - a.seq).slice(0, limit);
}

/** The next entries in the rows of a timeline after a line: the rest of its row, or the next row. Empty: there are none. */
export function entriesAfter(sql: SqlStorage, list: ListKey, seq = -1): Entry[] {
  const row = rowFor(sql, list, seq);
  if (row === undefined) return [];
  const here = readEntries(row.entries).filter((entry) => entry.seq > seq);
  if (here.length > 0 || row.next === null) return here;
  return readEntries(rowFor(sql, list, row.next)?.entries ?? "");
}

/** All entries after a line, in ascending order. @param recent the entries that are not in the rows, in ascending order. */
export function* ascendingEntries(
  sql: SqlStorage,
  list: ListKey,
  recent: readonly Entry[] = [],
  after = -1,
): Generator<Entry> {
  let left = recent.filter(({ seq }) => seq > after);
  for (let entries = entriesAfter(sql, list, after); entries.length > 0;) {
    const last = entries.at(-1)?.seq ?? after;
    const until = left.filter(({ seq }) => seq <= last);
    yield* mergeEntries(entries, until);
    left = left.slice(until.length);
    entries = entriesAfter(sql, list, last);
  }
  yield* left;
}

export function hasEntries(sql: SqlStorage, list: ListKey): boolean {
  return sql.exec("SELECT 1 FROM timelines WHERE list = ? LIMIT 1", keyOf(list)).toArray().length > 0;
}

/**
 * Changes the entries of some lines. Lines that are not listed are ignored.
 *
 * @returns the new entries of the person's row.
 */
export function changeEntries(
  sql: SqlStorage,
  list: ListKey,
  recent: string,
  changes: ReadonlyMap<number, EntryChange>,
): string {
  const left = new Set(changes.keys());
  const changed = (entries: readonly Entry[]): Entry[] =>
    entries.flatMap((entry) => {
      const change = changes.get(entry.seq);
      if (change === undefined) return [entry];
      left.delete(entry.seq);
      return change === "gone" ? [] : (change(entry) ?? []);
    });
  // Retention changes old lines, which the person's row rarely has.
  const isInRecent = recent !== "" && readEntry(firstOf(recent), 0).seq <= Math.max(...changes.keys());
  const after = isInRecent ? changed(readEntries(recent)) : null;
  for (const seq of [...left].sort((a, b) => a - b)) {
    if (!left.has(seq)) continue;
    const row = rowFor(sql, list, seq);
    if (row === undefined) break;
    const entries = readEntries(row.entries);
    if (entries.some((entry) => left.has(entry.seq))) replaceRow(sql, list, row.from_seq, changed(entries));
  }
  return after === null ? recent : writeEntries(after);
}

/** When the lines of a person first and last occurred, in milliseconds since 1970; null: the person has no lines. */
export function timesOf(sql: SqlStorage, list: ListKey, recent: string): { firstMs: number; lastMs: number } | null {
  const { first_ms: firstMs, last_ms: lastMs } = sql
    .exec<Pick<RowSums, "first_ms" | "last_ms"> & Record<string, SqlStorageValue>>(
      "SELECT min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM timelines WHERE list = ?",
      keyOf(list),
    )
    .one();
  const times = readEntries(recent).flatMap(({ occurredMs }) => occurredMs ?? []);
  if (firstMs !== null && lastMs !== null) times.push(firstMs, lastMs);
  return times.length === 0 ? null : { firstMs: Math.min(...times), lastMs: Math.max(...times) };
}

type EntryWithTraits = Entry & { traits: SentTraits };

/** The entry of the latest received line that carries a field; undefined: no stored line of the person does. */
export function latestWithField(
  sql: SqlStorage,
  list: ListKey,
  recent: string,
  field: PersonField,
): EntryWithTraits | undefined {
  const bit = bitOf(field);
  const latestOf = (text: string, known?: EntryWithTraits): EntryWithTraits | undefined =>
    readEntries(text).reduce(
      (latest, entry) =>
        carries(entry, bit) && (latest === undefined || isLater(entry.traits, latest.traits)) ? entry : latest,
      known,
    );
  let latest = latestOf(recent);
  const rows = sql.exec<{ from_seq: number; traits_at: number }>(
    "SELECT from_seq, traits_at FROM timelines WHERE list = ? AND fields & ? ORDER BY traits_at DESC",
    keyOf(list),
    bit,
  );
  for (const { from_seq: fromSeq, traits_at: atMs } of rows.toArray()) {
    if (latest !== undefined && latest.traits.receivedAtMs > atMs) break;
    latest = latestOf(rowFor(sql, list, fromSeq)?.entries ?? "", latest);
  }
  return latest;
}

function carries(entry: Entry, bit: number): entry is EntryWithTraits {
  return entry.traits !== undefined && (entry.traits.fields & bit) !== 0;
}

/** Entries of dropped lines whose points have lapsed by this UTC day. @param limit rows to read; `recent` is read too. */
export function lapsedEntries(sql: SqlStorage, list: ListKey, recent: string, today: number, limit: number): Entry[] {
  const rows = sql.exec<{ entries: string }>(
    "SELECT entries FROM timelines WHERE list = ? AND lapse_day <= ? LIMIT ?",
    keyOf(list),
    today,
    limit,
  );
  const texts = rows.toArray().map(({ entries }) => entries);
  if (recent.includes(DROPPED)) texts.push(recent);
  return texts.flatMap((text) => readEntries(text).filter((entry) => hasLapsed(entry, today)));
}

/** Whether the line is dropped and its points have lapsed by this UTC day. */
export function hasLapsed({ dropped }: Entry, today: number): boolean {
  return (dropped?.lapseDay ?? Number.POSITIVE_INFINITY) <= today;
}

/** As `rowFor`. Most entries belong into the last row, which takes a third of the time to find. */
function rowForNew(sql: SqlStorage, list: ListKey, seq: number): (Row & { next: number | null }) | undefined {
  const [last] = sql.exec<Row>(
    "SELECT from_seq, entries FROM timelines WHERE list = ? ORDER BY from_seq DESC LIMIT 1",
    keyOf(list),
  );
  return last === undefined || last.from_seq <= seq ? last && { ...last, next: null } : rowFor(sql, list, seq);
}

/** The row for the entry of a line, and where the next row begins. */
function rowFor(sql: SqlStorage, list: ListKey, seq: number): (Row & { next: number | null }) | undefined {
  return sql
    .exec<Row & { next: number | null }>(
      `SELECT from_seq, entries, (SELECT min(from_seq) FROM timelines AS later
         WHERE later.list = ?1 AND later.from_seq > timelines.from_seq) AS next
       FROM timelines WHERE list = ?1
         AND from_seq <= max(?2, (SELECT min(from_seq) FROM timelines AS first WHERE first.list = ?1))
       ORDER BY from_seq DESC LIMIT 1`,
      keyOf(list),
      seq,
    )
    .toArray()[0];
}

function appendToRow(sql: SqlStorage, list: ListKey, row: Row, entries: readonly Entry[], written?: string): void {
  const isTooLong = written !== undefined && row.entries.length + written.length > maxCharacters(list);
  const text = isTooLong ? "" : appended(row.entries, entries);
  if (isTooLong || text.length > maxCharacters(list)) return writeRows(sql, list, entries, written);
  const sums = sumsOf(entries);
  sql.exec(
    `UPDATE timelines SET entries = ?1, first_ms = min(first_ms, ?2), last_ms = max(last_ms, ?3), fields = fields | ?4,
       traits_at = max(traits_at, ?5), lapse_day = min(ifnull(lapse_day, ?6), ifnull(?6, lapse_day))
     WHERE list = ?7 AND from_seq = ?8`,
    text,
    sums.first_ms,
    sums.last_ms,
    sums.fields,
    sums.traits_at,
    sums.lapse_day,
    keyOf(list),
    row.from_seq,
  );
}

function replaceRow(sql: SqlStorage, list: ListKey, fromSeq: number, entries: readonly Entry[]): void {
  if (entries[0]?.seq !== fromSeq)
    sql.exec("DELETE FROM timelines WHERE list = ? AND from_seq = ?", keyOf(list), fromSeq);
  writeRows(sql, list, entries);
}

/** @param written the entries as one text, if it is known. */
function writeRows(sql: SqlStorage, list: ListKey, entries: readonly Entry[], written?: string): void {
  if (written !== undefined && written.length <= maxCharacters(list)) return writeRow(sql, list, written, entries);
  const rows: { text: string; entries: [Entry, ...Entry[]] }[] = [];
  for (const entry of entries) {
    const row = rows.at(-1);
    const text = row === undefined ? "" : `,${writeEntry(entry, row.entries[0].occurredMs ?? 0)}`;
    if (row !== undefined && row.text.length + text.length <= maxCharacters(list)) {
      row.text += text;
      row.entries.push(entry);
    } else rows.push({ text: writeEntries([entry]), entries: [entry] });
  }
  for (const { text, entries: here } of rows) writeRow(sql, list, text, here);
}

function writeRow(sql: SqlStorage, list: ListKey, text: string, entries: readonly Entry[]): void {
  const [first] = entries;
  if (first === undefined) return;
  const sums = sumsOf(entries);
  sql.exec(
    `INSERT OR REPLACE INTO timelines (list, from_seq, first_ms, last_ms, fields, traits_at, lapse_day, entries)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    keyOf(list),
    first.seq,
    sums.first_ms,
    sums.last_ms,
    sums.fields,
    sums.traits_at,
    sums.lapse_day,
    text,
  );
}

function maxCharacters(list: ListKey): number {
  return list.startsWith(PERSON_LETTER) ? PERSON_ROW_CHARACTERS : VISITOR_ROW_CHARACTERS;
}

function sumsOf(entries: readonly Entry[]): RowSums {
  const times = entries.flatMap(({ occurredMs }) => occurredMs ?? []);
  const traits = entries.flatMap((entry) => entry.traits ?? []);
  const lapses = entries.flatMap(({ dropped }) => dropped?.lapseDay ?? []);
  return {
    first_ms: times.length === 0 ? null : Math.min(...times),
    last_ms: times.length === 0 ? null : Math.max(...times),
    fields: traits.reduce((all, { fields }) => all | fields, 0),
    traits_at: Math.max(0, ...traits.map(({ receivedAtMs }) => receivedAtMs)),
    lapse_day: lapses.length === 0 ? null : Math.min(...lapses),
  };
}

/** The entries of the person's row with these entries added. */
export function addToRecent(recent: string, entries: readonly Entry[]): string {
  return areLater(recent, entries)
    ? appended(recent, entries)
    : writeEntries(mergeEntries(readEntries(recent), entries));
}

/** Whether the entries have room in the person's row. Otherwise all go to `insertEntries`. */
export function fitsInRow(recent: string): boolean {
  return recent.length <= RECENT_ENTRIES_CHARACTERS;
}

/** Times are relative to the first entry of a text, so that a text can grow without being read. */
export function writeEntries(entries: readonly Entry[]): string {
  const [first, ...rest] = entries;
  if (first === undefined) return "";
  return [writeEntry(first, 0), ...rest.map((entry) => writeEntry(entry, first.occurredMs ?? 0))].join(",");
}

/** @param text not empty. @param entries later than those of the text. */
function appended(text: string, entries: readonly Entry[]): string {
  // The time of a scored entry is in its id.
  const isRelative = entries.some(({ scored }) => scored === null);
  const { occurredMs: firstMs = 0 } = isRelative ? readEntry(firstOf(text), 0) : {};
  let all = text;
  for (const entry of entries) all += `,${writeEntry(entry, firstMs)}`;
  return all;
}

function firstOf(text: string): string {
  const end = text.indexOf(",");
  return end === -1 ? text : text.slice(0, end);
}

export function readEntries(text: string): Entry[] {
  if (text === "") return [];
  const entries: Entry[] = [];
  for (const part of text.split(",")) entries.push(readEntry(part, entries[0]?.occurredMs ?? 0));
  return entries;
}

/** Whether entries are in ascending order and later than all entries of a text. */
function areLater(text: string, entries: readonly Entry[]): boolean {
  let before = text === "" ? Number.POSITIVE_INFINITY : lastSeq(text);
  for (const { seq } of entries) {
    if (seq <= before) return false;
    before = seq;
  }
  return true;
}

/** Reads only the last entry, because each signal of a person calls this. */
function lastSeq(text: string): number {
  const [seq = ""] = /[^:/!]+/.exec(text.slice(text.lastIndexOf(",") + 1)) ?? [];
  return numberOf(seq);
}

/** In ascending order. The second list wins. */
export function mergeEntries(before: readonly Entry[], entries: readonly Entry[]): Entry[] {
  const all = new Map([...before, ...entries].map((entry) => [entry.seq, entry] as const));
  return [...all.values()].sort(bySeq);
}

function bySeq(a: Entry, b: Entry): number {
  return a.seq - b.seq;
}

/**
 * `seq:time` or `seq:id:after:outcomes[:before]`, then `/fields.ordinal[.delay]` for traits, then `!` or `!day` for a dropped line.
 * Numbers are in base 64. `after` is from the time in the id to the receipt, `before` and `delay` are from the occurrence to the receipt.
 */
function writeEntry({ seq, occurredMs, scored, traits, dropped }: Entry, firstMs: number): string {
  let text = digitsOf(seq);
  if (scored !== null) {
    const { text: id, ms } = writeId(scored.signalId);
    const before = scored.atMs - scored.occurredMs;
    text += `:${id}:${digitsOf(scored.atMs - ms)}:${scored.outcomes.join(".")}${before === 0 ? "" : `:${digitsOf(before)}`}`;
  } else if (occurredMs !== undefined) text += `:${digitsOf(occurredMs - firstMs)}`;
  if (traits !== undefined) {
    const delay = traits.receivedAtMs - (occurredMs ?? 0);
    text += `/${digitsOf(traits.fields)}.${digitsOf(traits.ordinal)}${delay === 0 ? "" : `.${digitsOf(delay)}`}`;
  }
  if (dropped !== undefined) text += `${DROPPED}${dropped.lapseDay === null ? "" : digitsOf(dropped.lapseDay)}`;
  return text;
}

function readEntry(text: string, firstMs: number): Entry {
  const [line = "", day] = text.split(DROPPED);
  const [start = "", traits] = line.split("/");
  const [seq = "", idOrTime, after, outcomes = "", before = "0"] = start.split(":");
  const entry: Entry = { seq: numberOf(seq), scored: null };
  if (after !== undefined && idOrTime !== undefined) {
    const { signalId, ms } = readId(idOrTime);
    const atMs = ms + numberOf(after);
    const occurredMs = atMs - numberOf(before);
    entry.occurredMs = occurredMs;
    entry.scored = { signalId, atMs, occurredMs, outcomes: outcomes.split(".").map(Number) };
  } else if (idOrTime !== undefined) entry.occurredMs = firstMs + numberOf(idOrTime);
  if (traits !== undefined) {
    const [fields = "", ordinal = "", delay = "0"] = traits.split(".");
    const receivedAtMs = (entry.occurredMs ?? 0) + numberOf(delay);
    entry.traits = { fields: numberOf(fields), receivedAtMs, ordinal: numberOf(ordinal) };
  }
  if (day !== undefined) entry.dropped = { lapseDay: day === "" ? null : numberOf(day) };
  return entry;
}

/** Marks an entry of a dropped line. */
const DROPPED = "!";
/** Base 64 takes a character less than base 36 for most numbers of lines and most times. */
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_~";
/** By character code. */
const VALUES: number[] = [];
for (let value = 0; value < DIGITS.length; value++) VALUES[DIGITS.charCodeAt(value)] = value;

function digitsOf(value: number): string {
  if (value < 0) return `-${digitsOf(-value)}`;
  const digit = DIGITS.charAt(value % DIGITS.length);
  return value < DIGITS.length ? digit : digitsOf(Math.floor(value / DIGITS.length)) + digit;
}

function numberOf(digits: string): number {
  if (digits.startsWith("-")) return -numberOf(digits.slice(1));
  let value = 0;
  for (let at = 0; at < digits.length; at++)
    value = value * DIGITS.length + (VALUES[digits.charCodeAt(at)] ?? Number.NaN);
  return value;
}

const ID_PREFIX = "sig_";
/** The first bytes of a UUIDv7 are a time, in milliseconds since 1970. */
const TIME_HEX_CHARACTERS = 12;
const BASE64URL = { alphabet: "base64url", omitPadding: true } as const;
/** Reused: a new array for each id takes longer than the id. */
const uuid = new Uint8Array(16);

/** A UUID is written in base64; any other id as it is, after a dot. */
function writeId(id: string): { text: string; ms: number } {
  const text = id.slice(ID_PREFIX.length);
  if (!id.startsWith(ID_PREFIX) || !isUuid(text)) return { text: `.${id}`, ms: 0 };
  const hex = text.replaceAll("-", "");
  uuid.setFromHex(hex);
  return { text: uuid.toBase64(BASE64URL), ms: timeOfHex(hex) };
}

function readId(text: string): { signalId: string; ms: number } {
  if (text.startsWith(".")) return { signalId: text.slice(1), ms: 0 };
  uuid.setFromBase64(text, BASE64URL);
  const hex = uuid.toHex();
  return { signalId: ID_PREFIX + uuidOfHex(hex), ms: timeOfHex(hex) };
}

function timeOfHex(hex: string): number {
  return Number.parseInt(hex.slice(0, TIME_HEX_CHARACTERS), 16);
}

/**
 * Timelines list the lines of a person with their scores, and the lines that wait until their visitor gets a person. A timeline is text
 * in the order of `seq`, in rows of hundreds of entries in `timelines`; the ranges of the rows do not overlap. The latest entries of a
 * person are in the row of `people`, which recording writes anyway.
 */
import { readUuid, UUID_BYTES, UUID_CHARACTERS, uuidMs, UuidTexts } from "../../platform/bytes.ts";
import type { Facts } from "../log/line.ts";

export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

/** Names a timeline: a person by number, such as `p17`, or a visitor by a letter and the id. */
export type ListKey = string;

const LETTERS = { anonymous_id: "a", user_id: "u" } as const;
/** Second byte of a stored key whose rest is a UUID. */
const UUID_MARK = 0xff;
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];

export function personList(personId: number): ListKey {
  return `p${personId}`;
}

export function visitorList({ kind, value }: VisitorId): ListKey {
  return LETTERS[kind] + value;
}

export function keyOf(list: ListKey): ArrayBuffer {
  if (list.length === 1 + UUID_CHARACTERS) {
    const bytes = new Uint8Array(2 + UUID_BYTES);
    if (readUuid(list, 1, bytes.subarray(2))) {
      bytes[0] = list.charCodeAt(0);
      bytes[1] = UUID_MARK;
      return bytes.buffer;
    }
  }
  return new Uint8Array(encoder.encode(list)).buffer;
}

export function visitorKey(id: VisitorId): ArrayBuffer {
  return keyOf(visitorList(id));
}

export function listOfKey(key: ArrayBuffer): ListKey {
  const bytes = new Uint8Array(key);
  if (bytes[1] !== UUID_MARK) return decoder.decode(bytes);
  return String.fromCharCode(bytes[0] ?? 0) + new UuidTexts(bytes.subarray(2), UUID_BYTES).next();
}

export function visitorOfKey(key: ArrayBuffer): VisitorId {
  const list = listOfKey(key);
  return { kind: list.startsWith(LETTERS.user_id) ? "user_id" : "anonymous_id", value: list.slice(1) };
}

/** Maximum characters of a row: hundreds of entries. */
export const TIMELINE_ROW_CHARACTERS = 2_000;
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

export interface Entry {
  seq: number;
  /** Null: the line has scored nothing. */
  scored: Scored | null;
}

interface Row {
  [column: string]: SqlStorageValue;
  first_seq: number;
  entries: string;
}

export function scoredBy({ admission, occurred, outcomes }: Facts): Scored | null {
  if (outcomes.length === 0) return null;
  return { signalId: admission.id, atMs: admission.receivedAtMs, occurredMs: occurred.ms, outcomes };
}

/** Adds entries, or replaces entries of the same lines. */
export function insertEntries(sql: SqlStorage, list: ListKey, entries: readonly Entry[]): void {
  let rest = [...entries].sort(bySeq);
  while (rest.length > 0) {
    const row = rowFor(sql, list, rest[0]?.seq ?? 0);
    const end = row?.next ?? Number.POSITIVE_INFINITY;
    const here = rest.filter(({ seq }) => seq < end);
    rest = rest.slice(here.length);
    if (row === undefined) writeRows(sql, list, here);
    else if (areLater(row.entries, here)) appendToRow(sql, list, row, here);
    else replaceRow(sql, list, row.first_seq, mergeEntries(readEntries(row.entries), here));
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
    "SELECT first_seq, entries FROM timelines WHERE list = ? AND first_seq < ? ORDER BY first_seq DESC",
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
 * Changes the scores of some lines; "gone" removes a line. Lines that are not listed are ignored.
 *
 * @returns the new entries of the person's row.
 */
export function changeEntries(
  sql: SqlStorage,
  list: ListKey,
  recent: string,
  changes: ReadonlyMap<number, Scored | null | "gone">,
): string {
  const left = new Set(changes.keys());
  const changed = (entries: readonly Entry[]): Entry[] =>
    entries.flatMap((entry) => {
      const change = changes.get(entry.seq);
      if (change === undefined) return [entry];
      left.delete(entry.seq);
      return change === "gone" ? [] : [{ seq: entry.seq, scored: change }];
    });
  const after = changed(readEntries(recent));
  for (const seq of [...left].sort((a, b) => a - b)) {
    if (!left.has(seq)) continue;
    const row = rowFor(sql, list, seq);
    if (row === undefined) break;
    const entries = readEntries(row.entries);
    if (entries.some((entry) => left.has(entry.seq))) replaceRow(sql, list, row.first_seq, changed(entries));
  }
  return left.size === changes.size ? recent : writeEntries(after);
}

/** The row for the entry of a line, and where the next row begins. */
function rowFor(sql: SqlStorage, list: ListKey, seq: number): (Row & { next: number | null }) | undefined {
  return sql
    .exec<Row & { next: number | null }>(
      `SELECT first_seq, entries, (SELECT min(first_seq) FROM timelines AS later
         WHERE later.list = ?1 AND later.first_seq > timelines.first_seq) AS next
       FROM timelines WHERE list = ?1
         AND first_seq <= max(?2, (SELECT min(first_seq) FROM timelines AS first WHERE first.list = ?1))
       ORDER BY first_seq DESC LIMIT 1`,
      keyOf(list),
      seq,
    )
    .toArray()[0];
}

function appendToRow(sql: SqlStorage, list: ListKey, row: Row, entries: readonly Entry[]): void {
  const text = `${row.entries},${writeEntries(entries)}`;
  if (text.length > TIMELINE_ROW_CHARACTERS) writeRows(sql, list, entries);
  else sql.exec("UPDATE timelines SET entries = ? WHERE list = ? AND first_seq = ?", text, keyOf(list), row.first_seq);
}

function replaceRow(sql: SqlStorage, list: ListKey, firstSeq: number, entries: readonly Entry[]): void {
  if (entries[0]?.seq !== firstSeq)
    sql.exec("DELETE FROM timelines WHERE list = ? AND first_seq = ?", keyOf(list), firstSeq);
  writeRows(sql, list, entries);
}

function writeRows(sql: SqlStorage, list: ListKey, entries: readonly Entry[]): void {
  const rows: Row[] = [];
  for (const entry of entries) {
    const text = writeEntries([entry]);
    const row = rows.at(-1);
    if (row !== undefined && row.entries.length + text.length < TIMELINE_ROW_CHARACTERS) row.entries += `,${text}`;
    else rows.push({ first_seq: entry.seq, entries: text });
  }
  for (const row of rows) {
    sql.exec(
      "INSERT INTO timelines (list, first_seq, entries) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET entries = excluded.entries",
      keyOf(list),
      row.first_seq,
      row.entries,
    );
  }
}

/** The person's row with these entries added; null: it has no room, and all entries go to `insertEntries`. */
export function addToRecent(recent: string, entries: readonly Entry[]): string | null {
  const all = areLater(recent, entries)
    ? `${recent},${writeEntries(entries)}`
    : writeEntries(mergeEntries(readEntries(recent), entries));
  return all.length <= RECENT_ENTRIES_CHARACTERS ? all : null;
}

export function writeEntries(entries: readonly Entry[]): string {
  return entries.map(writeEntry).join(",");
}

export function readEntries(text: string): Entry[] {
  return text === "" ? [] : text.split(",").map(readEntry);
}

/** Whether entries are in ascending order and later than all entries of a text. */
function areLater(text: string, entries: readonly Entry[]): boolean {
  let before = text === "" ? Number.POSITIVE_INFINITY : Number.parseInt(text.slice(text.lastIndexOf(",") + 1), 36);
  for (const { seq } of entries) {
    if (seq <= before) return false;
    before = seq;
  }
  return true;
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
 * Numbers are in base 36. A score has the id, the time from the id to the receipt, and the outcomes. If the signal occurred before its
 * receipt, the time between them follows.
 */
function writeEntry({ seq, scored }: Entry): string {
  if (scored === null) return seq.toString(36);
  const { text, ms } = writeId(scored.signalId);
  const { atMs, occurredMs, outcomes } = scored;
  const occurred = occurredMs === atMs ? "" : `:${(atMs - occurredMs).toString(36)}`;
  return `${seq.toString(36)}:${text}:${(atMs - ms).toString(36)}:${outcomes.join(".")}${occurred}`;
}

function readEntry(text: string): Entry {
  const [seqText = "", idText, after = "", outcomes = "", occurred = "0"] = text.split(":");
  const seq = Number.parseInt(seqText, 36);
  if (idText === undefined) return { seq, scored: null };
  const { signalId, ms } = readId(idText);
  const atMs = ms + Number.parseInt(after, 36);
  const occurredMs = atMs - Number.parseInt(occurred, 36);
  return { seq, scored: { signalId, atMs, occurredMs, outcomes: outcomes.split(".").map(Number) } };
}

const ID_PREFIX = "sig_";
const uuid = new Uint8Array(UUID_BYTES);

/** A UUID is written in base64; any other id as it is, after a dot. */
function writeId(id: string): { text: string; ms: number } {
  const isUuid =
    id.length === ID_PREFIX.length + UUID_CHARACTERS &&
    id.startsWith(ID_PREFIX) &&
    readUuid(id, ID_PREFIX.length, uuid);
  return isUuid ? { text: Buffer.from(uuid).toString("base64url"), ms: uuidMs(uuid) } : { text: `.${id}`, ms: 0 };
}

function readId(text: string): { signalId: string; ms: number } {
  if (text.startsWith(".")) return { signalId: text.slice(1), ms: 0 };
  const bytes = Buffer.from(text, "base64url");
  return { signalId: ID_PREFIX + new UuidTexts(bytes, UUID_BYTES).next(), ms: uuidMs(bytes) };
}

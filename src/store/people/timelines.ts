/**
 * Lists of lines: a person's signals with what each scored, and the signals of visitors whom nobody knows yet. Each is text
 * (timeline-text.ts), in the order of `seq`, in rows of hundreds. A person's latest are in their own row, which recording
 * writes in any case; older ones, and all of a visitor, are in `timelines`, in rows whose ranges do not overlap.
 */
import { readUuid, UUID_BYTES, UUID_CHARACTERS, uuidMs, UuidTexts } from "../../platform/bytes.ts";
import type { Facts, ListingId } from "../log/line.ts";
import { deletePairs, pairedIds } from "./identities.ts";
import { keyOf, visitorKey, visitorList } from "./visitors.ts";
import type { ListKey, VisitorId } from "./visitors.ts";

/** Characters of a row of older entries of a person's list: hundreds of entries. */
export const TIMELINE_ROW_CHARACTERS = 2_000;

/** Puts entries in their places; one that is there already is replaced. */
export function insertEntries(sql: SqlStorage, list: ListKey, entries: readonly Entry[]): void {
  let rest = [...entries].sort((one, other) => one.seq - other.seq);
  while (rest.length > 0) {
    const [first] = rest;
    const { row, end } = placeFor(sql, list, first?.seq ?? 0);
    const here = rest.filter(({ seq }) => seq < end);
    rest = rest.slice(here.length);
    if (row === undefined) writeRows(sql, list, here);
    else if (areBehind(row.entries, here)) appendToRow(sql, list, row, here);
    else replaceRow(sql, list, row.first_seq, mergeEntries(readEntries(row.entries), here));
  }
}

/**
 * The latest entries before a line, the latest first: `limit` of them, or all there are.
 *
 * @param recent what the person's row says; empty for a visitor.
 */
export function latestEntries(
  sql: SqlStorage,
  list: ListKey,
  recent: string,
  { before, limit }: { before: number; limit: number },
): Entry[] {
  const found = readEntries(recent).filter(({ seq }) => seq < before);
  let end = before;
  for (let older = 0; older < limit;) {
    const [row] = sql.exec<Row>(
      "SELECT first_seq, entries FROM timelines WHERE list = ? AND first_seq < ? ORDER BY first_seq DESC LIMIT 1",
      keyOf(list),
      end,
    );
    if (row === undefined) break;
    const here = readEntries(row.entries).filter(({ seq }) => seq < before);
    found.push(...here);
    older += here.length;
    end = row.first_seq;
  }
  return found.sort((one, other) => other.seq - one.seq).slice(0, limit);
}

/** Entries in the first row of a list, or in the first that begins behind a line: hundreds. Empty: there is none. */
export function firstEntries(sql: SqlStorage, list: ListKey, behind = -1): Entry[] {
  const [row] = sql.exec<Row>(
    "SELECT first_seq, entries FROM timelines WHERE list = ? AND first_seq > ? ORDER BY first_seq LIMIT 1",
    keyOf(list),
    behind,
  );
  return row === undefined ? [] : readEntries(row.entries);
}

/** The next entries of a list behind a line, also where that is in the middle of a row: hundreds. Empty: there is none. */
export function entriesBehind(sql: SqlStorage, list: ListKey, seq: number): Entry[] {
  const row = rowFor(sql, list, seq);
  const here = row === undefined ? [] : readEntries(row.entries).filter((entry) => entry.seq > seq);
  return row === undefined || here.length > 0 ? here : firstEntries(sql, list, row.first_seq);
}

/** Entries of a list behind a line, in ascending order. @param recent those that are not in its rows, in ascending order. */
export function* ascendingEntries(
  sql: SqlStorage,
  list: ListKey,
  recent: readonly Entry[] = [],
  behind = -1,
): Generator<Entry> {
  let left = recent.filter(({ seq }) => seq > behind);
  for (let rows = entriesBehind(sql, list, behind); rows.length > 0;) {
    const last = rows.at(-1)?.seq ?? behind;
    yield* mergeEntries(
      rows,
      left.filter(({ seq }) => seq <= last),
    );
    left = left.filter(({ seq }) => seq > last);
    rows = entriesBehind(sql, list, last);
  }
  yield* left;
}

export function hasEntries(sql: SqlStorage, list: ListKey): boolean {
  return sql.exec("SELECT 1 FROM timelines WHERE list = ? LIMIT 1", keyOf(list)).toArray().length > 0;
}

/**
 * Changes what is said of some lines: `null` says that they scored nothing, "gone" takes them out. Lines that are not listed
 * are let pass.
 *
 * @returns what the person's row is to say.
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
  const before = readEntries(recent);
  const after = changed(before);
  for (const seq of [...left].sort((one, other) => one - other)) {
    if (!left.has(seq)) continue;
    const row = rowFor(sql, list, seq);
    if (row === undefined) break;
    const entries = readEntries(row.entries);
    if (entries.some((entry) => left.has(entry.seq))) replaceRow(sql, list, row.first_seq, changed(entries));
  }
  return left.size === changes.size ? recent : writeEntries(after);
}

type Row = { first_seq: number; entries: string };

/** The row that a line is to be in, and where the next row begins. Mostly it is the last one, which one statement finds. */
function placeFor(sql: SqlStorage, list: ListKey, seq: number): { row: Row | undefined; end: number } {
  const [last] = sql.exec<Row>(
    "SELECT first_seq, entries FROM timelines WHERE list = ? ORDER BY first_seq DESC LIMIT 1",
    keyOf(list),
  );
  if (last === undefined || last.first_seq <= seq) return { row: last, end: Number.POSITIVE_INFINITY };
  const row = rowFor(sql, list, seq);
  return { row, end: row === undefined ? Number.POSITIVE_INFINITY : nextRowAfter(sql, list, row.first_seq) };
}

function rowFor(sql: SqlStorage, list: ListKey, seq: number): Row | undefined {
  const [row] = sql.exec<Row>(
    "SELECT first_seq, entries FROM timelines WHERE list = ? AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1",
    keyOf(list),
    seq,
  );
  return (
    row ??
    sql
      .exec<Row>("SELECT first_seq, entries FROM timelines WHERE list = ? ORDER BY first_seq LIMIT 1", keyOf(list))
      .toArray()[0]
  );
}

function nextRowAfter(sql: SqlStorage, list: ListKey, firstSeq: number): number {
  const [row] = sql.exec<{ next: number | null }>(
    "SELECT min(first_seq) AS next FROM timelines WHERE list = ? AND first_seq > ?",
    keyOf(list),
    firstSeq,
  );
  return row?.next ?? Number.POSITIVE_INFINITY;
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

/** Writes entries, in as many rows as they take. */
function writeRows(sql: SqlStorage, list: ListKey, entries: readonly Entry[]): void {
  let text = "";
  let firstSeq = 0;
  const write = (): void => {
    if (text === "") return;
    sql.exec(
      "INSERT INTO timelines (list, first_seq, entries) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET entries = excluded.entries",
      keyOf(list),
      firstSeq,
      text,
    );
  };
  for (const entry of entries) {
    const written = writeEntries([entry]);
    if (text !== "" && text.length + written.length < TIMELINE_ROW_CHARACTERS) {
      text += `,${written}`;
      continue;
    }
    write();
    text = written;
    firstSeq = entry.seq;
  }
  write();
}

/** Entries of a person's list of signals that are kept in their row, in characters: recording writes that in any case. */
const RECENT_ENTRIES_CHARACTERS = 512;

/** What a signal scored. It outlives the signal. */
export interface Scored {
  signalId: string;
  /** Receipt of the signal. */
  atMs: number;
  /** Numbers of the outcomes, see state/rule-outcomes.ts. */
  outcomes: readonly number[];
}

export interface Entry {
  seq: number;
  /** What the line has scored; null: nothing. */
  scored: Scored | null;
}

/** What the list of a line's person is to say of it; null: it has scored nothing. */
export function scoredBy({ admission, outcomes }: Facts): Scored | null {
  return outcomes.length === 0 ? null : { signalId: admission.id, atMs: admission.receivedAtMs, outcomes };
}

/** What a person's row is to say with these entries added; null where that is too much, and all goes to `insertEntries`. */
export function addToRecent(recent: string, entries: readonly Entry[]): string | null {
  const all = areBehind(recent, entries)
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

/** Whether entries are in their order, and come behind those of a text. */
export function areBehind(text: string, entries: readonly Entry[]): boolean {
  let before = text === "" ? Number.POSITIVE_INFINITY : Number.parseInt(text.slice(text.lastIndexOf(",") + 1), 36);
  for (const { seq } of entries) {
    if (seq <= before) return false;
    before = seq;
  }
  return true;
}

/** Two lists of entries as one, in ascending order; one that is in both is taken from the second. */
export function mergeEntries(before: readonly Entry[], entries: readonly Entry[]): Entry[] {
  const all = new Map([...before, ...entries].map((entry) => [entry.seq, entry] as const));
  return [...all.values()].sort((one, other) => one.seq - other.seq);
}

/**
 * Writes an entry, its numbers in base 36; of what was scored: the id, the receipt, in milliseconds since the id was given,
 * and the outcomes.
 */
function writeEntry({ seq, scored }: Entry): string {
  if (scored === null) return seq.toString(36);
  const { text, ms } = writeId(scored.signalId);
  return `${seq.toString(36)}:${text}:${(scored.atMs - ms).toString(36)}:${scored.outcomes.join(".")}`;
}

function readEntry(text: string): Entry {
  const [seqText = "", idText, after = "", outcomes = ""] = text.split(":");
  const seq = Number.parseInt(seqText, 36);
  if (idText === undefined) return { seq, scored: null };
  const { signalId, ms } = readId(idText);
  const atMs = ms + Number.parseInt(after, 36);
  return { seq, scored: { signalId, atMs, outcomes: outcomes.split(".").map(Number) } };
}

const ID_PREFIX = "sig_";
const uuid = new Uint8Array(UUID_BYTES);

/** Writes a signal's id: in base64 where it is a UUID, else as it is, behind a point. */
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

export class VisitorLists {
  readonly #gone = new Map<ListKey, Map<number, "gone">>();
  /** Ids of lines that are no longer stored, with any owner. */
  readonly #ids = new Map<ListKey, VisitorId>();

  /** Removes a line from its lists, except `kept`. @param facts before the change. */
  remove(seq: number, { userId, anonymousId, listedBy }: Facts, kept: readonly ListingId[] = []): void {
    for (const kind of listedBy) {
      const value = kind === "user_id" ? userId : anonymousId;
      if (value !== null && !kept.includes(kind)) this.removeFrom(visitorList({ kind, value }), seq);
    }
  }

  /** Takes a line that is no longer stored off all its lists. With the last line of an id, the pairs of the id leave too. */
  drop(seq: number, facts: Facts): void {
    this.remove(seq, facts);
    for (const kind of ["user_id", "anonymous_id"] as const) {
      const value = kind === "user_id" ? facts.userId : facts.anonymousId;
      if (value !== null) this.#ids.set(visitorList({ kind, value }), { kind, value });
    }
  }

  removeFrom(list: ListKey, seq: number): void {
    const gone = this.#gone.get(list);
    if (gone === undefined) this.#gone.set(list, new Map([[seq, "gone"]]));
    else gone.set(seq, "gone");
  }

  write(sql: SqlStorage): void {
    for (const [list, gone] of this.#gone) changeEntries(sql, list, "", gone);
    for (const id of pairedIds(sql, [...this.#ids.values()])) {
      if (!hasEntries(sql, visitorList(id))) deletePairs(sql, visitorKey(id));
    }
    this.#gone.clear();
    this.#ids.clear();
  }
}

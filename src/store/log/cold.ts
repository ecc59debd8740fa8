/**
 * Cold storage (spec §6.1): payloads of old segments move to R2, many in one object, and their segments' rows keep the
 * place. An R2 that does not answer delays that and holds up nothing else. What is left to do is read off the tables:
 * every step may break off anywhere, and looks at them again after each answer of R2.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { newId } from "../../platform/ids.ts";
import type { ColdObjects } from "./cold-objects.ts";
import { keepsPayload } from "./line.ts";
import type { Log } from "./log.ts";
import { packPayloads, unpackPayloads } from "./packing.ts";
import type { SegmentRow } from "./segment.ts";

/**
 * Payloads stay in the store for so long: who is linked, corrected or looked at is mostly so on the same day, and a busy
 * workspace writes an object an hour.
 */
export const COLD_AFTER_MS = 24 * 3_600_000;
/** Objects that one alarm removes: R2 deletes up to 1,000 keys in a call. */
const COLD_REMOVE_OBJECTS = 500;
/** An object whose writing broke off is deleted after this long: until then what was sent of it may still arrive. */
export const COLD_ABANDONED_MS = 15 * 60_000;
/** Objects that the store does not know after a restore are kept so long, for an undo. */
export const COLD_UNKNOWN_MS = 7 * DAY_MS;
/** An object of cold storage: what one call of R2 reads at most, some 30,000 signals. */
const COLD_OBJECT_MAX_BYTES = 2_000_000;
const COLD_OBJECT_MAX_SEGMENTS = 128;
/** What is due for cold storage within this time goes along, so that a busy workspace writes an object an hour or a full one. */
const COLD_TOGETHER_MS = 3_600_000;

/** What the work on cold storage needs. */
export interface ColdWork {
  storage: DurableObjectStorage;
  log: Log;
  objects: ColdObjects;
}

interface Packed {
  firstSeq: number;
  bytes: Uint8Array;
}

/**
 * How old payloads are when they move, in milliseconds. A store that is more than half full needs the room: then payloads of
 * sealed segments move at once.
 *
 * @param maxBytes at which the store is full.
 */
export function coldAfterMs(sql: SqlStorage, maxBytes: number): number {
  return sql.databaseSize > maxBytes / 2 ? 0 : COLD_AFTER_MS;
}

/** When payloads are to be moved, or objects rewritten or removed, in milliseconds since 1970; null when none is. */
export function nextColdWorkMs(sql: SqlStorage, nowMs: number, afterMs = COLD_AFTER_MS): number | null {
  const { at_once, writing, unknown, received } = sql
    .exec<{ at_once: number; writing: number | null; unknown: number | null; received: number | null }>(
      `SELECT EXISTS (SELECT 1 FROM cold_scrubs) OR EXISTS (SELECT 1 FROM cold_objects WHERE state = 'removing') AS at_once,
         (SELECT min(at) FROM cold_objects WHERE state = 'writing') AS writing,
         (SELECT min(at) FROM cold_objects WHERE state = 'unknown') AS unknown,
         (SELECT received_to FROM signals_payloads JOIN signals_segments USING (first_seq) ORDER BY first_seq LIMIT 1)
           AS received`,
    )
    .one();
  if (at_once === 1) return nowMs;
  const nextMs = Math.min(
    writing === null ? Number.POSITIVE_INFINITY : writing + COLD_ABANDONED_MS,
    unknown === null ? Number.POSITIVE_INFINITY : unknown + COLD_UNKNOWN_MS,
    received === null ? Number.POSITIVE_INFINITY : received + afterMs,
  );
  return nextMs === Number.POSITIVE_INFINITY ? null : nextMs;
}

/**
 * Moves the oldest payloads that are due into one object, those of one day at most, so that they are dropped together.
 *
 * @param afterMs how old they are then.
 * @throws when R2 does not answer.
 */
export async function moveToCold(work: ColdWork, nowMs: number, afterMs = COLD_AFTER_MS): Promise<void> {
  const { storage, log } = work;
  const due = dueRows(storage.sql, nowMs, afterMs);
  const packed: Packed[] = [];
  let bytes = 0;
  for (const firstSeq of due) {
    const payloads = log.packedPayloads(firstSeq);
    if (payloads === null) continue;
    packed.push({ firstSeq, bytes: new Uint8Array(payloads) });
    bytes += payloads.byteLength;
    if (bytes >= COLD_OBJECT_MAX_BYTES) break;
  }
  if (packed.length === 0) return;
  await writeObject(work, packed, (key) => {
    const isUnchanged = packed.every((one) => isEqual(log.packedPayloads(one.firstSeq), one.bytes));
    // Some of it must not be kept any more: the object is not used, and another is made of what is left.
    if (!isUnchanged) return false;
    placeAll(log, key, packed);
    return true;
  });
}

/**
 * Rewrites one object without the payloads that are kept no longer. Returns whether there was one.
 *
 * @throws when R2 does not answer.
 */
export async function scrubObject(work: ColdWork): Promise<boolean> {
  const { storage, log, objects } = work;
  const { sql } = storage;
  // The object is chosen at random: one that cannot be read holds up no other.
  const from = Math.floor(Math.random() * log.nextSeq);
  const [scrub] = [from, 0].flatMap((seq) =>
    sql
      .exec<{ first_seq: number }>(
        "SELECT first_seq FROM cold_scrubs WHERE first_seq >= ? ORDER BY first_seq LIMIT 1",
        seq,
      )
      .toArray(),
  );
  if (scrub === undefined) return false;
  const [asked] = log.rows("first_seq = ?", scrub.first_seq);
  const key = asked?.cold ?? null;
  if (key === null) {
    sql.exec("DELETE FROM cold_scrubs WHERE first_seq = ?", scrub.first_seq);
    return true;
  }
  const rows = rowsIn(work, key);
  const packed: Packed[] = [];
  const versions: number[] = [];
  for (const row of rows) {
    // oxlint-disable-next-line no-await-in-loop -- one at a time is little to hold in memory
    const bytes = await objects.read(key, row.cold_offset, row.cold_bytes);
    if (bytes === null) throw new Error("an object could not be read");
    // The segment's version as it is now: whether it changes while others are read is found out in the end.
    versions.push(log.sealed(row).version);
    packed.push({ firstSeq: row.first_seq, bytes: without(log, row, bytes) });
  }
  await writeObject(work, packed, (written) => {
    const now = rowsIn(work, key);
    const isSame = now.length === rows.length && now.every((row, index) => log.sealed(row).version === versions[index]);
    // More has been asked to be removed meanwhile, or some of it is gone: the new object is not used.
    if (!isSame) return false;
    placeAll(log, written, packed);
    sql.exec("UPDATE cold_objects SET state = 'removing' WHERE key = ?", key);
    for (const { firstSeq } of packed) sql.exec("DELETE FROM cold_scrubs WHERE first_seq = ?", firstSeq);
    return true;
  });
  return true;
}

/**
 * Removes objects that nobody needs; those whose writing broke off too, once none can be under way any more, and those that
 * are unknown since a restore, once nobody will undo it.
 *
 * @throws when R2 does not answer.
 */
export async function removeObjects({ storage, objects }: ColdWork, nowMs: number): Promise<void> {
  const { sql } = storage;
  sql.exec("UPDATE cold_objects SET state = 'removing' WHERE state = 'writing' AND at <= ?", nowMs - COLD_ABANDONED_MS);
  removeUnknown(sql, nowMs - COLD_UNKNOWN_MS);
  const gone = sql
    .exec<{ key: string }>("SELECT key FROM cold_objects WHERE state = 'removing' LIMIT ?", COLD_REMOVE_OBJECTS)
    .toArray()
    .map(({ key }) => key);
  if (gone.length === 0) return;
  await objects.remove(gone);
  for (const key of gone) sql.exec("DELETE FROM cold_objects WHERE key = ? AND state = 'removing'", key);
}

/** Has objects removed that are unknown since a restore before that time. */
export function removeUnknown(sql: SqlStorage, foundUntilMs: number): void {
  sql.exec("UPDATE cold_objects SET state = 'removing' WHERE state = 'unknown' AND at <= ?", foundUntilMs);
}

/**
 * Compares a restored store with R2. Objects that the store does not know are noted, to be removed later; lines whose object is
 * missing have lost their payloads, which is noted too, so that exports and deletions do not wait for them for ever.
 *
 * @throws when R2 does not answer.
 */
export async function compareWithR2({ storage, log, objects }: ColdWork, nowMs: number): Promise<void> {
  const { sql } = storage;
  const there = await objects.list();
  storage.transactionSync(() => {
    const known = sql
      .exec<{ key: string; state: string; at: number }>("SELECT key, state, at FROM cold_objects")
      .toArray();
    for (const { key, state, at } of known) {
      if (state === "stored" && at < nowMs && !there.has(key)) loseObject({ storage, log, objects }, key);
      there.delete(key);
    }
    for (const key of there) {
      sql.exec(
        "INSERT INTO cold_objects (key, state, at, first_seq, last_seq) VALUES (?, 'unknown', ?, 0, 0)",
        key,
        nowMs,
      );
    }
  });
}

function loseObject(work: ColdWork, key: string): void {
  const { sql } = work.storage;
  for (const { first_seq: firstSeq } of rowsIn(work, key)) {
    work.log.losePayloads(firstSeq);
    sql.exec("DELETE FROM cold_scrubs WHERE first_seq = ?", firstSeq);
  }
  sql.exec("UPDATE cold_objects SET state = 'removing' WHERE key = ?", key);
}

/** Writes an object. @param use puts it to use, in one transaction; false: it is not wanted any more. */
async function writeObject(
  { storage, objects }: ColdWork,
  packed: readonly Packed[],
  use: (key: string) => boolean,
): Promise<void> {
  const { sql } = storage;
  const nowMs = Date.now();
  const key = newId("cold", nowMs);
  const [first, last] = [packed[0]?.firstSeq ?? 0, packed.at(-1)?.firstSeq ?? 0];
  sql.exec(
    "INSERT INTO cold_objects (key, state, at, first_seq, last_seq) VALUES (?, 'writing', ?, ?, ?)",
    key,
    nowMs,
    first,
    last,
  );
  // The object is known for good before R2 hears of it, so that none is ever left over.
  await storage.sync();
  await objects.write(key, concatenated(packed));
  storage.transactionSync(() => {
    const known = sql.exec("SELECT 1 FROM cold_objects WHERE key = ? AND state = 'writing'", key).toArray();
    // The object was given up meanwhile, and is about to be removed.
    if (known.length === 0) return;
    const state = use(key) ? "stored" : "removing";
    sql.exec("UPDATE cold_objects SET state = ? WHERE key = ?", state, key);
  });
}

/** First lines of the segments that go together, the oldest first. */
function dueRows(sql: SqlStorage, nowMs: number, afterMs: number): number[] {
  const rows = sql
    .exec<{ first_seq: number; received_to: number }>(
      `SELECT first_seq, received_to FROM signals_payloads JOIN signals_segments USING (first_seq)
       ORDER BY first_seq LIMIT ?`,
      COLD_OBJECT_MAX_SEGMENTS,
    )
    .toArray();
  const dayOf = (ms: number): number => Math.floor(ms / DAY_MS);
  const [first] = rows;
  if (first === undefined || first.received_to > nowMs - afterMs) return [];
  return rows
    .filter(({ received_to: at }) => at <= nowMs - afterMs + COLD_TOGETHER_MS && dayOf(at) === dayOf(first.received_to))
    .map(({ first_seq: firstSeq }) => firstSeq);
}

function rowsIn({ storage, log }: ColdWork, key: string): SegmentRow[] {
  const [object] = storage.sql.exec<{ first_seq: number; last_seq: number }>(
    "SELECT first_seq, last_seq FROM cold_objects WHERE key = ?",
    key,
  );
  if (object === undefined) return [];
  return log.rows("first_seq BETWEEN ? AND ? AND cold = ? ORDER BY first_seq", object.first_seq, object.last_seq, key);
}

/** A segment's payloads that are kept, compressed again. */
function without(log: Log, row: SegmentRow, bytes: Uint8Array): Uint8Array {
  const { lines } = log.sealed(row);
  const kept = unpackPayloads(bytes, lines).map((payload, index) =>
    keepsPayload(lines.facts(index)) ? payload : null,
  );
  return packPayloads(kept, lines);
}

function placeAll(log: Log, key: string, packed: readonly Packed[]): void {
  let offset = 0;
  for (const { firstSeq, bytes } of packed) {
    log.movePayloads(firstSeq, { key, offset, bytes: bytes.length });
    offset += bytes.length;
  }
}

function concatenated(packed: readonly Packed[]): Uint8Array {
  const all = new Uint8Array(packed.reduce((sum, { bytes }) => sum + bytes.length, 0));
  let offset = 0;
  for (const { bytes } of packed) {
    all.set(bytes, offset);
    offset += bytes.length;
  }
  return all;
}

function isEqual(stored: ArrayBuffer | null, bytes: Uint8Array): boolean {
  return stored !== null && Buffer.compare(new Uint8Array(stored), bytes) === 0;
}

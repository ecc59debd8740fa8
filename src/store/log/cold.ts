/**
 * Cold storage (spec §6.1): payloads of old segments move to R2, many segments in one object. The segments' rows note the place. If
 * R2 does not answer, only this work waits. Every step may stop anywhere: the tables contain the remaining work, and each step reads
 * them again after R2 has answered.
 */
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { newId } from "../../platform/ids.ts";
import { errorText, logEvent } from "../../platform/log.ts";
import { within } from "../../platform/time-limit.ts";
import { keepsPayload } from "./line.ts";
import type { LinesOfSegment, Log } from "./log.ts";
import { packPayloads, unpackPayloads } from "./packing.ts";
import type { SegmentRow } from "../schema.ts";
import type { Segment } from "./segment.ts";

/** Linking, corrections and views mostly happen on the same day, and need payloads in the store. */
export const COLD_AFTER_MS = DAY_MS;
/** Objects removed by one alarm. R2 deletes up to 1,000 keys per call. */
const COLD_REMOVE_OBJECTS = 500;
/** An object whose write was interrupted is removed after this time: until then the write may still arrive. */
export const COLD_ABANDONED_MS = 15 * 60_000;
const COLD_OBJECT_MAX_BYTES = 2_000_000; // some 30,000 signals
const COLD_OBJECT_MAX_SEGMENTS = 128;
/** Payloads due within this time move too, so that a busy workspace writes at most one partly filled object an hour. */
const COLD_TOGETHER_MS = 3_600_000;
/** The platform opens at most six connections at a time. */
const COLD_READS_AT_ONCE = 6;
/** Neighbouring segments of an object are read together. */
const COLD_READ_MAX_BYTES = 4_000_000;
const COLD_TIMEOUT_MS = 10_000;

export interface ColdWork {
  storage: DurableObjectStorage;
  log: Log;
  objects: ColdObjects;
}

/** Objects of a workspace in R2: each has the packed payloads of many segments, one after the other. */
export class ColdObjects {
  readonly #bucket: R2Bucket;
  readonly workspaceId: string;

  constructor(bucket: R2Bucket, workspaceId: string) {
    this.#bucket = bucket;
    this.workspaceId = workspaceId;
  }

  /** @throws when R2 does not confirm the write. It may still happen. */
  async write(object: string, body: Uint8Array): Promise<void> {
    await within(COLD_TIMEOUT_MS, this.#bucket.put(this.#key(object), body));
  }

  /** Reads part of an object. Logs a failure and returns null. */
  async read(object: string, offset: number, length: number): Promise<Uint8Array | null> {
    try {
      const found = await within(COLD_TIMEOUT_MS, this.#bucket.get(this.#key(object), { range: { offset, length } }));
      if (found === null) throw new Error("it is not in the bucket");
      const bytes = new Uint8Array(await within(COLD_TIMEOUT_MS, found.arrayBuffer()));
      if (bytes.length !== length) throw new Error(`it has ${bytes.length} bytes instead of ${length}`);
      return bytes;
    } catch (error) {
      logEvent("cold_read_failed", { workspace: this.workspaceId, object, error: errorText(error) });
      return null;
    }
  }

  async list(): Promise<Set<string>> {
    const names = new Set<string>();
    const prefix = this.#key("");
    for (let cursor: string | undefined, more = true; more;) {
      const options = { prefix, ...(cursor === undefined ? {} : { cursor }) };
      // oxlint-disable-next-line no-await-in-loop -- each cursor comes from the answer before
      const page: R2Objects = await within(COLD_TIMEOUT_MS, this.#bucket.list(options));
      for (const { key } of page.objects) names.add(key.slice(prefix.length));
      more = page.truncated;
      cursor = page.truncated ? page.cursor : undefined;
    }
    return names;
  }

  /** @throws when R2 does not confirm that all objects are gone. */
  async remove(objects: readonly string[]): Promise<void> {
    await within(COLD_TIMEOUT_MS, this.#bucket.delete(objects.map((object) => this.#key(object))));
  }

  #key(object: string): string {
    return `cold/${this.workspaceId}/${object}`;
  }
}

/** Minimum age of payloads that move, in milliseconds. A store that is more than half full moves them at once. */
export function coldAfterMs(sql: SqlStorage, maxBytes: number): number {
  return sql.databaseSize > maxBytes / 2 ? 0 : COLD_AFTER_MS;
}

/** In milliseconds since 1970; null: nothing to do. */
export function nextColdWorkMs(sql: SqlStorage, nowMs: number, afterMs = COLD_AFTER_MS): number | null {
  const { at_once, writing, received } = sql
    .exec<{ at_once: number; writing: number | null; received: number | null }>(
      `SELECT EXISTS (SELECT 1 FROM cold_scrubs) OR EXISTS (SELECT 1 FROM cold_objects WHERE state = 'removing') AS at_once,
         (SELECT min(at) FROM cold_objects WHERE state = 'writing') AS writing,
         (SELECT received_to FROM signals_payloads JOIN signals_segments USING (first_seq) ORDER BY first_seq LIMIT 1)
           AS received`,
    )
    .one();
  const times = [
    at_once === 0 ? [] : nowMs,
    writing === null ? [] : writing + COLD_ABANDONED_MS,
    received === null ? [] : received + afterMs,
  ].flat();
  return times.length === 0 ? null : Math.min(...times);
}

/** Takes one step of all work in R2. @throws when R2 does not answer. */
export async function workOnCold(work: ColdWork, nowMs: number, afterMs = COLD_AFTER_MS): Promise<void> {
  // An object that can never be read must not keep payloads in a store that fills up: all three steps run.
  const failures: unknown[] = [];
  const failed = (error: unknown): void => void failures.push(error);
  await scrubObject(work).catch(failed);
  await removeObjects(work, nowMs).catch(failed);
  await moveToCold(work, nowMs, afterMs).catch(failed);
  if (failures.length > 0) throw failures[0];
}

interface PackedSegment {
  firstSeq: number;
  bytes: Uint8Array;
}

/** Moves the oldest due payloads into one object. They are of one day at most, so that retention drops them together. */
export async function moveToCold(work: ColdWork, nowMs: number, afterMs = COLD_AFTER_MS): Promise<void> {
  const { storage, log } = work;
  const packed: PackedSegment[] = [];
  let bytes = 0;
  for (const firstSeq of dueSegments(storage.sql, nowMs, afterMs)) {
    const payloads = log.packedPayloads(firstSeq);
    if (payloads === null) continue;
    packed.push({ firstSeq, bytes: new Uint8Array(payloads) });
    bytes += payloads.byteLength;
    if (bytes >= COLD_OBJECT_MAX_BYTES) break;
  }
  if (packed.length === 0) return;
  await writeObject(work, packed, (key) => {
    // If some payloads were deleted meanwhile, drop the object. The next step writes the rest.
    if (!packed.every((segment) => isEqual(log.packedPayloads(segment.firstSeq), segment.bytes))) return false;
    movePayloads(log, key, packed);
    return true;
  });
}

function dueSegments(sql: SqlStorage, nowMs: number, afterMs: number): number[] {
  const rows = sql
    .exec<{ first_seq: number; received_to: number }>(
      `SELECT first_seq, received_to FROM signals_payloads JOIN signals_segments USING (first_seq)
       ORDER BY first_seq LIMIT ?`,
      COLD_OBJECT_MAX_SEGMENTS,
    )
    .toArray();
  const [first] = rows;
  if (first === undefined || first.received_to > nowMs - afterMs) return [];
  return rows
    .filter(({ received_to: at }) => at <= nowMs - afterMs + COLD_TOGETHER_MS && dayOf(at) === dayOf(first.received_to))
    .map(({ first_seq: firstSeq }) => firstSeq);
}

/** Rewrites one object without deleted payloads. */
async function scrubObject(work: ColdWork): Promise<void> {
  const { storage, log, objects } = work;
  const { sql } = storage;
  const firstSeq = pickScrub(sql, log.nextSeq);
  if (firstSeq === null) return;
  const key = log.rows("first_seq = ?", firstSeq)[0]?.cold ?? null;
  if (key === null) return deleteScrub(sql, firstSeq);
  const rows = rowsOfObject(work, key);
  const packed: PackedSegment[] = [];
  const versions: number[] = [];
  for (const row of rows) {
    // oxlint-disable-next-line no-await-in-loop -- holds one segment in memory at a time
    const bytes = await objects.read(key, row.cold_offset, row.cold_bytes);
    if (bytes === null) throw new Error("an object could not be read");
    // Segments can change while the next segments are read, so the versions are compared at the end.
    versions.push(log.sealed(row).version);
    packed.push({ firstSeq: row.first_seq, bytes: withoutDeleted(log, row, bytes) });
  }
  await writeObject(work, packed, (newKey) => {
    const now = rowsOfObject(work, key);
    const isSame = now.length === rows.length && now.every((row, index) => log.sealed(row).version === versions[index]);
    // More payloads were deleted, or segments dropped, meanwhile: drop the new object.
    if (!isSame) return false;
    movePayloads(log, newKey, packed);
    removeLater(sql, key);
    for (const segment of packed) deleteScrub(sql, segment.firstSeq);
    return true;
  });
}

/** Picks a random segment, so that one unreadable object does not block the others. */
function pickScrub(sql: SqlStorage, nextSeq: number): number | null {
  for (const from of [Math.floor(Math.random() * nextSeq), 0]) {
    const [scrub] = sql.exec<{ first_seq: number }>(
      "SELECT first_seq FROM cold_scrubs WHERE first_seq >= ? ORDER BY first_seq LIMIT 1",
      from,
    );
    if (scrub !== undefined) return scrub.first_seq;
  }
  return null;
}

function withoutDeleted(log: Log, row: SegmentRow, bytes: Uint8Array): Uint8Array {
  const { lines } = log.sealed(row);
  const payloads = unpackPayloads(bytes, lines);
  return packPayloads(
    payloads.map((payload, index) => (keepsPayload(lines.facts(index)) ? payload : null)),
    lines,
  );
}

/** @param use stores the references to the object; returns false if the object is not wanted any more. */
async function writeObject(
  { storage, objects }: ColdWork,
  packed: readonly PackedSegment[],
  use: (key: string) => boolean,
): Promise<void> {
  const { sql } = storage;
  const nowMs = Date.now();
  const key = newId("cold", nowMs);
  sql.exec(
    "INSERT INTO cold_objects (key, state, at, first_seq, last_seq) VALUES (?, 'writing', ?, ?, ?)",
    key,
    nowMs,
    packed[0]?.firstSeq ?? 0,
    packed.at(-1)?.firstSeq ?? 0,
  );
  // The row must be durable before the write starts, so that no unknown object is left behind.
  await storage.sync();
  await objects.write(key, Buffer.concat(packed.map(({ bytes }) => bytes)));
  storage.transactionSync(() => {
    // The object may have been abandoned meanwhile, and is about to be removed.
    if (sql.exec("SELECT 1 FROM cold_objects WHERE key = ? AND state = 'writing'", key).toArray().length === 0) return;
    sql.exec("UPDATE cold_objects SET state = ? WHERE key = ?", use(key) ? "stored" : "removing", key);
  });
}

function movePayloads(log: Log, key: string, packed: readonly PackedSegment[]): void {
  let offset = 0;
  for (const { firstSeq, bytes } of packed) {
    log.movePayloads(firstSeq, { key, offset, bytes: bytes.length });
    offset += bytes.length;
  }
}

function isEqual(stored: ArrayBuffer | null, bytes: Uint8Array): boolean {
  return stored !== null && Buffer.compare(new Uint8Array(stored), bytes) === 0;
}

function rowsOfObject({ storage, log }: ColdWork, key: string): SegmentRow[] {
  const [object] = storage.sql.exec<{ first_seq: number; last_seq: number }>(
    "SELECT first_seq, last_seq FROM cold_objects WHERE key = ?",
    key,
  );
  if (object === undefined) return [];
  return log.rows("first_seq BETWEEN ? AND ? AND cold = ? ORDER BY first_seq", object.first_seq, object.last_seq, key);
}

async function removeObjects({ storage, objects }: ColdWork, nowMs: number): Promise<void> {
  const { sql } = storage;
  sql.exec("UPDATE cold_objects SET state = 'removing' WHERE state = 'writing' AND at <= ?", nowMs - COLD_ABANDONED_MS);
  const keys = sql
    .exec<{ key: string }>("SELECT key FROM cold_objects WHERE state = 'removing' LIMIT ?", COLD_REMOVE_OBJECTS)
    .toArray()
    .map(({ key }) => key);
  if (keys.length === 0) return;
  await objects.remove(keys);
  for (const key of keys) sql.exec("DELETE FROM cold_objects WHERE key = ? AND state = 'removing'", key);
}

function removeLater(sql: SqlStorage, key: string): void {
  sql.exec("UPDATE cold_objects SET state = 'removing' WHERE key = ?", key);
}

/** Marks objects without segments for removal. Must run in the transaction that drops the segments. */
export function removeUnusedObjects(sql: SqlStorage, keys: Iterable<string>): void {
  for (const key of new Set(keys)) {
    sql.exec(
      `UPDATE cold_objects SET state = 'removing' WHERE key = ?1 AND state = 'stored' AND NOT EXISTS
         (SELECT 1 FROM signals_segments WHERE signals_segments.first_seq BETWEEN cold_objects.first_seq
            AND cold_objects.last_seq AND cold = ?1)`,
      key,
    );
  }
}

/** Must run in the transaction that changes the facts. Returns how many objects had nothing to remove before. */
export function scrubCold(sql: SqlStorage, segments: Iterable<Pick<Segment, "firstSeq" | "coldObject">>): number {
  let objects = 0;
  for (const { firstSeq, coldObject } of segments) {
    if (coldObject === null) continue;
    // Search only the segments of this object: very many segments of other objects may be waiting.
    const requested = sql.exec(
      `SELECT 1 FROM cold_objects JOIN cold_scrubs
         ON cold_scrubs.first_seq BETWEEN cold_objects.first_seq AND cold_objects.last_seq
         JOIN signals_segments ON signals_segments.first_seq = cold_scrubs.first_seq WHERE key = ?1 AND cold = ?1 LIMIT 1`,
      coldObject,
    );
    if (requested.toArray().length === 0) objects++;
    sql.exec("INSERT OR IGNORE INTO cold_scrubs (first_seq) VALUES (?)", firstSeq);
  }
  return objects;
}

function deleteScrub(sql: SqlStorage, firstSeq: number): void {
  sql.exec("DELETE FROM cold_scrubs WHERE first_seq = ?", firstSeq);
}

/** Whether R2 may still have deleted payloads. */
export function isScrubbing(sql: SqlStorage): boolean {
  const { found } = sql
    .exec<{ found: number }>(
      `SELECT EXISTS (SELECT 1 FROM cold_scrubs) OR EXISTS (SELECT 1 FROM cold_objects WHERE state IN ('writing', 'removing')) AS found`,
    )
    .one();
  return found === 1;
}

/**
 * Marks lines whose object is missing in R2, so that exports and deletions do not wait for them for ever. Objects that the
 * store does not know stay. @returns the number of these lines. @throws when R2 does not answer.
 */
export async function compareWithR2(work: ColdWork, nowMs: number): Promise<number> {
  const { storage, objects } = work;
  const found = await objects.list();
  return storage.transactionSync(() => {
    const stored = storage.sql
      .exec<{ key: string }>("SELECT key FROM cold_objects WHERE state = 'stored' AND at < ?", nowMs)
      .toArray();
    const missing = stored.filter(({ key }) => !found.has(key));
    return missing.reduce((lines, { key }) => lines + markObjectLost(work, key), 0);
  });
}

function markObjectLost(work: ColdWork, key: string): number {
  const { sql } = work.storage;
  let lines = 0;
  for (const { first_seq: firstSeq, last_seq: lastSeq } of rowsOfObject(work, key)) {
    work.log.markPayloadsLost(firstSeq);
    deleteScrub(sql, firstSeq);
    lines += lastSeq - firstSeq + 1;
  }
  removeLater(sql, key);
  return lines;
}

/** Payloads by line number; null: the line has none. Lines that cannot be read now are missing. */
export type Payloads = ReadonlyMap<number, string | null>;

type Payload = readonly [seq: number, payload: string | null];

interface ColdLines extends LinesOfSegment {
  row: SegmentRow;
}

/** Never throws. */
export async function readPayloads(
  log: Log,
  objects: ColdObjects,
  wanted: Iterable<LinesOfSegment>,
): Promise<Payloads> {
  const payloads: Payload[] = [];
  const cold: ColdLines[] = [];
  for (const lines of wanted) {
    if (lines.seqs.length === 0) continue;
    const stored = log.payloadsOf(lines.segment);
    if (stored !== null) payloads.push(...pick(lines, stored));
    else if (lines.segment.row !== null) cold.push({ ...lines, row: lines.segment.row });
  }
  const reads = groupNeighbours(cold);
  while (reads.length > 0) {
    const batch = reads.splice(0, COLD_READS_AT_ONCE);
    // oxlint-disable-next-line no-await-in-loop -- limits the connections
    const found = await Promise.all(batch.map((group) => readCold(log, objects, group)));
    payloads.push(...found.flat());
  }
  return new Map(payloads);
}

function pick({ segment, seqs }: LinesOfSegment, payloads: readonly (string | null)[]): Payload[] {
  return seqs.map((seq) => [seq, payloads[seq - segment.firstSeq] ?? null] as const);
}

function groupNeighbours(cold: readonly ColdLines[]): ColdLines[][] {
  const groups: ColdLines[][] = [];
  let [object, from]: [string | null, number] = [null, 0];
  const sorted = cold.toSorted(
    (a, b) => (a.row.cold ?? "").localeCompare(b.row.cold ?? "") || a.row.cold_offset - b.row.cold_offset,
  );
  for (const lines of sorted) {
    const { cold: key, cold_offset: offset, cold_bytes: bytes } = lines.row;
    if (key === object && offset + bytes - from <= COLD_READ_MAX_BYTES) groups.at(-1)?.push(lines);
    else {
      groups.push([lines]);
      [object, from] = [key, offset];
    }
  }
  return groups;
}

async function readCold(log: Log, objects: ColdObjects, group: readonly ColdLines[]): Promise<Payload[]> {
  const from = Math.min(...group.map(({ row }) => row.cold_offset));
  const to = Math.max(...group.map(({ row }) => row.cold_offset + row.cold_bytes));
  const bytes = await objects.read(group[0]?.row.cold ?? "", from, to - from);
  if (bytes === null) {
    const payloads: Payload[] = [];
    // oxlint-disable-next-line no-await-in-loop -- rare, and limits the connections
    for (const lines of group) payloads.push(...(await readMoved(log, objects, lines)));
    return payloads;
  }
  return group.flatMap((lines) => {
    const start = lines.row.cold_offset - from;
    return pick(lines, unpackPayloads(bytes.subarray(start, start + lines.row.cold_bytes), lines.segment.lines));
  });
}

/** Tries once to read a segment that has moved to another object meanwhile. */
async function readMoved(log: Log, objects: ColdObjects, { segment, seqs, row }: ColdLines): Promise<Payload[]> {
  const now = log.segmentOf(segment.firstSeq);
  const place = now?.row ?? null;
  if (now === null || place === null || place.cold === null || place.cold === row.cold) return [];
  const bytes = await objects.read(place.cold, place.cold_offset, place.cold_bytes);
  return bytes === null ? [] : pick({ segment: now, seqs }, unpackPayloads(bytes, now.lines));
}

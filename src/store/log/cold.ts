/**
 * Cold storage (spec §6.1): payloads of old segments move to R2, many segments in one object. The segments' rows note the place. If
 * R2 does not answer, only this work waits. Every step may stop anywhere: the tables contain the remaining work, and each step reads
 * them again after R2 has answered.
 */
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { newId } from "../../platform/ids.ts";
import { errorText, logEvent } from "../../platform/log.ts";
import { within } from "../../platform/time-limit.ts";
import { packPayloads, unpackPayloads } from "./columns.ts";
import { keepsPayload } from "./line.ts";
import type { SegmentRow } from "./schema.ts";
import type { Segment, Segments } from "./segments.ts";

/** Linking and views mostly happen on the same day, and need payloads in the store. */
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
      const answer: R2Objects = await within(COLD_TIMEOUT_MS, this.#bucket.list(options));
      for (const { key } of answer.objects) names.add(key.slice(prefix.length));
      more = answer.truncated;
      cursor = answer.truncated ? answer.cursor : undefined;
    }
    return names;
  }

  /** @throws when R2 does not confirm that all objects are gone. */
  async remove(objects: readonly string[]): Promise<void> {
    await within(COLD_TIMEOUT_MS, this.#bucket.delete(objects.map((object) => this.#key(object))));
  }

  /** Removes the first objects, of up to 20 lists, exports included. @returns whether there are more. @throws as `remove`. */
  async removeFirst(): Promise<boolean> {
    const isMore = await this.#removeFirst(this.#key(""));
    return isMore || this.#removeFirst(`exports/${this.workspaceId}/`);
  }

  async #removeFirst(prefix: string): Promise<boolean> {
    for (let lists = 0; lists < 20; lists++) {
      // oxlint-disable-next-line no-await-in-loop -- lists what is left
      const { objects, truncated } = await within(COLD_TIMEOUT_MS, this.#bucket.list({ prefix }));
      const keys = objects.map(({ key }) => key);
      // oxlint-disable-next-line no-await-in-loop
      if (keys.length > 0) await within(COLD_TIMEOUT_MS, this.#bucket.delete(keys));
      if (!truncated) return false;
    }
    return true;
  }

  #key(object: string): string {
    return `cold/${this.workspaceId}/${object}`;
  }
}

/** When the last interrupted write has arrived, or never will; null: there is none. */
export function lastWriteMs(sql: SqlStorage): number | null {
  const { at } = sql
    .exec<{ at: number | null }>("SELECT max(at) AS at FROM cold_objects WHERE state = 'writing'")
    .one();
  return at === null ? null : at + COLD_ABANDONED_MS;
}

interface PackedSegment {
  firstSeq: number;
  bytes: Uint8Array;
}

interface SegmentLines {
  segment: Segment;
  seqs: readonly number[];
}

interface ColdLines extends SegmentLines {
  row: SegmentRow;
}

type Payload = readonly [seq: number, payload: string | null];

export interface ColdStorageOptions {
  objects: () => ColdObjects;
  /** Hears when `work` is due, in milliseconds since 1970. */
  announce: (atMs: number) => void;
  /** Then payloads move at once. */
  isHalfFull: () => boolean;
}

export class ColdStorage {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  readonly #segments: Segments;
  readonly #openObjects: () => ColdObjects;
  readonly #announce: (atMs: number) => void;
  readonly #isHalfFull: () => boolean;

  constructor(
    storage: DurableObjectStorage,
    segments: Segments,
    { objects, announce, isHalfFull }: ColdStorageOptions,
  ) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#segments = segments;
    this.#openObjects = objects;
    this.#announce = announce;
    this.#isHalfFull = isHalfFull;
  }

  get #objects(): ColdObjects {
    return this.#openObjects();
  }

  /** Minimum age of payloads that move, in milliseconds. A store that is more than half full moves them at once. */
  get #afterMs(): number {
    return this.#isHalfFull() ? 0 : COLD_AFTER_MS;
  }

  /** In milliseconds since 1970; null: nothing to do. */
  workMs(nowMs: number): number | null {
    const { at_once, writing, received } = this.#sql
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
      received === null ? [] : received + this.#afterMs,
    ].flat();
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Takes one step of all work in R2. @throws when R2 does not answer. */
  async work(nowMs: number): Promise<void> {
    // An object that can never be read must not keep payloads in a store that fills up: all three steps run.
    const failures: unknown[] = [];
    const failed = (error: unknown): void => void failures.push(error);
    await this.#clearObject().catch(failed);
    await this.#removeObjects(nowMs).catch(failed);
    await this.#move(nowMs).catch(failed);
    if (failures.length > 0) throw failures[0];
  }

  /** Moves the oldest due payloads into one object. They are of one day at most, so that retention drops them together. */
  async #move(nowMs: number): Promise<void> {
    const packed: PackedSegment[] = [];
    let bytes = 0;
    for (const firstSeq of this.#dueSegments(nowMs)) {
      const payloads = this.#segments.packedPayloads(firstSeq);
      if (payloads === null) continue;
      packed.push({ firstSeq, bytes: new Uint8Array(payloads) });
      bytes += payloads.byteLength;
      if (bytes >= COLD_OBJECT_MAX_BYTES) break;
    }
    if (packed.length === 0) return;
    await this.#write(packed, (key) => {
      // If some payloads were deleted meanwhile, drop the object. The next step writes the rest.
      if (!packed.every(({ firstSeq, bytes: moved }) => isEqual(this.#segments.packedPayloads(firstSeq), moved))) {
        return false;
      }
      this.#refer(key, packed);
      return true;
    });
  }

  #dueSegments(nowMs: number): number[] {
    const rows = this.#sql
      .exec<{ first_seq: number; received_to: number }>(
        `SELECT first_seq, received_to FROM signals_payloads JOIN signals_segments USING (first_seq)
         ORDER BY first_seq LIMIT ?`,
        COLD_OBJECT_MAX_SEGMENTS,
      )
      .toArray();
    const [first] = rows;
    const dueMs = nowMs - this.#afterMs;
    if (first === undefined || first.received_to > dueMs) return [];
    return rows
      .filter(({ received_to: at }) => at <= dueMs + COLD_TOGETHER_MS && dayOf(at) === dayOf(first.received_to))
      .map(({ first_seq: firstSeq }) => firstSeq);
  }

  /** Rewrites one object without deleted payloads. */
  async #clearObject(): Promise<void> {
    const firstSeq = this.#pickScrub();
    if (firstSeq === null) return;
    const key = this.#segments.rowOf(firstSeq)?.cold ?? null;
    if (key === null) return this.#deleteScrub(firstSeq);
    const rows = this.#rowsOfObject(key);
    const packed: PackedSegment[] = [];
    const versions: number[] = [];
    for (const row of rows) {
      // oxlint-disable-next-line no-await-in-loop -- holds one segment in memory at a time
      const bytes = await this.#objects.read(key, row.cold_offset, row.cold_bytes);
      if (bytes === null) throw new Error("an object could not be read");
      // Segments can change while the next segments are read, so the versions are compared at the end.
      const segment = this.#segments.of(row);
      versions.push(segment.version);
      packed.push({ firstSeq: row.first_seq, bytes: withoutDeleted(segment, bytes) });
    }
    await this.#write(packed, (newKey) => {
      const now = this.#rowsOfObject(key);
      const isSame =
        now.length === rows.length && now.every((row, index) => this.#segments.of(row).version === versions[index]);
      // More payloads were deleted, or segments dropped, meanwhile: drop the new object.
      if (!isSame) return false;
      this.#refer(newKey, packed);
      this.#removeLater(key);
      for (const segment of packed) this.#deleteScrub(segment.firstSeq);
      return true;
    });
  }

  /** Picks a random segment, so that one unreadable object does not block the others. */
  #pickScrub(): number | null {
    const { last } = this.#sql.exec<{ last: number | null }>("SELECT max(first_seq) AS last FROM cold_scrubs").one();
    if (last === null) return null;
    return this.#sql
      .exec<{ first_seq: number }>(
        "SELECT first_seq FROM cold_scrubs WHERE first_seq >= ? ORDER BY first_seq LIMIT 1",
        Math.floor(Math.random() * (last + 1)),
      )
      .one().first_seq;
  }

  /** @param use stores the references to the object; returns false if the object is not wanted any more. */
  async #write(packed: readonly PackedSegment[], use: (key: string) => boolean): Promise<void> {
    const nowMs = Date.now();
    const key = newId("cold", nowMs);
    this.#sql.exec(
      "INSERT INTO cold_objects (key, state, at, first_seq, last_seq) VALUES (?, 'writing', ?, ?, ?)",
      key,
      nowMs,
      packed[0]?.firstSeq ?? 0,
      packed.at(-1)?.firstSeq ?? 0,
    );
    // The row must be durable before the write starts, so that no unknown object is left behind.
    await this.#storage.sync();
    await this.#objects.write(key, Buffer.concat(packed.map(({ bytes }) => bytes)));
    this.#transact(() => {
      const writing = this.#sql.exec("SELECT 1 FROM cold_objects WHERE key = ? AND state = 'writing'", key);
      // The object may have been abandoned meanwhile, and is about to be removed.
      if (writing.toArray().length === 0) return;
      this.#sql.exec("UPDATE cold_objects SET state = ? WHERE key = ?", use(key) ? "stored" : "removing", key);
    });
  }

  /** Memory has the places of payloads too. */
  #transact<T>(act: () => T): T {
    try {
      return this.#storage.transactionSync(act);
    } catch (error) {
      this.#segments.forget();
      throw error;
    }
  }

  #refer(key: string, packed: readonly PackedSegment[]): void {
    let offset = 0;
    for (const { firstSeq, bytes } of packed) {
      this.#segments.movePayloads(firstSeq, { key, offset, bytes: bytes.length });
      offset += bytes.length;
    }
  }

  #rowsOfObject(key: string): SegmentRow[] {
    const [object] = this.#sql.exec<{ first_seq: number; last_seq: number }>(
      "SELECT first_seq, last_seq FROM cold_objects WHERE key = ?",
      key,
    );
    if (object === undefined) return [];
    const { first_seq: first, last_seq: last } = object;
    return this.#segments.rows("first_seq BETWEEN ? AND ? AND cold = ? ORDER BY first_seq", first, last, key);
  }

  async #removeObjects(nowMs: number): Promise<void> {
    this.#sql.exec(
      "UPDATE cold_objects SET state = 'removing' WHERE state = 'writing' AND at <= ?",
      nowMs - COLD_ABANDONED_MS,
    );
    const keys = this.#sql
      .exec<{ key: string }>("SELECT key FROM cold_objects WHERE state = 'removing' LIMIT ?", COLD_REMOVE_OBJECTS)
      .toArray()
      .map(({ key }) => key);
    if (keys.length === 0) return;
    await this.#objects.remove(keys);
    for (const key of keys) this.#sql.exec("DELETE FROM cold_objects WHERE key = ? AND state = 'removing'", key);
  }

  #removeLater(key: string): void {
    this.#sql.exec("UPDATE cold_objects SET state = 'removing' WHERE key = ?", key);
  }

  /**
   * Removes the object of a segment that was dropped, if no other segment has payloads there. If deleted payloads of the segment still wait
   * to be removed, another segment of the object waits instead.
   */
  removeIfUnused({ firstSeq, row }: Segment): void {
    if (row === null || row.cold === null) return;
    const waits = this.#sql.exec("DELETE FROM cold_scrubs WHERE first_seq = ? RETURNING first_seq", firstSeq).toArray();
    const isUsed = this.#segmentOfObject(row.cold) !== undefined;
    const before = isUsed ? "('stored')" : "('stored', 'gaps')";
    this.#sql.exec(
      `UPDATE cold_objects SET state = ? WHERE key = ? AND state IN ${before}`,
      isUsed ? "gaps" : "removing",
      row.cold,
    );
    if (waits.length > 0) this.#scrub(row.cold);
    this.#announce(0);
  }

  /** Lets `work` remove the payloads of dropped segments from objects that other segments use. */
  clearDropped(): void {
    const objects = this.#sql.exec<{ key: string }>("SELECT key FROM cold_objects WHERE state = 'gaps'").toArray();
    for (const { key } of objects) this.#scrub(key);
  }

  #scrub(key: string): void {
    const segment = this.#segmentOfObject(key);
    if (segment === undefined) return;
    this.#sql.exec("INSERT OR IGNORE INTO cold_scrubs (first_seq) VALUES (?)", segment.first_seq);
    this.#announce(0);
  }

  #segmentOfObject(key: string): { first_seq: number } | undefined {
    return this.#sql
      .exec<{ first_seq: number }>(
        `SELECT signals_segments.first_seq FROM cold_objects JOIN signals_segments
           ON signals_segments.first_seq BETWEEN cold_objects.first_seq AND cold_objects.last_seq AND cold = key
         WHERE key = ? LIMIT 1`,
        key,
      )
      .toArray()[0];
  }

  /** Lets `work` remove deleted payloads of a segment. Returns 1 if its object had nothing to remove before, else 0. */
  clear({ firstSeq, row }: Segment): number {
    if (row === null || row.cold === null) return 0;
    // Search only the segments of this object: very many segments of other objects may be waiting.
    const requested = this.#sql.exec(
      `SELECT 1 FROM cold_objects JOIN cold_scrubs
         ON cold_scrubs.first_seq BETWEEN cold_objects.first_seq AND cold_objects.last_seq
         JOIN signals_segments ON signals_segments.first_seq = cold_scrubs.first_seq WHERE key = ?1 AND cold = ?1 LIMIT 1`,
      row.cold,
    );
    const isFirst = requested.toArray().length === 0;
    this.#sql.exec("INSERT OR IGNORE INTO cold_scrubs (first_seq) VALUES (?)", firstSeq);
    this.#announce(0);
    return Number(isFirst);
  }

  #deleteScrub(firstSeq: number): void {
    this.#sql.exec("DELETE FROM cold_scrubs WHERE first_seq = ?", firstSeq);
  }

  /** Whether R2 may still have deleted payloads. */
  get isClearing(): boolean {
    const { found } = this.#sql
      .exec<{ found: number }>(
        `SELECT EXISTS (SELECT 1 FROM cold_scrubs) OR EXISTS (SELECT 1 FROM cold_objects WHERE state IN ('writing', 'removing')) AS found`,
      )
      .one();
    return found === 1;
  }

  /** Marks lines whose object is missing in R2. Objects that the store does not know stay. @throws when R2 does not answer. */
  async markLostPayloads(nowMs: number): Promise<number> {
    // An object whose write ends while R2 answers may be missing in the answer.
    const before = this.#storedObjects(nowMs);
    const found = await this.#objects.list();
    return this.#transact(() => {
      const stored = this.#storedObjects(nowMs);
      const missing = [...stored].filter((key) => before.has(key) && !found.has(key));
      return missing.reduce((lines, key) => lines + this.#markObjectLost(key), 0);
    });
  }

  #storedObjects(beforeMs: number): Set<string> {
    const rows = this.#sql.exec<{ key: string }>(
      "SELECT key FROM cold_objects WHERE state IN ('stored', 'gaps') AND at < ?",
      beforeMs,
    );
    return new Set([...rows].map(({ key }) => key));
  }

  #markObjectLost(key: string): number {
    let lines = 0;
    for (const { first_seq: firstSeq, last_seq: lastSeq } of this.#rowsOfObject(key)) {
      this.#segments.markPayloadsLost(firstSeq);
      this.#deleteScrub(firstSeq);
      lines += lastSeq - firstSeq + 1;
    }
    this.#removeLater(key);
    return lines;
  }

  /** Payloads of lines whose segments have their payloads in R2. Lines that cannot be read are missing. Never throws. */
  async read(wanted: readonly SegmentLines[]): Promise<Payload[]> {
    const payloads: Payload[] = [];
    const lines = wanted.flatMap(({ segment, seqs }) =>
      segment.row === null ? [] : { segment, seqs, row: segment.row },
    );
    const reads = groupNeighbours(lines);
    while (reads.length > 0) {
      const batch = reads.splice(0, COLD_READS_AT_ONCE);
      // oxlint-disable-next-line no-await-in-loop -- limits the connections
      const found = await Promise.all(batch.map((group) => this.#readGroup(group)));
      payloads.push(...found.flat());
    }
    return payloads;
  }

  async #readGroup(group: readonly ColdLines[]): Promise<Payload[]> {
    const from = Math.min(...group.map(({ row }) => row.cold_offset));
    const to = Math.max(...group.map(({ row }) => row.cold_offset + row.cold_bytes));
    const bytes = await this.#objects.read(group[0]?.row.cold ?? "", from, to - from);
    if (bytes === null) {
      const payloads: Payload[] = [];
      // oxlint-disable-next-line no-await-in-loop -- rare, and limits the connections
      for (const lines of group) payloads.push(...(await this.#readMoved(lines)));
      return payloads;
    }
    return group.flatMap((lines) => {
      const start = lines.row.cold_offset - from;
      return unpack(bytes.subarray(start, start + lines.row.cold_bytes), lines);
    });
  }

  /** Tries once to read a segment that has moved to another object meanwhile. */
  async #readMoved({ segment, seqs, row }: ColdLines): Promise<Payload[]> {
    const place = this.#segments.rowOf(segment.firstSeq);
    if (place === null || place.cold === null || place.cold === row.cold) return [];
    const now = this.#segments.of(place);
    const bytes = await this.#objects.read(place.cold, place.cold_offset, place.cold_bytes);
    return bytes === null ? [] : unpack(bytes, { segment: now, seqs });
  }
}

function withoutDeleted({ lines }: Segment, bytes: Uint8Array): Uint8Array {
  const payloads = unpackPayloads(bytes, lines);
  return packPayloads(
    payloads.map((payload, index) => (keepsPayload(lines.facts(index)) ? payload : null)),
    lines,
  );
}

function isEqual(stored: ArrayBuffer | null, bytes: Uint8Array): boolean {
  return stored !== null && Buffer.compare(new Uint8Array(stored), bytes) === 0;
}

function unpack(bytes: Uint8Array, { segment: { firstSeq, lines }, seqs }: SegmentLines): Payload[] {
  const indexes = seqs.map((seq) => seq - firstSeq);
  const payloads = unpackPayloads(bytes, lines, indexes);
  return seqs.map((seq, at) => [seq, payloads[at] ?? null] as const);
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

/**
 * Which signals others are duplicates of (design §8.2), by their content hashes. What was recorded lately is in memory, in
 * open-addressing tables that are built when the store first records; what lies further back is looked for on disk, and
 * only for signals that come late or again. A hit in memory is proved on the hash that the log keeps: memory may be wrong,
 * or hold what a transaction took back.
 *
 * The tables come in generations, so that what is old leaves with the one it is in: a day of signals with an id of their
 * own, ten minutes of others.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS, DUPLICATE_WINDOW_WITHOUT_ID_MS } from "../../limits.ts";
import { type Facts, isOriginal } from "./line.ts";
import type { Log } from "./log.ts";
import { HASH_BYTES, type Segment } from "./segment.ts";

/** What is received longer ago than this when it is recorded has its duplicates looked for on disk, not in memory. */
const LATE_AFTER_MS = 3_600_000;
/** Memory of duplicates, of all workspaces of an isolate: a third of its 128 MB, some 3.6 million signals. */
const ORIGINALS_MAX_BYTES = 40 * 1024 * 1024;

const LONG = 0x80;
const BASE64URL = { alphabet: "base64url" } as const;
/** Characters of a content hash in base64url that are at least HASH_BYTES. */
const HASH_CHARACTERS = Math.ceil(HASH_BYTES / 3) * 4;

/** What is looked for: a signal that may be a duplicate. */
export interface Candidate {
  hash: Uint8Array;
  receivedAtMs: number;
  windowMs: number;
  /** Whether the signal comes once more, released or replayed, long after its receipt. */
  again: boolean;
}

export interface Original {
  seq: number;
  id: string;
}

/** The bytes of a content hash that are kept. Those of a long window never equal those of a short one. */
export function hashBytes(contentHash: string, windowMs: number): Uint8Array {
  const bytes = Uint8Array.fromBase64(contentHash.slice(0, HASH_CHARACTERS), BASE64URL).slice(0, HASH_BYTES);
  const [first = 0] = bytes;
  bytes[0] = windowMs > DUPLICATE_WINDOW_WITHOUT_ID_MS ? first | LONG : first & ~LONG;
  return bytes;
}

/** The originals of all workspaces in this isolate, so that together they do not take more memory than there is. */
let everyone: WeakRef<Originals>[] = [];

function bytesOfAll(): number {
  everyone = everyone.filter((one) => one.deref() !== undefined);
  return everyone.reduce((sum, one) => sum + (one.deref()?.bytes ?? 0), 0);
}

export class Originals {
  readonly #log: Log;
  #long: FingerprintTable[] | null = null;
  #short: FingerprintTable[] = [];
  /** Signals received from this time on are in memory; it is later than it should be where memory was short. */
  #coveredSinceMs = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  get bytes(): number {
    return [...(this.#long ?? []), ...this.#short].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** How far back signals with an id of their own are compared, in milliseconds; less than the window where memory is short. */
  coveredMs(nowMs: number): number {
    return Math.min(DUPLICATE_WINDOW_WITH_ID_MS, nowMs - this.#coveredSinceMs);
  }

  /** Notes an original. To be called for each line that was appended with a hash. */
  add(hash: Uint8Array, seq: number, nowMs: number): void {
    if (this.#long === null) return;
    const isLong = ((hash[0] ?? 0) & LONG) !== 0;
    const tables = isLong ? this.#long : this.#short;
    const everyMs = isLong ? DAY_MS : DUPLICATE_WINDOW_WITHOUT_ID_MS;
    const keptMs = LATE_AFTER_MS + (isLong ? DUPLICATE_WINDOW_WITH_ID_MS : DUPLICATE_WINDOW_WITHOUT_ID_MS);
    let last = tables.at(-1);
    if (last === undefined || nowMs - last.beganAtMs >= everyMs || (last.isFull && last.isLargest)) {
      // What the first table holds is no older than the beginning of the second.
      while (tables[1] !== undefined && tables[1].beganAtMs < nowMs - keptMs) tables.shift();
      last = new FingerprintTable(nowMs, seq);
      tables.push(last);
    }
    if (last.isFull) this.#makeRoom(last.bytes, nowMs);
    last.add(fingerprintOf(hash), seq);
  }

  /**
   * For each candidate the original that it is a duplicate of, by number; what is recorded in the same batch is not known
   * here.
   */
  find(candidates: readonly Candidate[], nowMs: number): (Original | null)[] {
    this.#build(nowMs);
    const onDisk = this.#findOnDisk(candidates, nowMs);
    const tables = [...(this.#long ?? []), ...this.#short];
    return candidates.map((candidate) => {
      const fingerprint = fingerprintOf(candidate.hash);
      const seqs = tables.flatMap((table) => table.find(fingerprint));
      for (const seq of seqs.sort((one, other) => one - other)) {
        const original = this.#prove(candidate, seq);
        if (original !== null) return original;
      }
      return onDisk.get(candidate) ?? null;
    });
  }

  #prove(candidate: Candidate, seq: number): Original | null {
    const segment = this.#log.segmentOf(seq);
    if (segment === null) return null;
    const at = (seq - segment.firstSeq) * HASH_BYTES;
    const hash = this.#log.hashesOf(segment.firstSeq).subarray(at, at + HASH_BYTES);
    return isSame(hash, candidate.hash) ? originalIn(segment, seq, candidate) : null;
  }

  /** Originals of candidates that come so late, or again, that their twins may have left memory. */
  #findOnDisk(candidates: readonly Candidate[], nowMs: number): Map<Candidate, Original> {
    const found = new Map<Candidate, Original>();
    const late = candidates.filter(({ again, receivedAtMs }) => again || nowMs - receivedAtMs > LATE_AFTER_MS);
    // Each window by itself: a long one looks at what memory does not reach, a short one at its minutes, and what lies
    // between them are the hashes of days.
    for (const [windowMs, alike] of Map.groupBy(late, (candidate) => candidate.windowMs)) {
      this.#findWithin(windowMs, alike, nowMs, found);
    }
    return found;
  }

  /** Looks on disk for originals of candidates of the same window. */
  #findWithin(windowMs: number, late: readonly Candidate[], nowMs: number, found: Map<Candidate, Original>): void {
    const byFingerprint = Map.groupBy(late, ({ hash }) => fingerprintOf(hash));
    const received = late.map(({ receivedAtMs }) => receivedAtMs);
    const latest = received.reduce((one, other) => Math.max(one, other)) + windowMs;
    // Signals with an id of their own that were received since this time are in memory.
    const rememberedMs = Math.max(this.#coveredSinceMs, nowMs - DUPLICATE_WINDOW_WITH_ID_MS - LATE_AFTER_MS);
    const from = received.reduce((one, other) => Math.min(one, other)) - windowMs;
    const to = windowMs > DUPLICATE_WINDOW_WITHOUT_ID_MS ? Math.min(latest, rememberedMs) : latest;
    for (const { firstSeq, hashes } of this.#log.hashesReceived(from, to)) {
      for (let at = 0; at < hashes.length; at += HASH_BYTES) {
        const hash = hashes.subarray(at, at + HASH_BYTES);
        for (const candidate of byFingerprint.get(fingerprintOf(hash)) ?? []) {
          if (found.has(candidate) || !isSame(hash, candidate.hash)) continue;
          const seq = firstSeq + at / HASH_BYTES;
          const segment = this.#log.segmentOf(seq);
          const original = segment && originalIn(segment, seq, candidate);
          if (original !== null) found.set(candidate, original);
        }
      }
    }
  }

  /** Fills the tables from what is on disk, once after a start. */
  #build(nowMs: number): void {
    if (this.#long !== null) return;
    this.#long = [];
    this.#coveredSinceMs = nowMs - DUPLICATE_WINDOW_WITH_ID_MS - LATE_AFTER_MS;
    everyone.push(new WeakRef(this));
    for (const { firstSeq, receivedToMs, hashes } of this.#log.hashesReceived(this.#coveredSinceMs)) {
      const shortToo = receivedToMs >= nowMs - DUPLICATE_WINDOW_WITHOUT_ID_MS - LATE_AFTER_MS;
      // A hash counts as added when its segment was last received; never in the future, where a wrong clock may have put
      // that.
      const addedAtMs = Math.min(nowMs, receivedToMs);
      for (let at = 0; at < hashes.length; at += HASH_BYTES) {
        const hash = hashes.subarray(at, at + HASH_BYTES);
        const [first = 0] = hash;
        if (isNone(hash) || (!shortToo && (first & LONG) === 0)) continue;
        this.add(hash, firstSeq + at / HASH_BYTES, addedAtMs);
      }
    }
  }

  /** Makes room before a table of so many bytes doubles: where there is none, the oldest table is forgotten. */
  #makeRoom(bytes: number, nowMs: number): void {
    while (bytesOfAll() + bytes > ORIGINALS_MAX_BYTES) {
      const tables = (this.#long?.length ?? 0) > 1 ? this.#long : this.#short;
      if (tables === null || tables.length <= 1) return;
      tables.shift();
      if (tables === this.#long) this.#coveredSinceMs = tables[0]?.beganAtMs ?? nowMs;
    }
  }
}

function originalIn(segment: Segment, seq: number, { receivedAtMs, windowMs }: Candidate): Original | null {
  const facts: Facts = segment.facts(seq);
  const isNear = Math.abs(facts.admission.receivedAtMs - receivedAtMs) <= windowMs;
  return isNear && isOriginal(facts) ? { seq, id: facts.admission.id } : null;
}

/**
 * The fingerprint of a hash: never 0, which marks a free slot, and without the first byte, which says how long the window
 * is.
 */
function fingerprintOf(hash: Uint8Array): number {
  const [, one = 0, two = 0, three = 0, four = 0] = hash;
  return (one | (two << 8) | (three << 16) | (four << 24)) >>> 0 || 1;
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  for (let at = 0; at < HASH_BYTES; at++) if (one[at] !== other[at]) return false;
  return true;
}

function isNone(hash: Uint8Array): boolean {
  for (let at = 0; at < HASH_BYTES; at++) if (hash[at] !== 0) return false;
  return true;
}

// Fingerprints of hashes, and the lines that have them: a table with open addresses, that grows until it is the largest.

/** Slots, of 8 bytes each, that one table of the memory of duplicates may have. */
const ORIGINALS_MAX_SLOTS = 2 ** 21;
const FEWEST_SLOTS = 1_024;
const MOST_FULL = 0.7;
/** Nearly nothing that is looked for is there, so that nothing is made for it. */
const NONE: readonly number[] = [];

export class FingerprintTable {
  readonly beganAtMs: number;
  readonly #baseSeq: number;
  /**
   * Two numbers a slot: the fingerprint, 0 where the slot is free, and how far the line's number is from `baseSeq`, in
   * either direction.
   */
  #slots = new Uint32Array(FEWEST_SLOTS * 2);
  #used = 0;

  constructor(beganAtMs: number, baseSeq: number) {
    this.beganAtMs = beganAtMs;
    this.#baseSeq = baseSeq;
  }

  get bytes(): number {
    return this.#slots.byteLength;
  }

  /** Whether the next hash makes the table grow. */
  get isFull(): boolean {
    return this.#used >= (this.#slots.length / 2) * MOST_FULL;
  }

  get isLargest(): boolean {
    return this.#slots.length / 2 >= ORIGINALS_MAX_SLOTS;
  }

  add(fingerprint: number, seq: number): void {
    if (this.isFull) this.#grow();
    this.#put(fingerprint, seq - this.#baseSeq);
  }

  /** Numbers of the lines that have a fingerprint. */
  find(fingerprint: number): readonly number[] {
    const mask = this.#slots.length / 2 - 1;
    let seqs = NONE;
    for (let slot = fingerprint & mask; ; slot = (slot + 1) & mask) {
      const found = this.#slots[slot * 2];
      if (found === 0 || found === undefined) return seqs;
      // The distance is signed: where the first line was taken back, others may have come before its number.
      if (found === fingerprint) seqs = [...seqs, this.#baseSeq + ((this.#slots[slot * 2 + 1] ?? 0) | 0)];
    }
  }

  #put(fingerprint: number, offset: number): void {
    const mask = this.#slots.length / 2 - 1;
    let slot = fingerprint & mask;
    while (this.#slots[slot * 2] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot * 2] = fingerprint;
    this.#slots[slot * 2 + 1] = offset;
    this.#used++;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(before.length * 2);
    this.#used = 0;
    for (let at = 0; at < before.length; at += 2) {
      const fingerprint = before[at] ?? 0;
      if (fingerprint !== 0) this.#put(fingerprint, before[at + 1] ?? 0);
    }
  }
}

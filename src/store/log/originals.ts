/**
 * Finds the original of a duplicate by content hash. Recent hashes are in memory, in hash tables that are built when the
 * store first records. Older hashes are read from disk, only for signals that arrive late or are resent. A hit in memory is checked
 * against the log, because memory can hold hashes of a rolled-back transaction.
 *
 * Tables have generations, so that old hashes leave with their table: a day for signals with an id, ten minutes for others.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS, DUPLICATE_WINDOW_WITHOUT_ID_MS } from "../../limits.ts";
import { type SignalFacts, isOriginal } from "./line.ts";
import type { Segment, SegmentHashes } from "./segments.ts";
import { HASH_BYTES, LONG_WINDOW } from "../../domain/signal/canonical-form.ts";
import { type DuplicateCandidate, type Original } from "./signal-log.ts";

/** Duplicates of signals received longer ago are searched on disk too. */
const LATE_AFTER_MS = 3_600_000;
/** For all workspaces of an isolate: a third of its 128 MB, some 3.6 million signals. */
const ORIGINALS_MAX_BYTES = 40 * 1024 * 1024;

/** The hashes that the log stores. */
interface HashSource {
  segmentOf(seq: number): Segment | null;
  /** HASH_BYTES for each line of a segment. */
  hashesOf(firstSeq: number): Uint8Array;
  /** The hashes of segments with lines received in a time range, and of all open lines. */
  hashesReceived(fromMs: number, toMs: number): Iterable<SegmentHashes>;
}

type IsKept = (facts: SignalFacts) => boolean;

let instances: WeakRef<Originals>[] = [];

function bytesOfAll(): number {
  instances = instances.filter((instance) => instance.deref() !== undefined);
  return instances.reduce((sum, instance) => sum + (instance.deref()?.bytes ?? 0), 0);
}

export class Originals {
  readonly #log: HashSource;
  #long: FingerprintTable[] | null = null;
  #short: FingerprintTable[] = [];
  /** Signals received from this time on are in memory. Later than the window needs if memory was short. */
  #coveredSinceMs = 0;

  constructor(log: HashSource) {
    this.#log = log;
  }

  get bytes(): number {
    return [...(this.#long ?? []), ...this.#short].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get coveredSinceMs(): number {
    return this.#coveredSinceMs;
  }

  /** Call this for each line that is appended with a hash. */
  add(hash: Uint8Array, seq: number, nowMs: number): void {
    if (this.#long === null) return;
    const isLong = ((hash[0] ?? 0) & LONG_WINDOW) !== 0;
    const tables = isLong ? this.#long : this.#short;
    const everyMs = isLong ? DAY_MS : DUPLICATE_WINDOW_WITHOUT_ID_MS;
    const keptMs = LATE_AFTER_MS + (isLong ? DUPLICATE_WINDOW_WITH_ID_MS : DUPLICATE_WINDOW_WITHOUT_ID_MS);
    let last = tables.at(-1);
    if (last === undefined || nowMs - last.beganAtMs >= everyMs || (last.isFull && last.isLargest)) {
      // All hashes of the first table are older than the start of the second table.
      while (tables[1] !== undefined && tables[1].beganAtMs < nowMs - keptMs) tables.shift();
      last = new FingerprintTable(nowMs, seq);
      tables.push(last);
    }
    if (last.isFull) this.#makeRoom(last.bytes, nowMs);
    last.add(fingerprintOf(hash), seq);
  }

  /** Does not know signals of the same batch. @param isKept false: the line is no original. */
  find(candidates: readonly DuplicateCandidate[], nowMs: number, isKept: IsKept = () => true): (Original | null)[] {
    this.#build(nowMs);
    const onDisk = this.#findOnDisk(candidates, nowMs, isKept);
    const tables = [...(this.#long ?? []), ...this.#short];
    return candidates.map((candidate) => {
      const fingerprint = fingerprintOf(candidate.hash);
      for (const seq of tables.flatMap((table) => table.find(fingerprint))) {
        const original = this.#confirm(candidate, seq, isKept);
        if (original !== null) return original;
      }
      return onDisk.get(candidate) ?? null;
    });
  }

  #confirm(candidate: DuplicateCandidate, seq: number, isKept: IsKept): Original | null {
    const segment = this.#log.segmentOf(seq);
    if (segment === null) return null;
    const at = (seq - segment.firstSeq) * HASH_BYTES;
    const hash = this.#log.hashesOf(segment.firstSeq).subarray(at, at + HASH_BYTES);
    return isSame(hash, candidate.hash) ? originalIn(segment, seq, candidate, isKept) : null;
  }

  /** Originals of late or resent candidates may have left memory. */
  #findOnDisk(
    candidates: readonly DuplicateCandidate[],
    nowMs: number,
    isKept: IsKept,
  ): Map<DuplicateCandidate, Original> {
    const found = new Map<DuplicateCandidate, Original>();
    const late = candidates.filter(({ isResent, receivedAtMs }) => isResent || nowMs - receivedAtMs > LATE_AFTER_MS);
    // One search for both windows would also read the days between their ranges.
    for (const [windowMs, sameWindow] of Map.groupBy(late, (candidate) => candidate.windowMs)) {
      this.#findWithin(windowMs, sameWindow, nowMs, { found, isKept });
    }
    return found;
  }

  #findWithin(
    windowMs: number,
    late: readonly DuplicateCandidate[],
    nowMs: number,
    { found, isKept }: { found: Map<DuplicateCandidate, Original>; isKept: IsKept },
  ): void {
    const byFingerprint = Map.groupBy(late, ({ hash }) => fingerprintOf(hash));
    const received = late.map(({ receivedAtMs }) => receivedAtMs);
    const latest = received.reduce((a, b) => Math.max(a, b)) + windowMs;
    // Signals with an id that were received since this time are in memory.
    const rememberedMs = Math.max(this.#coveredSinceMs, nowMs - DUPLICATE_WINDOW_WITH_ID_MS - LATE_AFTER_MS);
    const from = received.reduce((a, b) => Math.min(a, b)) - windowMs;
    const to = windowMs > DUPLICATE_WINDOW_WITHOUT_ID_MS ? Math.min(latest, rememberedMs) : latest;
    for (const { firstSeq, hashes } of this.#log.hashesReceived(from, to)) {
      for (let at = 0; at < hashes.length; at += HASH_BYTES) {
        const hash = hashes.subarray(at, at + HASH_BYTES);
        for (const candidate of byFingerprint.get(fingerprintOf(hash)) ?? []) {
          if (found.has(candidate) || !isSame(hash, candidate.hash)) continue;
          const seq = firstSeq + at / HASH_BYTES;
          const segment = this.#log.segmentOf(seq);
          const original = segment && originalIn(segment, seq, candidate, isKept);
          if (original !== null) found.set(candidate, original);
        }
      }
    }
  }

  #build(nowMs: number): void {
    if (this.#long !== null) return;
    this.#long = [];
    this.#coveredSinceMs = nowMs - DUPLICATE_WINDOW_WITH_ID_MS - LATE_AFTER_MS;
    instances.push(new WeakRef(this));
    for (const { firstSeq, receivedToMs, hashes } of this.#log.hashesReceived(
      this.#coveredSinceMs,
      Number.MAX_SAFE_INTEGER,
    )) {
      const includesShort = receivedToMs >= nowMs - DUPLICATE_WINDOW_WITHOUT_ID_MS - LATE_AFTER_MS;
      // Uses the segment's received time for each hash. With a wrong clock it may be in the future.
      const addedAtMs = Math.min(nowMs, receivedToMs);
      for (let at = 0; at < hashes.length; at += HASH_BYTES) {
        const hash = hashes.subarray(at, at + HASH_BYTES);
        const [first = 0] = hash;
        if (hash.every((byte) => byte === 0) || (!includesShort && (first & LONG_WINDOW) === 0)) continue;
        this.add(hash, firstSeq + at / HASH_BYTES, addedAtMs);
      }
    }
  }

  /** Drops the oldest tables until a table of this size can double. */
  #makeRoom(bytes: number, nowMs: number): void {
    while (bytesOfAll() + bytes > ORIGINALS_MAX_BYTES) {
      const tables = (this.#long?.length ?? 0) > 1 ? this.#long : this.#short;
      if (tables === null || tables.length <= 1) return;
      tables.shift();
      if (tables === this.#long) this.#coveredSinceMs = tables[0]?.beganAtMs ?? nowMs;
    }
  }
}

function originalIn(
  segment: Segment,
  seq: number,
  { receivedAtMs, windowMs }: DuplicateCandidate,
  isKept: IsKept,
): Original | null {
  const facts: SignalFacts = segment.facts(seq);
  const isNear = Math.abs(facts.admission.receivedAtMs - receivedAtMs) <= windowMs;
  return isNear && isOriginal(facts) && isKept(facts) ? { seq, id: facts.admission.id } : null;
}

/** Never 0, which marks a free slot. Leaves out the first byte, which has the LONG_WINDOW bit. */
function fingerprintOf(hash: Uint8Array): number {
  const [, b1 = 0, b2 = 0, b3 = 0, b4 = 0] = hash;
  return (b1 | (b2 << 8) | (b3 << 16) | (b4 << 24)) >>> 0 || 1;
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  for (let at = 0; at < HASH_BYTES; at++) if (a[at] !== b[at]) return false;
  return true;
}

/** A slot has 8 bytes. */
const ORIGINALS_MAX_SLOTS = 2 ** 21;
const MIN_SLOTS = 1_024;
const MAX_LOAD = 0.7;

/** Open addressing: fingerprint → line numbers. */
export class FingerprintTable {
  readonly beganAtMs: number;
  readonly #baseSeq: number;
  /** Two numbers a slot: the fingerprint, 0 for a free slot, and the signed distance of the line from `baseSeq`. */
  #slots = new Uint32Array(MIN_SLOTS * 2);
  #used = 0;

  constructor(beganAtMs: number, baseSeq: number) {
    this.beganAtMs = beganAtMs;
    this.#baseSeq = baseSeq;
  }

  get bytes(): number {
    return this.#slots.byteLength;
  }

  get isFull(): boolean {
    return this.#used >= (this.#slots.length / 2) * MAX_LOAD;
  }

  get isLargest(): boolean {
    return this.#slots.length / 2 >= ORIGINALS_MAX_SLOTS;
  }

  add(fingerprint: number, seq: number): void {
    if (this.isFull) this.#grow();
    this.#put(fingerprint, seq - this.#baseSeq);
  }

  find(fingerprint: number): readonly number[] {
    const mask = this.#slots.length / 2 - 1;
    const seqs: number[] = [];
    for (let slot = fingerprint & mask; ; slot = (slot + 1) & mask) {
      const found = this.#slots[slot * 2];
      if (found === 0 || found === undefined) return seqs;
      // The distance is signed: after a rollback of the first line, later lines can have lower numbers.
      if (found === fingerprint) seqs.push(this.#baseSeq + ((this.#slots[slot * 2 + 1] ?? 0) | 0));
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

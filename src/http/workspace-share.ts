/**
 * The share of an isolate that one workspace may use. All its keys, API tokens and members are one holder, so a hundred keys weigh as much
 * as one. Callers without a valid key or session are one holder too.
 */
import type { Described } from "../domain/keys/rejection.ts";
import {
  FULL_BUCKET,
  type RateBucket,
  type RateDecision,
  type RequestRate,
  REQUEST_BODY_BYTES,
  REQUEST_SIGNALS,
  takeRequest,
} from "../domain/quota/request-rate.ts";
import { Lru } from "../platform/lru.ts";

/** All callers without a valid key, token or session. Other holders are the ids of workspaces. */
export const STRANGERS = "strangers";
/** The operator token. Nothing is charged to it; its large bodies wait for each other. */
export const OPERATOR_HOLDER = "operator";

// --- Shares of holders ---

/** The capacity of an isolate, in units of any kind. */
interface Capacity {
  perSecond: number;
  /** Units that the holders may use at once, all together. */
  burst: number;
}

/**
 * Shares a capacity of an isolate among the holders that use it at the moment. A holder alone has all of it; among `n` holders each has
 * one part in `n`. So no holder takes the capacity from others. Requests share it, so it is plain data.
 */
export class FairShare {
  readonly #burstOfEach: number;
  /** Units that each holder has used and not paid off. Holders without debt are absent. */
  readonly #debts = new Map<string, number>();
  #paidOffUntilMs = 0;

  /** @param burstOfEach units that each holder may use at once, however many there are. */
  constructor(burstOfEach: number) {
    this.#burstOfEach = burstOfEach;
  }

  /** Milliseconds until the holder may use the capacity again; 0: now. A use may exceed the rest of the capacity. */
  waitMs(holder: string, nowMs: number, { perSecond, burst }: Capacity): number {
    this.#payOff(nowMs, perSecond);
    const debt = this.#debts.get(holder);
    if (debt === undefined) return 0;
    const excess = debt - Math.max(burst / this.#debts.size, this.#burstOfEach);
    return excess < 0 ? 0 : Math.max(1, (1_000 * excess * this.#debts.size) / perSecond);
  }

  /** @param units negative: a charge that was too high. */
  charge(holder: string, units: number, nowMs: number, { perSecond }: Capacity): void {
    this.#payOff(nowMs, perSecond);
    const debt = (this.#debts.get(holder) ?? 0) + units;
    if (debt <= 0) this.#debts.delete(holder);
    else this.#debts.set(holder, debt);
  }

  /** If the clock was set back, no time counts as passed. */
  #payOff(nowMs: number, perSecond: number): void {
    let units = (Math.max(0, nowMs - this.#paidOffUntilMs) * perSecond) / 1_000;
    this.#paidOffUntilMs = nowMs;
    if (units === 0) return;
    // A holder that needs less than its part leaves the rest to the others.
    for (const [holder, debt] of [...this.#debts].sort(([, a], [, b]) => a - b)) {
      const part = units / this.#debts.size;
      if (part < debt) {
        for (const [other, owed] of this.#debts) this.#debts.set(other, owed - part);
        return;
      }
      this.#debts.delete(holder);
      units -= debt;
    }
  }
}

interface Bounds {
  /** Limit of one holder. */
  each: number;
  /** Limit of all holders together; default: none. */
  all?: number;
  /** Each holder may have this number, also beyond `all`, so that no holder depends on the others. */
  always?: number;
}

/**
 * Counts things of one kind that are under way in this isolate, such as open bodies, by their holder. Requests share it, so it is
 * plain data without promises.
 */
export class UnderWay {
  readonly #bounds: Required<Bounds>;
  readonly #holders = new Map<string, Set<Lease>>();
  #count = 0;

  constructor({ each, all = Number.POSITIVE_INFINITY, always = each }: Bounds) {
    this.#bounds = { each, all, always };
  }

  /** What all holders have together. */
  count(nowMs: number): number {
    this.#endExpired(nowMs);
    return this.#count;
  }

  /** @param forMs counts as ended after this time: the platform may end a request without a word. Null: too many. */
  begin(holder: string, nowMs: number, forMs: number): Lease | null {
    if (!this.#hasRoom(holder)) {
      this.#endExpired(nowMs);
      if (!this.#hasRoom(holder)) return null;
    }
    const leases = this.#holders.get(holder) ?? new Set();
    const lease = new Lease(nowMs + forMs, () => {
      if (!leases.delete(lease)) return;
      this.#count--;
      if (leases.size === 0) this.#holders.delete(holder);
    });
    leases.add(lease);
    this.#count++;
    this.#holders.set(holder, leases);
    return lease;
  }

  #hasRoom(holder: string): boolean {
    const { each, all, always } = this.#bounds;
    const count = this.#holders.get(holder)?.size ?? 0;
    return count < each && (this.#count < all || count < always);
  }

  #endExpired(nowMs: number): void {
    for (const leases of this.#holders.values()) {
      for (const lease of leases) if (nowMs > lease.untilMs) lease.release();
    }
  }
}

export class Lease {
  /** Milliseconds since 1970. */
  untilMs: number;
  readonly release: () => void;

  constructor(untilMs: number, release: () => void) {
    this.untilMs = untilMs;
    this.release = release;
  }
}

// --- Ingestion calls ---

/** An isolate's estimate of the calls of a workspace. Requests share it. */
export interface WorkspaceCalls {
  bucket: RateBucket;
}

/** Some 100 bytes each. */
const WORKSPACES = 10_000;
const calls = new Lru<string, WorkspaceCalls>(WORKSPACES);

export function callsOf(workspaceId: string): WorkspaceCalls {
  const known = calls.get(workspaceId);
  if (known !== undefined) return known;
  const created = { bucket: FULL_BUCKET };
  calls.set(workspaceId, created);
  return created;
}

/** Multiple of the request rate of a key beyond which an isolate rejects calls of a workspace: more than its counter can serve. */
export const SHED_FACTOR = 4;
/** Interval at which a rejected call still asks the Quota Counter whether the key is active. */
export const SHED_ASK_MS = 1_000;

/**
 * Rejects floods of a workspace before they reach the Quota Counter. The counter decides exactly, for each key, and would also reject
 * every call that is rejected here.
 */
export function shedCall(ofWorkspace: WorkspaceCalls, nowMs: number, { perSecond, burst }: RequestRate): RateDecision {
  const taken = takeRequest(ofWorkspace.bucket, nowMs, {
    perSecond: perSecond * SHED_FACTOR,
    burst: burst * SHED_FACTOR,
  });
  ofWorkspace.bucket = taken.bucket;
  return taken;
}

// --- Bodies ---

/** A larger body, after decompression, needs a turn: an isolate works on one of them at a time for each workspace. */
export const LARGE_BODY_BYTES = 262_144;
/**
 * Open bodies: requests whose body has not arrived. A stalled one takes some 100 KB. An isolate has at most as many as fit beside
 * the large bodies. A sender of 500 calls a second, whose bodies take half a second to arrive, has 250.
 */
export const OPEN_BODIES = { key: 128, workspace: 256, all: 768, always: 16 };
const openBodiesOfKeys = new UnderWay({ each: OPEN_BODIES.key });
const openBodies = new UnderWay({ each: OPEN_BODIES.workspace, all: OPEN_BODIES.all, always: OPEN_BODIES.always });

/** @param key undefined: the caller uses no API key. @returns null: too many are open. */
export function openBody(
  holder: string,
  key: string | undefined,
  nowMs: number,
  forMs: number,
): Pick<Lease, "release"> | null {
  const ofHolder = openBodies.begin(holder, nowMs, forMs);
  if (ofHolder === null || key === undefined) return ofHolder;
  const ofKey = openBodiesOfKeys.begin(key, nowMs, forMs);
  if (ofKey === null) {
    ofHolder.release();
    return null;
  }
  return {
    release: () => {
      ofKey.release();
      ofHolder.release();
    },
  };
}

/** Requests that the bodies of each workspace may count as at once, however many there are: 4 MB, some bodies of CDP events. */
const BODY_BURST_OF_EACH = 128;
/** Bytes beyond the first REQUEST_BODY_BYTES of a body, in requests. */
const bodyBytes = new FairShare(BODY_BURST_OF_EACH);

/**
 * Half the rate of a key, at the default 8 MB a second for all workspaces together: reading the worst body takes 20 ns a byte, so
 * that is a sixth of a processor. The signals of an ordinary body take more: they are recorded.
 */
function bodyCapacity({ perSecond, burst }: RequestRate): Capacity {
  return { perSecond: perSecond / 2, burst: burst / 4 };
}

/** Milliseconds until the holder may send another body of more than REQUEST_BODY_BYTES; 0: now. */
export function bodyWaitMs(holder: string, nowMs: number, rate: RequestRate): number {
  return bodyBytes.waitMs(holder, nowMs, bodyCapacity(rate));
}

/**
 * @param more requests that the body counts as, beyond the first, at most a burst. Negative: it turned out to be smaller than
 * charged.
 */
export function chargeBody(holder: string, more: number, nowMs: number, rate: RequestRate): void {
  if (more !== 0 && holder !== OPERATOR_HOLDER)
    bodyBytes.charge(holder, Math.min(more, rate.burst), nowMs, bodyCapacity(rate));
}

/** The next large body of any workspace begins when the one before should have taken half of the time. */
const LARGE_BODY_BYTES_PER_MS = 25_000;
/** By the runtime's clock, which is never set back. */
let nextLargeBodyMs = 0;
const largeBodies = new UnderWay({ each: 1 });
const waitingBodies = new UnderWay({ each: 4 });
/** After this time another body may begin, because the platform may end a request without a word. */
const TURN_MS = 10_000;
const TURN_WAIT_MS = 5_000;
/** Other calls run in between. */
const TURN_POLL_MS = 25;

function beginLargeBody(holder: string, bytes: number): Lease | null {
  const nowMs = performance.now();
  if (nowMs < nextLargeBodyMs) return null;
  const turn = largeBodies.begin(holder, Date.now(), TURN_MS);
  if (turn !== null) nextLargeBodyMs = nowMs + bytes / LARGE_BODY_BYTES_PER_MS;
  return turn;
}

/**
 * Waits until no other large body of the holder is at work. It also waits for the pause after the last large body of any holder, in
 * which other calls run. Null: too many wait, or it took too long.
 */
export async function turnOfLargeBody(holder: string, bytes: number): Promise<Lease | null> {
  const turn = beginLargeBody(holder, bytes);
  if (turn !== null) return turn;
  const waiting = waitingBodies.begin(holder, Date.now(), TURN_WAIT_MS);
  if (waiting === null) return null;
  try {
    for (let waitedMs = 0; waitedMs < TURN_WAIT_MS; waitedMs += TURN_POLL_MS) {
      // A promise of the call before would be simpler, but a call that waits for another one's promise is ended as hung.
      // oxlint-disable-next-line no-await-in-loop
      await scheduler.wait(TURN_POLL_MS);
      const next = beginLargeBody(holder, bytes);
      if (next !== null) return next;
    }
    return null;
  } finally {
    waiting.release();
  }
}

export function tooFast(
  retryAfterMs: number,
  requests: number,
): { code: "rate_limited"; retryAfterMs: number } & Partial<Described> {
  if (requests === 1) return { code: "rate_limited", retryAfterMs };
  const detail =
    `Requests came faster than the request rate allows: this body counts as ${requests} requests, one for each started ` +
    `${REQUEST_BODY_BYTES / 1024} KB or ${REQUEST_SIGNALS} signals. Send again after Retry-After seconds, or send less.`;
  return { code: "rate_limited", retryAfterMs, detail };
}

// --- Rejections ---

/**
 * Rejections of this isolate wait before they are sent. Else a caller that repeats its call at once, on many connections, would use
 * the whole processor. The more of them wait, the longer each waits: together they are at most 500 a second.
 */
const pauses = new UnderWay({ each: 1_000, all: 2_000 });
const PAUSE_MS = 250;
const PAUSE_FOR_EACH_MS = 2;

/** Waits before a call is rejected for what its holder has used. */
export async function pauseOfRejection(holder: string): Promise<void> {
  const nowMs = performance.now();
  const pauseMs = PAUSE_MS + PAUSE_FOR_EACH_MS * pauses.count(nowMs);
  const pause = pauses.begin(holder, nowMs, 2 * pauseMs);
  if (pause === null) return;
  await scheduler.wait(pauseMs);
  pause.release();
}

// --- Pages and the operator API ---

/** Pages and API calls: each takes some 10 ms of the processor, so all workspaces together use half of it. */
const PAGES = { perSecond: 50, burst: 100 };
/** Pages and API calls that each workspace may make at once, however many there are. */
const PAGES_AT_ONCE_OF_EACH = 10;
const pageCalls = new FairShare(PAGES_AT_ONCE_OF_EACH);
/** Longest time that a call waits for its turn: as long as somebody looks at a page that loads. */
const PAGE_WAIT_MS = 5_000;

/**
 * Charges a page or an API call, and waits for its turn.
 *
 * @param units some 10 ms of the processor each. @returns 0: it may go on; otherwise the milliseconds after which it may be
 * repeated.
 */
export async function turnOfPage(workspaceId: string, units = 1): Promise<number> {
  const nowMs = performance.now();
  const waitMs = pageCalls.waitMs(workspaceId, nowMs, PAGES);
  if (waitMs > PAGE_WAIT_MS) {
    await pauseOfRejection(workspaceId);
    return waitMs;
  }
  pageCalls.charge(workspaceId, units, nowMs, PAGES);
  if (waitMs > 0) await scheduler.wait(waitMs);
  return 0;
}

/** Answers a second to callers without a valid token or session, some milliseconds of the processor each. */
const STRANGERS_RATE = { perSecond: 200, burst: 400 };
const STRANGER_MAX_PAUSE_MS = 2_000;
let strangersBucket = FULL_BUCKET;
const waitingStrangers = new UnderWay({ each: 1_000 });

/** Delays an answer while there are very many strangers. It never rejects: people who sign in are strangers too. */
export async function delayStranger(): Promise<void> {
  const nowMs = performance.now();
  const taken = takeRequest(strangersBucket, nowMs, STRANGERS_RATE);
  strangersBucket = taken.bucket;
  if (taken.allowed) return;
  const before = waitingStrangers.count(nowMs);
  const pauseMs = Math.min(STRANGER_MAX_PAUSE_MS, ((before + 1) * 1_000) / STRANGERS_RATE.perSecond);
  const waiting = waitingStrangers.begin(STRANGERS, nowMs, 2 * pauseMs);
  if (waiting === null) return;
  await scheduler.wait(pauseMs);
  waiting.release();
}

/** Previews of mapping rules: each reads up to PREVIEW_MAX_SIGNALS signals, and one begins with each pause in typing. */
export const PREVIEWS = { each: 4, all: 12, always: 1 };
export const previews = new UnderWay(PREVIEWS);
/** Downloads: each holds a portion until its reader takes it. */
export const DOWNLOADS = { each: 4, all: 24, always: 1 };
export const downloads = new UnderWay(DOWNLOADS);

/**
 * What is noted of calls besides the count: when each key was used, what was refused and why, and bursts of refusals. It is
 * written with what is written anyway, or by the alarm: an object that is killed before has lost it, and the next one says
 * "at least".
 */
import type { CallDays } from "../domain/keys/call-days.ts";
import { addRejection, forgetOld, type RefusedCalls, type Rejection } from "../domain/keys/rejection.ts";
import { addToDays, dayOf } from "../domain/quota/day-counts.ts";
import { FULL_BUCKET, takeRequest } from "../domain/quota/request-rate.ts";
import { REJECTIONS_KEPT, SAFETY_ALARM_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import type { CounterNews } from "./counter-news.ts";
import { type AcceptedCall, KeyUse } from "./key-use.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { KeyCalls } from "./protocol.ts";

/** Latest refused calls that are remembered: more than the calls whose slices arrive at the same time. */
const CALLS_REMEMBERED = 1_000;

/** An entry for the rejections list. */
interface CountedRefusal {
  refused: RefusedCalls;
  /** Calls of the entry that no earlier entry has counted: 0 where it is another reason, or another slice, of one call. */
  newCalls: number;
}

export interface CallNotesOptions {
  workspaceId: string;
  state: LedgerState;
  news: CounterNews;
  /** To be called after refusals, which may have raised an event. */
  handOn: () => void;
  /** Makes sure that `writeDue` is called at that time or sooner. */
  alarmBy: (atMs: number) => void;
}

export class CallNotes {
  readonly #keyUse: KeyUse;
  readonly #rejections: Rejections;
  readonly #options: CallNotesOptions;
  /** Request ids of the latest refused calls. */
  readonly #counted = new Lru<string, true>(CALLS_REMEMBERED);

  constructor(sql: SqlStorage, options: CallNotesOptions) {
    this.#keyUse = new KeyUse(sql);
    this.#rejections = new Rejections(sql);
    this.#options = options;
    this.#keyUse.noteLost(options.state.ledger?.admitted ?? 0);
  }

  /** Notes that a call had the right secret. */
  used(keyId: string, nowMs: number): void {
    this.#keyUse.used(keyId, nowMs);
  }

  /** Notes that calls have come, of which some may have been refused. */
  called(keyId: string, calls: number, nowMs: number): void {
    this.#options.news.called(keyId, calls, nowMs);
  }

  accepted(calls: readonly AcceptedCall[], nowMs: number): void {
    for (const call of calls) this.#keyUse.accepted(call, nowMs);
  }

  /** Lists refused calls, and writes what is due: also where none was refused. */
  refused(refused: readonly RefusedCalls[], nowMs: number): void {
    const counted = refused.map((entry) => ({ refused: entry, newCalls: this.#countCalls(entry) }));
    for (const entry of counted) this.#rejections.add(entry.refused, entry.newCalls, nowMs);
    this.#write(counted, nowMs);
    this.#options.handOn();
  }

  /** Writes what is due. */
  writeDue(nowMs: number): void {
    this.#write([], nowMs);
  }

  /** When each key was last used: key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return this.#keyUse.lastUsed();
  }

  keyCalls(keyId: string, nowMs: number): KeyCalls {
    return {
      usedMs: this.#keyUse.lastUsed()[keyId] ?? null,
      acceptedMs: this.#keyUse.lastAccepted(keyId),
      rejections: this.latestRejections(REJECTIONS_KEPT, nowMs).filter((one) => one.keyId === keyId),
      accepted: this.#keyUse.callDays(keyId),
      refused: this.#rejections.callDays(keyId),
    };
  }

  latestRejections(limit: number, nowMs: number): Rejection[] {
    return this.#rejections.latest(limit, nowMs);
  }

  #countCalls({ requestId, calls }: RefusedCalls): number {
    if (this.#counted.has(requestId)) return 0;
    this.#counted.set(requestId, true);
    return calls;
  }

  /** What cannot be written is left to the alarm: no call fails for it. */
  #write(refused: readonly CountedRefusal[], nowMs: number): void {
    const { workspaceId, state, news, alarmBy } = this.#options;
    try {
      for (const entry of refused) news.refused(entry.refused, entry.newCalls, nowMs);
      this.#keyUse.writeDue(nowMs);
      if (this.#rejections.dueMs <= nowMs) {
        this.#rejections.write(nowMs);
        state.save();
      }
      alarmBy(this.#rejections.dueMs);
    } catch (error) {
      logEvent("notes_failed", { workspace: workspaceId, error: errorText(error) });
      alarmBy(nowMs + SAFETY_ALARM_MS);
    }
  }
}

// The list of refused calls, and how many of each key there were on each day, in memory and in one row of the object's
// database. Refusals now and then are each written at once. Where they come faster they are gathered, and written ever less
// often: a flood costs a few rows a minute, whatever comes, and keeps the object in memory meanwhile.
//
// While calls are gathered the stored entries say so (`open`). An object that is started and finds them open cannot know
// whether all have been written: it says "at least" of them from then on.

/** Keys whose refused calls are kept by day, in some 100 bytes each: those that were refused last. */
export const REJECTED_KEYS_KEPT = 500;
/** Refusals that are each written at once: as often as an object that sleeps in between would forget them. */
export const REJECTION_WRITES = { perSecond: 0.1, burst: 6 } as const;
/**
 * How long refusals that come faster are gathered between two writes. The first pauses are shorter than an idle object stays
 * in memory, so that a burst is counted exactly; a flood keeps it there.
 */
const REJECTION_PAUSES_MS = [5_000, 5_000, 20_000, 60_000] as const;
/** After so long without another refusal, refusals are gathered no more. */
export const REJECTIONS_GATHERED_MS = 10_000;

/** The longest pause between two writes. An entry with a later call is likely to get more: it is stored as open. */
const LONGEST_PAUSE_MS = Math.max(...REJECTION_PAUSES_MS);

type StoredRejection = Rejection & { open?: true };

interface Gathering {
  /** When gathered calls were last written, or there were none to write. */
  sinceMs: number;
  /** Writes since gathering began: the pause before the next one depends on it. */
  writes: number;
}

class Rejections {
  readonly #sql: SqlStorage;
  readonly #list: Rejection[];
  /** Refused calls by key id and day; keys that were refused last are at the end. */
  readonly #days: Map<string, CallDays>;
  /** Entries with calls that are not stored yet. */
  #unwritten = new Set<Rejection>();
  #gathering: Gathering | null = null;
  #lastAddedMs = 0;
  /** State of the rate of writes at once, see domain/quota/request-rate.ts. */
  #writes = FULL_BUCKET;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS rejections (id INTEGER PRIMARY KEY CHECK (id = 1), list TEXT NOT NULL, days TEXT NOT NULL)",
    );
    const row = sql.exec<{ list: string; days: string }>("SELECT list, days FROM rejections").toArray()[0];
    const stored = row === undefined ? [] : (JSON.parse(row.list) as StoredRejection[]);
    this.#list = stored.map(({ open, ...entry }) => ({ ...entry, atLeast: entry.atLeast || open === true }));
    this.#days = new Map(row === undefined ? [] : (JSON.parse(row.days) as [string, CallDays][]));
    for (const { open, keyId, lastAtMs } of stored) if (open === true) this.#addToDay(keyId, "lost", 1, lastAtMs);
  }

  /** @param newCalls calls of `refused` that the days of the key have not counted yet. */
  add(refused: RefusedCalls, newCalls: number, nowMs: number): void {
    this.#unwritten.add(addRejection(this.#list, refused));
    const { keyId, lastAtMs, atLeast } = refused;
    if (newCalls > 0) this.#addToDay(keyId, "calls", newCalls, lastAtMs);
    if (atLeast) this.#addToDay(keyId, "lost", 1, lastAtMs);
    this.#lastAddedMs = nowMs;
  }

  /** When `write` is to be called next; infinity: not before something is added. */
  get dueMs(): number {
    if (this.#gathering === null) return this.#unwritten.size === 0 ? Number.POSITIVE_INFINITY : this.#lastAddedMs;
    const { sinceMs, writes } = this.#gathering;
    return sinceMs + (REJECTION_PAUSES_MS[writes] ?? LONGEST_PAUSE_MS);
  }

  /** Writes what is due: one row at most. */
  write(nowMs: number): void {
    if (this.#gathering === null) {
      const taken = takeRequest(this.#writes, nowMs, REJECTION_WRITES);
      this.#writeList(nowMs, taken.allowed ? "complete" : "open");
      this.#writes = taken.bucket;
      if (!taken.allowed) this.#gathering = { sinceMs: nowMs, writes: 0 };
    } else if (this.#unwritten.size > 0) {
      this.#writeList(nowMs, "open");
      this.#gathering = { sinceMs: nowMs, writes: this.#gathering.writes + 1 };
    } else if (nowMs - this.#lastAddedMs >= REJECTIONS_GATHERED_MS) {
      this.#writeList(nowMs, "complete");
      this.#gathering = null;
    } else {
      this.#gathering.sinceMs = nowMs;
    }
  }

  /** The entries with the latest calls, these first. */
  latest(limit: number, nowMs: number): Rejection[] {
    forgetOld(this.#list, nowMs);
    return this.#list
      .toReversed()
      .sort((one, other) => other.lastAtMs - one.lastAtMs)
      .slice(0, limit);
  }

  /** Refused calls of one key, by day. */
  callDays(keyId: string): CallDays {
    return this.#days.get(keyId) ?? { calls: "", lost: "" };
  }

  #addToDay(keyId: string, what: keyof CallDays, count: number, atMs: number): void {
    const days = this.callDays(keyId);
    // The map is in the order of the keys' last refusals, so that the one refused longest ago is forgotten first.
    this.#days.delete(keyId);
    this.#days.set(keyId, { ...days, [what]: addToDays(days[what], new Map([[dayOf(atMs), count]])) });
    const [first] = this.#days.keys();
    if (first !== undefined && this.#days.size > REJECTED_KEYS_KEPT) this.#days.delete(first);
  }

  /** Writes the list; while calls are gathered its latest entries are `open`. */
  #writeList(nowMs: number, as: "open" | "complete"): void {
    forgetOld(this.#list, nowMs);
    const stored = this.#list.map((entry): StoredRejection =>
      as === "open" && nowMs - entry.lastAtMs < LONGEST_PAUSE_MS ? { ...entry, open: true } : entry,
    );
    const days = JSON.stringify([...this.#days]);
    this.#sql.exec("INSERT OR REPLACE INTO rejections VALUES (1, ?, ?)", JSON.stringify(stored), days);
    this.#unwritten = new Set();
  }
}

/**
 * What is noted of calls besides the count: when each key was used, what was refused and why, and bursts of refusals. It is
 * written with what is written anyway, or by the alarm: an object that is killed before has lost it, and the next one says
 * "at least".
 */
import type { RefusedCalls, Rejection } from "../domain/keys/rejection.ts";
import { REJECTIONS_KEPT, SAFETY_ALARM_MS } from "../limits.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Lru } from "../platform/lru.ts";
import type { CounterNews } from "./counter-news.ts";
import { KeyUse } from "./key-use.ts";
import type { AcceptedCall } from "./key-use.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { KeyCalls } from "./protocol.ts";
import { Rejections } from "./rejections.ts";

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

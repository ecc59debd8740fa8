import { SAFETY_ALARM_MS } from "../limits.ts";

const HOUR_MS = 3_600_000;
/** The count of alarms in an hour stops here. */
const COUNTED_MAX = 1_000;

/** The alarms of the last hour, and those that found nothing to do. */
export class AlarmCount {
  /** Ascending. */
  #all: number[] = [];
  #idle: number[] = [];

  add(nowMs: number, isIdle: boolean): void {
    this.#all = [...lastHour(this.#all, nowMs), nowMs].slice(-COUNTED_MAX);
    if (isIdle) this.#idle = [...lastHour(this.#idle, nowMs), nowMs].slice(-COUNTED_MAX);
  }

  read(nowMs: number): { all: number; idle: number } {
    return { all: lastHour(this.#all, nowMs).length, idle: lastHour(this.#idle, nowMs).length };
  }
}

function lastHour(times: readonly number[], nowMs: number): number[] {
  return times.filter((ms) => ms > nowMs - HOUR_MS);
}

/** An alarm that is this late has been forgotten by the platform, and is set again. */
export const FORGOTTEN_AFTER_MS = 60_000;

/**
 * Moves only to an earlier time, because each `setAlarm` is billed as a row. Never sets a time that has passed: within `alarm()` the
 * platform may store such an alarm and never fire it (workerd#6866). A stored alarm that never fires would stop all later ones.
 */
export class Alarm {
  /** Since the object is in memory, which a loop of alarms keeps it in. */
  readonly counted = new AlarmCount();
  readonly #storage: DurableObjectStorage;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState) {
    this.#storage = ctx.storage;
    // Before the first call, which must not postpone the stored alarm.
    void ctx.blockConcurrencyWhile(async () => {
      this.#atMs = Math.min(this.#atMs, (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY);
    });
  }

  by(atMs: number): void {
    const nowMs = Date.now();
    const nextMs = Math.max(atMs, nowMs + 1);
    const isForgotten = this.#atMs < nowMs - FORGOTTEN_AFTER_MS;
    if ((nextMs >= this.#atMs && !isForgotten) || nextMs === Number.POSITIVE_INFINITY) return;
    this.#atMs = nextMs;
    void this.#storage.setAlarm(nextMs);
  }

  /** After the alarm fired, all later times must be requested again. */
  reset(): void {
    this.#atMs = Number.POSITIVE_INFINITY;
  }
}

/** An idle object leaves memory after ten seconds and must write its counts before. An alarm costs a row. */
export const WATCH_MS = 9_000;

/** Does its work once a minute under load, otherwise as soon as it fires. */
export class PacedAlarm extends Alarm {
  #callsSinceFired = 0;
  /** When the alarm does all of its work, even under load; 0: unknown, after a start. */
  #workDueMs = 0;

  countCall(): void {
    this.#callsSinceFired++;
  }

  /** The alarm does all of its work by then. */
  wakeBy(atMs: number): void {
    this.#workDueMs = Math.min(this.#workDueMs, atMs);
    this.by(atMs);
  }

  watch(nowMs: number): void {
    this.by(nowMs + WATCH_MS);
  }

  /**
   * @param isWaiting whether the alarm has work without any call.
   * @returns whether work is due; if not, the alarm is set again.
   */
  fired(nowMs: number, isWaiting: boolean): boolean {
    this.reset();
    this.counted.add(nowMs, this.#callsSinceFired === 0 && !isWaiting);
    const isLoad = this.#callsSinceFired > 1;
    this.#callsSinceFired = 0;
    const untilWorkMs = this.#workDueMs - nowMs;
    // A wait of more than a minute means that the clock was set back.
    if (isLoad && untilWorkMs > 0 && untilWorkMs <= SAFETY_ALARM_MS) {
      this.by(nowMs + Math.min(WATCH_MS, untilWorkMs));
      return false;
    }
    this.#workDueMs = nowMs + SAFETY_ALARM_MS;
    // Spares the next calls from setting the alarm.
    if (isLoad) this.watch(nowMs);
    return true;
  }
}

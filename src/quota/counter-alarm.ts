/** When the Quota Counter's alarm does its work: once a minute under load, otherwise as soon as it fires. */
import { SAFETY_ALARM_MS } from "../limits.ts";
import { Alarm } from "../platform/restorable-object.ts";

/**
 * Interval at which the alarm checks whether calls still arrive. An idle object stays in memory for ten seconds and must
 * write its call counts before. An alarm costs a row; a pending timer costs as much in less than a second.
 */
export const WATCH_MS = 9_000;

export class CounterAlarm extends Alarm {
  #callsSinceFired = 0;
  /** Time at which the alarm does all of its work, even under load. After a start the time is unknown, so it is 0. */
  #workDueMs = 0;

  /** Counts a call, to detect load. */
  countCall(): void {
    this.#callsSinceFired++;
  }

  /** Makes the alarm do all of its work at that time or earlier. */
  workBy(atMs: number): void {
    this.#workDueMs = Math.min(this.#workDueMs, atMs);
    this.by(atMs);
  }

  /** Makes the alarm check soon whether calls still arrive. */
  watch(nowMs: number): void {
    this.by(nowMs + WATCH_MS);
  }

  /** Called when the alarm fired. @returns whether its work is due; if not, the alarm is set again. */
  fired(nowMs: number): boolean {
    this.rang();
    const isLoad = this.#callsSinceFired > 1;
    this.#callsSinceFired = 0;
    const untilWorkMs = this.#workDueMs - nowMs;
    // A wait of more than a minute means that the clock was set back.
    if (isLoad && untilWorkMs > 0 && untilWorkMs <= SAFETY_ALARM_MS) {
      this.by(nowMs + Math.min(WATCH_MS, untilWorkMs));
      return false;
    }
    this.#workDueMs = nowMs + SAFETY_ALARM_MS;
    // More calls are likely. Setting the alarm here spares each of them from setting it.
    if (isLoad) this.watch(nowMs);
    return true;
  }
}

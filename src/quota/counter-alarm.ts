/** When the Quota Counter's alarm does its work: once a minute under load, otherwise as soon as it fires. */
import { SAFETY_ALARM_MS } from "../limits.ts";
import { Alarm } from "../platform/alarm.ts";

/** An idle object leaves memory after ten seconds and must write its counts before. An alarm costs a row. */
export const WATCH_MS = 9_000;

export class CounterAlarm extends Alarm {
  #callsSinceFired = 0;
  /** When the alarm does all of its work, even under load; 0: unknown, after a start. */
  #workDueMs = 0;

  countCall(): void {
    this.#callsSinceFired++;
  }

  /** The alarm does all of its work by then. */
  workBy(atMs: number): void {
    this.#workDueMs = Math.min(this.#workDueMs, atMs);
    this.by(atMs);
  }

  watch(nowMs: number): void {
    this.by(nowMs + WATCH_MS);
  }

  /** @returns whether work is due; if not, the alarm is set again. */
  fired(nowMs: number): boolean {
    this.reset();
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

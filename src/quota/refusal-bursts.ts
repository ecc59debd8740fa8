/**
 * Calls of each key in the latest minutes, in memory: whether many of them are refused. Exists while somebody wants to know;
 * what it has counted may be lost with the object.
 */
import type { EventData } from "../domain/events/workspace-event.ts";
import type { RefusedCalls } from "../domain/keys/rejection.ts";

/** Refused calls of a key within REFUSAL_BURST_MINUTES that are told: so many, and one in REFUSAL_BURST_SHARE of all. */
const REFUSAL_BURST_MINUTES = 5;
export const REFUSAL_BURST_CALLS = 20;
const REFUSAL_BURST_SHARE = 10;
/** A burst of refusals of the same key is not told again within this time. */
export const REFUSAL_BURST_QUIET_MS = 6 * 3_600_000;
/** Keys whose calls are counted in memory to find bursts of refusals, until those that are silent are forgotten. */
const REFUSAL_BURST_KEYS = 1_000;

const MINUTE_MS = 60_000;

interface Minute {
  /** Minutes since 1970. */
  minute: number;
  calls: number;
  refused: number;
  codes: Map<string, number>;
}

interface Key {
  /** The latest minutes, a ring. */
  minutes: Minute[];
  quietUntilMs: number;
}

export class RefusalBursts {
  readonly #keys = new Map<string, Key>();

  called(keyId: string, calls: number, nowMs: number): void {
    minuteOf(this.#of(keyId, nowMs), nowMs).calls += calls;
  }

  /**
   * Counts refused calls, of which `called` was told too; returns what is to be told if they make a burst.
   *
   * @param newCalls calls that no earlier entry has counted: one call may be listed for several reasons.
   */
  refused({ keyId, code, calls }: RefusedCalls, newCalls: number, nowMs: number): EventData["refusals.burst"] | null {
    const key = this.#of(keyId, nowMs);
    const now = minuteOf(key, nowMs);
    now.codes.set(code, (now.codes.get(code) ?? 0) + calls);
    now.refused += newCalls;
    if (nowMs < key.quietUntilMs) return null;
    const firstMinute = now.minute - REFUSAL_BURST_MINUTES + 1;
    const latest = key.minutes.filter(({ minute }) => minute >= firstMinute);
    const sum = (what: "calls" | "refused"): number => latest.reduce((all, one) => all + one[what], 0);
    const [all, refused] = [sum("calls"), sum("refused")];
    if (refused < REFUSAL_BURST_CALLS || refused * REFUSAL_BURST_SHARE <= all) return null;
    key.quietUntilMs = nowMs + REFUSAL_BURST_QUIET_MS;
    const codes: Record<string, number> = {};
    for (const one of latest) for (const [name, count] of one.codes) codes[name] = (codes[name] ?? 0) + count;
    return {
      key_id: keyId,
      from: new Date(Math.min(...latest.map(({ minute }) => minute)) * MINUTE_MS).toISOString(),
      to: new Date(nowMs).toISOString(),
      calls: all,
      refused,
      codes,
    };
  }

  #of(keyId: string, nowMs: number): Key {
    const known = this.#keys.get(keyId);
    if (known !== undefined) return known;
    if (this.#keys.size >= REFUSAL_BURST_KEYS) this.#forgetSilent(nowMs);
    const key = { minutes: [], quietUntilMs: 0 };
    this.#keys.set(keyId, key);
    return key;
  }

  #forgetSilent(nowMs: number): void {
    const since = Math.floor(nowMs / MINUTE_MS) - REFUSAL_BURST_MINUTES;
    for (const [keyId, { minutes, quietUntilMs }] of this.#keys) {
      const isSilent = minutes.every(({ minute }) => minute < since);
      if (isSilent && quietUntilMs <= nowMs) this.#keys.delete(keyId);
    }
  }
}

/** The minute that runs. */
function minuteOf({ minutes }: Key, nowMs: number): Minute {
  const minute = Math.floor(nowMs / MINUTE_MS);
  const place = minute % REFUSAL_BURST_MINUTES;
  const known = minutes[place];
  if (known?.minute === minute) return known;
  return (minutes[place] = { minute, calls: 0, refused: 0, codes: new Map() });
}

/** When an admin is told that a key is about to end, or that nothing comes with it any more. */
import { KEY_EXPIRING_DAYS } from "../../limits.ts";

const DAY_MS = 24 * 3_600_000;

/** A key that still works. Times are in milliseconds since 1970. */
export interface KeyToWatch {
  id: string;
  createdAtMs: number;
  endsAtMs: number | null;
  lastUsedMs: number | null;
  /** When the key was rotated; null: it was not. */
  rotatedAtMs: number | null;
  /** After how many days without a call the silence is told; null: it never is. */
  silentAfterDays: number | null;
}

/**
 * How many days ahead a key's end is to be told now: one of KEY_EXPIRING_DAYS, or null. Where several of them have passed
 * since somebody last looked, the most urgent is told; one that had passed when the key was made never is. Whoever has
 * rotated a key has just chosen when it ends: its end is told on the last day alone, and only if the key is still in use.
 */
export function expiringDays(key: KeyToWatch, nowMs: number): number | null {
  const { endsAtMs, rotatedAtMs, lastUsedMs } = key;
  if (endsAtMs === null || endsAtMs <= nowMs) return null;
  const days = KEY_EXPIRING_DAYS.filter((ahead) => endsAtMs - nowMs <= ahead * DAY_MS).at(-1);
  if (days === undefined || endsAtMs - key.createdAtMs <= days * DAY_MS) return null;
  if (rotatedAtMs === null) return days;
  return days === KEY_EXPIRING_DAYS.at(-1) && lastUsedMs !== null && lastUsedMs > rotatedAtMs ? days : null;
}

/** Since when the key is silent, if that is long enough to be told: its last use, or its creation. */
export function silentSinceMs(key: KeyToWatch, nowMs: number): number | null {
  if (key.silentAfterDays === null || key.rotatedAtMs !== null) return null;
  const sinceMs = key.lastUsedMs ?? key.createdAtMs;
  return nowMs - sinceMs >= key.silentAfterDays * DAY_MS ? sinceMs : null;
}

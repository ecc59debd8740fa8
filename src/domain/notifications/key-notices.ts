/** When to notify admins that a key expires soon, or that no calls arrive with it. */
import { KEY_EXPIRING_DAYS } from "../../limits.ts";
import { DAY_MS } from "../duration.ts";

/** A key that still works. Times are in milliseconds since 1970. */
export interface KeyToWatch {
  id: string;
  createdAtMs: number;
  endsAtMs: number | null;
  lastUsedMs: number | null;
  rotatedAtMs: number | null;
  /** Days without a call after which the key counts as silent; null: never. */
  silentAfterDays: number | null;
}

/**
 * The most urgent notice that is due about a key's end: one of KEY_EXPIRING_DAYS, or null. A notice that was already
 * past when the key was created is never sent. A rotated key gets only the last notice, and only if it is still in use,
 * because its end was chosen at the rotation.
 */
export function expiringDays(key: KeyToWatch, nowMs: number): number | null {
  const { endsAtMs, rotatedAtMs, lastUsedMs } = key;
  if (endsAtMs === null || endsAtMs <= nowMs) return null;
  const days = KEY_EXPIRING_DAYS.filter((ahead) => endsAtMs - nowMs <= ahead * DAY_MS).at(-1);
  if (days === undefined || endsAtMs - key.createdAtMs <= days * DAY_MS) return null;
  if (rotatedAtMs === null) return days;
  return days === KEY_EXPIRING_DAYS.at(-1) && lastUsedMs !== null && lastUsedMs > rotatedAtMs ? days : null;
}

/** Time since which the key is silent (its last use, or its creation); null: not long enough for a notice. */
export function silentSinceMs(key: KeyToWatch, nowMs: number): number | null {
  if (key.silentAfterDays === null || key.rotatedAtMs !== null) return null;
  const sinceMs = key.lastUsedMs ?? key.createdAtMs;
  return nowMs - sinceMs >= key.silentAfterDays * DAY_MS ? sinceMs : null;
}

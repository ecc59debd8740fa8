/**
 * Content hashes as they are stored (design §8.2): `~`, the hour that the content belongs to, `~`, the hash. So those of
 * one time lie together in the index, and recording a batch writes to a few of its pages. Of hashes alone, each lies
 * somewhere else: in a workspace of a million signals that costs as much as all the rest of recording.
 */
import type { JsonObject } from "./signal.ts";

/** Longer than the window of a payload without an id, so that its twins are in at most two hours. */
const HOUR_MS = 3_600_000;
/** In four characters: some 190 years. */
const HOURS_TOLD_APART = 36 ** 4;
/** Of a stored hash in the indexes: its hour, and enough of the rest. Half as long, they are half as many pages to change. */
export const INDEXED_CHARACTERS = 10;
/** Not of base64url, and behind all that is: see UNTIMED_BELOW. */
const MARK = "~";
/** Hashes that were stored without an hour, by an earlier version, are those below. */
export const UNTIMED_BELOW = MARK;

/**
 * @param hash base64url.
 * @param contentMs a time that the hashed content tells itself: the same for all twins, however far apart they are received.
 */
export function storedHash(
  hash: string,
  { windowMs, receivedAtMs, contentMs }: { windowMs: number; receivedAtMs: number; contentMs: number | null },
): string {
  if (contentMs !== null) return ofHour(hash, hourOf(contentMs));
  // Twins of a long window may be in any of many hours: they have none.
  return windowMs > HOUR_MS ? MARK + MARK + hash : ofHour(hash, hourOf(receivedAtMs));
}

/** All hashes under which signals of the same content may be stored that were received within the window of this one. */
export function hashesInReach(stored: string, receivedAtMs: number, windowMs: number): string[] {
  if (windowMs > HOUR_MS || !stored.startsWith(MARK)) return [stored];
  const hash = bareHash(stored);
  const [first, last] = [hourOf(receivedAtMs - windowMs), hourOf(receivedAtMs + windowMs)];
  return Array.from({ length: last - first + 1 }, (_, index) => ofHour(hash, first + index));
}

/** The hash alone: the same for the same content. */
export function bareHash(stored: string): string {
  return stored.slice(stored.lastIndexOf(MARK) + 1);
}

/** As a CDP's event tells it; null when it tells none. */
export function contentTimeMs({ originalTimestamp, timestamp }: JsonObject): number | null {
  const told = originalTimestamp ?? timestamp;
  const ms = typeof told === "string" ? Date.parse(told) : Number.NaN;
  return Number.isNaN(ms) ? null : ms;
}

/** Told times may be of any year: also then an hour takes four characters, so that the index has as much of the hash. */
function ofHour(hash: string, hour: number): string {
  const inRange = ((hour % HOURS_TOLD_APART) + HOURS_TOLD_APART) % HOURS_TOLD_APART;
  return `${MARK}${inRange.toString(36)}${MARK}${hash}`;
}

function hourOf(ms: number): number {
  return Math.floor(ms / HOUR_MS);
}

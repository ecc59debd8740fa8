/**
 * How much of its memory an isolate gives to large bodies at once. Each is bounded, but several together would take all of
 * it, and every call under way would end with the isolate. Whoever finds no room is told to come again.
 */

/** What large bodies may take at once: two of the largest bulk imports, with which an isolate was seen to take 100 of its 128 MB. */
export const LARGE_BODIES_MAX_BYTES = 40_000_000;
/**
 * A sender that stalls for so long in the middle of a large body is given up; so is a body of which nothing was heard since:
 * the platform may end a call whose sender has gone without another word.
 */
export const LARGE_BODY_SILENT_MS = 30_000;

/** Plain data, no promises: calls of an isolate share it. */
const held = new Set<LargeBody>();

export class LargeBody {
  #bytes = 0;
  #heardMs = 0;

  /** How many bytes this body may have, the ones that it has included. */
  room(nowMs: number): number {
    let others = 0;
    for (const body of held) {
      if (nowMs - body.#heardMs > 2 * LARGE_BODY_SILENT_MS) held.delete(body);
      else if (body !== this) others += body.#bytes;
    }
    return LARGE_BODIES_MAX_BYTES - others;
  }

  /** Takes room for so many bytes in all. Returns whether there is any. */
  hold(bytes: number, nowMs: number): boolean {
    if (bytes > this.room(nowMs)) return false;
    this.#bytes = bytes;
    this.#heardMs = nowMs;
    held.add(this);
    return true;
  }

  letGo(): void {
    held.delete(this);
  }
}

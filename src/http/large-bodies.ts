/**
 * How much of its memory an isolate gives to large bodies at once. Each body is bounded, but several together would take all
 * of the memory, and every call under way would end with the isolate. A call that finds no room is told to come again.
 *
 * Each holder has a share, so that no holder keeps the others out. A sender's holder is its workspace and not its key: a
 * workspace may have many keys, and a key costs nothing.
 */
import { BULK_MAX_BYTES } from "../limits.ts";

/** Bytes of a large body that are read at a time. */
export const LARGE_BODY_PART_BYTES = 262_144;
/** What the large bodies of one holder may take: the largest bulk import, with the part of it that is being read. */
export const LARGE_BODIES_HOLDER_MAX_BYTES = BULK_MAX_BYTES + LARGE_BODY_PART_BYTES;
/** What all large bodies may take at once: with two of the largest bulk imports an isolate takes 100 of its 128 MB. */
export const LARGE_BODIES_MAX_BYTES = 2 * LARGE_BODIES_HOLDER_MAX_BYTES;
/**
 * How fast a large body must arrive, so that nobody takes room for long by sending little: 0.4 megabits a second, which any
 * server has. The speed is taken for each part anew, so a sender that is fast at first may not stall afterwards.
 */
export const LARGE_BODY_MIN_BYTES_PER_SECOND = 50_000;
/** How long one part may take: some five seconds, long enough for a connection that loses packets. */
export const LARGE_BODY_PART_MS = Math.ceil((1_000 * LARGE_BODY_PART_BYTES) / LARGE_BODY_MIN_BYTES_PER_SECOND);
/** How long a body that has arrived may take to be stored. The platform may end a call without a word, which then holds no room. */
export const LARGE_BODY_STORED_MS = 60_000;

/** Plain data, no promises: calls of an isolate share it. */
const held = new Set<LargeBody>();

export class LargeBody {
  readonly #holder: string;
  #bytes = 0;
  #untilMs = 0;

  /** @param holder whose share the body takes from, such as a workspace's id. */
  constructor(holder: string) {
    this.#holder = holder;
  }

  /** How many bytes this body may have, including those that it has. */
  room(nowMs: number): number {
    let others = 0;
    let othersOfHolder = 0;
    for (const body of held) {
      if (nowMs > body.#untilMs) {
        held.delete(body);
      } else if (body !== this) {
        others += body.#bytes;
        if (body.#holder === this.#holder) othersOfHolder += body.#bytes;
      }
    }
    return Math.min(LARGE_BODIES_MAX_BYTES - others, LARGE_BODIES_HOLDER_MAX_BYTES - othersOfHolder);
  }

  /**
   * Takes room for `bytes` in all. Returns whether there is room.
   *
   * @param forMs after which the room is free again unless it is held anew: twice the time of a part while the body arrives.
   */
  hold(bytes: number, nowMs: number, forMs = 2 * LARGE_BODY_PART_MS): boolean {
    if (bytes > this.room(nowMs)) return false;
    this.#bytes = bytes;
    this.#untilMs = nowMs + forMs;
    held.add(this);
    return true;
  }

  letGo(): void {
    held.delete(this);
  }
}

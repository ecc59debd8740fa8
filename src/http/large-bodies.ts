/**
 * Limits the memory that an isolate gives to large bodies at the same time. The size of each body is limited, but several
 * bodies together could use all of the memory, and the platform would then end the isolate with every call in it. A call for
 * which there is no room gets a 503 with Retry-After.
 *
 * Each holder has a share, so that no holder keeps the others out. The holder of a sender's body is its workspace, not its
 * API key: a workspace may have many keys, and a key costs nothing.
 */
import { BULK_MAX_BYTES } from "../limits.ts";

/** Bytes of a large body that are read at a time. */
export const LARGE_BODY_PART_BYTES = 262_144;
/** Bytes that the large bodies of a holder may take: the largest bulk import, and the part of it that is being read. */
export const LARGE_BODIES_HOLDER_MAX_BYTES = BULK_MAX_BYTES + LARGE_BODY_PART_BYTES;
/** Bytes that all large bodies may take together: with two of the largest bulk imports an isolate takes 100 of its 128 MB. */
export const LARGE_BODIES_MAX_BYTES = 2 * LARGE_BODIES_HOLDER_MAX_BYTES;
/**
 * Minimum speed of a large body, so that a slow sender does not occupy the room for long: 0.4 megabits a second, which any
 * server has. Each part is measured alone: a sender that is fast at first may not stall afterwards.
 */
export const LARGE_BODY_MIN_BYTES_PER_SECOND = 50_000;
/** Time limit for one part: about five seconds, enough for a connection that loses packets. */
export const LARGE_BODY_PART_MS = Math.ceil((1_000 * LARGE_BODY_PART_BYTES) / LARGE_BODY_MIN_BYTES_PER_SECOND);
/** Time limit for storing a body that has arrived. The room of a call that the platform ended is free after this time. */
export const LARGE_BODY_STORED_MS = 60_000;

/** Bodies that hold room. Plain data without promises, because the calls of an isolate share it. */
const held = new Set<LargeBody>();

export class LargeBody {
  readonly #holder: string;
  #bytes = 0;
  #untilMs = 0;

  /** @param holder whose share the body takes from, such as a workspace's id. */
  constructor(holder: string) {
    this.#holder = holder;
  }

  /** Returns the number of bytes that this body may have in all. */
  room(nowMs: number): number {
    let taken = 0;
    let takenByHolder = 0;
    for (const body of held) {
      if (nowMs > body.#untilMs) {
        held.delete(body);
      } else if (body !== this) {
        taken += body.#bytes;
        if (body.#holder === this.#holder) takenByHolder += body.#bytes;
      }
    }
    return Math.min(LARGE_BODIES_MAX_BYTES - taken, LARGE_BODIES_HOLDER_MAX_BYTES - takenByHolder);
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

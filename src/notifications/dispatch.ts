/**
 * Which deliveries leave now, and when the next ones may. What is under way is known in memory: it only keeps the object from
 * handing a delivery to the queue twice. That no attempt is made twice is decided by the delivery's row, when the consumer
 * takes it.
 */
import { FAILING_AFTER } from "../domain/events/attempts.ts";
import { FULL_BUCKET, takeRequest } from "../domain/quota/request-rate.ts";
import { DELIVERY_TIMEOUT_MS, GATHER_EVERY_MS } from "../limits.ts";
import { LANES, type Deliveries, type Lane, type StoredDelivery } from "./deliveries.ts";
import type { Due } from "./destination-calls.ts";
import type { Roster, StoredDestination } from "./roster.ts";

/** Deliveries of a workspace that begin in a second, and at once: beside a receiver that is slow, others still get theirs. */
const DELIVERY_RATE = { perSecond: 20, burst: 40 } as const;
/** Deliveries that are under way to one destination; to one that fails, a single one. Tests come on top. */
export const DELIVERIES_UNDER_WAY = 5;
/** A consumer that has not reported after so long does so no more; most likely it has died. */
export const TAKEN_MS = DELIVERY_TIMEOUT_MS + 5_000;

interface UnderWay {
  destinationId: string;
  lane: Lane;
  untilMs: number;
}

export class Dispatch {
  readonly #roster: Roster;
  readonly #deliveries: Deliveries;
  readonly #leaseMs: number;
  readonly #underWay = new Map<string, UnderWay>();
  /** When scoring signals last left, by destination. */
  readonly #scoredMs = new Map<string, number>();
  #bucket = FULL_BUCKET;
  /** The destination whose turn comes first. It moves on, so that none is always last when the rate is used up. */
  #turn = 0;

  constructor({ roster, deliveries }: { roster: Roster; deliveries: Deliveries }, leaseMs: number) {
    this.#roster = roster;
    this.#deliveries = deliveries;
    this.#leaseMs = leaseMs;
    for (const { id, destinationId, lane, takenMs } of deliveries.taken()) {
      this.#underWay.set(id, { destinationId, lane, untilMs: (takenMs ?? 0) + TAKEN_MS });
    }
  }

  /**
   * Takes out what leaves now. It may leave again when its lease is over, unless its attempt has been reported by then.
   *
   * @returns also when there will be something to take, in milliseconds since 1970; infinity: never, as things stand.
   */
  takeDue(nowMs: number): { due: Due[]; nextMs: number } {
    for (const [id, { untilMs }] of this.#underWay) if (untilMs <= nowMs) this.#underWay.delete(id);
    const all = this.#roster.all();
    const first = this.#turn++ % Math.max(1, all.length);
    const [due, laterMs]: [Due[], number[]] = [[], []];
    for (const destination of [...all.slice(first), ...all.slice(0, first)]) {
      for (const lane of lanesOf(destination)) {
        for (const one of this.#notUnderWay(destination.id, lane)) {
          const fromMs = this.#fromMs(destination, lane, one);
          const rate = takeRequest(this.#bucket, nowMs, DELIVERY_RATE);
          if (fromMs > nowMs || !rate.allowed) {
            laterMs.push(Math.max(fromMs, nowMs + Math.ceil(rate.retryAfterMs)));
            break;
          }
          this.#bucket = rate.bucket;
          this.#underWay.set(one.id, { destinationId: destination.id, lane, untilMs: nowMs + this.#leaseMs });
          if (lane === LANES.scored) this.#scoredMs.set(destination.id, nowMs);
          due.push(one);
        }
      }
    }
    for (const { untilMs } of this.#underWay.values()) laterMs.push(untilMs);
    return { due, nextMs: Math.min(...laterMs, Number.POSITIVE_INFINITY) };
  }

  /** Notes that the consumer makes an attempt: after a restart of the object it may come with one that memory lacks. */
  began({ id, destinationId, lane }: StoredDelivery, nowMs: number): void {
    const untilMs = Math.max(this.#underWay.get(id)?.untilMs ?? 0, nowMs + TAKEN_MS);
    this.#underWay.set(id, { destinationId, lane, untilMs });
  }

  ended(id: string): void {
    this.#underWay.delete(id);
  }

  /** Has a delivery that the queue has refused leave again at `againMs`. */
  refused(id: string, againMs: number): void {
    const one = this.#underWay.get(id);
    if (one !== undefined) this.#underWay.set(id, { ...one, untilMs: againMs });
  }

  #notUnderWay(destinationId: string, lane: Lane): (Due & { dueMs: number })[] {
    const limit = this.#of(destinationId).length + DELIVERIES_UNDER_WAY + 1;
    return this.#deliveries.earliest(destinationId, lane, limit).filter(({ id }) => !this.#underWay.has(id));
  }

  /** From when on a delivery may leave, given what is under way. */
  #fromMs(destination: StoredDestination, lane: Lane, one: Due & { dueMs: number }): number {
    if (lane === LANES.test) return one.dueMs;
    const underWay = this.#of(destination.id).filter((other) => other.lane !== LANES.test);
    const room = destination.failures >= FAILING_AFTER ? 1 : DELIVERIES_UNDER_WAY;
    const roomMs = underWay.length < room ? 0 : earliestEnd(underWay);
    const fromMs = Math.max(one.dueMs, destination.notBeforeMs, roomMs);
    if (lane === LANES.event) return fromMs;
    // While scoring signals are under way, more of them join the next delivery until it is full.
    const scored = underWay.filter((other) => other.lane === LANES.scored);
    const fullMs = scored.length > 0 && this.#deliveries.isOpen(one) ? earliestEnd(scored) : 0;
    return Math.max(fromMs, fullMs, (this.#scoredMs.get(destination.id) ?? 0) + GATHER_EVERY_MS);
  }

  #of(destinationId: string): UnderWay[] {
    return [...this.#underWay.values()].filter((one) => one.destinationId === destinationId);
  }
}

function earliestEnd(underWay: readonly UnderWay[]): number {
  return Math.min(...underWay.map(({ untilMs }) => untilMs));
}

/** The lanes that a destination is sent: a test whatever its state, so that it can be tried at any time. */
function lanesOf({ state }: StoredDestination): Lane[] {
  return state === "active" ? [LANES.test, LANES.event, LANES.scored] : [LANES.test];
}

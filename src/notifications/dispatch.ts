/**
 * Decides which deliveries leave now, when the next ones may leave, and what follows from an attempt. Attempts in progress are tracked in
 * memory, only to avoid passing a delivery to the queue twice. The delivery's row prevents overlapping attempts, when the consumer takes
 * it.
 */
import {
  FAILING_AFTER,
  failedAgain,
  hasFailedTooLong,
  decideAttempt,
  notBeforeMs,
  type AttemptResult,
} from "../domain/notifications/attempts.ts";
import type { DisabledReason } from "../domain/notifications/destination.ts";
import { FULL_BUCKET, takeRequest } from "../domain/quota/request-rate.ts";
import { DELIVERY_TIMEOUT_MS, GATHER_EVERY_MS } from "../limits.ts";
import { LANES, type Deliveries, type Lane, type StoredDelivery } from "./deliveries.ts";
import type { DeliveryEnd, Due } from "./destination-calls.ts";
import { newNotification } from "./raised-notifications.ts";
import { isReceiving, NO_FAILURES, type Roster, type Settings, type StoredDestination } from "./roster.ts";

/** Maximum deliveries of a workspace that start per second. */
const DELIVERY_RATE = { perSecond: 20, burst: 40 } as const;
/** Maximum deliveries in progress per destination; one if the destination fails. Tests do not wait for others. */
export const DELIVERIES_UNDER_WAY = 5;
/** No second attempt starts within this time. A consumer that has not reported by then is considered dead. */
export const TAKEN_MS = DELIVERY_TIMEOUT_MS + 5_000;

/** After an outage of this length, a success makes all waiting deliveries due at once. */
const DESTINATION_RECOVERED_MS = 3_600_000;
/** The time of the last success is stored at most this often. */
const DELIVERED_WRITE_MS = 60_000;

interface Tables {
  roster: Roster;
  deliveries: Deliveries;
  settings: Settings;
}

interface UnderWay {
  destinationId: string;
  lane: Lane;
  untilMs: number;
}

export class Dispatch {
  readonly #sql: SqlStorage;
  readonly #roster: Roster;
  readonly #deliveries: Deliveries;
  readonly #settings: Settings;
  readonly #leaseMs: number;
  readonly #underWay = new Map<string, UnderWay>();
  readonly #scoredMs = new Map<string, number>();
  #bucket = FULL_BUCKET;
  /** The destination that is served first rotates, so that the rate limit does not always stop the same one. */
  #turn = 0;

  constructor(sql: SqlStorage, { roster, deliveries, settings }: Tables, leaseMs: number) {
    this.#sql = sql;
    this.#roster = roster;
    this.#deliveries = deliveries;
    this.#settings = settings;
    this.#leaseMs = leaseMs;
    for (const { id, destinationId, lane, takenMs } of deliveries.taken()) {
      this.#underWay.set(id, { destinationId, lane, untilMs: (takenMs ?? 0) + TAKEN_MS });
    }
  }

  /**
   * Takes the deliveries that leave now. A delivery leaves again after its lease, unless its attempt was reported. `nextMs`: time of the
   * next delivery, in milliseconds since 1970; infinity if none waits.
   */
  takeDue(nowMs: number): { due: Due[]; nextMs: number } {
    for (const [id, { untilMs }] of this.#underWay) if (untilMs <= nowMs) this.#underWay.delete(id);
    const all = this.#roster.all();
    const first = this.#turn++ % Math.max(1, all.length);
    const [due, laterMs]: [Due[], number[]] = [[], []];
    for (const destination of [...all.slice(first), ...all.slice(0, first)]) {
      for (const lane of lanesOf(destination)) {
        for (const delivery of this.#notUnderWay(destination.id, lane)) {
          const fromMs = this.#earliestMs(destination, lane, delivery);
          const rate = takeRequest(this.#bucket, nowMs, DELIVERY_RATE);
          if (fromMs > nowMs || !rate.allowed) {
            laterMs.push(Math.max(fromMs, nowMs + Math.ceil(rate.retryAfterMs)));
            break;
          }
          this.#bucket = rate.bucket;
          this.#underWay.set(delivery.id, { destinationId: destination.id, lane, untilMs: nowMs + this.#leaseMs });
          if (lane === LANES.scored) this.#scoredMs.set(destination.id, nowMs);
          due.push(delivery);
        }
      }
    }
    for (const { untilMs } of this.#underWay.values()) laterMs.push(untilMs);
    return { due, nextMs: Math.min(...laterMs, Number.POSITIVE_INFINITY) };
  }

  /** After a restart of the object, memory may not know the attempt. */
  attemptBegan({ id, destinationId, lane }: StoredDelivery, nowMs: number): void {
    const untilMs = Math.max(this.#underWay.get(id)?.untilMs ?? 0, nowMs + TAKEN_MS);
    this.#underWay.set(id, { destinationId, lane, untilMs });
  }

  /** Call it in a transaction. A failed test does not count against its destination. */
  attemptEnded(before: StoredDelivery, result: AttemptResult, nowMs: number): void {
    this.#underWay.delete(before.id);
    const destination = this.#roster.find(before.destinationId);
    if (destination === null) return;
    const kept = before.answersHidden ? { ...result, answer: null } : result;
    const failed = before.failed + Number(result.error !== null);
    const delivery = { ...before, failed, attempts: [...before.attempts, kept] };
    const isTest = delivery.lane === LANES.test;
    const decided = decideAttempt(result, failed, nowMs, Math.random());
    if (decided.outcome === "delivered") this.#deliveries.end(delivery, "delivered", null, nowMs);
    else if (isTest || decided.outcome === "given_up")
      this.#deliveries.end(delivery, "failed", "attempts_failed", nowMs);
    else if (decided.outcome === "gone") this.#deliveries.end(delivery, "failed", "switched_off", nowMs);
    else this.#deliveries.retryAt(delivery, decided.atMs);
    this.#deliveries.limitEnded(destination.id, nowMs);
    if (isTest) return;
    if (decided.outcome === "delivered") this.#recordSuccess(destination, nowMs);
    else this.#recordFailure(destination, result, nowMs);
  }

  cancel(delivery: StoredDelivery, reason: DeliveryEnd, nowMs: number): void {
    this.#underWay.delete(delivery.id);
    this.#deliveries.end(delivery, "failed", reason, nowMs);
  }

  queueRejected(id: string, againMs: number): void {
    const attempt = this.#underWay.get(id);
    if (attempt !== undefined) this.#underWay.set(id, { ...attempt, untilMs: againMs });
  }

  #recordSuccess(destination: StoredDestination, nowMs: number): void {
    const { failing, deliveredMs } = destination;
    if (failing === null && deliveredMs !== null && nowMs - deliveredMs < DELIVERED_WRITE_MS) return;
    this.#roster.put({ ...destination, ...NO_FAILURES, deliveredMs: nowMs });
    if (failing !== null && nowMs - failing.sinceMs >= DESTINATION_RECOVERED_MS) {
      this.#deliveries.dueNow(destination.id, nowMs);
    }
  }

  #recordFailure(destination: StoredDestination, result: AttemptResult, nowMs: number): void {
    const failing = failedAgain(destination.failing, nowMs);
    // Attempts that ran at the same time count as one failure, because the outage may have been short.
    const isAnother = destination.failing === null || result.atMs >= destination.failing.lastMs;
    const failures = destination.failures + Number(isAnother);
    const notBefore = Math.max(destination.notBeforeMs, notBeforeMs(result, failures, nowMs, Math.random()));
    const missed = { ...destination, failing, failures, notBeforeMs: notBefore };
    if (result.status === 410) this.#switchOff(missed, "gone", nowMs);
    else if (hasFailedTooLong(failing)) this.#switchOff(missed, "failing", nowMs);
    else this.#roster.put(missed);
  }

  /** All other destinations are notified, whichever types they want. */
  #switchOff(destination: StoredDestination, reason: DisabledReason, nowMs: number): void {
    const { id, name } = destination;
    this.#roster.put({ ...destination, state: "disabled", disabledReason: reason });
    this.#deliveries.giveUpAll(id, "switched_off", nowMs);
    this.#settings.markChanged();
    const detail = JSON.stringify({ name, reason });
    this.#sql.exec(
      "INSERT OR REPLACE INTO switched_off (destination_id, at_ms, detail) VALUES (?, ?, ?)",
      id,
      nowMs,
      detail,
    );
    const data = { destination_id: id, destination_name: name, reason };
    const otherIds = this.#roster.active().map(({ id: otherId }) => otherId);
    if (otherIds.length > 0)
      this.#deliveries.add(newNotification("destination.disabled", data, nowMs), otherIds, nowMs);
  }

  #notUnderWay(destinationId: string, lane: Lane): (Due & { dueMs: number })[] {
    const limit = this.#attemptsOf(destinationId).length + DELIVERIES_UNDER_WAY + 1;
    return this.#deliveries.earliest(destinationId, lane, limit).filter(({ id }) => !this.#underWay.has(id));
  }

  #earliestMs(destination: StoredDestination, lane: Lane, delivery: Due & { dueMs: number }): number {
    if (lane === LANES.test) return delivery.dueMs;
    const underWay = this.#attemptsOf(destination.id);
    const room = destination.failures >= FAILING_AFTER ? 1 : DELIVERIES_UNDER_WAY;
    const roomMs = underWay.length < room ? 0 : earliestEnd(underWay);
    const fromMs = Math.max(delivery.dueMs, destination.notBeforeMs, roomMs);
    if (lane === LANES.notification) return fromMs;
    // While scoring signals are in progress, new ones join the next delivery until it is full.
    const scored = underWay.filter((attempt) => attempt.lane === LANES.scored);
    const fullMs = scored.length > 0 && this.#deliveries.isOpen(delivery) ? earliestEnd(scored) : 0;
    return Math.max(fromMs, fullMs, (this.#scoredMs.get(destination.id) ?? 0) + GATHER_EVERY_MS);
  }

  #attemptsOf(destinationId: string): UnderWay[] {
    return [...this.#underWay.values()].filter((attempt) => attempt.destinationId === destinationId);
  }
}

function earliestEnd(underWay: readonly UnderWay[]): number {
  return Math.min(...underWay.map(({ untilMs }) => untilMs));
}

/** Tests are sent in every state, so that admins can always try a destination. */
function lanesOf(destination: StoredDestination): Lane[] {
  return isReceiving(destination) ? [LANES.test, LANES.notification, LANES.scored] : [LANES.test];
}

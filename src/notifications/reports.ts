/** Consequences of an ended attempt. Runs inside a transaction of the object. */
import { failedAgain, isHopeless, judgeAttempt, notBeforeMs, type AttemptResult } from "../domain/events/attempts.ts";
import type { DisabledReason } from "../domain/events/destination.ts";
import type { EventData, EventId } from "../domain/events/workspace-event.ts";
import { newId } from "../platform/ids.ts";
import { LANES, type Deliveries, type StoredDelivery } from "./deliveries.ts";
import { NO_FAILURES, type Roster, type Settings, type StoredDestination } from "./roster.ts";

/** After an outage of this length, a success makes all waiting deliveries due at once. */
const DESTINATION_RECOVERED_MS = 3_600_000;
/** The time of the last success is stored at most this often. */
const DELIVERED_WRITE_MS = 60_000;

export class Reports {
  readonly #sql: SqlStorage;
  readonly #roster: Roster;
  readonly #deliveries: Deliveries;
  readonly #settings: Settings;

  constructor(sql: SqlStorage, parts: { roster: Roster; deliveries: Deliveries; settings: Settings }) {
    this.#sql = sql;
    this.#roster = parts.roster;
    this.#deliveries = parts.deliveries;
    this.#settings = parts.settings;
  }

  /** Decides what follows from an attempt. A failed test does not count against its destination. */
  judge(before: StoredDelivery, result: AttemptResult, nowMs: number): void {
    const destination = this.#roster.find(before.destinationId);
    if (destination === null) return;
    const kept = before.answersHidden ? { ...result, answer: null } : result;
    const failed = before.failed + Number(result.error !== null);
    const delivery = { ...before, failed, attempts: [...before.attempts, kept] };
    const isTest = delivery.lane === LANES.test;
    const judged = judgeAttempt(result, failed, nowMs, Math.random());
    if (judged.outcome === "delivered") this.#deliveries.end(delivery, "delivered", null);
    else if (isTest || judged.outcome === "given_up") this.#deliveries.end(delivery, "failed", "attempts_failed");
    else if (judged.outcome === "gone") this.#deliveries.end(delivery, "failed", "switched_off");
    else this.#deliveries.again(delivery, judged.atMs);
    this.#deliveries.clearEnded(destination.id, nowMs);
    if (isTest) return;
    if (judged.outcome === "delivered") this.#reached(destination, nowMs);
    else this.#missed(destination, result, nowMs);
  }

  #reached(destination: StoredDestination, nowMs: number): void {
    const { failing, deliveredMs } = destination;
    if (failing === null && deliveredMs !== null && nowMs - deliveredMs < DELIVERED_WRITE_MS) return;
    this.#roster.put({ ...destination, ...NO_FAILURES, deliveredMs: nowMs });
    // The destination is back after a long outage: retry its waiting deliveries now.
    if (failing !== null && nowMs - failing.sinceMs >= DESTINATION_RECOVERED_MS) {
      this.#deliveries.dueNow(destination.id, nowMs);
    }
  }

  #missed(destination: StoredDestination, result: AttemptResult, nowMs: number): void {
    const failing = failedAgain(destination.failing, nowMs);
    // Attempts that ran at the same time count as one failure, because the outage may have been short.
    const isAnother = destination.failing === null || result.atMs >= destination.failing.lastMs;
    const failures = destination.failures + Number(isAnother);
    const notBefore = Math.max(destination.notBeforeMs, notBeforeMs(result, failures, nowMs, Math.random()));
    const missed = { ...destination, failing, failures, notBeforeMs: notBefore };
    if (result.status === 410) this.#switchOff(missed, "gone", nowMs);
    else if (isHopeless(failing)) this.#switchOff(missed, "failing", nowMs);
    else this.#roster.put(missed);
  }

  /** Switches a destination off. All other destinations are notified, whichever types they want. */
  #switchOff(destination: StoredDestination, reason: DisabledReason, nowMs: number): void {
    const { id, name } = destination;
    this.#roster.put({ ...destination, state: "disabled", disabledReason: reason });
    this.#deliveries.giveUpAll(id, "switched_off");
    this.#settings.changed();
    const detail = JSON.stringify({ name, reason });
    this.#sql.exec(
      "INSERT OR REPLACE INTO switched_off (destination_id, at_ms, detail) VALUES (?, ?, ?)",
      id,
      nowMs,
      detail,
    );
    const data = { destination_id: id, destination_name: name, reason };
    const otherIds = this.#roster.active().map(({ id: otherId }) => otherId);
    if (otherIds.length > 0) this.#deliveries.add(ownEvent("destination.disabled", data, nowMs), otherIds, nowMs);
  }
}

/** A notification that the object raises itself. */
export function ownEvent<Type extends "destination.test" | "destination.disabled">(
  type: Type,
  data: EventData[Type],
  time: number,
): { id: EventId; type: Type; time: number; data: EventData[Type] } {
  return { id: newId("evt", time), type, time, data };
}

/** What follows from an attempt that has ended. Everything here runs inside a transaction of the object. */
import { failedAgain, isHopeless, judgeAttempt, notBeforeMs, type AttemptResult } from "../domain/events/attempts.ts";
import type { DisabledReason } from "../domain/events/destination.ts";
import type { EventData, EventId } from "../domain/events/workspace-event.ts";
import { newId } from "../platform/ids.ts";
import { LANES, type Deliveries, type StoredDelivery } from "./deliveries.ts";
import { NO_FAILURES, type Roster, type Settings, type StoredDestination } from "./roster.ts";

/** Once something has reached a destination again that has failed for so long, what waits for it is tried at once. */
const DESTINATION_RECOVERED_MS = 3_600_000;
/** That a destination was reached is noted at most this often. */
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

  /** Decides what follows from an attempt. A test says nothing of its destination but to whoever has sent it. */
  judge(before: StoredDelivery, result: AttemptResult, nowMs: number): void {
    const destination = this.#roster.find(before.destinationId);
    if (destination === null) return;
    const kept = before.answersHidden ? { ...result, answer: null } : result;
    const failed = before.failed + Number(result.error !== null);
    const one = { ...before, failed, attempts: [...before.attempts, kept] };
    const isTest = one.lane === LANES.test;
    const judged = judgeAttempt(result, failed, nowMs, Math.random());
    if (judged.outcome === "delivered") this.#deliveries.end(one, "delivered", null);
    else if (isTest || judged.outcome === "given_up") this.#deliveries.end(one, "failed", "attempts_failed");
    else if (judged.outcome === "gone") this.#deliveries.end(one, "failed", "switched_off");
    else this.#deliveries.again(one, judged.atMs);
    this.#deliveries.clearEnded(destination.id, nowMs);
    if (isTest) return;
    if (judged.outcome === "delivered") this.#reached(destination, nowMs);
    else this.#missed(destination, result, nowMs);
  }

  #reached(destination: StoredDestination, nowMs: number): void {
    const { failing, deliveredMs } = destination;
    if (failing === null && deliveredMs !== null && nowMs - deliveredMs < DELIVERED_WRITE_MS) return;
    this.#roster.put({ ...destination, ...NO_FAILURES, deliveredMs: nowMs });
    // A destination that was away for long is back: its deliveries need not wait out their hours.
    if (failing !== null && nowMs - failing.sinceMs >= DESTINATION_RECOVERED_MS) {
      this.#deliveries.dueNow(destination.id, nowMs);
    }
  }

  #missed(destination: StoredDestination, result: AttemptResult, nowMs: number): void {
    const failing = failedAgain(destination.failing, nowMs);
    // Attempts that were under way together failed once: the receiver may have been away for a moment only.
    const isAnother = destination.failing === null || result.atMs >= destination.failing.lastMs;
    const failures = destination.failures + Number(isAnother);
    const notBefore = Math.max(destination.notBeforeMs, notBeforeMs(result, failures, nowMs, Math.random()));
    const missed = { ...destination, failing, failures, notBeforeMs: notBefore };
    if (result.status === 410) this.#switchOff(missed, "gone", nowMs);
    else if (isHopeless(failing)) this.#switchOff(missed, "failing", nowMs);
    else this.#roster.put(missed);
  }

  /** Switches a destination off. The other destinations are told, whatever events they want. */
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
    const others = this.#roster.active().map((one) => one.id);
    if (others.length > 0) this.#deliveries.add(ownEvent("destination.disabled", data, nowMs), others, nowMs);
  }
}

/** An event that the object raises itself. */
export function ownEvent<Type extends "destination.test" | "destination.disabled">(
  type: Type,
  data: EventData[Type],
  time: number,
): { id: EventId; type: Type; time: number; data: EventData[Type] } {
  return { id: newId("evt", time), type, time, data };
}

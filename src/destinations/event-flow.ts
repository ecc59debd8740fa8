/**
 * The way of an event: to the destinations that want it, gathered where it comes in numbers, until each delivery has arrived
 * or was given up. Everything here runs inside a transaction of the object.
 */
import { failedAgain, isHopeless, judgeAttempt, type AttemptResult } from "../domain/events/attempts.ts";
import type { DisabledReason } from "../domain/events/destination.ts";
import type { AnyEvent, EventData, EventId, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { newId } from "../platform/ids.ts";
import type { StoredDestination } from "./roster.ts";
import { KINDS, type StoredDelivery } from "./stored-delivery.ts";
import type { StoredParts } from "./stored-parts.ts";

/** Once something has reached a destination again that has failed for so long, what waits for it is tried at once. */
const DESTINATION_RECOVERED_MS = 3_600_000;

/** That a destination was reached is noted at most this often. */
const DELIVERED_WRITE_MS = 60_000;

export class EventFlow {
  readonly #stored: StoredParts;

  constructor(stored: StoredParts) {
    this.#stored = stored;
  }

  /** Sends events on to whoever wants them now. An event that was raised before is ignored. */
  raise(events: readonly WorkspaceEvent[], nowMs: number): void {
    const active = this.#stored.roster.active();
    for (const event of events) {
      const wanting = active.filter((one) => one.events.includes(event.type)).map(({ id }) => id);
      if (wanting.length === 0 || !this.#isNew(event.id)) continue;
      if (event.type === "person.scored") this.#stored.scored.add(event);
      else this.#deliver(event, wanting, nowMs);
    }
    this.#giveUpUngathered();
  }

  /** Sends a test to a destination. @returns the delivery's id. */
  test(destinationId: string, message: string, nowMs: number): string {
    const event = ownEvent("destination.test", { message }, nowMs);
    return this.#stored.deliveries.add(event, [destinationId], nowMs)[0] ?? "";
  }

  /** Gathers scoring signals for each destination whose time has come. */
  gather(nowMs: number): void {
    const { roster, scored } = this.#stored;
    for (const one of roster.active()) {
      if (scored.dueMs(one) <= nowMs) roster.put(this.#gatherNext(one, nowMs));
    }
    scored.removeGathered(roster.all());
  }

  /** Gathers at once all that waits to be gathered for a destination. */
  gatherAll(one: StoredDestination, nowMs: number): StoredDestination {
    let left = one;
    while (this.#stored.scored.dueMs(left) < Number.POSITIVE_INFINITY) left = this.#gatherNext(left, nowMs);
    return left;
  }

  /** When there will be something to gather, in milliseconds since 1970; infinity: never, as things stand. */
  nextMs(): number {
    const { roster, scored } = this.#stored;
    return Math.min(Number.POSITIVE_INFINITY, ...roster.active().map((one) => scored.dueMs(one)));
  }

  /** Decides what follows from an attempt that has ended. A test says nothing of its destination but to whoever has sent it. */
  judge(before: StoredDelivery, result: AttemptResult, nowMs: number): void {
    const { deliveries, roster } = this.#stored;
    const destination = roster.find(before.destinationId);
    if (destination === null) return;
    const failed = before.failed + Number(result.error !== null);
    const one = { ...before, failed, attempts: [...before.attempts, result] };
    const isTest = one.kind === KINDS.test;
    const judged = judgeAttempt(result, failed, nowMs, Math.random());
    if (judged.outcome === "delivered") deliveries.end(one, "delivered", null);
    else if (judged.outcome === "again" && !isTest) deliveries.again(one, judged.atMs);
    else deliveries.end(one, "failed", judged.outcome === "gone" ? "switched_off" : "attempts_failed");
    if (isTest) return;
    if (judged.outcome === "delivered") this.#reached(destination, nowMs);
    else this.#missed(destination, judged.outcome === "gone", nowMs);
  }

  #isNew(eventId: string): boolean {
    const insert = "INSERT INTO events_seen (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING id";
    return this.#stored.sql.exec(insert, eventId).toArray().length > 0;
  }

  #deliver(event: AnyEvent, destinationIds: readonly string[], nowMs: number): void {
    this.#stored.deliveries.add(event, destinationIds, nowMs);
    for (const id of destinationIds) this.#dropped(id, this.#stored.deliveries.giveUpBeyond(id));
  }

  #gatherNext(one: StoredDestination, nowMs: number): StoredDestination {
    const { scored, deliveries } = this.#stored;
    const next = scored.next(one);
    // An event whose persons were all deleted has no scoring signals left, and is not delivered.
    if (next === null) return { ...one, gatheredTo: scored.lastSeq };
    if (next.event.data.scoring_signals.length > 0) deliveries.add(next.event, [one.id], nowMs);
    const dropped = one.dropped + deliveries.giveUpBeyond(one.id);
    return { ...one, dropped, gatheredTo: next.gatheredTo, gatheredMs: nowMs };
  }

  /** Gives up the oldest events where more wait to be gathered than may: a destination that fails lets few through. */
  #giveUpUngathered(): void {
    const { roster, scored } = this.#stored;
    const upTo = scored.tooManyUpTo();
    if (upTo === null) return;
    for (const one of roster.active()) this.#dropped(one.id, scored.between(one, upTo));
    scored.removeUpTo(upTo);
  }

  #dropped(destinationId: string, dropped: number): void {
    const one = this.#stored.roster.find(destinationId);
    if (one !== null && dropped > 0) this.#stored.roster.put({ ...one, dropped: one.dropped + dropped });
  }

  #reached(destination: StoredDestination, nowMs: number): void {
    const { failing, deliveredMs } = destination;
    if (failing === null && deliveredMs !== null && nowMs - deliveredMs < DELIVERED_WRITE_MS) return;
    this.#stored.roster.put({ ...destination, failing: null, deliveredMs: nowMs });
    // A destination that was away for long is back: its deliveries need not wait out their hours.
    if (failing !== null && nowMs - failing.sinceMs >= DESTINATION_RECOVERED_MS) {
      this.#stored.deliveries.dueNow(destination.id, nowMs);
    }
  }

  #missed(destination: StoredDestination, isGone: boolean, nowMs: number): void {
    const failing = failedAgain(destination.failing, nowMs);
    const missed = { ...destination, failing };
    if (isGone) this.#switchOff(missed, "gone", nowMs);
    else if (isHopeless(failing)) this.#switchOff(missed, "failing", nowMs);
    else this.#stored.roster.put(missed);
  }

  /** Switches a destination off. The other destinations are told, whatever events they want. */
  #switchOff(destination: StoredDestination, reason: DisabledReason, nowMs: number): void {
    const { roster, deliveries, settings, sql } = this.#stored;
    const { id, name } = destination;
    roster.put({ ...destination, state: "disabled", disabledReason: reason });
    deliveries.giveUpAll(id, "switched_off");
    settings.changed();
    const detail = JSON.stringify({ name, reason });
    sql.exec("INSERT OR REPLACE INTO switched_off (destination_id, at_ms, detail) VALUES (?, ?, ?)", id, nowMs, detail);
    const data = { destination_id: id, destination_name: name, reason };
    const others = roster.active().map((one) => one.id);
    if (others.length > 0) this.#deliver(ownEvent("destination.disabled", data, nowMs), others, nowMs);
  }
}

/** An event that this object raises itself. */
function ownEvent<Type extends "destination.test" | "destination.disabled">(
  type: Type,
  data: EventData[Type],
  time: number,
): { id: EventId; type: Type; time: number; data: EventData[Type] } {
  return { id: newId("evt", time), type, time, data };
}

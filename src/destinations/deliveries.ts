/**
 * Deliveries: an event on its way to one destination, with every attempt. `due_ms` is when it is to be handed to the queue;
 * while it is with the queue, when it is handed over again unless its attempt has been reported. What is over has none.
 */
import type { AnyEvent, AnyEventType } from "../domain/events/workspace-event.ts";
import { DELIVERIES_KEPT, DELIVERY_KEPT_DAYS } from "../limits.ts";
import { newId } from "../platform/ids.ts";
import type { Page, PageOf } from "../platform/list-page.ts";
import type { Delivery, DeliveryEnd } from "./destination-calls.ts";
import {
  deliveryKind,
  shownDelivery,
  toStoredDelivery,
  type DeliveryRow,
  type Kind,
  type StoredDelivery,
} from "./stored-delivery.ts";

/** Deliveries that wait for one destination: beyond that the oldest are given up. */
export const DELIVERIES_WAITING_MAX = 10_000;
/** Attempts that are shown of one delivery, the latest: a whole schedule, and again by hand. */
const ATTEMPTS_KEPT = 20;

export class Deliveries {
  readonly #sql: SqlStorage;
  /** How many deliveries wait, by destination. */
  readonly #waiting = new Map<string, number>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Adds a delivery of the event to each of these destinations, due at once. Returns the deliveries' ids. */
  add(event: AnyEvent, destinationIds: readonly string[], nowMs: number): string[] {
    const { seq } = this.#sql
      .exec<{ seq: number }>(
        "INSERT INTO messages (id, type, time_ms, data) VALUES (?, ?, ?, ?) RETURNING seq",
        event.id,
        event.type,
        event.time,
        JSON.stringify(event.data),
      )
      .one();
    return destinationIds.map((destinationId) => {
      const id = newId("dlv", nowMs);
      const waiting = this.waiting(destinationId);
      this.#sql.exec(
        `INSERT INTO deliveries (id, destination_id, message, kind, state, due_ms, attempt, failed, attempts, created_ms)
          VALUES (?, ?, ?, ?, 'waiting', ?, 1, 0, '[]', ?)`,
        id,
        destinationId,
        seq,
        deliveryKind(event.type),
        nowMs,
        nowMs,
      );
      this.#waiting.set(destinationId, waiting + 1);
      return id;
    });
  }

  waiting(destinationId: string): number {
    let waiting = this.#waiting.get(destinationId);
    if (waiting === undefined) {
      waiting = this.#sql
        .exec<{ n: number }>(
          "SELECT count(*) AS n FROM deliveries WHERE destination_id = ? AND due_ms IS NOT NULL",
          destinationId,
        )
        .one().n;
      this.#waiting.set(destinationId, waiting);
    }
    return waiting;
  }

  /** Forgets the counts in memory: after a transaction was taken back they may not be what is stored. */
  rolledBack(): void {
    this.#waiting.clear();
  }

  /** The deliveries of a kind that are due, the earliest first. */
  due(destinationId: string, kind: Kind, nowMs: number, limit: number): { id: string; attempt: number }[] {
    return this.#sql
      .exec<{ id: string; attempt: number }>(
        `SELECT id, attempt FROM deliveries WHERE destination_id = ? AND kind = ? AND due_ms IS NOT NULL AND due_ms <= ?
          ORDER BY due_ms LIMIT ?`,
        destinationId,
        kind,
        nowMs,
        limit,
      )
      .toArray();
  }

  /** When the next delivery of this kind is due, in milliseconds since 1970; infinity: none is. */
  nextDueMs(destinationId: string, kind: Kind): number {
    const { due } = this.#sql
      .exec<{ due: number | null }>(
        "SELECT min(due_ms) AS due FROM deliveries WHERE destination_id = ? AND kind = ? AND due_ms IS NOT NULL",
        destinationId,
        kind,
      )
      .one();
    return due ?? Number.POSITIVE_INFINITY;
  }

  dueAt(id: string, dueMs: number): void {
    this.#sql.exec("UPDATE deliveries SET due_ms = ? WHERE id = ? AND due_ms IS NOT NULL", dueMs, id);
  }

  /** Makes all deliveries that wait for a destination due now. */
  dueNow(destinationId: string, nowMs: number): void {
    this.#sql.exec(
      "UPDATE deliveries SET due_ms = ? WHERE destination_id = ? AND due_ms IS NOT NULL AND due_ms > ?",
      nowMs,
      destinationId,
      nowMs,
    );
  }

  find(id: string): StoredDelivery | null {
    const [row] = this.#sql.exec<DeliveryRow>("SELECT * FROM deliveries WHERE id = ?", id).toArray();
    return row === undefined ? null : toStoredDelivery(row);
  }

  /** The event of a message. Null: it held the data of a person who was deleted. */
  event(message: number): AnyEvent | null {
    const [row] = this.#sql
      .exec<{ id: string; type: string; time_ms: number; data: string | null }>(
        "SELECT id, type, time_ms, data FROM messages WHERE seq = ?",
        message,
      )
      .toArray();
    if (row === undefined || row.data === null) return null;
    return { id: row.id, type: row.type, time: row.time_ms, data: JSON.parse(row.data) as unknown } as AnyEvent;
  }

  /** Has a delivery attempted again at `dueMs`. */
  again(one: StoredDelivery, dueMs: number): void {
    this.#put({ ...one, state: "waiting", endReason: null, dueMs, attempt: one.attempt + 1 }, one);
  }

  /** Gives a delivery its whole schedule again, as if it had not been tried yet; it waits again if it no longer did. */
  startOver(one: StoredDelivery, dueMs: number): void {
    this.#put({ ...one, state: "waiting", endReason: null, dueMs, failed: 0 }, one);
  }

  end(one: StoredDelivery, state: "delivered" | "failed", endReason: DeliveryEnd | null): void {
    this.#put({ ...one, state, endReason, dueMs: null, attempt: one.attempt + 1 }, one);
  }

  /** Gives up all deliveries that wait for a destination. */
  giveUpAll(destinationId: string, reason: DeliveryEnd): void {
    this.#sql.exec(
      `UPDATE deliveries SET state = 'failed', end_reason = ?, due_ms = NULL, attempt = attempt + 1
        WHERE destination_id = ? AND due_ms IS NOT NULL`,
      reason,
      destinationId,
    );
    this.#waiting.delete(destinationId);
  }

  /** Gives up the oldest deliveries beyond what may wait for a destination. Returns how many. */
  giveUpBeyond(destinationId: string): number {
    const beyond = this.waiting(destinationId) - DELIVERIES_WAITING_MAX;
    if (beyond <= 0) return 0;
    this.#sql.exec(
      `UPDATE deliveries SET state = 'failed', end_reason = 'too_many', due_ms = NULL, attempt = attempt + 1
        WHERE id IN (SELECT id FROM deliveries WHERE destination_id = ? AND due_ms IS NOT NULL ORDER BY id LIMIT ?)`,
      destinationId,
      beyond,
    );
    this.#waiting.set(destinationId, DELIVERIES_WAITING_MAX);
    return beyond;
  }

  remove(destinationId: string): void {
    this.#sql.exec("DELETE FROM deliveries WHERE destination_id = ?", destinationId);
    this.#waiting.delete(destinationId);
    this.#removeMessages();
  }

  /** A destination's deliveries, the latest first. */
  list(destinationId: string, { cursor, limit }: Page): PageOf<Delivery> {
    const rows = this.#sql
      .exec<DeliveryRow & { event_id: string; type: AnyEventType }>(
        `SELECT deliveries.*, messages.id AS event_id, messages.type FROM deliveries
          JOIN messages ON messages.seq = deliveries.message
          WHERE destination_id = ? AND (? IS NULL OR deliveries.id < ?) ORDER BY deliveries.id DESC LIMIT ?`,
        destinationId,
        cursor,
        cursor,
        limit + 1,
      )
      .toArray();
    const items = rows.slice(0, limit).map((row) => shownDelivery(toStoredDelivery(row), row.event_id, row.type));
    return { items, next: rows.length > limit ? (items.at(-1)?.id ?? null) : null };
  }

  shown(one: StoredDelivery): Delivery {
    const { id, type } = this.#sql
      .exec<{ id: string; type: AnyEventType }>("SELECT id, type FROM messages WHERE seq = ?", one.message)
      .one();
    return shownDelivery(one, id, type);
  }

  /** Deletes deliveries that are no longer shown, and those that have waited too long, for a destination that stays paused. */
  clearAway(destinationIds: readonly string[], nowMs: number): void {
    const oldMs = nowMs - DELIVERY_KEPT_DAYS * 24 * 3_600_000;
    for (const destinationId of destinationIds) {
      this.#sql.exec(
        `DELETE FROM deliveries WHERE destination_id = ?1 AND (created_ms < ?2 OR (due_ms IS NULL AND id NOT IN
          (SELECT id FROM deliveries WHERE destination_id = ?1 AND due_ms IS NULL ORDER BY id DESC LIMIT ?3)))`,
        destinationId,
        oldMs,
        DELIVERIES_KEPT,
      );
      this.#waiting.delete(destinationId);
    }
    this.#removeMessages();
  }

  /** Deletes messages that no delivery has any more. */
  #removeMessages(): void {
    this.#sql.exec("DELETE FROM messages WHERE seq NOT IN (SELECT message FROM deliveries)");
  }

  #put(one: StoredDelivery, before: StoredDelivery): void {
    const waiting = this.waiting(one.destinationId);
    this.#sql.exec(
      "UPDATE deliveries SET state = ?, end_reason = ?, due_ms = ?, attempt = ?, failed = ?, attempts = ? WHERE id = ?",
      one.state,
      one.endReason,
      one.dueMs,
      one.attempt,
      one.failed,
      JSON.stringify(one.attempts.slice(-ATTEMPTS_KEPT)),
      one.id,
    );
    this.#waiting.set(one.destinationId, waiting + Number(one.dueMs !== null) - Number(before.dueMs !== null));
  }
}

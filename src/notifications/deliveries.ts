/**
 * Deliveries: one or several notifications sent to one destination, with all attempts. Scoring signals are frequent, so they join the
 * destination's newest delivery until it is full or the consumer takes it. After that its content is fixed: each attempt sends the same
 * body under the same id.
 */
import { DAY_MS } from "../domain/duration.ts";
import type { AttemptResult } from "../domain/notifications/attempts.ts";
import type { NotificationData } from "../domain/notifications/notification-data.ts";
import {
  type AnyNotification,
  type AnyNotificationType,
  notificationSentence,
  subjectOf,
  withoutPerson,
  type Notification,
} from "../domain/notifications/notification.ts";
import { DELIVERIES_KEPT, DELIVERY_KEPT_DAYS, PERSON_SCORED_MAX_SIGNALS, DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { newId } from "../platform/ids.ts";
import { listPage, type ListQuery, type ListPage } from "../platform/list-page.ts";
import type { Delivery, DeliveryEnd, DeliveryState, Due, ResentDeliveries } from "./destination-calls.ts";
import { hashAtOnce } from "../platform/hashes.ts";

/**
 * Lanes of a destination do not wait for each other. Tests are sent in any state of the destination. Deliveries of scoring signals leave
 * one second apart.
 */
export const LANES = { test: 0, notification: 1, scored: 2 } as const;
export type Lane = (typeof LANES)[keyof typeof LANES];

function laneOf(type: AnyNotificationType): Lane {
  if (type === "destination.test") return LANES.test;
  return type === "person.scored" ? LANES.scored : LANES.notification;
}

/** Maximum bytes of the notifications in one delivery. A single notification may be larger. */
const DELIVERY_MAX_BYTES = 256 * 1_024;
/** Maximum characters of a notification's data; a larger notification is dropped, because it would not fit into a row. */
const NOTIFICATION_MAX_CHARACTERS = 600_000;
/** Above either limit, the oldest deliveries that wait for the destination are given up. */
export const WAITING_MAX_BYTES = 64 * 1_024 * 1_024;
export const WAITING_MAX_DELIVERIES = 10_000;
const ROW_BYTES = 512;
/** Enough for a full schedule and some manual retries. */
const ATTEMPTS_KEPT = 20;
const ENDED_BEFORE_CLEARING = 50;

export interface StoredDelivery extends Omit<Delivery, "createdAtMs" | "dueAtMs"> {
  lane: Lane;
  notifications: number[];
  bytes: number;
  dueMs: number | null;
  takenMs: number | null;
  attempt: number;
  failed: number;
  answersHidden: boolean;
  createdMs: number;
  /** Null while it waits. */
  endedMs: number | null;
}

type DeliveryRow = Omit<StoredDelivery, "notifications" | "attempts" | "answersHidden"> & {
  notifications: string;
  attempts: string;
  answersHidden: number;
};

type DeletedRow = { notifications: string; state: DeliveryState; lane: Lane; endedMs: number };

type EarliestRow = { destinationId: string; id: string; dueMs: number; attempt: number };

const SELECT = `SELECT destination_id AS destinationId, id, notification_id AS notificationId, type, lane, notifications, bytes, state,
  end_reason AS endReason, due_ms AS dueMs, taken_ms AS takenMs, attempt, failed, attempts,
  answers_hidden AS answersHidden, created_ms AS createdMs, ended_ms AS endedMs FROM deliveries`;

const HOUR_MS = 3_600_000;

interface FailedDeliveries extends ResentDeliveries {
  /** Deliveries that can be sent again, oldest first, and their bytes. */
  ids: string[];
  bytes: number;
}

interface Counts {
  waiting: number;
  waitingBytes: number;
  endedSinceClearing: number;
  /** The delivery that scoring signals join. Null: the next scoring signal starts a new delivery. */
  open: { id: string; bytes: number; signals: number } | null;
}

export class Deliveries {
  readonly #sql: SqlStorage;
  readonly #counts = new Map<string, Counts>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Drops the in-memory totals. Call it after a rollback, because they may differ from the rows. */
  rolledBack(): void {
    this.#counts.clear();
  }

  waiting(destinationId: string): number {
    return this.#countsOf(destinationId).waiting;
  }

  /** @returns the ids of the deliveries that carry the notification, in the same order; empty if it is too large to store. */
  add(notification: AnyNotification, destinationIds: readonly string[], nowMs: number): string[] {
    const data = JSON.stringify(notification.data);
    if (data.length > NOTIFICATION_MAX_CHARACTERS) return [];
    const insert = "INSERT INTO notifications (id, type, time_ms, data) VALUES (?, ?, ?, ?) RETURNING seq";
    const { seq } = this.#sql
      .exec<{ seq: number }>(insert, notification.id, notification.type, notification.time, data)
      .one();
    const bytes = new TextEncoder().encode(data).length;
    return destinationIds.map(
      (id) => this.#join(id, notification, seq, bytes) ?? this.#create(id, notification, seq, bytes, nowMs),
    );
  }

  /** Null: there is no open delivery, or it is full. */
  #join(destinationId: string, notification: AnyNotification, seq: number, bytes: number): string | null {
    const counts = this.#countsOf(destinationId);
    const { open } = counts;
    if (notification.type !== "person.scored" || open === null) return null;
    const signals = open.signals + notification.data.scoring_signals.length;
    if (signals > PERSON_SCORED_MAX_SIGNALS || open.bytes + bytes > DELIVERY_MAX_BYTES) return null;
    const update = `UPDATE deliveries SET notifications = json_insert(notifications, '$[#]', CAST(? AS INTEGER)), bytes = bytes + ?
      WHERE destination_id = ? AND id = ?`;
    this.#sql.exec(update, seq, bytes, destinationId, open.id);
    counts.open = { id: open.id, bytes: open.bytes + bytes, signals };
    counts.waitingBytes += bytes;
    return open.id;
  }

  #create(destinationId: string, notification: AnyNotification, seq: number, bytes: number, nowMs: number): string {
    const id = newId("dlv", nowMs);
    const counts = this.#countsOf(destinationId);
    const values = [
      destinationId,
      id,
      notification.id,
      notification.type,
      laneOf(notification.type),
      seq,
      bytes + ROW_BYTES,
      nowMs,
      nowMs,
    ];
    this.#sql.exec(
      `INSERT INTO deliveries (destination_id, id, notification_id, type, lane, notifications, bytes, state, due_ms, attempt, failed,
        attempts, answers_hidden, created_ms) VALUES (?, ?, ?, ?, ?, json_array(CAST(? AS INTEGER)), ?, 'waiting', ?, 1, 0, '[]', 0, ?)`,
      ...values,
    );
    counts.waiting++;
    counts.waitingBytes += bytes + ROW_BYTES;
    if (notification.type === "person.scored")
      counts.open = { id, bytes, signals: notification.data.scoring_signals.length };
    return id;
  }

  isOpen({ destinationId, id }: Due): boolean {
    return this.#countsOf(destinationId).open?.id === id;
  }

  earliest(destinationId: string, lane: Lane, limit: number): EarliestRow[] {
    const select = `SELECT destination_id AS destinationId, id, due_ms AS dueMs, attempt FROM deliveries
      WHERE destination_id = ? AND lane = ? AND due_ms IS NOT NULL ORDER BY due_ms, id LIMIT ?`;
    return this.#sql.exec<EarliestRow>(select, destinationId, lane, limit).toArray();
  }

  taken(): StoredDelivery[] {
    return this.#read("due_ms IS NOT NULL AND taken_ms IS NOT NULL");
  }

  find(destinationId: string, id: string): StoredDelivery | null {
    return this.#read("destination_id = ? AND id = ?", destinationId, id)[0] ?? null;
  }

  /** The delivery's notifications in one body. Null: all of them were about deleted people. */
  notification({ notifications }: StoredDelivery): AnyNotification | null {
    const rows = this.#sql
      .exec<{ id: string; type: string; time: number; data: string | null }>(
        `SELECT id, type, time_ms AS time, data FROM notifications WHERE seq IN (SELECT value FROM json_each(?))
          ORDER BY seq`,
        JSON.stringify(notifications),
      )
      .toArray();
    const [first] = rows;
    const datas = rows.flatMap(({ data }) => (data === null ? [] : [JSON.parse(data) as unknown]));
    if (first === undefined || datas.length === 0) return null;
    const data = first.type === "person.scored" ? joined(datas as NotificationData["person.scored"][]) : datas[0];
    return { ...first, data } as AnyNotification;
  }

  /** From now on the delivery's content is fixed. */
  take({ destinationId, id }: StoredDelivery, nowMs: number): void {
    this.#sql.exec("UPDATE deliveries SET taken_ms = ? WHERE destination_id = ? AND id = ?", nowMs, destinationId, id);
    this.#close(destinationId, id);
  }

  retryAt(delivery: StoredDelivery, dueMs: number): void {
    this.#put(delivery, { dueMs, takenMs: null, attempt: delivery.attempt + 1 });
  }

  /** Puts the delivery at the front of the queue. An attempt in progress is not repeated. */
  restart(delivery: StoredDelivery): void {
    this.#put(delivery, { state: "waiting", endReason: null, endedMs: null, dueMs: 0, failed: 0 });
  }

  /** Deliveries that failed at `sinceMs` or later, without tests. `ids`: as many as the limits on waiting deliveries leave room for. */
  failedSince(destinationId: string, sinceMs: number): FailedDeliveries {
    const rows = this.#sql.exec<{ id: string; bytes: number; hasBody: number }>(
      `SELECT id, bytes, EXISTS (SELECT 1 FROM json_each(deliveries.notifications) AS carried
          JOIN notifications ON notifications.seq = carried.value WHERE data IS NOT NULL) AS hasBody
        FROM deliveries WHERE destination_id = ? AND state = 'failed' AND lane <> ? AND ended_ms >= ? ORDER BY id`,
      destinationId,
      LANES.test,
      sinceMs,
    );
    const { waiting, waitingBytes } = this.#countsOf(destinationId);
    const ids: string[] = [];
    let [bytes, personDeleted, tooManyWaiting] = [0, 0, 0];
    for (const row of rows) {
      const isFull =
        waiting + ids.length >= WAITING_MAX_DELIVERIES || waitingBytes + bytes + row.bytes > WAITING_MAX_BYTES;
      if (row.hasBody === 0) personDeleted++;
      else if (tooManyWaiting > 0 || isFull) tooManyWaiting++;
      else {
        ids.push(row.id);
        bytes += row.bytes;
      }
    }
    const notResent = { personDeleted, tooManyWaiting, notKept: this.#notKeptSince(destinationId, sinceMs) };
    return { ids, bytes, resent: ids.length, notResent };
  }

  /** The deliveries leave before newer ones, oldest first. */
  restartAll(destinationId: string, { ids, bytes }: FailedDeliveries): void {
    const counts = this.#countsOf(destinationId);
    this.#sql.exec(
      `UPDATE deliveries SET state = 'waiting', end_reason = NULL, ended_ms = NULL, due_ms = 0, failed = 0
        WHERE destination_id = ? AND id IN (SELECT value FROM json_each(?))`,
      destinationId,
      JSON.stringify(ids),
    );
    counts.waiting += ids.length;
    counts.waitingBytes += bytes;
  }

  end(delivery: StoredDelivery, state: "delivered" | "failed", endReason: DeliveryEnd | null, nowMs: number): void {
    const ended = { state, endReason, endedMs: nowMs };
    this.#put(delivery, { ...ended, dueMs: null, takenMs: null, attempt: delivery.attempt + 1 });
  }

  /** The attempts under way are of another target: their failures count no more, and the deliveries are tried again. */
  forgetAttempts(destinationId: string): void {
    this.#sql.exec(
      "UPDATE deliveries SET attempt = attempt + 1, taken_ms = NULL WHERE destination_id = ? AND taken_ms IS NOT NULL",
      destinationId,
    );
  }

  dueNow(destinationId: string, nowMs: number): void {
    this.#sql.exec(
      "UPDATE deliveries SET due_ms = ?1 WHERE destination_id = ?2 AND due_ms IS NOT NULL AND due_ms > ?1",
      nowMs,
      destinationId,
    );
  }

  giveUpAll(destinationId: string, reason: DeliveryEnd, nowMs: number): void {
    this.#sql.exec(
      `UPDATE deliveries SET state = 'failed', end_reason = ?, ended_ms = ?, due_ms = NULL, taken_ms = NULL, attempt = attempt + 1
        WHERE destination_id = ? AND due_ms IS NOT NULL`,
      reason,
      nowMs,
      destinationId,
    );
    this.#counts.delete(destinationId);
  }

  /** Gives up the oldest deliveries above the limits. @returns the number of notifications given up. */
  giveUpAboveLimits(destinationId: string, nowMs: number): number {
    const counts = this.#countsOf(destinationId);
    const isTooMuch = () => counts.waiting > WAITING_MAX_DELIVERIES || counts.waitingBytes > WAITING_MAX_BYTES;
    let notifications = 0;
    while (isTooMuch()) {
      const oldest = this.#read(
        "destination_id = ? AND state = 'waiting' AND taken_ms IS NULL ORDER BY id LIMIT 100",
        destinationId,
      );
      if (oldest.length === 0) break;
      for (const delivery of oldest) {
        if (!isTooMuch()) break;
        this.end(delivery, "failed", "too_many", nowMs);
        notifications += delivery.notifications.length;
      }
    }
    return notifications;
  }

  remove(destinationId: string): void {
    this.#delete("destination_id = ?", destinationId);
    this.#sql.exec("DELETE FROM failed_not_kept WHERE destination_id = ?", destinationId);
    this.#counts.delete(destinationId);
  }

  list(destinationId: string, listQuery: ListQuery): ListPage<Delivery> {
    const rows = this.#read(
      "destination_id = ?1 AND (?2 IS NULL OR id < ?2) ORDER BY id DESC LIMIT ?3",
      destinationId,
      listQuery.cursor,
      listQuery.limit + 1,
    );
    const listed = rows.map((row) => ({ ...shownDelivery(row), subject: this.#subjectOf(row) }));
    return listPage(listed, listQuery, ({ id }) => id);
  }

  #subjectOf(delivery: StoredDelivery): string | null {
    const notification = this.notification(delivery);
    if (notification === null) return null;
    return subjectOf(notification) ?? notificationSentence(notification).text;
  }

  /** Deletes expired deliveries after every 50 ended ones, which bounds the stored bodies. */
  limitEnded(destinationId: string, nowMs: number): void {
    if (this.#countsOf(destinationId).endedSinceClearing >= ENDED_BEFORE_CLEARING)
      this.deleteExpired(destinationId, nowMs);
  }

  /** Deletes deliveries that are too old to be shown, including those that wait for a paused destination. */
  deleteExpired(destinationId: string, nowMs: number): void {
    const earliestMs = nowMs - DELIVERY_KEPT_DAYS * DAY_MS;
    const deleted = this.#delete(
      `destination_id = ?1 AND (created_ms < ?2 OR (state <> 'waiting' AND id NOT IN
        (SELECT id FROM deliveries WHERE destination_id = ?1 AND state <> 'waiting' ORDER BY id DESC LIMIT ?3)))`,
      destinationId,
      earliestMs,
      DELIVERIES_KEPT,
    );
    this.#countNotKept(destinationId, deleted, earliestMs);
    this.#counts.delete(destinationId);
  }

  #countNotKept(destinationId: string, deleted: readonly DeletedRow[], earliestMs: number): void {
    const hours = new Map<number, number>();
    for (const { state, lane, endedMs } of deleted) {
      if (state !== "failed" || lane === LANES.test) continue;
      const hourMs = endedMs - (endedMs % HOUR_MS);
      hours.set(hourMs, (hours.get(hourMs) ?? 0) + 1);
    }
    const add = `INSERT INTO failed_not_kept (destination_id, hour_ms, deliveries) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET deliveries = deliveries + excluded.deliveries`;
    for (const [hourMs, count] of hours) this.#sql.exec(add, destinationId, hourMs, count);
    const expired = "DELETE FROM failed_not_kept WHERE destination_id = ? AND hour_ms < ?";
    this.#sql.exec(expired, destinationId, earliestMs - HOUR_MS);
  }

  #notKeptSince(destinationId: string, sinceMs: number): number {
    const select = "SELECT sum(deliveries) AS count FROM failed_not_kept WHERE destination_id = ? AND hour_ms > ?";
    return this.#sql.exec<{ count: number | null }>(select, destinationId, sinceMs - HOUR_MS).one().count ?? 0;
  }

  /** Deletes deliveries, and the notifications that no other delivery carries. */
  #delete(where: string, ...values: SqlStorageValue[]): DeletedRow[] {
    const remove = `DELETE FROM deliveries WHERE ${where} RETURNING notifications, state, lane, ended_ms AS endedMs`;
    const deleted = this.#sql.exec<DeletedRow>(remove, ...values).toArray();
    if (deleted.length === 0) return deleted;
    this.#sql.exec(
      `DELETE FROM notifications WHERE seq IN (SELECT value FROM json_each(?))
        AND seq NOT IN (SELECT carried.value FROM deliveries, json_each(deliveries.notifications) AS carried)`,
      JSON.stringify(deleted.flatMap(({ notifications }) => JSON.parse(notifications) as number[])),
    );
    return deleted;
  }

  #countsOf(destinationId: string): Counts {
    let counts = this.#counts.get(destinationId);
    if (counts === undefined) {
      const { waiting, bytes } = this.#sql
        .exec<{ waiting: number; bytes: number | null }>(
          "SELECT count(*) AS waiting, sum(bytes) AS bytes FROM deliveries WHERE destination_id = ? AND due_ms IS NOT NULL",
          destinationId,
        )
        .one();
      counts = { waiting, waitingBytes: bytes ?? 0, endedSinceClearing: 0, open: null };
      this.#counts.set(destinationId, counts);
    }
    return counts;
  }

  #close(destinationId: string, id: string): void {
    const counts = this.#countsOf(destinationId);
    if (counts.open?.id === id) counts.open = null;
  }

  #put(before: StoredDelivery, change: Partial<StoredDelivery>): void {
    const { state, endReason, endedMs, dueMs, takenMs, attempt, failed, ...delivery } = { ...before, ...change };
    const { destinationId, id, bytes } = delivery;
    // Before the row changes, because the first use counts the rows.
    const counts = this.#countsOf(destinationId);
    const attempts = JSON.stringify(delivery.attempts.slice(-ATTEMPTS_KEPT));
    const values = [state, endReason, endedMs, dueMs, takenMs, attempt, failed, attempts, destinationId, id];
    this.#sql.exec(
      `UPDATE deliveries SET state = ?, end_reason = ?, ended_ms = ?, due_ms = ?, taken_ms = ?, attempt = ?, failed = ?, attempts = ?
        WHERE destination_id = ? AND id = ?`,
      ...values,
    );
    const waiting = Number(dueMs !== null) - Number(before.dueMs !== null);
    counts.waiting += waiting;
    counts.waitingBytes += waiting * bytes;
    if (dueMs !== null) return;
    counts.endedSinceClearing++;
    this.#close(destinationId, id);
  }

  #read(where: string, ...values: SqlStorageValue[]): StoredDelivery[] {
    return [...this.#sql.exec<DeliveryRow>(`${SELECT} WHERE ${where}`, ...values)].map(toStoredDelivery);
  }
}

function joined(datas: readonly NotificationData["person.scored"][]): NotificationData["person.scored"] {
  return { scoring_signals: datas.flatMap((data) => data.scoring_signals) };
}

export function shownDelivery(delivery: StoredDelivery): Delivery {
  const { id, destinationId, notificationId, type, state, endReason, attempts, createdMs, dueMs } = delivery;
  const dueAtMs = dueMs === null ? null : Math.max(dueMs, createdMs);
  return { id, destinationId, notificationId, type, state, endReason, createdAtMs: createdMs, dueAtMs, attempts };
}

function toStoredDelivery({ notifications, attempts, answersHidden, ...row }: DeliveryRow): StoredDelivery {
  return {
    ...row,
    notifications: JSON.parse(notifications) as number[],
    attempts: JSON.parse(attempts) as AttemptResult[],
    answersHidden: answersHidden === 1,
  };
}

/** Removes deleted people from waiting and stored deliveries. */
export class DeletedPeople {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** A request that is already on its way to a receiver cannot be recalled. */
  delete(email: string, atMs: number): void {
    this.#sql.exec(
      `INSERT INTO deleted_people (email_hash, at_ms) VALUES (?, ?)
       ON CONFLICT DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)`,
      hashOf(email),
      atMs,
    );
    const needle = JSON.stringify(email).slice(1, -1);
    const notifications = this.#sql
      .exec<{ seq: number; type: string; data: string }>(
        // An account may be named by the address in capitals.
        "SELECT seq, type, data FROM notifications WHERE instr(data, ?) OR (type LIKE 'account.%' AND data IS NOT NULL)",
        `"${needle}"`,
      )
      .toArray();
    const changed: number[] = [];
    for (const { seq, type, data } of notifications) {
      const notification = { type, data: JSON.parse(data) as unknown } as AnyNotification;
      const left = withoutPerson(notification, (address) => address === email);
      if (left === notification) continue;
      changed.push(seq);
      this.#sql.exec("UPDATE notifications SET data = ? WHERE seq = ?", left && JSON.stringify(left.data), seq);
    }
    // Also hide the receivers' answers, past and future: an answer may repeat the request.
    this.#sql.exec(
      `UPDATE deliveries SET answers_hidden = 1
        WHERE EXISTS (SELECT 1 FROM json_each(deliveries.notifications) WHERE value IN (SELECT value FROM json_each(?)))`,
      JSON.stringify(changed),
    );
    this.#sql.exec(
      `UPDATE deliveries SET attempts = (SELECT json_group_array(json_set(value, '$.answer', NULL)) FROM json_each(attempts))
        WHERE answers_hidden = 1 OR instr(attempts, ?)`,
      needle,
    );
  }

  /** A source may forward a notification that it raised before the deletion. */
  withoutDeleted(notifications: readonly Notification[]): Notification[] {
    const rows = this.#sql.exec<{ email_hash: string; at_ms: number }>("SELECT email_hash, at_ms FROM deleted_people");
    const deleted = new Map([...rows].map((row) => [row.email_hash, row.at_ms] as const));
    if (deleted.size === 0) return [...notifications];
    return notifications.flatMap((notification) => {
      const left = withoutPerson(notification, (email) => (deleted.get(hashOf(email)) ?? 0) >= notification.time);
      return left === null ? [] : [left];
    });
  }

  deleteExpired(nowMs: number): void {
    this.#sql.exec("DELETE FROM deleted_people WHERE at_ms < ?", nowMs - DELETION_REMEMBERED_DAYS * DAY_MS);
  }
}

function hashOf(email: string): string {
  return hashAtOnce(email).digest("hex");
}

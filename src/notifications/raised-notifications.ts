/**
 * Notifications from the object that raises them to the workspace's Destinations. Each transaction that raises notifications writes one
 * row; after the commit the rows are forwarded and deleted. A crash neither loses nor invents a notification. Repeated notifications are
 * harmless because each has an id.
 */
import type { NotificationData } from "../domain/notifications/notification-data.ts";
import {
  withoutPerson,
  type AnyNotificationType,
  type NotificationOf,
  type Notification,
} from "../domain/notifications/notification.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { newId } from "../platform/ids.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { retryDelaySeconds, within } from "../platform/time-limit.ts";

/** Maximum characters of a row, and of one call; a single larger notification gets its own row. */
const RAISED_ROW_CHARACTERS = 500_000;
/**
 * Maximum characters that wait while Destinations does not answer: about 100,000 scoring signals. Beyond it new notifications are dropped
 * and logged, while signals are still recorded.
 */
export const RAISED_MAX_CHARACTERS = 32_000_000;

/** A person to delete in Destinations too. The deletion keeps its place among the notifications. */
interface RaisedDeletion {
  receiptId: string;
  email: string;
  /** Destinations rejects notifications of the person up to this time, in milliseconds since 1970. */
  atMs: number;
}

interface Waiting {
  notifications: Notification[];
  deletion: RaisedDeletion | null;
  lastRow: number;
}

type Row = { row: number; body: string };

export class RaisedNotifications {
  readonly #sql: SqlStorage;
  /**
   * Positions of the first and last waiting characters, counted over everything ever raised. A row's number is its end position: the
   * waiting amount needs no count, and numbers are never reused while the object lives.
   */
  #begin = 0;
  #end = 0;
  /** Whether nothing waits. */
  isEmpty = true;
  /** The waiting deletions. Notifications in earlier rows are forwarded without their people. */
  #deletions: { row: number; email: string }[] = [];

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.reload();
  }

  /** Call it in the transaction of the change that the notifications report. */
  raise(notifications: readonly Notification[]): void {
    if (notifications.length === 0) return;
    if (this.#end - this.#begin >= RAISED_MAX_CHARACTERS) {
      logEvent("notifications_not_raised", {
        notifications: notifications.length,
        first: notifications[0]?.type ?? "",
      });
      return;
    }
    let [texts, characters]: [string[], number] = [[], 0];
    for (const notification of notifications) {
      const text = JSON.stringify(notification);
      if (texts.length > 0 && characters + text.length > RAISED_ROW_CHARACTERS) {
        this.#write(texts);
        [texts, characters] = [[], 0];
      }
      texts.push(text);
      characters += text.length;
    }
    this.#write(texts);
  }

  /** Stores a deletion behind the waiting notifications, regardless of the limit. */
  raiseDeletion(deletion: RaisedDeletion): void {
    this.#write([JSON.stringify({ deletion })]);
    this.#deletions.push({ row: this.#end, email: deletion.email });
  }

  /** The oldest rows, up to the limit of one call, without deleted people; null if nothing waits. */
  next(): Waiting | null {
    const notifications: Notification[] = [];
    let [lastRow, characters] = [0, 0];
    for (const { row, body } of this.#rows()) {
      if (lastRow > 0 && characters + body.length > RAISED_ROW_CHARACTERS) break;
      const { notifications: ofRow, deletion } = readBody(body);
      if (deletion !== null && lastRow === 0) return { notifications, deletion, lastRow: row };
      if (deletion !== null) break;
      notifications.push(...this.#withoutDeleted(ofRow, row));
      characters += body.length;
      lastRow = row;
    }
    if (lastRow > 0) return { notifications, deletion: null, lastRow };
    this.#begin = this.#end;
    this.isEmpty = true;
    return null;
  }

  forwarded(lastRow: number): void {
    this.#sql.exec("DELETE FROM raised_notifications WHERE row <= ?", lastRow);
    this.#deletions = this.#deletions.filter(({ row }) => row > lastRow);
    const [left] = this.#rows(lastRow);
    this.#begin = left === undefined ? this.#end : lastRow;
    this.isEmpty = left === undefined;
  }

  /** To rewrite all waiting rows when a deletion begins would take too long. They leave before the deletion is complete. */
  #withoutDeleted(notifications: readonly Notification[], row: number): readonly Notification[] {
    const emails = new Set(this.#deletions.filter((deletion) => deletion.row > row).map(({ email }) => email));
    if (emails.size === 0) return notifications;
    return notifications
      .map((notification) => withoutPerson(notification, (named) => emails.has(named)))
      .filter((notification) => notification !== null);
  }

  /** At start, and after a rollback. */
  reload(): void {
    // Never lower: a call in progress deletes all rows up to its last row, so a new row must not reuse such a number.
    const [last] = this.#sql.exec<{ row: number }>("SELECT row FROM raised_notifications ORDER BY row DESC LIMIT 1");
    this.#end = Math.max(this.#end, last?.row ?? 0);
    const [first] = this.#rows();
    this.#begin = first === undefined ? this.#end : first.row - first.body.length;
    this.isEmpty = first === undefined;
    this.#deletions = this.isEmpty ? [] : this.#readDeletions();
  }

  #readDeletions(): { row: number; email: string }[] {
    const rows = this.#sql.exec<Row>(
      `SELECT row, body FROM raised_notifications WHERE row > 0 AND body LIKE '[{"deletion":%' ORDER BY row`,
    );
    return [...rows].flatMap(({ row, body }) => {
      const { deletion } = readBody(body);
      return deletion === null ? [] : { row, email: deletion.email };
    });
  }

  #rows(after = 0): Iterable<Row> {
    // Without a lower bound SQLite would scan the table instead of searching by key.
    return this.#sql.exec<Row>("SELECT row, body FROM raised_notifications WHERE row > ? ORDER BY row", after);
  }

  #write(texts: readonly string[]): void {
    const body = `[${texts.join(",")}]`;
    this.#end += body.length;
    this.isEmpty = false;
    this.#sql.exec("INSERT INTO raised_notifications (row, body) VALUES (?, ?)", this.#end, body);
  }
}

function readBody(body: string): { notifications: Notification[]; deletion: RaisedDeletion | null } {
  const items = JSON.parse(body) as (Notification | { deletion: RaisedDeletion })[];
  const [first] = items;
  if (first !== undefined && "deletion" in first) return { notifications: [], deletion: first.deletion };
  return { notifications: items as Notification[], deletion: null };
}

export function newNotification<Type extends AnyNotificationType>(
  type: Type,
  data: NotificationData[Type],
  nowMs: number,
): NotificationOf<Type> {
  return { id: newId("ntf", nowMs), type, time: nowMs, data } as NotificationOf<Type>;
}

export interface ForwardingOptions {
  workspaceId: string;
  destinations: {
    getByName(workspaceId: string): {
      raise(notifications: Notification[]): Promise<void>;
      deletePerson(email: string, atMs: number): Promise<void>;
    };
  };
  /** Runs after Destinations has deleted a person. Only for an object that deletes people. */
  forwardedDeletion?: (deletion: RaisedDeletion) => void;
  /** Ensures that `run` is called at this time or earlier. */
  alarmBy: (atMs: number) => void;
}

/**
 * Forwards raised notifications after the commit, without delaying the caller. The object's alarm retries after a failure or a crash, with
 * growing pauses.
 */
export class Forwarding {
  readonly #raised: RaisedNotifications;
  readonly #options: ForwardingOptions;
  #dueMs = 0;
  #failures = 0;
  #running: Promise<void> | null = null;

  constructor(raised: RaisedNotifications, options: ForwardingOptions) {
    this.#raised = raised;
    this.#options = options;
  }

  /** Next time at which the alarm must call `run`, in milliseconds since 1970; null if nothing waits. */
  get dueMs(): number | null {
    return this.#raised.isEmpty ? null : this.#dueMs;
  }

  /** Call it after each commit that may have raised notifications. It does not block. While attempts fail, only the alarm retries. */
  start(): void {
    if (this.#raised.isEmpty) return;
    if (this.#running === null && this.#failures === 0) void this.run();
    // The alarm continues if the object is killed before this ends.
    this.#options.alarmBy(this.#dueMs);
  }

  /** Forwards until nothing waits or an attempt fails. Never throws. */
  run(): Promise<void> {
    if (this.#running !== null) return this.#running;
    // While it runs, the alarm has nothing to do.
    this.#dueMs = Date.now() + SAFETY_ALARM_MS;
    this.#running = this.#runOnce().finally(() => {
      this.#running = null;
      // Notifications that were raised since the last read found this run still in progress.
      this.start();
    });
    return this.#running;
  }

  /** Call it on every alarm. */
  async runIfDue(): Promise<void> {
    const { dueMs } = this;
    if (dueMs === null) return;
    if (dueMs <= Date.now()) await this.run();
    else this.#options.alarmBy(dueMs);
  }

  async #runOnce(): Promise<void> {
    const { workspaceId, destinations, forwardedDeletion, alarmBy } = this.#options;
    const object = destinations.getByName(workspaceId);
    try {
      for (let next = this.#raised.next(); next !== null; next = this.#raised.next()) {
        const { deletion, notifications, lastRow } = next;
        const call =
          deletion === null ? object.raise(notifications) : object.deletePerson(deletion.email, deletion.atMs);
        // The timeout keeps a call that never resolves from blocking all later ones.
        // oxlint-disable-next-line no-await-in-loop -- in order, and at most one call in memory
        await within(CALL_TIMEOUT_MS, call);
        // If this fails, the row is forwarded again.
        if (deletion !== null) forwardedDeletion?.(deletion);
        this.#raised.forwarded(lastRow);
      }
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      logEvent("raise_failed", { workspace: workspaceId, failed: this.#failures, error: errorText(error) });
      this.#dueMs = Date.now() + retryDelaySeconds(this.#failures) * 1_000;
      alarmBy(this.#dueMs);
    }
  }
}

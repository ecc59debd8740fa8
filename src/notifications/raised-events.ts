/**
 * Outbox of notifications that an object has raised and that Destinations has not taken yet. Each transaction that
 * raises notifications writes one row, deleted after the hand-on (hand-on.ts). A crash neither loses nor invents a
 * notification.
 */
import type { EventId, EventType, EventData, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { newId } from "../platform/ids.ts";
import { logEvent } from "../platform/log.ts";

/** Maximum characters of a row, and of one call; a single larger notification gets its own row. */
const RAISED_ROW_CHARACTERS = 500_000;
/**
 * Maximum characters that wait while Destinations does not answer: about 100,000 scoring signals. Beyond it new
 * notifications are dropped and logged, while signals are still recorded.
 */
export const RAISED_MAX_CHARACTERS = 32_000_000;

/**
 * A person to delete in Destinations too. The deletion has its own row, so it keeps its place among the
 * notifications.
 */
export interface RaisedDeletion {
  /** Id of the deletion's receipt. */
  receiptId: string;
  email: string;
  /** Destinations refuses notifications of the person up to this time, in milliseconds since 1970. */
  atMs: number;
}

/** Rows for one call: notifications, or one deletion. */
export interface Waiting {
  events: WorkspaceEvent[];
  deletion: RaisedDeletion | null;
  lastRow: number;
}

interface Row {
  [column: string]: SqlStorageValue;
  row: number;
  body: string;
}

/** An upper bound above all row numbers. With a bound SQLite searches by key; without one it scans. */
const EVER = Number.MAX_SAFE_INTEGER;

export class RaisedEvents {
  readonly #sql: SqlStorage;
  /**
   * Positions of the first and last waiting characters, counted over everything ever raised. A row's number is its
   * end position: the waiting amount needs no count, and numbers are never reused while the object lives.
   */
  #begin = 0;
  #end = 0;
  /** All waiting rows if they are in memory; null: read the table. */
  #fresh: Waiting | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.reload();
  }

  get isEmpty(): boolean {
    return this.#begin === this.#end;
  }

  /**
   * Stores notifications in the transaction of the change that they report: one row, or several if they are large.
   */
  raise(events: readonly WorkspaceEvent[]): void {
    if (events.length === 0) return;
    // Without a consumer, rows can wait for hours. Above the limit drop notifications: recording signals is more
    // important.
    if (this.#end - this.#begin >= RAISED_MAX_CHARACTERS) {
      logEvent("events_not_raised", { events: events.length, first: events[0]?.type ?? "" });
      return;
    }
    const isAlone = this.isEmpty;
    let [texts, characters]: [string[], number] = [[], 0];
    for (const event of events) {
      const text = JSON.stringify(event);
      if (texts.length > 0 && characters + text.length > RAISED_ROW_CHARACTERS) {
        this.#write(texts);
        [texts, characters] = [[], 0];
      }
      texts.push(text);
      characters += text.length;
    }
    this.#write(texts);
    const isOneCall = this.#end - this.#begin <= RAISED_ROW_CHARACTERS;
    this.#fresh = isAlone && isOneCall ? { events: [...events], deletion: null, lastRow: this.#end } : null;
  }

  /** Stores a deletion behind the waiting notifications, regardless of the limit. */
  raiseDeletion(deletion: RaisedDeletion): void {
    this.#write([JSON.stringify({ deletion })]);
    this.#fresh = null;
  }

  /** The oldest rows, up to the limit of one call; null if nothing waits. */
  next(): Waiting | null {
    if (this.#fresh !== null) return this.#fresh;
    const events: WorkspaceEvent[] = [];
    let [lastRow, characters] = [0, 0];
    const rows = this.#sql.exec<Row>("SELECT row, body FROM raised_notifications WHERE row <= ? ORDER BY row", EVER);
    for (const { row, body } of rows) {
      if (lastRow > 0 && characters + body.length > RAISED_ROW_CHARACTERS) break;
      const { events: ofRow, deletion } = readBody(body);
      if (deletion !== null && lastRow === 0) return { events, deletion, lastRow: row };
      if (deletion !== null) break;
      events.push(...ofRow);
      characters += body.length;
      lastRow = row;
    }
    if (lastRow > 0) return { events, deletion: null, lastRow };
    this.#begin = this.#end;
    return null;
  }

  /** Deletes the rows up to this number, after Destinations has taken them. */
  handedOn(lastRow: number): void {
    this.#sql.exec("DELETE FROM raised_notifications WHERE row <= ?", lastRow);
    const left = this.#sql.exec("SELECT 1 FROM raised_notifications WHERE row > ? LIMIT 1", lastRow).toArray();
    this.#begin = left.length === 0 ? this.#end : lastRow;
    this.#fresh = null;
  }

  /**
   * Rewrites the waiting notifications, to remove a deleted person.
   *
   * @param change returns null to drop a notification.
   */
  rewrite(change: (event: WorkspaceEvent) => WorkspaceEvent | null): void {
    for (let [next] = this.#after(0); next !== undefined; [next] = this.#after(next.row)) {
      const { events, deletion } = readBody(next.body);
      if (deletion !== null) continue;
      const left = events.map(change).filter((event) => event !== null);
      const text = JSON.stringify(left);
      if (left.length === 0) this.#sql.exec("DELETE FROM raised_notifications WHERE row = ?", next.row);
      else if (text !== next.body) {
        this.#sql.exec("UPDATE raised_notifications SET body = ? WHERE row = ?", text, next.row);
      }
    }
    this.reload();
  }

  /** Reads the state from the table: at start, and after a rollback. */
  reload(): void {
    const [last] = this.#sql.exec<{ row: number }>("SELECT row FROM raised_notifications ORDER BY row DESC LIMIT 1");
    this.#end = Math.max(this.#end, last?.row ?? 0);
    const [first] = last === undefined ? [] : this.#after(0);
    this.#begin = first === undefined ? this.#end : first.row - first.body.length;
    this.#fresh = null;
  }

  #after(row: number): Row[] {
    return this.#sql
      .exec<Row>("SELECT row, body FROM raised_notifications WHERE row > ? ORDER BY row LIMIT 1", row)
      .toArray();
  }

  #write(texts: readonly string[]): void {
    const body = `[${texts.join(",")}]`;
    this.#end += body.length;
    this.#sql.exec("INSERT INTO raised_notifications (row, body) VALUES (?, ?)", this.#end, body);
  }
}

function readBody(body: string): { events: WorkspaceEvent[]; deletion: RaisedDeletion | null } {
  const items = JSON.parse(body) as (WorkspaceEvent | { deletion: RaisedDeletion })[];
  const [first] = items;
  if (first !== undefined && "deletion" in first) return { events: [], deletion: first.deletion };
  return { events: items as WorkspaceEvent[], deletion: null };
}

/** A new notification with its permanent id. */
export function newEvent<Type extends EventType>(type: Type, data: EventData[Type], nowMs: number): WorkspaceEvent {
  const id = newId("evt", nowMs) as EventId;
  return { id, type, time: nowMs, data } as WorkspaceEvent;
}

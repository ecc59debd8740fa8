/**
 * Events that an object has raised, and that the workspace's Destinations have not taken over yet: a row for each
 * transaction that raised any, written in it and deleted once they have been handed on (hand-on.ts). So a crash neither
 * loses nor invents one.
 */
import type { EventId, EventType, EventData, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { newId } from "../platform/ids.ts";
import { logEvent } from "../platform/log.ts";

/** The most that a row holds, and that one call hands on, unless a single event is larger. */
const RAISED_ROW_CHARACTERS = 500_000;
/**
 * The most that may wait to be handed on while Destinations do not answer: some 100,000 scoring signals.
 * Beyond it nothing more is raised, which the log says, until something has been handed on: signals are recorded all the
 * same.
 */
export const RAISED_MAX_CHARACTERS = 32_000_000;

/** A person whom Destinations are to delete too. It has a row of its own, in order with the events. */
export interface RaisedDeletion {
  /** Id of the deletion's receipt. */
  receiptId: string;
  email: string;
  /** Events of the person up to this time are refused, in milliseconds since 1970. */
  atMs: number;
}

/** Rows that are handed on in one call: events, or a deletion. */
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

/** A bound that no row is beyond: with one, SQLite plans a search by key, and without one a scan. */
const EVER = Number.MAX_SAFE_INTEGER;

export class RaisedEvents {
  readonly #sql: SqlStorage;
  /**
   * Where what waits begins and ends in all that was ever raised, in characters. A row's number is where it ends: so it
   * takes no counting to know how much waits, and no number is used twice while the object lives.
   */
  #begin = 0;
  #end = 0;
  /** All that waits, where it was raised at once and need not be read back; null: it is read from its rows. */
  #fresh: Waiting | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.reload();
  }

  get isEmpty(): boolean {
    return this.#begin === this.#end;
  }

  /** Stores events in the transaction that makes them true: one row, unless they are very many. */
  raise(events: readonly WorkspaceEvent[]): void {
    if (events.length === 0) return;
    // Events wait for hours where nobody takes them over. When too many wait, more are dropped rather than that signals are
    // not recorded.
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

  /** Stores a deletion behind the events that wait, however many these are. */
  raiseDeletion(deletion: RaisedDeletion): void {
    this.#write([JSON.stringify({ deletion })]);
    this.#fresh = null;
  }

  /** The oldest rows, as many as one call is to carry; null: nothing waits. */
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

  /** Deletes the rows up to this one: they have been taken over. */
  handedOn(lastRow: number): void {
    this.#sql.exec("DELETE FROM raised_notifications WHERE row <= ?", lastRow);
    const left = this.#sql.exec("SELECT 1 FROM raised_notifications WHERE row > ? LIMIT 1", lastRow).toArray();
    this.#begin = left.length === 0 ? this.#end : lastRow;
    this.#fresh = null;
  }

  /**
   * Changes what waits: of somebody who is deleted nothing is told.
   *
   * @param change gives null where nothing is left of an event, which then is not told at all.
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

  /** Reads the state in memory again: a transaction has been taken back, or the object has just started. */
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

/** A new event, with an id that it keeps. */
export function newEvent<Type extends EventType>(type: Type, data: EventData[Type], nowMs: number): WorkspaceEvent {
  const id = newId("evt", nowMs) as EventId;
  return { id, type, time: nowMs, data } as WorkspaceEvent;
}

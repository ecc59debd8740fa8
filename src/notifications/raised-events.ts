/**
 * Notifications from the object that raises them to the workspace's Destinations. Each transaction that raises notifications writes one
 * row; after the commit the rows are handed on and deleted. A crash neither loses nor invents a notification. Repeated notifications are
 * harmless because each has an id.
 */
import type { EventData } from "../domain/events/event-data.ts";
import type { AnyEventType, EventOf, WorkspaceEvent } from "../domain/events/workspace-event.ts";
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
  /** Destinations refuses notifications of the person up to this time, in milliseconds since 1970. */
  atMs: number;
}

interface Waiting {
  events: WorkspaceEvent[];
  deletion: RaisedDeletion | null;
  lastRow: number;
}

type Row = { row: number; body: string };

export class RaisedEvents {
  readonly #sql: SqlStorage;
  /**
   * Positions of the first and last waiting characters, counted over everything ever raised. A row's number is its end position: the
   * waiting amount needs no count, and numbers are never reused while the object lives.
   */
  #begin = 0;
  #end = 0;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.reload();
  }

  get isEmpty(): boolean {
    return this.#begin === this.#end;
  }

  /** Call it in the transaction of the change that the notifications report. */
  raise(events: readonly WorkspaceEvent[]): void {
    if (events.length === 0) return;
    if (this.#end - this.#begin >= RAISED_MAX_CHARACTERS) {
      logEvent("events_not_raised", { events: events.length, first: events[0]?.type ?? "" });
      return;
    }
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
  }

  /** Stores a deletion behind the waiting notifications, regardless of the limit. */
  raiseDeletion(deletion: RaisedDeletion): void {
    this.#write([JSON.stringify({ deletion })]);
  }

  /** The oldest rows, up to the limit of one call; null if nothing waits. */
  next(): Waiting | null {
    const events: WorkspaceEvent[] = [];
    let [lastRow, characters] = [0, 0];
    for (const { row, body } of this.#rows()) {
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

  handedOn(lastRow: number): void {
    this.#sql.exec("DELETE FROM raised_notifications WHERE row <= ?", lastRow);
    const [left] = this.#rows(lastRow);
    this.#begin = left === undefined ? this.#end : lastRow;
  }

  /** Rewrites the waiting notifications, to remove a deleted person. @param change returns null to drop a notification. */
  rewrite(change: (event: WorkspaceEvent) => WorkspaceEvent | null): void {
    for (let [next] = this.#rows(); next !== undefined; [next] = this.#rows(next.row)) {
      const { events, deletion } = readBody(next.body);
      const left = events.map(change).filter((event) => event !== null);
      const text = JSON.stringify(left);
      if (deletion !== null || text === next.body) continue;
      if (left.length === 0) this.#sql.exec("DELETE FROM raised_notifications WHERE row = ?", next.row);
      else this.#sql.exec("UPDATE raised_notifications SET body = ? WHERE row = ?", text, next.row);
    }
  }

  /** At start, and after a rollback. */
  reload(): void {
    // Never lower: a call in progress deletes all rows up to its last row, so a new row must not reuse such a number.
    const [last] = this.#sql.exec<{ row: number }>("SELECT row FROM raised_notifications ORDER BY row DESC LIMIT 1");
    this.#end = Math.max(this.#end, last?.row ?? 0);
    const [first] = this.#rows();
    this.#begin = first === undefined ? this.#end : first.row - first.body.length;
  }

  #rows(after = 0): Iterable<Row> {
    // Without a lower bound SQLite would scan the table instead of searching by key.
    return this.#sql.exec<Row>("SELECT row, body FROM raised_notifications WHERE row > ? ORDER BY row", after);
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

export function newEvent<Type extends AnyEventType>(type: Type, data: EventData[Type], nowMs: number): EventOf<Type> {
  return { id: newId("evt", nowMs), type, time: nowMs, data } as EventOf<Type>;
}

export interface HandOnOptions {
  workspaceId: string;
  destinations: {
    getByName(workspaceId: string): {
      raise(events: WorkspaceEvent[]): Promise<void>;
      deletePerson(email: string, atMs: number): Promise<void>;
    };
  };
  /** Runs after Destinations has deleted a person. Only for an object that deletes people. */
  handedOver?: (deletion: RaisedDeletion) => void;
  /** Ensures that `run` is called at this time or earlier. */
  alarmBy: (atMs: number) => void;
}

/**
 * Hands raised notifications on after the commit, without delaying the caller. The object's alarm retries after a failure or a crash, with
 * growing pauses.
 */
export class HandOn {
  readonly #raised: RaisedEvents;
  readonly #options: HandOnOptions;
  #dueMs = 0;
  #failures = 0;
  #running: Promise<void> | null = null;

  constructor(raised: RaisedEvents, options: HandOnOptions) {
    this.#raised = raised;
    this.#options = options;
  }

  /** Next time at which the alarm must call `run`, in milliseconds since 1970; null if nothing waits. */
  get dueMs(): number | null {
    return this.#raised.isEmpty ? null : this.#dueMs;
  }

  /** Call it after each commit that may have raised notifications. It does not block. While attempts fail, only the alarm retries. */
  start(): void {
    if (this.#raised.isEmpty || this.#running !== null || this.#failures > 0) return;
    void this.run();
    // The alarm continues if the object is killed before this ends.
    this.#options.alarmBy(this.#dueMs);
  }

  /** Hands on until nothing waits or an attempt fails. Never throws. */
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
    const { workspaceId, destinations, handedOver, alarmBy } = this.#options;
    const object = destinations.getByName(workspaceId);
    try {
      for (let next = this.#raised.next(); next !== null; next = this.#raised.next()) {
        const { deletion, events, lastRow } = next;
        const call = deletion === null ? object.raise(events) : object.deletePerson(deletion.email, deletion.atMs);
        // The timeout keeps a call that never resolves from blocking all later ones.
        // oxlint-disable-next-line no-await-in-loop -- in order, and at most one call in memory
        await within(CALL_TIMEOUT_MS, call);
        this.#raised.handedOn(lastRow);
        if (deletion !== null) handedOver?.(deletion);
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

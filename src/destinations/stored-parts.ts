/** All that the object keeps, each part written by one file. */
import type { Destination } from "../domain/events/destination.ts";
import type { EventData, EventType, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { hashAtOnce } from "../platform/hashes.ts";
import { Deliveries } from "./deliveries.ts";
import { OldSecrets } from "./old-secrets.ts";
import { Roster, shownDestination, type StoredDestination } from "./roster.ts";
import { ScoredEvents } from "./scored-events.ts";

export class StoredParts {
  readonly sql: SqlStorage;
  readonly roster: Roster;
  readonly oldSecrets: OldSecrets;
  readonly deliveries: Deliveries;
  readonly scored: ScoredEvents;
  readonly settings: Settings;
  readonly deletion: EventDeletion;

  constructor(sql: SqlStorage) {
    createTables(sql);
    this.sql = sql;
    this.roster = new Roster(sql);
    this.oldSecrets = new OldSecrets(sql);
    this.deliveries = new Deliveries(sql);
    this.scored = new ScoredEvents(sql);
    this.settings = new Settings(sql);
    this.deletion = new EventDeletion(sql);
  }

  /** A destination as callers see it. */
  shown(one: StoredDestination, nowMs: number): Destination {
    const [last] = this.oldSecrets.of(one.id, nowMs);
    const waiting = this.deliveries.waiting(one.id);
    return shownDestination(one, { waiting, oldSecretEndsAtMs: last?.endsMs ?? null });
  }

  /** Removes a destination with all that is kept for it. */
  removeDestination(id: string): void {
    this.roster.remove(id);
    this.oldSecrets.remove(id);
    this.deliveries.remove(id);
  }

  /** Forgets what memory has of the tables: after a transaction was taken back, that may not be what is stored. */
  rolledBack(): void {
    this.deliveries.rolledBack();
    this.scored.rolledBack();
  }
}

/** What holds for all destinations of the workspace: the thresholds, and whether its sources have yet to be told of a change. */
class Settings {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  get thresholds(): number[] {
    return JSON.parse(this.#read("thresholds") ?? "[]") as number[];
  }

  set thresholds(thresholds: number[]) {
    this.#write("thresholds", JSON.stringify(thresholds));
  }

  /** Id of the latest change that the sources have not been told; null: they know all. */
  get untold(): string | null {
    return this.#read("untold");
  }

  /** Notes that what the sources are to raise may have changed. */
  changed(): void {
    this.#write("untold", crypto.randomUUID());
  }

  /** Notes that the sources know of a change, unless there was another one meanwhile. */
  told(change: string): void {
    this.#sql.exec("DELETE FROM settings WHERE name = 'untold' AND value = ?", change);
  }

  /** When the keys were last looked at, and deliveries that are over were cleared away, in milliseconds since 1970. */
  get choreMs(): number {
    return Number(this.#read("chore_ms") ?? 0);
  }

  set choreMs(atMs: number) {
    this.#write("chore_ms", String(atMs));
  }

  #read(name: string): string | null {
    const [row] = this.#sql.exec<{ value: string }>("SELECT value FROM settings WHERE name = ?", name).toArray();
    return row?.value ?? null;
  }

  #write(name: string, value: string): void {
    this.#sql.exec("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", name, value);
  }
}

/** The object's tables. Each is written by one file, which says what its columns mean. */
function createTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS destinations (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      type TEXT NOT NULL,
      target TEXT NOT NULL,
      events TEXT NOT NULL,
      pages_url TEXT NOT NULL,
      state TEXT NOT NULL,
      disabled_reason TEXT,
      created_ms INTEGER NOT NULL,
      secret TEXT,
      failing_since_ms INTEGER,
      failing_last_ms INTEGER,
      delivered_ms INTEGER,
      dropped INTEGER NOT NULL,
      gathered_to INTEGER NOT NULL,
      gathered_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS old_secrets (destination_id TEXT NOT NULL, secret TEXT NOT NULL, ends_ms INTEGER NOT NULL,
      PRIMARY KEY (destination_id, secret)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS events_seen (id TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS scored (
      seq INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      time_ms INTEGER NOT NULL,
      signals INTEGER NOT NULL,
      data TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS messages (
      seq INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      type TEXT NOT NULL,
      time_ms INTEGER NOT NULL,
      data TEXT
    );
    CREATE TABLE IF NOT EXISTS deliveries (
      id TEXT PRIMARY KEY,
      destination_id TEXT NOT NULL,
      message INTEGER NOT NULL,
      kind INTEGER NOT NULL,
      state TEXT NOT NULL,
      end_reason TEXT,
      due_ms INTEGER,
      attempt INTEGER NOT NULL,
      failed INTEGER NOT NULL,
      attempts TEXT NOT NULL,
      created_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (destination_id, kind, due_ms) WHERE due_ms IS NOT NULL;
    CREATE INDEX IF NOT EXISTS deliveries_latest ON deliveries (destination_id, id);
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS key_notices (key_id TEXT NOT NULL, notice TEXT NOT NULL, of TEXT NOT NULL,
      PRIMARY KEY (key_id, notice)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS deleted_people (email_hash TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS switched_off (destination_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, detail TEXT NOT NULL)
      WITHOUT ROWID;
  `);
}

/** A deleted person leaves nothing in what waits to be delivered, nor in what is shown of what was. */
class EventDeletion {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Deletes a person's data from what is stored. What is under way to a receiver at this moment cannot be taken back. */
  deletePerson(email: string, atMs: number): void {
    this.#sql.exec(
      `INSERT INTO deleted_people (email_hash, at_ms) VALUES (?, ?)
       ON CONFLICT DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)`,
      hashOf(email),
      atMs,
    );
    const needle = JSON.stringify(email).slice(1, -1);
    for (const { seq, data } of this.#find("scored", needle)) {
      const left = withoutPerson(JSON.parse(data) as EventData["person.scored"], email);
      this.#sql.exec("UPDATE scored SET data = ? WHERE seq = ?", JSON.stringify(left), seq);
    }
    for (const { seq, type, data } of this.#find("messages", needle)) {
      const left =
        type === "person.scored" ? withoutPerson(JSON.parse(data) as EventData["person.scored"], email) : null;
      const isEmpty = left === null || left.scoring_signals.length === 0;
      this.#sql.exec("UPDATE messages SET data = ? WHERE seq = ?", isEmpty ? null : JSON.stringify(left), seq);
      // The receiver's answers go too: it may have repeated in them what it was sent.
      this.#forgetAnswers("message = ?", seq);
    }
    this.#forgetAnswers("instr(attempts, ?)", needle);
  }

  /**
   * The events as far as they may be kept: a source may have raised an event of a person before they were deleted, and hand
   * it on after.
   */
  withoutDeleted(events: readonly WorkspaceEvent[]): WorkspaceEvent[] {
    const deleted = new Map(
      [...this.#sql.exec<{ email_hash: string; at_ms: number }>("SELECT email_hash, at_ms FROM deleted_people")].map(
        (row) => [row.email_hash, row.at_ms] as const,
      ),
    );
    if (deleted.size === 0) return [...events];
    const isDeleted = (email: string, time: number) => (deleted.get(hashOf(email)) ?? 0) >= time;
    return events.flatMap((event): WorkspaceEvent[] => {
      if (event.type !== "person.scored") {
        const email = "email" in event.data ? event.data.email : null;
        return email !== null && isDeleted(email, event.time) ? [] : [event];
      }
      const scoring_signals = event.data.scoring_signals.filter(({ email }) => !isDeleted(email, event.time));
      return scoring_signals.length === 0 ? [] : [{ ...event, data: { scoring_signals } }];
    });
  }

  clearAway(nowMs: number): void {
    this.#sql.exec("DELETE FROM deleted_people WHERE at_ms < ?", nowMs - DELETION_REMEMBERED_DAYS * 24 * 3_600_000);
  }

  /** Rows that may hold a text, which is looked for in them as it stands in JSON. */
  #find(table: "scored" | "messages", needle: string): { seq: number; type: EventType; data: string }[] {
    const type = table === "scored" ? "'person.scored'" : "type";
    return this.#sql
      .exec<{ seq: number; type: EventType; data: string }>(
        `SELECT seq, ${type} AS type, data FROM ${table} WHERE instr(data, ?)`,
        `"${needle}"`,
      )
      .toArray();
  }

  #forgetAnswers(where: string, value: string | number): void {
    this.#sql.exec(
      `UPDATE deliveries SET attempts = (SELECT json_group_array(json_set(value, '$.answer', NULL)) FROM json_each(attempts))
        WHERE ${where}`,
      value,
    );
  }
}

function withoutPerson({ scoring_signals }: EventData["person.scored"], email: string): EventData["person.scored"] {
  return { scoring_signals: scoring_signals.filter((one) => one.email !== email) };
}

function hashOf(email: string): string {
  return hashAtOnce(email).digest("hex");
}

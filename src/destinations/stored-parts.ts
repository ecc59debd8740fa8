/** All that the object keeps, each part written by one file. */
import type { Destination } from "../domain/events/destination.ts";
import { Deliveries } from "./deliveries.ts";
import { createTables } from "./destination-tables.ts";
import { EventDeletion } from "./event-deletion.ts";
import { OldSecrets } from "./old-secrets.ts";
import { Roster, shownDestination, type StoredDestination } from "./roster.ts";
import { ScoredEvents } from "./scored-events.ts";
import { Settings } from "./settings.ts";

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

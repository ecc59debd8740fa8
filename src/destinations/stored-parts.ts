/** All that the object keeps, each part written by one file. */
import { Deliveries } from "./deliveries.ts";
import { createTables } from "./destination-tables.ts";
import { EventDeletion } from "./event-deletion.ts";
import { OldSecrets } from "./old-secrets.ts";
import { Roster } from "./roster.ts";
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

  /** Forgets what memory has of the tables: after a transaction was taken back, that may not be what is stored. */
  rolledBack(): void {
    this.deliveries.rolledBack();
    this.scored.rolledBack();
  }
}

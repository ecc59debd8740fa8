/**
 * Hourly work of the Destinations object: raises notifications of expiring and silent keys, and deletes expired rows.
 */
import { wantedBy } from "../domain/events/destination.ts";
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { uuidv7From } from "../platform/ids.ts";
import { within } from "../platform/time-limit.ts";
import type { DeletedPeople } from "./deleted-people.ts";
import type { KeyNotice } from "./key-notice-events.ts";
import type { Deliveries } from "./deliveries.ts";
import type { Roster, Settings } from "./roster.ts";

const CHORE_MS = 3_600_000;
/** Days for which notification ids are remembered to detect repetitions. Sources repeat within minutes. */
const EVENT_SEEN_DAYS = 14;

interface Parts {
  roster: Roster;
  deliveries: Deliveries;
  settings: Settings;
  deletedPeople: DeletedPeople;
}

export class HourlyChore {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  readonly #parts: Parts;
  #notBeforeMs = 0;

  constructor(env: Env, sql: SqlStorage, parts: Parts) {
    this.#env = env;
    this.#sql = sql;
    this.#parts = parts;
  }

  /** Time of the next run, in milliseconds since 1970; infinity if the workspace has no destination. */
  nextMs(): number {
    const { roster, settings } = this.#parts;
    if (roster.all().length === 0) return Number.POSITIVE_INFINITY;
    return Math.max(settings.choreMs + CHORE_MS, this.#notBeforeMs);
  }

  /** Prevents a second run at the same time, or soon after a failure. */
  putOff(untilMs = Date.now() + CHORE_MS): void {
    this.#notBeforeMs = untilMs;
  }

  /** All key notices that apply now, including those already raised. */
  async keyNotices(workspaceId: string, nowMs: number): Promise<KeyNotice[]> {
    const { types } = wantedBy(this.#parts.roster.all(), this.#parts.settings.thresholds);
    if (!types.includes("key.expiring") && !types.includes("key.silent")) return [];
    // Import on demand: loading the control plane's database takes most of an isolate's start-up time.
    const { readKeyNotices } = await import("./key-notice-events.ts");
    return within(CALL_TIMEOUT_MS, readKeyNotices(this.#env, workspaceId, types, nowMs));
  }

  /**
   * Deletes expired rows and marks notices as raised. Runs in the transaction that stores the returned notifications.
   *
   * @param nowMs start of the run; the next one follows an hour later.
   */
  finish(notices: readonly KeyNotice[], nowMs: number): WorkspaceEvent[] {
    const { roster, deliveries, settings, deletedPeople } = this.#parts;
    this.#sql.exec(
      "DELETE FROM notifications_seen WHERE id < ?",
      `evt_${uuidv7From(nowMs - EVENT_SEEN_DAYS * 24 * 3_600_000)}`,
    );
    for (const { id } of roster.all()) deliveries.clearAway(id, nowMs);
    deletedPeople.clearAway(nowMs);
    settings.choreMs = nowMs;
    return notices.filter((notice) => this.#isNews(notice)).map(({ event }) => event);
  }

  #isNews({ keyId, notice, of }: KeyNotice): boolean {
    const insert = `INSERT INTO key_notices (key_id, notice, of) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET of = excluded.of WHERE of <> excluded.of RETURNING of`;
    return this.#sql.exec(insert, keyId, notice, of).toArray().length > 0;
  }
}

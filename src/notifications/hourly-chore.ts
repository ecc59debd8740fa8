/** What the object does about once an hour: it looks for keys that end soon or are silent, and deletes what is over. */
import { wantedBy } from "../domain/events/destination.ts";
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import { uuidv7From } from "../platform/ids.ts";
import type { DeletedPeople } from "./deleted-people.ts";
import type { Deliveries } from "./deliveries.ts";
import type { KeyNotice } from "./due-key-notices.ts";
import type { Roster, Settings } from "./roster.ts";

const CHORE_MS = 3_600_000;
/** How long an event's id is remembered, so that it is taken over once: a source hands it on within minutes. */
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

  /** When it is due, in milliseconds since 1970; infinity: there is nobody to do it for. */
  nextMs(): number {
    const { roster, settings } = this.#parts;
    if (roster.all().length === 0) return Number.POSITIVE_INFINITY;
    return Math.max(settings.choreMs + CHORE_MS, this.#notBeforeMs);
  }

  /** Keeps the chore from being done a second time meanwhile, or soon after it has failed. */
  putOff(untilMs = Date.now() + CHORE_MS): void {
    this.#notBeforeMs = untilMs;
  }

  /** All notices of keys that hold now, whether or not they were told before. */
  async keyNotices(workspaceId: string, nowMs: number): Promise<KeyNotice[]> {
    const { types } = wantedBy(this.#parts.roster.all(), this.#parts.settings.thresholds);
    if (!types.includes("key.expiring") && !types.includes("key.silent")) return [];
    // Loaded when somebody wants it.
    const { keyNotices } = await import("./due-key-notices.ts");
    return within(CALL_TIMEOUT_MS, keyNotices(this.#env, workspaceId, types, nowMs));
  }

  /**
   * Deletes what is over, and notes which notices are told, in one transaction with the events that it returns to be raised.
   *
   * @param nowMs when the chore began: the alarm rings an hour after that.
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

/**
 * Hourly work of the Destinations object: raises notifications of expiring and silent keys, and deletes expired rows.
 */
import { keysToWatch } from "../control/api-keys.ts";
import { controlDatabase } from "../control/database.ts";
import { wantedBy } from "../domain/events/destination.ts";
import { expiringDays, silentSinceMs } from "../domain/events/key-notices.ts";
import type { EventType, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { newId, uuidv7From } from "../platform/ids.ts";
import { within } from "../platform/time-limit.ts";
import type { DeletedPeople } from "./deleted-people.ts";
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

export interface KeyNotice {
  keyId: string;
  notice: "key.expiring" | "key.silent";
  /**
   * Identifies the notice: expiry and days left, or the time since when the key is silent. Each value is raised once.
   */
  of: string;
  event: WorkspaceEvent;
}

async function readKeyNotices(
  env: Env,
  workspaceId: string,
  types: readonly EventType[],
  nowMs: number,
): Promise<KeyNotice[]> {
  const [keys, lastUsed] = await Promise.all([
    keysToWatch(controlDatabase(env.DB), workspaceId, nowMs),
    env.QUOTA_COUNTER.getByName(workspaceId).lastUsed(),
  ]);
  return keys.flatMap((watched): KeyNotice[] => {
    const key = { ...watched, lastUsedMs: lastUsed[watched.id] ?? null };
    const common = { key_id: key.id, key_name: key.name, last_used_at: isoOrNull(key.lastUsedMs) };
    const [days, silentMs] = [expiringDays(key, nowMs), silentSinceMs(key, nowMs)];
    const notices: KeyNotice[] = [];
    if (days !== null && key.endsAtMs !== null && types.includes("key.expiring")) {
      const data = { ...common, expires_at: new Date(key.endsAtMs).toISOString(), days, successor_id: key.successorId };
      const event = { id: newId("evt", nowMs), type: "key.expiring", time: nowMs, data } as const;
      notices.push({ keyId: key.id, notice: "key.expiring", of: `${key.endsAtMs} ${days}`, event });
    }
    if (silentMs !== null && key.silentAfterDays !== null && types.includes("key.silent")) {
      const data = { ...common, days: key.silentAfterDays };
      const event = { id: newId("evt", nowMs), type: "key.silent", time: nowMs, data } as const;
      notices.push({ keyId: key.id, notice: "key.silent", of: String(silentMs), event });
    }
    return notices;
  });
}

function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

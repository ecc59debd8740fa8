/** Hourly work of the Destinations object: notifies of expiring and silent keys, and deletes expired rows. */
import { DAY_MS } from "../domain/duration.ts";
import { wantedBy } from "../domain/notifications/destination.ts";
import { expiringDays, silentSinceMs, type KeyToWatch } from "../domain/notifications/key-notices.ts";
import type { NotificationType, Notification } from "../domain/notifications/notification.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { uuidv7From, uuidv7Ms } from "../platform/ids.ts";
import { within } from "../platform/time-limit.ts";
import type { DeletedPeople, Deliveries } from "./deliveries.ts";
import { newNotification } from "./raised-notifications.ts";
import type { Roster, Settings } from "./roster.ts";

const CHORE_MS = 3_600_000;
/** Days for which notification ids are remembered to detect repetitions. Sources repeat within minutes. */
const NOTIFICATION_SEEN_DAYS = 14;

interface KeyNotice {
  keyId: string;
  notice: "key.expiring" | "key.silent";
  /** Identifies the notice: expiry and days left, or the time since when the key is silent. Each value is raised once. */
  of: string;
  notification: Notification;
}

interface Tables {
  roster: Roster;
  deliveries: Deliveries;
  settings: Settings;
  deletedPeople: DeletedPeople;
}

export class HourlyChore {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  readonly #tables: Tables;
  #notBeforeMs = 0;

  constructor(env: Env, sql: SqlStorage, tables: Tables) {
    this.#env = env;
    this.#sql = sql;
    this.#tables = tables;
  }

  /** Time of the next run, in milliseconds since 1970; infinity if the workspace has no destination. */
  nextMs(): number {
    const { roster, settings } = this.#tables;
    if (roster.all().length === 0) return Number.POSITIVE_INFINITY;
    // A wait of more than an hour means that the clock was set back.
    const latestMs = Date.now() + CHORE_MS;
    const nextMs = Math.max(settings.choreMs + CHORE_MS, this.#notBeforeMs);
    return nextMs > latestMs ? 0 : nextMs;
  }

  /** Prevents a second run at the same time, or soon after a failure. */
  postpone(untilMs = Date.now() + CHORE_MS): void {
    this.#notBeforeMs = untilMs;
  }

  /** Includes notices that were raised before. */
  async keyNotices(workspaceId: string, nowMs: number): Promise<KeyNotice[]> {
    // An address that has not confirmed gets the notices later.
    const { types } = wantedBy(this.#tables.roster.active(), this.#tables.settings.thresholds);
    if (!types.includes("key.expiring") && !types.includes("key.silent")) return [];
    // Import on demand: loading the control plane's database takes most of an isolate's start-up time.
    const [{ keysToWatch }, { controlDatabase }] = await Promise.all([
      import("../d1/api-keys.ts"),
      import("../d1/database.ts"),
    ]);
    const [keys, lastUsed] = await within(
      CALL_TIMEOUT_MS,
      Promise.all([
        keysToWatch(controlDatabase(this.#env.DB), workspaceId, nowMs),
        this.#env.QUOTA_COUNTER.getByName(workspaceId).lastUsed(),
      ]),
    );
    // A workspace that was imported does not know of earlier calls. Its id has the time.
    const beganMs = uuidv7Ms(workspaceId.slice("ws_".length)) ?? 0;
    return keys.flatMap((key) => noticesOf({ ...key, lastUsedMs: lastUsed[key.id] ?? null, beganMs }, types, nowMs));
  }

  /** Call it in the transaction that stores the returned notifications. @param nowMs start of the run. */
  finish(notices: readonly KeyNotice[], nowMs: number): Notification[] {
    const { roster, deliveries, settings, deletedPeople } = this.#tables;
    this.#sql.exec(
      "DELETE FROM notifications_seen WHERE id < ?",
      `ntf_${uuidv7From(nowMs - NOTIFICATION_SEEN_DAYS * DAY_MS)}`,
    );
    for (const { id } of roster.all()) deliveries.deleteExpired(id, nowMs);
    deletedPeople.deleteExpired(nowMs);
    settings.choreMs = nowMs;
    return notices.filter((notice) => this.#isNew(notice)).map(({ notification }) => notification);
  }

  #isNew({ keyId, notice, of }: KeyNotice): boolean {
    const insert = `INSERT INTO key_notices (key_id, notice, of) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET of = excluded.of WHERE of <> excluded.of RETURNING of`;
    return this.#sql.exec(insert, keyId, notice, of).toArray().length > 0;
  }
}

type NamedKey = KeyToWatch & { name: string; successorId: string | null; beganMs: number };

function noticesOf(key: NamedKey, types: readonly NotificationType[], nowMs: number): KeyNotice[] {
  const { id, name, lastUsedMs, endsAtMs, silentAfterDays, successorId } = key;
  const common = {
    key_id: id,
    key_name: name,
    last_used_at: lastUsedMs === null ? null : new Date(lastUsedMs).toISOString(),
  };
  const createdAtMs = Math.max(key.createdAtMs, key.beganMs);
  const [days, silentMs] = [expiringDays(key, nowMs), silentSinceMs({ ...key, createdAtMs }, nowMs)];
  const notices: KeyNotice[] = [];
  if (days !== null && endsAtMs !== null) {
    const data = { ...common, expires_at: new Date(endsAtMs).toISOString(), days, successor_id: successorId };
    const notification = newNotification("key.expiring", data, nowMs);
    notices.push({ keyId: id, notice: "key.expiring", of: `${endsAtMs} ${days}`, notification });
  }
  if (silentMs !== null && silentAfterDays !== null) {
    const notification = newNotification("key.silent", { ...common, days: silentAfterDays }, nowMs);
    notices.push({ keyId: id, notice: "key.silent", of: String(silentMs), notification });
  }
  return notices.filter(({ notice }) => types.includes(notice));
}

/**
 * What the object's alarm sees to besides deliveries: the workspace's sources are told what is wanted, the audit log that a
 * destination was switched off; about once an hour keys are looked at, and what is over is cleared away.
 */
import { wantedBy } from "../domain/events/destination.ts";
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import { uuidv7From } from "../platform/uuidv7.ts";
import type { KeyNotice } from "./due-key-notices.ts";
import type { StoredParts } from "./stored-parts.ts";

/** How long an event's id is remembered, so that it is taken once: a source hands it on within minutes. */
const EVENT_SEEN_DAYS = 14;
/** How often keys are looked at that end soon or are silent, and what is over is cleared away. */
const DESTINATIONS_CHORE_MS = 3_600_000;

export class Upkeep {
  readonly #env: Env;
  readonly #stored: StoredParts;
  #notBeforeMs = 0;
  /** Settles when nobody is being told any more. */
  #telling: Promise<void> = Promise.resolve();

  constructor(env: Env, stored: StoredParts) {
    this.#env = env;
    this.#stored = stored;
  }

  /**
   * Tells whoever must know of a change that may not have reached them. Repeating it is harmless. One call runs after the
   * other: a change must not be overtaken by the one before it.
   */
  tell(workspaceId: string): Promise<void> {
    const told = this.#telling.then(() => within(CALL_TIMEOUT_MS, this.#tellNow(workspaceId)));
    this.#telling = told.catch(() => undefined);
    return told;
  }

  async #tellNow(workspaceId: string): Promise<void> {
    const { roster, settings, sql } = this.#stored;
    const change = settings.untold;
    if (change === null) return;
    const switchedOff = sql
      .exec<{ destination_id: string; at_ms: number; detail: string }>("SELECT * FROM switched_off")
      .toArray();
    const wanted = wantedBy(roster.all(), settings.thresholds);
    await Promise.all([
      this.#env.SIGNAL_STORE.getByName(workspaceId).wantEvents(wanted),
      this.#env.QUOTA_COUNTER.getByName(workspaceId).wantEvents(wanted),
    ]);
    if (switchedOff.length > 0) {
      const { noteSwitchedOff } = await import("./switched-off.ts");
      for (const one of switchedOff) {
        // oxlint-disable-next-line no-await-in-loop -- one at a time is all there ever is
        await noteSwitchedOff(this.#env.DB, workspaceId, one);
        sql.exec("DELETE FROM switched_off WHERE destination_id = ? AND at_ms = ?", one.destination_id, one.at_ms);
      }
    }
    settings.told(change);
  }

  /**
   * Whether a look at the keys is due. If so it has begun, and what is asked of the alarm meanwhile is the next one: the alarm
   * would ring for this one a second time.
   */
  beginLook(nowMs: number): boolean {
    if (nowMs < this.nextMs()) return false;
    this.#notBeforeMs = nowMs + DESTINATIONS_CHORE_MS;
    return true;
  }

  /** Once in a while: all notices of keys that hold now, whether or not they were told before. */
  async look(workspaceId: string, nowMs: number): Promise<KeyNotice[]> {
    const { roster, settings } = this.#stored;
    const { types } = wantedBy(roster.all(), settings.thresholds);
    if (!types.includes("key.expiring") && !types.includes("key.silent")) return [];
    const { keyNotices } = await import("./due-key-notices.ts");
    return within(CALL_TIMEOUT_MS, keyNotices(this.#env, workspaceId, types, nowMs));
  }

  /**
   * Takes in what was found, in one transaction with the events that it returns to be raised.
   *
   * @param nowMs when the look began: the alarm rings an hour after that.
   */
  looked(notices: readonly KeyNotice[], nowMs: number): WorkspaceEvent[] {
    const { roster, deliveries, settings, sql } = this.#stored;
    sql.exec("DELETE FROM events_seen WHERE id < ?", `evt_${uuidv7From(nowMs - EVENT_SEEN_DAYS * 24 * 3_600_000)}`);
    deliveries.clearAway(
      roster.all().map(({ id }) => id),
      nowMs,
    );
    settings.choreMs = nowMs;
    return notices.flatMap(({ keyId, notice, of, event }) => {
      const isNews =
        sql.exec("SELECT 1 FROM key_notices WHERE key_id = ? AND notice = ? AND of = ?", keyId, notice, of).toArray()
          .length === 0;
      if (isNews)
        sql.exec("INSERT OR REPLACE INTO key_notices (key_id, notice, of) VALUES (?, ?, ?)", keyId, notice, of);
      return isNews ? [event] : [];
    });
  }

  /** Puts off the next look at the keys, after one that failed. */
  putOff(untilMs: number): void {
    this.#notBeforeMs = untilMs;
  }

  /** When the next look is to be, in milliseconds since 1970; infinity: there is nobody to do it for. */
  nextMs(): number {
    const { roster, settings } = this.#stored;
    if (roster.all().length === 0) return Number.POSITIVE_INFINITY;
    return Math.max(settings.choreMs + DESTINATIONS_CHORE_MS, this.#notBeforeMs);
  }
}

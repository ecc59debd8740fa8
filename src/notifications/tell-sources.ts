/** Tells whoever must know of a change: the sources what they are to raise, the activity log what was switched off. */
import { wantedBy } from "../domain/events/destination.ts";
import type { JsonObject } from "../domain/json/json-value.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import type { Roster, Settings } from "./roster.ts";

export class TellSources {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  readonly #roster: Roster;
  readonly #settings: Settings;
  /** Settles when nobody is being told any more. */
  #telling: Promise<void> = Promise.resolve();

  constructor(env: Env, sql: SqlStorage, { roster, settings }: { roster: Roster; settings: Settings }) {
    this.#env = env;
    this.#sql = sql;
    this.#roster = roster;
    this.#settings = settings;
  }

  /**
   * Tells of a change that may not have reached everybody. Repeating it is harmless. One call runs after the other: a change
   * must not be overtaken by the one before it.
   */
  tell(workspaceId: string): Promise<void> {
    const told = this.#telling.then(() => within(CALL_TIMEOUT_MS, this.#tellNow(workspaceId)));
    this.#telling = told.catch(() => undefined);
    return told;
  }

  async #tellNow(workspaceId: string): Promise<void> {
    const change = this.#settings.untold;
    if (change === null) return;
    const wanted = wantedBy(this.#roster.all(), this.#settings.thresholds);
    await Promise.all([
      this.#env.SIGNAL_STORE.getByName(workspaceId).wantEvents(wanted),
      this.#env.QUOTA_COUNTER.getByName(workspaceId).wantEvents(wanted),
    ]);
    await this.#logSwitchedOff(workspaceId);
    this.#settings.told(change);
  }

  async #logSwitchedOff(workspaceId: string): Promise<void> {
    type Row = { destination_id: string; at_ms: number; detail: string };
    const rows = this.#sql.exec<Row>("SELECT * FROM switched_off").toArray();
    if (rows.length === 0) return;
    // Loaded when it is needed: the control plane's database takes most of the time that an isolate starts in.
    const [{ writeAuditEntry }, { controlDatabase }] = await Promise.all([
      import("../control/audit.ts"),
      import("../control/database.ts"),
    ]);
    const db = controlDatabase(this.#env.DB);
    for (const { destination_id, at_ms, detail } of rows) {
      const by = { actor: "service", nowMs: at_ms };
      const entry = { workspaceId, action: "destination.switched_off", target: destination_id } as const;
      // oxlint-disable-next-line no-await-in-loop -- one at a time is all there ever is
      await writeAuditEntry(db, by, { ...entry, detail: JSON.parse(detail) as JsonObject });
      this.#sql.exec("DELETE FROM switched_off WHERE destination_id = ? AND at_ms = ?", destination_id, at_ms);
    }
  }
}

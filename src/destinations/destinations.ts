/**
 * Destinations: one Durable Object per workspace. It holds who is told what of the workspace, the events that wait to be
 * delivered, and what became of each delivery. It delivers nothing itself: that is the queue's consumer, and whatever that
 * has not reported in time is sent again.
 */
import { DurableObject } from "cloudflare:workers";
import type { WorkspaceEvent } from "../domain/events/workspace-event.ts";

export class Destinations extends DurableObject<Env> {
  readonly #sql: SqlStorage;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec(
      "CREATE TABLE IF NOT EXISTS events_seen (id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID",
    );
  }

  /** Takes over what has happened: durable when it resolves. An event that was raised before is ignored. */
  raise(events: WorkspaceEvent[]): void {
    const nowMs = Date.now();
    for (const { id } of events) {
      this.#sql.exec("INSERT INTO events_seen (id, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", id, nowMs);
    }
  }
}

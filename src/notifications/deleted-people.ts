/** A deleted person leaves nothing in what waits to be delivered, nor in what is shown of what was. */
import { withoutPerson } from "../domain/events/workspace-event.ts";
import type { AnyEvent, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { hashAtOnce } from "../platform/hashes.ts";

export class DeletedPeople {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Deletes a person's data from what is stored. What is under way to a receiver at this moment cannot be taken back. */
  delete(email: string, atMs: number): void {
    this.#sql.exec(
      `INSERT INTO deleted_people (email_hash, at_ms) VALUES (?, ?)
       ON CONFLICT DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)`,
      hashOf(email),
      atMs,
    );
    const needle = JSON.stringify(email).slice(1, -1);
    const events = this.#sql
      .exec<{ seq: number; type: string; data: string }>(
        "SELECT seq, type, data FROM notifications WHERE instr(data, ?)",
        `"${needle}"`,
      )
      .toArray();
    for (const { seq, type, data } of events) {
      const event = { type, data: JSON.parse(data) as unknown } as AnyEvent;
      const left = withoutPerson(event, (one) => one === email);
      this.#sql.exec("UPDATE notifications SET data = ? WHERE seq = ?", left && JSON.stringify(left.data), seq);
    }
    // The receivers' answers go too, and those that are still to come: they may repeat what the receiver was sent.
    this.#sql.exec(
      `UPDATE deliveries SET answers_hidden = 1
        WHERE EXISTS (SELECT 1 FROM json_each(deliveries.events) WHERE value IN (SELECT value FROM json_each(?)))`,
      JSON.stringify(events.map(({ seq }) => seq)),
    );
    this.#sql.exec(
      `UPDATE deliveries SET attempts = (SELECT json_group_array(json_set(value, '$.answer', NULL)) FROM json_each(attempts))
        WHERE answers_hidden = 1 OR instr(attempts, ?)`,
      needle,
    );
  }

  /**
   * The events as far as they may be kept: a source may have raised an event of a person before they were deleted, and hand
   * it on after.
   */
  withoutDeleted(events: readonly WorkspaceEvent[]): WorkspaceEvent[] {
    const rows = this.#sql.exec<{ email_hash: string; at_ms: number }>("SELECT email_hash, at_ms FROM deleted_people");
    const deleted = new Map([...rows].map((row) => [row.email_hash, row.at_ms] as const));
    if (deleted.size === 0) return [...events];
    return events.flatMap((event) => {
      const left = withoutPerson(event, (email) => (deleted.get(hashOf(email)) ?? 0) >= event.time);
      return left === null ? [] : [left];
    });
  }

  clearAway(nowMs: number): void {
    this.#sql.exec("DELETE FROM deleted_people WHERE at_ms < ?", nowMs - DELETION_REMEMBERED_DAYS * 24 * 3_600_000);
  }
}

function hashOf(email: string): string {
  return hashAtOnce(email).digest("hex");
}

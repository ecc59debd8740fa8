/** Removes a deleted person from waiting deliveries and from the deliveries shown on the pages. */
import { withoutPerson, type AnyEvent, type WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { hashAtOnce } from "../platform/hashes.ts";

export class DeletedPeople {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Deletes a person's data from stored notifications. A request that is already on its way to a receiver cannot be recalled. */
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
      const left = withoutPerson(event, (address) => address === email);
      this.#sql.exec("UPDATE notifications SET data = ? WHERE seq = ?", left && JSON.stringify(left.data), seq);
    }
    // Also hide the receivers' answers, past and future: an answer may repeat the request.
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

  /** Filters notifications of deleted people: an object may hand one on that it raised before the deletion. */
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

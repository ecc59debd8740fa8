/** A deleted person leaves nothing in what waits to be delivered, nor in what is shown of what was. */
import type { EventData, EventType, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { DELETION_REMEMBERED_DAYS } from "../limits.ts";
import { hashAtOnce } from "../platform/hashes.ts";

export class EventDeletion {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Deletes a person's data from what is stored. What is under way to a receiver at this moment cannot be taken back. */
  deletePerson(email: string, atMs: number): void {
    this.#sql.exec(
      `INSERT INTO deleted_people (email_hash, at_ms) VALUES (?, ?)
       ON CONFLICT DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)`,
      hashOf(email),
      atMs,
    );
    const needle = JSON.stringify(email).slice(1, -1);
    for (const { seq, data } of this.#find("scored", needle)) {
      const left = withoutPerson(JSON.parse(data) as EventData["person.scored"], email);
      this.#sql.exec("UPDATE scored SET data = ? WHERE seq = ?", JSON.stringify(left), seq);
    }
    for (const { seq, type, data } of this.#find("messages", needle)) {
      const left =
        type === "person.scored" ? withoutPerson(JSON.parse(data) as EventData["person.scored"], email) : null;
      const isEmpty = left === null || left.scoring_signals.length === 0;
      this.#sql.exec("UPDATE messages SET data = ? WHERE seq = ?", isEmpty ? null : JSON.stringify(left), seq);
      // The receiver's answers go too: it may have repeated in them what it was sent.
      this.#forgetAnswers("message = ?", seq);
    }
    this.#forgetAnswers("instr(attempts, ?)", needle);
  }

  /**
   * The events as far as they may be kept: a source may have raised an event of a person before they were deleted, and hand
   * it on after.
   */
  withoutDeleted(events: readonly WorkspaceEvent[]): WorkspaceEvent[] {
    const deleted = new Map(
      [...this.#sql.exec<{ email_hash: string; at_ms: number }>("SELECT email_hash, at_ms FROM deleted_people")].map(
        (row) => [row.email_hash, row.at_ms] as const,
      ),
    );
    if (deleted.size === 0) return [...events];
    const isDeleted = (email: string, time: number) => (deleted.get(hashOf(email)) ?? 0) >= time;
    return events.flatMap((event): WorkspaceEvent[] => {
      if (event.type !== "person.scored") {
        const email = "email" in event.data ? event.data.email : null;
        return email !== null && isDeleted(email, event.time) ? [] : [event];
      }
      const scoring_signals = event.data.scoring_signals.filter(({ email }) => !isDeleted(email, event.time));
      return scoring_signals.length === 0 ? [] : [{ ...event, data: { scoring_signals } }];
    });
  }

  clearAway(nowMs: number): void {
    this.#sql.exec("DELETE FROM deleted_people WHERE at_ms < ?", nowMs - DELETION_REMEMBERED_DAYS * 24 * 3_600_000);
  }

  /** Rows that may hold a text, which is looked for in them as it stands in JSON. */
  #find(table: "scored" | "messages", needle: string): { seq: number; type: EventType; data: string }[] {
    const type = table === "scored" ? "'person.scored'" : "type";
    return this.#sql
      .exec<{ seq: number; type: EventType; data: string }>(
        `SELECT seq, ${type} AS type, data FROM ${table} WHERE instr(data, ?)`,
        `"${needle}"`,
      )
      .toArray();
  }

  #forgetAnswers(where: string, value: string | number): void {
    this.#sql.exec(
      `UPDATE deliveries SET attempts = (SELECT json_group_array(json_set(value, '$.answer', NULL)) FROM json_each(attempts))
        WHERE ${where}`,
      value,
    );
  }
}

function withoutPerson({ scoring_signals }: EventData["person.scored"], email: string): EventData["person.scored"] {
  return { scoring_signals: scoring_signals.filter((one) => one.email !== email) };
}

function hashOf(email: string): string {
  return hashAtOnce(email).digest("hex");
}

/**
 * Names in lists of signals: the person of the signal, else the names in the signal. A deleted person is not named,
 * even while their signals are still being deleted.
 */
import type { Facts } from "../log/line.ts";

export class Names {
  readonly #sql: SqlStorage;
  readonly #emails = new Map<number, string | null>();
  #beingDeleted: ReadonlyMap<string, number> | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Reads the names for later calls of `of` in one statement. */
  load(lines: Iterable<Facts>): void {
    const ids = new Set([...lines].flatMap(({ owner }) => (owner === null ? [] : [owner.personId])));
    const unknown = [...ids].filter((id) => !this.#emails.has(id));
    if (unknown.length === 0) return;
    for (const id of unknown) this.#emails.set(id, null);
    const rows = this.#sql.exec<{ id: number; email: string }>(
      "SELECT id, email FROM people WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(unknown),
    );
    for (const { id, email } of rows) this.#emails.set(id, email);
  }

  /** Email of a signal's person; null: none, or deleted. */
  of(facts: Facts): string | null {
    this.load([facts]);
    if (facts.owner !== null) return this.#emails.get(facts.owner.personId) ?? null;
    return facts.email === null || this.#isLeaving(facts.email, facts.admission.receivedAtMs) ? null : facts.email;
  }

  /** Whether the person who had this email then is being deleted. */
  #isLeaving(email: string, atMs: number): boolean {
    this.#beingDeleted ??= new Map(
      this.#sql
        .exec<{ email: string; asked_at: number }>(
          "SELECT email, asked_at FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL ORDER BY requested_at",
        )
        .toArray()
        .map(({ email: leaving, asked_at }) => [leaving, asked_at] as const),
    );
    return atMs <= (this.#beingDeleted.get(email) ?? -1);
  }
}

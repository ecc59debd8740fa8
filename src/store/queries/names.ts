/** Emails and facts of signals for lists, traces and exports. A deletion in progress hides as much as a finished deletion. */
import { afterDeletion, type Facts } from "../log/line.ts";
import { isOfDeleted } from "../deletion/person-deletions.ts";
import { Identities, visitorOfPayload } from "../people/identities.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf } from "../state/dead-letters.ts";

export class Names {
  readonly #sql: SqlStorage;
  readonly #identities: Identities;
  /** Emails by person; null: the person is deleted. */
  readonly #emails = new Map<number, string | null>();
  readonly #isDeleting: boolean;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#identities = new Identities(sql);
    const jobs = sql.exec("SELECT 1 FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL LIMIT 1");
    this.#isDeleting = jobs.toArray().length > 0;
  }

  /** Reads the emails of many lines with one statement. */
  load(lines: readonly Facts[]): void {
    const ids = new Set(lines.flatMap(({ person }) => person?.personId ?? []));
    const unknown = [...ids].filter((id) => !this.#emails.has(id));
    if (unknown.length === 0) return;
    for (const id of unknown) this.#emails.set(id, null);
    const rows = this.#sql.exec<{ id: number; email: string }>(
      "SELECT id, email FROM people WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(unknown),
    );
    for (const { id, email } of rows) this.#emails.set(id, email);
  }

  /** The email of a signal's person; null: none, or deleted. */
  emailOf(facts: Facts): string | null {
    if (facts.person === null) return this.visible(facts).email;
    this.load([facts]);
    return this.#emails.get(facts.person.personId) ?? null;
  }

  /** The facts of a line as the deletion of its person will leave them. */
  visible(facts: Facts): Facts {
    if (!this.#isDeleting || facts.deletedAtMs !== null) return facts;
    const isDeleted =
      facts.person === null
        ? isOfDeleted(this.#sql, this.#identities, facts, facts.admission)
        : this.emailOf(facts) === null;
    return isDeleted ? afterDeletion(facts, Date.now()) : facts;
  }

  /** Whether a deletion in progress will empty a dead letter. */
  hides(row: DeadLetterRow): boolean {
    if (!this.#isDeleting || row.status !== "dead") return false;
    const admission = admissionOf(row);
    const visitor = visitorOfPayload(row.payload, admission);
    return visitor !== null && isOfDeleted(this.#sql, this.#identities, visitor, admission);
  }
}

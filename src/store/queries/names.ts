/** Emails and facts of lines for lists, traces and exports. A deletion in progress hides as much as a finished deletion. */
import { isHeldMisfit, type SignalFacts } from "../log/line.ts";
import type { Gate } from "../log/shown-log.ts";
import { deletionsNamedIn, NameMarks } from "../deletion/deleted-names.ts";
import { DeletedClaims, Identities, Owners } from "../people/identities.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf, emptyLetter, payloadOfLetter } from "../state/dead-letters.ts";
import { isDeleting } from "../state/due.ts";

export class Names implements Gate {
  readonly #sql: SqlStorage;
  readonly #owners: Owners;
  /** Emails by person; null: the person is deleted. */
  readonly #emails = new Map<number, string | null>();
  readonly #marks: NameMarks;
  /** Whether a deletion is under way. */
  readonly isDeleting: boolean;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    const deleted = new DeletedClaims(sql);
    this.#owners = new Owners(new Identities(sql, deleted), deleted);
    this.#marks = new NameMarks(sql);
    this.isDeleting = isDeleting(sql);
  }

  /** Reads the emails of many lines with one statement. */
  load(lines: readonly SignalFacts[]): void {
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
  emailOf(facts: SignalFacts): string | null {
    if (facts.person === null) return this.visible(facts).email;
    this.load([facts]);
    return this.#emails.get(facts.person.personId) ?? null;
  }

  /** The facts of a line as the deletions that are under way will leave them. */
  visible(facts: SignalFacts): SignalFacts {
    if (!this.isDeleting || facts.deletedAtMs !== null) return facts;
    const isPersonGone = facts.person !== null && this.emailOf(facts) === null;
    return this.#owners.afterDeletions(facts, isPersonGone, Date.now());
  }

  hides(facts: SignalFacts, payload: string): boolean {
    if (!this.isDeleting || !isHeldMisfit(facts)) return false;
    return deletionsNamedIn(this.#sql, payload, facts.admission, this.#marks).deletions.size > 0;
  }

  /** A dead letter as the deletions that are under way will leave it. */
  visibleLetter(row: DeadLetterRow): DeadLetterRow {
    if (!this.isDeleting || row.status !== "dead") return row;
    const admission = admissionOf(row);
    if (deletionsNamedIn(this.#sql, payloadOfLetter(row), admission, this.#marks).deletions.size === 0) return row;
    return { ...row, ...emptyLetter(admission, Date.now()) };
  }
}

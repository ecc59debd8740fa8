/** Dead letters for lists, traces and exports, as a deletion under way will leave them. */
import { listPage, type ListQuery, type ListPage } from "../../platform/list-page.ts";
import type { DeadLetter } from "../protocol/stored-signals.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf, payloadOfLetter } from "../state/dead-letters.ts";
import type { Names } from "./names.ts";

export type DeadLetterSummary = Omit<DeadLetterRow, "payload">;

const SUMMARY = "seq, id, status, admission, reason, recorded_at, received_at, deleted_at, problems, misfit_bytes";

export class ShownDeadLetters {
  readonly #sql: SqlStorage;
  readonly #names: Names;

  constructor(sql: SqlStorage, names: Names) {
    this.#sql = sql;
    this.#names = names;
  }

  /** A signal can have several dead letters. Returns the latest. */
  find(id: string): DeadLetterRow | null {
    const [row] = this.#sql.exec<DeadLetterRow>(
      "SELECT * FROM dead_letters WHERE id = ? ORDER BY seq DESC LIMIT 1",
      id,
    );
    return row === undefined ? null : this.#names.visibleLetter(row);
  }

  /** Before a number, the latest first. Reads payloads only if a deletion may hide them. */
  *latest(before: number): Generator<DeadLetterSummary> {
    const columns = this.#names.isDeleting ? "*" : `${SUMMARY}, NULL AS payload`;
    const query = `SELECT ${columns} FROM dead_letters WHERE seq < ? ORDER BY seq DESC`;
    for (const row of this.#sql.exec<DeadLetterRow>(query, before)) yield this.#names.visibleLetter(row);
  }

  /** In ascending order, without `after`. */
  *between(after: number, last: number): Generator<DeadLetterRow> {
    const query = "SELECT * FROM dead_letters WHERE seq > ? AND seq <= ? ORDER BY seq";
    for (const row of this.#sql.exec<DeadLetterRow>(query, after, last)) yield this.#names.visibleLetter(row);
  }

  /** The dead letters that wait for a replay. A slice may be short while a deletion is under way. */
  list(listQuery: ListQuery): ListPage<DeadLetter> {
    const rows = this.#sql
      .exec<DeadLetterRow>(
        "SELECT * FROM dead_letters WHERE status = 'dead' AND seq < ? ORDER BY seq DESC LIMIT ?",
        listQuery.cursor === null ? Number.MAX_SAFE_INTEGER : Number(listQuery.cursor),
        listQuery.limit + 1,
      )
      .toArray();
    const { items, next } = listPage(rows, listQuery, (row) => String(row.seq));
    const shown = items.map((row) => this.#names.visibleLetter(row)).filter(({ status }) => status === "dead");
    return {
      items: shown.map((row) => ({
        id: row.id,
        keyId: admissionOf(row).keyId,
        reason: row.reason,
        receivedAtMs: row.received_at,
        deadAtMs: row.recorded_at,
        payload: payloadOfLetter(row),
        misfit: row.misfit_bytes !== null,
      })),
      next,
    };
  }
}

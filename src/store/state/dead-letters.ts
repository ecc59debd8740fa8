/** Dead letters (design §8): signals that could not be processed, with the reason, until an admin replays them. */
import { parsed } from "../../domain/json/json-value.ts";
import type { DeadLetterStatus } from "../../domain/signal/signal.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { Admission } from "../../wire/admission.ts";
import type { DeadLetter, SignalToRecord } from "../protocol/stored-signals.ts";

export interface DeadLetterRow {
  [column: string]: SqlStorageValue;
  seq: number;
  id: string;
  status: DeadLetterStatus;
  admission: string;
  reason: string;
  payload: string | null;
  recorded_at: number;
  received_at: number;
  deleted_at: number | null;
}

/** The highest number that a dead letter has had, even if it is gone; 0: there was none. */
export function lastDeadLetter(sql: SqlStorage): number {
  const [last] = sql.exec<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'dead_letters'");
  return last?.seq ?? 0;
}

export function insertDeadLetter(sql: SqlStorage, signal: SignalToRecord, reason: string, nowMs: number): void {
  const { resent: _resent, ...admission } = signal.admission;
  sql.exec(
    `INSERT INTO dead_letters (id, status, admission, reason, payload, recorded_at, received_at)
     VALUES (?, 'dead', ?, ?, ?, ?, ?)`,
    admission.id,
    JSON.stringify(admission),
    reason,
    signal.payload,
    nowMs,
    admission.receivedAtMs,
  );
}

export function readDeadLetter(sql: SqlStorage, seq: number): DeadLetterRow | null {
  return sql.exec<DeadLetterRow>("SELECT * FROM dead_letters WHERE seq = ?", seq).toArray()[0] ?? null;
}

/** The latest dead letter of a signal, which can have several. */
export function findDeadLetter(sql: SqlStorage, id: string): DeadLetterRow | null {
  const [row] = sql.exec<DeadLetterRow>("SELECT * FROM dead_letters WHERE id = ? ORDER BY seq DESC LIMIT 1", id);
  return row ?? null;
}

export function deleteDeadLetter(sql: SqlStorage, seq: number): void {
  sql.exec("DELETE FROM dead_letters WHERE seq = ?", seq);
}

export function admissionOf({ admission }: Pick<DeadLetterRow, "admission">): Admission {
  return JSON.parse(admission) as Admission;
}

/** When the latest dead letter was recorded; null: there is none. */
export function latestDeadLetterMs(sql: SqlStorage): number | null {
  const [latest] = sql.exec<{ recorded_at: number }>(
    "SELECT recorded_at FROM dead_letters WHERE status = 'dead' AND seq < ? ORDER BY seq DESC LIMIT 1",
    Number.MAX_SAFE_INTEGER,
  );
  return latest?.recorded_at ?? null;
}

/** Dead letters, the newest first. */
export function listDeadLetters(sql: SqlStorage, { cursor, limit }: Page): PageOf<DeadLetter> {
  const rows = sql
    .exec<DeadLetterRow>(
      "SELECT * FROM dead_letters WHERE status = 'dead' AND seq < ? ORDER BY seq DESC LIMIT ?",
      cursor === null ? Number.MAX_SAFE_INTEGER : Number(cursor),
      limit + 1,
    )
    .toArray();
  const shown = rows.slice(0, limit);
  return {
    items: shown.map((row) => ({
      id: row.id,
      reason: row.reason,
      receivedAtMs: row.received_at,
      deadAtMs: row.recorded_at,
      payload: parsed(row.payload),
    })),
    next: rows.length > limit ? String(shown.at(-1)?.seq) : null,
  };
}

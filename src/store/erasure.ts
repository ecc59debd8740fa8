/**
 * The deletion of a person, with everything that is linked to them: a job in steps, each one transaction. The first step
 * takes away person and identities, so that what comes from then on is somebody new's, and up to ERASURE_ROWS of the
 * rest; the store's alarm does what is left, and ends the job when cold storage holds no copy any more.
 */
import { DAY_MS } from "../domain/duration.ts";
import { ERASURE_REMEMBERED_DAYS, ERASURE_ROWS } from "../limits.ts";
import { scrubPending } from "./cold-storage.ts";
import { RuleDayChanges } from "./day-changes.ts";
import { hashOf, rememberNames } from "./erased-names.ts";
import { findSignals } from "./erasure-signals.ts";
import type { VisitorId } from "./link.ts";
import type { ErasureReceipt } from "./data-care.ts";
import { rowsOf, SCORES } from "./timelines.ts";
import { eraseSignals } from "./tombstones.ts";

/** A job as it is stored; see schema.ts. */
export interface ErasureRow {
  [column: string]: SqlStorageValue;
  id: string;
  requested_at: number;
  finished_at: number | null;
  /** Null: what is left is up to cold storage. */
  email: string | null;
  visitors: string | null;
  person_id: number | null;
  dead_seq: number;
  people: number;
  identities: number;
  signals: number;
  anonymous: number;
  held: number;
  duplicates: number;
  dead_letters: number;
  scoring_signals: number;
  cold_objects: number;
}

const REMEMBERED_MS = ERASURE_REMEMBERED_DAYS * DAY_MS;

/** Where each status is counted. */
const COUNTED_AS = {
  processed: "signals",
  purged: "signals",
  anonymous: "anonymous",
  held: "held",
  duplicate: "duplicates",
  dead: "dead_letters",
} as const;

/**
 * Begins to delete, with the first step. While a deletion of the same person is under way, that one goes on, and looks
 * again for what has come since; unless somebody new has the email by now.
 */
export function erasePerson(sql: SqlStorage, id: string, email: string, nowMs: number): void {
  const last = findRow(sql, email);
  const person = sql.exec<{ id: number }>("SELECT id FROM people WHERE email = ?", email).toArray()[0]?.id ?? null;
  if (last?.finished_at === null && person === null) {
    const known = JSON.parse(last.visitors ?? "[]") as VisitorId[];
    rememberNames(sql, [{ kind: "email", value: email }, ...known], nowMs);
    sql.exec("UPDATE erasures SET email = ?2, dead_seq = 0 WHERE id = ?1", last.id, email);
    return stepErasure(sql, nowMs);
  }
  const visitors = sql
    .exec<{ kind: VisitorId["kind"]; value: string }>("SELECT kind, value FROM identities WHERE person_id = ?", person)
    .toArray();
  rememberNames(sql, [{ kind: "email", value: email }, ...visitors], nowMs);
  sql.exec("DELETE FROM identities WHERE person_id = ?", person);
  const list = JSON.stringify(visitors);
  sql.exec(
    "DELETE FROM link_jobs WHERE (kind, value) IN (SELECT value ->> 'kind', value ->> 'value' FROM json_each(?))",
    list,
  );
  // The row stays until no signal names it: its number must not become somebody else's before.
  sql.exec(
    `UPDATE people SET email = 'deleted ' || id, name = NULL, company = NULL, title = NULL, score = 0 WHERE id = ?`,
    person,
  );
  sql.exec(
    `INSERT INTO erasures (id, email_hash, requested_at, email, visitors, person_id, dead_seq, people, identities, signals,
       anonymous, held, duplicates, dead_letters, scoring_signals, cold_objects)
     VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, 0, 0, 0, 0, 0, 0, 0)`,
    id,
    hashOf({ kind: "email", value: email }),
    nowMs,
    email,
    list,
    person,
    Number(person !== null),
    visitors.length,
  );
  stepErasure(sql, nowMs);
}

/** Null when the person was not deleted, or that is long ago. */
export function findErasure(sql: SqlStorage, email: string): ErasureReceipt | null {
  const row = findRow(sql, email);
  return row === undefined ? null : toReceipt(row);
}

/** When there is something to do, in milliseconds since 1970; null when there is nothing. */
export function nextErasureMs(sql: SqlStorage, nowMs: number): number | null {
  const inR2 = sql.exec("SELECT 1 FROM erasures WHERE finished_at IS NULL AND email IS NULL LIMIT 1").toArray();
  if (nextJob(sql) !== undefined || (inR2.length > 0 && scrubPending(sql) === 0)) return nowMs;
  const oldest = sql.exec<{ at: number | null }>("SELECT min(at) AS at FROM erased_names").one().at;
  return oldest === null ? null : oldest + REMEMBERED_MS;
}

/** Takes the job that waits longest one step further, and ends those that were waiting for cold storage only. */
export function stepErasure(sql: SqlStorage, nowMs: number): void {
  sql.exec("DELETE FROM erased_names WHERE at <= ?", nowMs - REMEMBERED_MS);
  sql.exec("DELETE FROM erasures WHERE finished_at <= ?", nowMs - REMEMBERED_MS);
  const row = nextJob(sql);
  if (row !== undefined) {
    eraseRows(sql, row, row.email ?? "", nowMs);
    writeJob(sql, row);
  }
  if (scrubPending(sql) > 0) return;
  sql.exec("UPDATE erasures SET finished_at = ? WHERE finished_at IS NULL AND email IS NULL", nowMs);
}

function writeJob(sql: SqlStorage, row: ErasureRow): void {
  sql.exec(
    `UPDATE erasures SET email = ?2, visitors = ?3, person_id = ?4, dead_seq = ?5, signals = ?6, anonymous = ?7,
       held = ?8, duplicates = ?9, dead_letters = ?10, scoring_signals = ?11, cold_objects = ?12
     WHERE id = ?1`,
    row.id,
    row.email,
    row.visitors,
    row.person_id,
    row.dead_seq,
    row.signals,
    row.anonymous,
    row.held,
    row.duplicates,
    row.dead_letters,
    row.scoring_signals,
    row.cold_objects,
  );
}

/** ERASURE_ROWS of them; when there are no more, what the job was looking for is forgotten. */
function eraseRows(sql: SqlStorage, row: ErasureRow, email: string, nowMs: number): void {
  const { seqs, all } = findSignals(sql, row, email, ERASURE_ROWS);
  const erased = eraseSignals(sql, seqs, nowMs);
  for (const { status } of erased) row[COUNTED_AS[status]]++;
  row.cold_objects += new Set(erased.flatMap((signal) => signal.cold_object ?? [])).size;
  if (!all) return;
  const unscored = sql
    .exec<{ rule_id: string; at: number }>(
      `DELETE FROM scoring_signals WHERE id IN (${rowsOf(SCORES, "?1", "?2")} LIMIT ?2)
       RETURNING rule_id, at`,
      row.person_id,
      ERASURE_ROWS,
    )
    .toArray();
  const days = new RuleDayChanges();
  for (const { rule_id: ruleId, at } of unscored) days.add(ruleId, at, -1);
  days.write(sql);
  row.scoring_signals += unscored.length;
  if (unscored.length === ERASURE_ROWS) return;
  sql.exec("DELETE FROM people WHERE id = ?", row.person_id);
  Object.assign(row, { email: null, visitors: null, person_id: null });
}

function findRow(sql: SqlStorage, email: string): ErasureRow | undefined {
  const hash = hashOf({ kind: "email", value: email });
  return sql
    .exec<ErasureRow>("SELECT * FROM erasures WHERE email_hash = ? ORDER BY requested_at DESC LIMIT 1", hash)
    .toArray()[0];
}

/** Of those with rows left, the one that waits longest. */
function nextJob(sql: SqlStorage): ErasureRow | undefined {
  return sql
    .exec<ErasureRow>(
      "SELECT * FROM erasures WHERE finished_at IS NULL AND email IS NOT NULL ORDER BY requested_at LIMIT 1",
    )
    .toArray()[0];
}

function toReceipt(row: ErasureRow): ErasureReceipt {
  return {
    id: row.id,
    requestedAtMs: row.requested_at,
    finishedAtMs: row.finished_at,
    people: row.people,
    identities: row.identities,
    signals: row.signals,
    anonymous: row.anonymous,
    held: row.held,
    duplicates: row.duplicates,
    deadLetters: row.dead_letters,
    scoringSignals: row.scoring_signals,
    coldObjects: row.cold_objects,
  };
}

/** Stored deletions of people: request, progress, and the receipt with counts of deleted data. */
import { hashOfName } from "../../domain/signal/identity.ts";
import type { DeletionReceipt } from "../protocol/store-operations.ts";
import type { DeletionStage } from "./tables.ts";

/** A job as it is stored; see tables.ts. */
export interface DeletionJob {
  [column: string]: SqlStorageValue;
  id: string;
  requested_at: number;
  asked_at: number;
  finished_at: number | null;
  /** Email of the person; null: only cold storage remains. */
  email: string | null;
  person_id: number | null;
  step: DeletionStage;
  /** The line, or the dead letter, that was looked at last. */
  position: number;
  people: number;
  identities: number;
  signals: number;
  anonymous: number;
  held: number;
  dead_letters: number;
  scoring_signals: number;
  cold_objects: number;
  /** 1 until Destinations have deleted the person. */
  hand_over: number;
}

/**
 * Stores a new deletion.
 *
 * @param job.email empty where only its hash is known, and there is no such person.
 * @param job.personId null: there is no such person, only what may name them.
 */
export function insertJob(
  sql: SqlStorage,
  { id, email, emailHash, personId }: { id: string; email: string; emailHash: string; personId: number | null },
  nowMs: number,
): void {
  sql.exec(
    `INSERT INTO deletions (id, email_hash, requested_at, asked_at, email, person_id, step, position, people, identities,
       signals, anonymous, held, dead_letters, scoring_signals, cold_objects)
     VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, 0, ?7, 0, 0, 0, 0, 0, 0, 0)`,
    id,
    emailHash,
    nowMs,
    email,
    personId,
    personId === null ? "held" : "identities",
    Number(personId !== null),
  );
}

/** Stores how far a deletion has come, and what it has deleted. */
export function saveJob(sql: SqlStorage, job: DeletionJob): void {
  sql.exec(
    `UPDATE deletions SET ${PROGRESS.map((column) => `${column} = ?`).join(", ")} WHERE id = ?`,
    ...PROGRESS.map((column) => job[column]),
    job.id,
  );
}

/** The columns that a step changes. */
const PROGRESS = [
  "email",
  "person_id",
  "step",
  "position",
  "identities",
  "signals",
  "anonymous",
  "held",
  "dead_letters",
  "scoring_signals",
  "cold_objects",
] as const satisfies readonly (keyof DeletionJob)[];

/** Restarts the search for data that arrived under the person's names. */
export function lookAgain(sql: SqlStorage, job: DeletionJob, email: string, nowMs: number): void {
  sql.exec("UPDATE deleted_names SET at = ? WHERE at = ?", nowMs, job.asked_at);
  const isAtThePerson = job.step === "identities" || job.step === "lines";
  sql.exec(
    "UPDATE deletions SET email = ?, asked_at = ?, step = ?, position = 0 WHERE id = ?",
    email,
    nowMs,
    isAtThePerson ? job.step : "held",
    job.id,
  );
}

/** Latest deletion of the person who had an email. */
export function findJob(sql: SqlStorage, email: string): DeletionJob | undefined {
  const hash = hashOfName({ kind: "email", value: email });
  return sql
    .exec<DeletionJob>("SELECT * FROM deletions WHERE email_hash = ? ORDER BY requested_at DESC, id DESC LIMIT 1", hash)
    .toArray()[0];
}

export function findJobById(sql: SqlStorage, id: string): DeletionJob | undefined {
  return sql.exec<DeletionJob>("SELECT * FROM deletions WHERE id = ?", id).toArray()[0];
}

/** The longest waiting job with remaining work. */
export function nextJob(sql: SqlStorage): DeletionJob | undefined {
  return sql
    .exec<DeletionJob>(
      "SELECT * FROM deletions WHERE finished_at IS NULL AND email IS NOT NULL ORDER BY requested_at LIMIT 1",
    )
    .toArray()[0];
}

export function toReceipt(job: DeletionJob): DeletionReceipt {
  return {
    id: job.id,
    requestedAtMs: job.requested_at,
    finishedAtMs: job.finished_at,
    people: job.people,
    identities: job.identities,
    signals: job.signals,
    anonymous: job.anonymous,
    held: job.held,
    deadLetters: job.dead_letters,
    scoringSignals: job.scoring_signals,
    coldObjects: job.cold_objects,
  };
}

/**
 * Jobs that send signals through the queue again: releases of held signals, and replays of dead letters.
 *
 * Steps are idempotent: the Quota Counter sends each batch of a job once, and answers a repetition with the end of that batch. So a crash
 * between the counter's commit and the stored cursor neither repeats nor skips signals. record-signals.ts removes a signal from its place.
 */
import { DAY_MS } from "../domain/duration.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { updateRow, insertRow } from "../platform/sql-row.ts";
import { within } from "../platform/time-limit.ts";
import { headOfResent, type Admission, type PlaceInStore, writeCall } from "../wire/message.ts";
import type { DeadLetterRow, ResendJobRow } from "./schema.ts";
import { admissionOf, lastDeadLetter, payloadOfLetter } from "./state/dead-letters.ts";
import { readTotals } from "./state/status-change.ts";
import type { StoreState } from "./state/store-state.ts";

const encoder = new TextEncoder();

/** At 64 KB a signal, a batch has some 13 MB: half the limit of an RPC. */
const BATCH_SIGNALS = 200;

export type ResendScope =
  | { kind: "release"; periodStartMs: number; periodEndMs: number; overages: boolean; most: number | null }
  /** Dead letters with these signal ids; null: all. */
  | { kind: "replay"; ids: string[] | null };

export interface ResendProgress {
  sent: number;
  /** Signals of a release that were held at the start and are not sent. */
  stillHeld: number;
  isUnderWay: boolean;
}

export interface StoredSignal extends PlaceInStore {
  admission: Admission;
  payload: string;
}

interface ResendBatch {
  signals: StoredSignal[];
  /** The job's next `cursor`: an ordinal, the number of a dead letter, or an index of `ids`. */
  through: number;
}

/** Begins a job and returns its id. If a job of the same scope is running, joins it and lets it continue at once. */
export function beginResend(state: StoreState, auditId: string, scope: ResendScope, nowMs: number): string {
  const { sql, head, due } = state;
  due.by("resend", nowMs);
  sql.exec("DELETE FROM resend_jobs WHERE logged_at <= ?", nowMs - DAY_MS);
  // A call that joins a job also asks for the dead letters that were added since the job began.
  const isRelease = scope.kind === "release";
  const last = isRelease ? Number.MAX_SAFE_INTEGER : lastDeadLetter(sql);
  const [running] = sql.exec<{ id: string }>(
    `UPDATE resend_jobs SET joined = json_insert(joined, '$[#]', ?), due_at = ?, last = ?
     WHERE scope = ? AND ended_at IS NULL RETURNING id`,
    auditId,
    nowMs,
    last,
    JSON.stringify(scope),
  );
  if (running !== undefined) return running.id;
  insertRow(sql, "resend_jobs", {
    id: auditId,
    scope: JSON.stringify(scope),
    requested_at: nowMs,
    last,
    held: isRelease ? readTotals(head.totals, scope.periodStartMs).held : 0,
    batch: 1,
    cursor: 0,
    sent: 0,
    due_at: nowMs,
  });
  return auditId;
}

export function resendProgress(sql: SqlStorage, id: string): ResendProgress {
  const job = sql.exec<ResendJobRow>("SELECT * FROM resend_jobs WHERE id = ?", id).one();
  return { sent: job.sent, stillHeld: stillHeld(job), isUnderWay: job.ended_at === null };
}

/** Takes steps until no job is due, or until `untilMs`. @throws when a step fails. The step may be repeated. */
export async function stepResends(state: StoreState, env: Env, workspaceId: string, untilMs: number): Promise<void> {
  for (let job = nextJob(state.sql); job !== undefined; job = nextJob(state.sql)) {
    if (Date.now() > untilMs) return;
    // oxlint-disable-next-line no-await-in-loop -- each batch begins at the end of the batch before
    await (job.ended_at === null ? sendBatch(state, env, workspaceId, job) : completeAudit(state.sql, env.DB, job));
  }
}

/** Sends even an empty batch, to get the numbers: after a crash, the signals of a sent batch may have left the store. */
async function sendBatch(state: StoreState, env: Env, workspaceId: string, job: ResendJobRow): Promise<void> {
  const scope = JSON.parse(job.scope) as ResendScope;
  const { signals, through: end } = readBatch(state, job, scope);
  const batch = { job: job.id, batch: job.batch, through: end, sent: job.sent, signals: signals.map(toResent) };
  const counter = env.QUOTA_COUNTER.getByName(workspaceId);
  const { sent, through, next } = await within(
    CALL_TIMEOUT_MS,
    scope.kind === "release" ? counter.release(batch, scope) : counter.replay(batch),
  );
  const { joined } = state.sql.exec<ResendJobRow>("SELECT * FROM resend_jobs WHERE id = ?", job.id).one();
  const nowMs = Date.now();
  let changes: Partial<ResendJobRow> = { batch: job.batch + 1, cursor: through, sent };
  if (next === "wait") changes = { due_at: nowMs + SAFETY_ALARM_MS };
  // A call that joined meanwhile may have more room, or more dead letters. This batch is read again, because it may not have fitted.
  else if (next === "end" && joined !== job.joined) changes = { batch: job.batch + 1, sent };
  else if (next === "end") changes = { ...changes, ended_at: nowMs };
  updateRow(state.sql, "resend_jobs", ["id"], job, { ...job, ...changes });
}

function readBatch(state: StoreState, job: ResendJobRow, scope: ResendScope): ResendBatch {
  let signals: StoredSignal[] = [];
  if (scope.kind === "release") {
    signals = heldSignals(state, scope.periodEndMs, job.cursor, BATCH_SIGNALS);
    return { signals, through: signals.at(-1)?.admission.ordinal ?? job.cursor };
  }
  if (scope.ids === null) {
    signals = deadSignals(state, job, BATCH_SIGNALS);
    return { signals, through: signals.at(-1)?.place ?? job.cursor };
  }
  let through = job.cursor;
  while (signals.length === 0 && through < scope.ids.length) {
    signals = deadSignalsById(state, scope.ids.slice(through, through + BATCH_SIGNALS));
    through += BATCH_SIGNALS;
  }
  return { signals, through };
}

async function completeAudit(sql: SqlStorage, db: D1Database, job: ResendJobRow): Promise<void> {
  const { kind } = JSON.parse(job.scope) as ResendScope;
  const numbers = kind === "release" ? { released: job.sent, still_held: stillHeld(job) } : { replayed: job.sent };
  const { completeAuditEntries } = await import("../d1/audit.ts");
  const joined = JSON.parse(job.joined) as string[];
  await within(CALL_TIMEOUT_MS, completeAuditEntries(db, job.id, numbers, joined));
  sql.exec("UPDATE resend_jobs SET logged_at = ? WHERE id = ?", Date.now(), job.id);
}

/** Jobs that still send signals come first: the audit log, which an ended job waits for, may be away for long. */
function nextJob(sql: SqlStorage): ResendJobRow | undefined {
  return sql
    .exec<ResendJobRow>(
      `SELECT * FROM resend_jobs WHERE logged_at IS NULL AND due_at <= ? ORDER BY ended_at IS NOT NULL, due_at, rowid LIMIT 1`,
      Date.now(),
    )
    .toArray()[0];
}

function stillHeld({ held, sent }: ResendJobRow): number {
  return Math.max(0, held - sent);
}

function toResent({ admission, payload, from, place }: StoredSignal) {
  const { id, periodStartMs, around } = admission;
  const verdict = from === "held" ? "accepted" : admission.verdict;
  const head = headOfResent({ ...admission, verdict, resent: { from, place } });
  return {
    id,
    periodStartMs,
    ...writeCall(head, [{ id, ...(around && { around }), payload: encoder.encode(payload) }]),
  };
}

/** By ordinal. Reads portions by their first ordinal, until no later portion can have a lower ordinal. */
export function heldSignals({ held }: StoreState, periodEndMs: number, cursor: number, limit: number): StoredSignal[] {
  let first: StoredSignal[] = [];
  for (const portion of held.walk({ afterOrdinal: cursor })) {
    const lines = portion.seqs.map((seq) => ({ seq, facts: portion.facts(seq) }));
    const last = first[limit - 1]?.admission.ordinal ?? Number.POSITIVE_INFINITY;
    if (lines.every(({ facts }) => facts.admission.ordinal > last)) break;
    const payloads = held.payloadsOf(portion) ?? [];
    const signals = lines.flatMap(({ seq, facts: { status, admission } }): StoredSignal[] => {
      if (status !== "held" || admission.periodEndMs !== periodEndMs || admission.ordinal <= cursor) return [];
      return [{ admission, payload: payloads[seq - portion.firstSeq] ?? missing(), from: "held", place: seq }];
    });
    first = [...first, ...signals].sort((a, b) => a.admission.ordinal - b.admission.ordinal).slice(0, limit);
  }
  return first;
}

export function deadSignals(
  { sql }: StoreState,
  { cursor, last }: Pick<ResendJobRow, "cursor" | "last">,
  limit: number,
): StoredSignal[] {
  const rows = sql.exec<DeadLetterRow>(
    "SELECT * FROM dead_letters WHERE status = 'dead' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
    cursor,
    last,
    limit,
  );
  return rows.toArray().map(toStored);
}

function deadSignalsById({ sql }: StoreState, ids: string[]): StoredSignal[] {
  const rows = sql.exec<DeadLetterRow>(
    "SELECT * FROM dead_letters WHERE id IN (SELECT value FROM json_each(?)) AND status = 'dead'",
    JSON.stringify(ids),
  );
  // Sorted here: with ORDER BY, SQLite would read all dead letters by `seq`.
  return rows
    .toArray()
    .map(toStored)
    .sort((a, b) => a.place - b.place);
}

function toStored(row: DeadLetterRow): StoredSignal {
  return { admission: admissionOf(row), payload: payloadOfLetter(row) ?? missing(), from: "dead", place: row.seq };
}

function missing(): never {
  throw new Error("a signal to resend has lost its payload");
}

/**
 * Jobs that send signals through the queue again (design §6, §8): releases of held signals, and replays of dead letters.
 *
 * Steps are idempotent: the Quota Counter sends each page of a job once, and answers a repetition with the end of that page. So a crash
 * between the counter's commit and the stored cursor neither repeats nor skips signals. record-signals.ts removes a signal from its place.
 */
import { DAY_MS } from "../domain/duration.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { updateRow, insertRow } from "../platform/sql-row.ts";
import { within } from "../platform/time-limit.ts";
import { headOfResent, type Admission, type PlaceInStore } from "../wire/admission.ts";
import { writeCall } from "../wire/message.ts";
import type { Segment } from "./log/segment.ts";
import type { DeadLetterRow, ResendJobRow } from "./schema.ts";
import { admissionOf, lastDeadLetter } from "./state/dead-letters.ts";
import { readTotals } from "./state/status-change.ts";
import type { StoreState } from "./state/store-state.ts";

const encoder = new TextEncoder();

/** At 64 KB a signal, a page has some 13 MB: half the limit of an RPC. */
const PAGE_SIGNALS = 200;

export type ResendScope =
  | { kind: "release"; periodStartMs: number; periodEndMs: number; overages: boolean }
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

interface ResendPage {
  signals: StoredSignal[];
  /** The job's next `cursor`: an ordinal, the number of a dead letter, or an index of `ids`. */
  through: number;
}

/** Begins a job and returns its id. If a job of the same scope is running, joins it and lets it continue at once. */
export function beginResend(state: StoreState, auditId: string, scope: ResendScope, nowMs: number): string {
  const { sql, books } = state;
  sql.exec("DELETE FROM returns WHERE logged_at <= ?", nowMs - DAY_MS);
  const [running] = sql.exec<{ id: string }>(
    `UPDATE returns SET joined = json_insert(joined, '$[#]', ?), due_at = ?
     WHERE scope = ? AND ended_at IS NULL RETURNING id`,
    auditId,
    nowMs,
    JSON.stringify(scope),
  );
  if (running !== undefined) return running.id;
  const isRelease = scope.kind === "release";
  insertRow(sql, "returns", {
    id: auditId,
    scope: JSON.stringify(scope),
    requested_at: nowMs,
    // A release includes signals that are held later: a call that joins the job asks for them too.
    last: isRelease ? Number.MAX_SAFE_INTEGER : lastDeadLetter(sql),
    held: isRelease ? readTotals(books.totals, scope.periodStartMs).held : 0,
    page: 1,
    cursor: 0,
    sent: 0,
    due_at: nowMs,
  });
  return auditId;
}

export function resendProgress(sql: SqlStorage, id: string): ResendProgress {
  const job = sql.exec<ResendJobRow>("SELECT * FROM returns WHERE id = ?", id).one();
  return { sent: job.sent, stillHeld: stillHeld(job), isUnderWay: job.ended_at === null };
}

export function nextResendMs(sql: SqlStorage): number | null {
  return nextJob(sql)?.due_at ?? null;
}

/** Takes steps until no job is due, or until `untilMs`. @throws when a step fails. The step may be repeated. */
export async function stepResends(state: StoreState, env: Env, workspaceId: string, untilMs: number): Promise<void> {
  for (let job = nextJob(state.sql); job !== undefined; job = nextJob(state.sql)) {
    if (job.due_at > Date.now() || Date.now() > untilMs) return;
    // oxlint-disable-next-line no-await-in-loop -- each page begins at the end of the page before
    await (job.ended_at === null ? sendPage(state, env, workspaceId, job) : completeAudit(state.sql, env.DB, job));
  }
}

/** Sends even an empty page, to get the numbers: after a crash, the signals of a sent page may have left the store. */
async function sendPage(state: StoreState, env: Env, workspaceId: string, job: ResendJobRow): Promise<void> {
  const scope = JSON.parse(job.scope) as ResendScope;
  const { signals, through: end } = readPage(state, job, scope);
  const page = { job: job.id, page: job.page, through: end, signals: signals.map(toResent) };
  const counter = env.QUOTA_COUNTER.getByName(workspaceId);
  const { sent, through, next } = await within(
    CALL_TIMEOUT_MS,
    scope.kind === "release" ? counter.release(page, scope) : counter.replay(page),
  );
  const changes =
    next === "wait"
      ? { due_at: Date.now() + SAFETY_ALARM_MS }
      : { page: job.page + 1, cursor: through, sent, ended_at: next === "end" ? Date.now() : null };
  updateRow(state.sql, "returns", ["id"], job, { ...job, ...changes });
}

function readPage(state: StoreState, job: ResendJobRow, scope: ResendScope): ResendPage {
  let signals: StoredSignal[] = [];
  if (scope.kind === "release") {
    signals = heldSignals(state, scope.periodEndMs, job.cursor, PAGE_SIGNALS);
    return { signals, through: signals.at(-1)?.admission.ordinal ?? job.cursor };
  }
  if (scope.ids === null) {
    signals = deadSignals(state, job, PAGE_SIGNALS);
    return { signals, through: signals.at(-1)?.place ?? job.cursor };
  }
  let through = job.cursor;
  while (signals.length === 0 && through < scope.ids.length) {
    signals = deadSignalsById(state, scope.ids.slice(through, through + PAGE_SIGNALS));
    through += PAGE_SIGNALS;
  }
  return { signals, through };
}

async function completeAudit(sql: SqlStorage, db: D1Database, job: ResendJobRow): Promise<void> {
  const { kind } = JSON.parse(job.scope) as ResendScope;
  const numbers = kind === "release" ? { released: job.sent, still_held: stillHeld(job) } : { replayed: job.sent };
  const { completeAuditEntries } = await import("../control/audit.ts");
  const joined = JSON.parse(job.joined) as string[];
  await within(CALL_TIMEOUT_MS, completeAuditEntries(db, job.id, numbers, joined));
  sql.exec("UPDATE returns SET logged_at = ? WHERE id = ?", Date.now(), job.id);
}

function nextJob(sql: SqlStorage): ResendJobRow | undefined {
  return sql
    .exec<ResendJobRow>("SELECT * FROM returns WHERE logged_at IS NULL ORDER BY due_at, rowid LIMIT 1")
    .toArray()[0];
}

function stillHeld({ held, sent }: ResendJobRow): number {
  return Math.max(0, held - sent);
}

function toResent({ admission, payload, from, place }: StoredSignal) {
  const { id, periodStartMs } = admission;
  const verdict = from === "held" ? "accepted" : admission.verdict;
  const head = headOfResent({ ...admission, verdict, resent: { from, place } });
  return { id, periodStartMs, ...writeCall(head, [{ id, payload: encoder.encode(payload) }]) };
}

/** By ordinal. Reads segments by their first ordinal, until no later segment can have a lower ordinal. */
export function heldSignals({ held }: StoreState, periodEndMs: number, cursor: number, limit: number): StoredSignal[] {
  let first: StoredSignal[] = [];
  const add = (segment: Segment): void => {
    const payloads = held.payloadsOf(segment) ?? [];
    const signals = segment.seqs().flatMap((seq, index): StoredSignal[] => {
      const { status, admission } = segment.facts(seq);
      const { ordinal } = admission;
      if (status !== "held" || admission.periodEndMs !== periodEndMs || ordinal <= cursor) return [];
      return [{ admission, payload: payloads[index] ?? missing(), from: "held", place: seq }];
    });
    first = [...first, ...signals].sort((a, b) => a.admission.ordinal - b.admission.ordinal).slice(0, limit);
  };
  add(held.open());
  for (const { firstOrdinal, read } of held.byOrdinal(cursor)) {
    const last = first[limit - 1];
    if (last !== undefined && last.admission.ordinal < firstOrdinal) break;
    add(read());
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
  return { admission: admissionOf(row), payload: row.payload ?? missing(), from: "dead", place: row.seq };
}

function missing(): never {
  throw new Error("a signal to resend has lost its payload");
}

/**
 * Releases of held signals and replays of dead letters (design §6, §8). Each is a job, and the job that is due first takes the next
 * step: read a page of signals, let the Quota Counter resend it, note the place. The last step adds the numbers to the audit log.
 *
 * Steps are idempotent: the counter sends each page of a job once and answers with the end of the page. So a crash between the counter's
 * commit and the note neither repeats nor skips signals. A signal leaves its place in the store when it is recorded
 * (record-signals.ts).
 */
import { DAY_MS } from "../domain/duration.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { within } from "../platform/time-limit.ts";
import { envelopeOfResent, type Admission } from "../wire/admission.ts";
import { writeSignal } from "../wire/message.ts";
import type { Segment } from "./log/segment.ts";
import { admissionOf, lastDeadLetter, type DeadLetterRow } from "./state/dead-letters.ts";
import { readTotals } from "./state/status-change.ts";
import type { StoreState } from "./state/store-state.ts";

/** Signals resent in one step: at 64 KB each some 13 MB, half the limit of an RPC. */
export const RETURN_PAGE_SIGNALS = 200;

export type ReturnScope =
  /** Held signals of a billing period, and the facts that the release starts with. Times are milliseconds since 1970. */
  | { kind: "release"; periodStartMs: number; periodEndMs: number; overages: boolean }
  /** Dead letters with these signal ids; null: all. */
  | { kind: "replay"; ids: string[] | null };

export interface ReturnProgress {
  sent: number;
  /** Of a release: signals that were held at the start and are not resent. */
  stillHeld: number;
  isUnderWay: boolean;
}

export interface StoredSignal {
  admission: Admission;
  payload: string;
  from: "held" | "dead";
  /** Line number, or number of the dead letter. */
  place: number;
}

/** A row of the table `returns`, see schema.ts. */
interface ReturnJob {
  [column: string]: SqlStorageValue;
  id: string;
  scope: string;
  joined: string;
  last: number;
  held: number;
  page: number;
  cursor: number;
  sent: number;
  due_at: number;
  ended_at: number | null;
}

interface Page {
  signals: StoredSignal[];
  through: number;
}

export interface ReturnWork {
  state: StoreState;
  env: Env;
  workspaceId: string;
}

/**
 * Begins a job and returns its id. If a job of the same scope is running, joins it and lets it continue at once.
 *
 * @param id of the audit entry.
 */
export function beginReturn(state: StoreState, id: string, scope: ReturnScope, nowMs: number): string {
  const { sql } = state;
  const text = JSON.stringify(scope);
  sql.exec("DELETE FROM returns WHERE logged_at <= ?", nowMs - DAY_MS);
  const [same] = sql.exec<{ id: string }>(
    `UPDATE returns SET joined = json_insert(joined, '$[#]', ?), due_at = ?
     WHERE scope = ? AND ended_at IS NULL RETURNING id`,
    id,
    nowMs,
    text,
  );
  if (same !== undefined) return same.id;
  const isRelease = scope.kind === "release";
  sql.exec(
    `INSERT INTO returns (id, scope, requested_at, last, held, page, cursor, sent, due_at)
     VALUES (?1, ?2, ?3, ?4, ?5, 1, 0, 0, ?3)`,
    id,
    text,
    nowMs,
    isRelease ? state.held.nextSeq - 1 : lastDeadLetter(sql),
    isRelease ? readTotals(state.books.totals, scope.periodStartMs).held : 0,
  );
  return id;
}

export function returnProgress(sql: SqlStorage, id: string): ReturnProgress {
  const job = sql.exec<ReturnJob>("SELECT * FROM returns WHERE id = ?", id).one();
  return { sent: job.sent, stillHeld: stillHeld(job), isUnderWay: job.ended_at === null };
}

/** When the next job is due, in milliseconds since 1970; null: there is no job. */
export function nextReturnMs(sql: SqlStorage): number | null {
  return nextJob(sql)?.due_at ?? null;
}

/** Takes steps until nothing is due, or until `untilMs`. @throws when a step fails. The step may be repeated. */
export async function stepReturns(work: ReturnWork, untilMs: number): Promise<void> {
  const { sql } = work.state;
  for (let job = nextJob(sql); job !== undefined; job = nextJob(sql)) {
    if (job.due_at > Date.now() || Date.now() > untilMs) return;
    // oxlint-disable-next-line no-await-in-loop -- each page begins at the end of the page before
    await (job.ended_at === null ? sendPage(work, job) : logNumbers(work, job));
  }
}

async function sendPage({ state, env, workspaceId }: ReturnWork, job: ReturnJob): Promise<void> {
  const { sql } = state;
  const scope = JSON.parse(job.scope) as ReturnScope;
  const page = readPage(state, job, scope);
  if (page !== null && page.signals.length === 0) {
    sql.exec("UPDATE returns SET cursor = ? WHERE id = ?", page.through, job.id);
    return;
  }
  const counter = env.QUOTA_COUNTER.getByName(workspaceId);
  // After the last page the store asks for the numbers only: after a crash the signals of a sent page may have left already.
  const { signals, through: end } = page ?? { signals: [], through: job.cursor };
  const part = { job: job.id, page: job.page, through: end, signals: signals.map(toResent) };
  const { sent, through, next } = await within(
    CALL_TIMEOUT_MS,
    scope.kind === "release" ? counter.release(part, scope) : counter.replay(part),
  );
  if (next === "wait") {
    sql.exec("UPDATE returns SET due_at = ? WHERE id = ?", Date.now() + SAFETY_ALARM_MS, job.id);
    return;
  }
  sql.exec(
    "UPDATE returns SET page = page + 1, cursor = ?, sent = ? WHERE id = ? AND page = ?",
    through,
    sent,
    job.id,
    job.page,
  );
  if (next === "end") endJob(sql, job.id);
}

/** The next page; null: the job has no signals left. */
function readPage(state: StoreState, job: ReturnJob, scope: ReturnScope): Page | null {
  if (scope.kind === "replay" && scope.ids !== null) {
    const ids = scope.ids.slice(job.cursor, job.cursor + RETURN_PAGE_SIGNALS);
    return ids.length === 0 ? null : { signals: deadSignalsById(state, ids), through: job.cursor + ids.length };
  }
  if (scope.kind === "replay") {
    const signals = deadSignals(state, job, RETURN_PAGE_SIGNALS);
    return signals.length === 0 ? null : { signals, through: signals.at(-1)?.place ?? 0 };
  }
  const signals = heldSignals(state, scope.periodEndMs, job, RETURN_PAGE_SIGNALS);
  return signals.length === 0 ? null : { signals, through: signals.at(-1)?.admission.ordinal ?? 0 };
}

/** Adds the numbers to the audit entry that was written before the job began. */
async function logNumbers({ state: { sql }, env }: ReturnWork, job: ReturnJob): Promise<void> {
  const scope = JSON.parse(job.scope) as ReturnScope;
  const numbers =
    scope.kind === "release" ? { released: job.sent, still_held: stillHeld(job) } : { replayed: job.sent };
  const { completeAuditEntries } = await import("../control/audit.ts");
  const joined = JSON.parse(job.joined) as string[];
  await within(CALL_TIMEOUT_MS, completeAuditEntries(env.DB, job.id, numbers, joined));
  sql.exec("UPDATE returns SET logged_at = ? WHERE id = ?", Date.now(), job.id);
}

function endJob(sql: SqlStorage, id: string): void {
  sql.exec("UPDATE returns SET ended_at = ? WHERE id = ?", Date.now(), id);
}

function nextJob(sql: SqlStorage): ReturnJob | undefined {
  return sql
    .exec<ReturnJob>("SELECT * FROM returns WHERE logged_at IS NULL ORDER BY due_at, rowid LIMIT 1")
    .toArray()[0];
}

function stillHeld({ held, sent }: ReturnJob): number {
  return Math.max(0, held - sent);
}

function toResent({ admission, payload, from, place }: StoredSignal) {
  const { id, periodStartMs } = admission;
  const verdict = from === "held" ? "accepted" : admission.verdict;
  const text = writeSignal(envelopeOfResent({ ...admission, verdict, resent: { from, place } }), payload);
  return { id, periodStartMs, text, bytes: Buffer.byteLength(text) };
}

/** The start of a page, and the last place of the job. */
type PlacesToRead = Pick<ReturnJob, "cursor" | "last">;

/**
 * Held signals of the billing period that ends at `periodEndMs`, by ordinal, after the ordinal `cursor`. Reads segments by their first
 * ordinal, until no later segment can have a lower ordinal.
 */
export function heldSignals(
  { held }: StoreState,
  periodEndMs: number,
  { cursor, last: lastPlace }: PlacesToRead,
  limit: number,
): StoredSignal[] {
  let first: StoredSignal[] = [];
  const add = (segment: Segment): void => {
    const payloads = held.payloadsOf(segment) ?? [];
    const signals = segment.seqs().flatMap((seq, index): StoredSignal[] => {
      const { status, admission } = segment.facts(seq);
      const { ordinal } = admission;
      if (status !== "held" || seq > lastPlace || admission.periodEndMs !== periodEndMs || ordinal <= cursor) return [];
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

export function deadSignals({ sql }: StoreState, { cursor, last }: PlacesToRead, limit: number): StoredSignal[] {
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
  // Sorted here, because SQLite would go through all dead letters in the order of `seq`.
  return rows
    .toArray()
    .map(toStored)
    .sort((a, b) => a.place - b.place);
}

function toStored(row: DeadLetterRow): StoredSignal {
  return { admission: admissionOf(row), payload: row.payload ?? missing(), from: "dead", place: row.seq };
}

function missing(): never {
  throw new Error("a signal that may come again has lost its payload");
}

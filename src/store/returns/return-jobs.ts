/**
 * Releases of held signals and replays of dead letters (design §6, §8): jobs; the one due first takes the next step. A step reads
 * a page, has the Quota Counter send it and notes the place; the last step adds the numbers to the audit log.
 *
 * Why a step may be repeated: the counter sends each page of a job once and tells where that page ended, so that a crash
 * between the counter's commit and the note sends nothing twice and skips nothing. A signal leaves its place in the store
 * when it is recorded (record/record-signals.ts).
 */
import { DAY_MS } from "../../domain/duration.ts";
import type { Verdict } from "../../domain/signal/signal.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../../limits.ts";
import { within } from "../../platform/time-limit.ts";
import { envelopeOfResent } from "../../wire/admission.ts";
import { writeSignal } from "../../wire/message.ts";
import type { Facts } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import type { ReturnProgress, ReturnScope } from "../protocol/returns.ts";
import type { StoredSignal } from "../protocol/signals-to-record.ts";
import { admissionOf, type DeadLetterRow, lastDeadLetter } from "../record/dead-letters.ts";
import { readTotals } from "../state/books.ts";
import type { StoreState } from "../state/store-state.ts";

/** Held signals or dead letters that are sent again in one step: at 64 KB each some 13 MB, half an RPC's limit. */
export const RETURN_PAGE_SIGNALS = 200;

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
  /** Where the page ends. */
  through: number;
}

export interface ReturnWork {
  state: StoreState;
  env: Env;
  workspaceId: string;
}

/**
 * Begins a job, or joins one of the same scope that has not ended, which then goes on at once. Returns the id of the job.
 *
 * @param id of the audit log's entry.
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

/** When the next job is to go on, in milliseconds since 1970; null: there is none. */
export function nextReturnMs(sql: SqlStorage): number | null {
  return nextJob(sql)?.due_at ?? null;
}

/** Takes steps until nothing is due, or the time is over. Throws when a step fails: it is to be repeated. */
export async function stepReturns(work: ReturnWork, untilMs: number): Promise<void> {
  const { sql } = work.state;
  for (let job = nextJob(sql); job !== undefined; job = nextJob(sql)) {
    if (job.due_at > Date.now() || Date.now() > untilMs) return;
    // oxlint-disable-next-line no-await-in-loop -- each page begins where the one before it ended
    await (job.ended_at === null ? sendPage(work, job) : logNumbers(work, job));
  }
}

async function sendPage({ state, env, workspaceId }: ReturnWork, job: ReturnJob): Promise<void> {
  const { sql } = state;
  const scope = JSON.parse(job.scope) as ReturnScope;
  const page = readPage(state, job, scope);
  if (page === null) return endJob(sql, job.id);
  if (page.signals.length === 0) {
    sql.exec("UPDATE returns SET cursor = ? WHERE id = ?", page.through, job.id);
    return;
  }
  const counter = env.QUOTA_COUNTER.getByName(workspaceId);
  const part = { job: job.id, page: job.page, through: page.through };
  const again = (verdict: Verdict | null) => ({
    ...part,
    signals: page.signals.map((signal) => signalAgain(signal, verdict ?? signal.admission.verdict)),
  });
  const { sent, through, next } = await within(
    CALL_TIMEOUT_MS,
    scope.kind === "release" ? counter.release(again("accepted"), scope) : counter.replay(again(null)),
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

/** The next page of a job; null: there is none. */
function readPage(state: StoreState, job: ReturnJob, scope: ReturnScope): Page | null {
  if (scope.kind === "replay" && scope.ids !== null) {
    const ids = scope.ids.slice(job.cursor, job.cursor + RETURN_PAGE_SIGNALS);
    return ids.length === 0 ? null : { signals: deadSignalsById(state, ids), through: job.cursor + ids.length };
  }
  const signals =
    scope.kind === "release"
      ? heldSignals(state, scope.periodEndMs, job, RETURN_PAGE_SIGNALS)
      : deadSignals(state, job, RETURN_PAGE_SIGNALS);
  const last = signals.at(-1);
  return last === undefined ? null : { signals, through: last.cursor };
}

/** Adds the numbers to the entry that was written before the job began. */
async function logNumbers({ state: { sql }, env }: ReturnWork, job: ReturnJob): Promise<void> {
  const scope = JSON.parse(job.scope) as ReturnScope;
  const numbers =
    scope.kind === "release" ? { released: job.sent, still_held: stillHeld(job) } : { replayed: job.sent };
  const { completeAuditEntries } = await import("../../control/complete-audit.ts");
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

function signalAgain(signal: StoredSignal, verdict: Verdict) {
  const { admission, payload, from, place } = signal;
  const text = writeSignal(envelopeOfResent({ ...admission, verdict, resent: { from, place } }), payload);
  return { id: admission.id, periodStartMs: admission.periodStartMs, text, bytes: Buffer.byteLength(text) };
}

// Stored signals that are to be sent through the queue once more: held ones that are released, dead letters replayed.

interface HeldLine {
  seq: number;
  facts: Facts;
  segment: Segment;
}

/** Where a page begins, and the last place from which a signal is taken. */
interface PlacesToRead {
  cursor: number;
  last: number;
}

/**
 * Held signals of the billing period that ends then, by ordinal: the oldest first. Segments are in order of recording, which
 * is nearly that of the ordinals: they are read by their first ordinal, until none that is left can have an earlier one.
 *
 * @param places the cursor is the ordinal before.
 */
export function heldSignals(
  { held }: StoreState,
  periodEndMs: number,
  { cursor, last: lastPlace }: PlacesToRead,
  limit: number,
): StoredSignal[] {
  const isWanted = ({ status, admission }: Facts, seq: number): boolean =>
    status === "held" && seq <= lastPlace && admission.periodEndMs === periodEndMs && admission.ordinal > cursor;
  let first = linesOf(held.open(), isWanted).slice(0, limit);
  for (const { firstOrdinal, read } of held.byOrdinal(cursor)) {
    const last = first[limit - 1];
    if (last !== undefined && last.facts.admission.ordinal < firstOrdinal) break;
    first = [...first, ...linesOf(read(), isWanted)].sort(byOrdinal).slice(0, limit);
  }
  return first.map(({ seq, facts, segment }) => ({
    admission: facts.admission,
    payload: held.payloadsOf(segment)?.[seq - segment.firstSeq] ?? missing(),
    from: "held",
    place: seq,
    cursor: facts.admission.ordinal,
  }));
}

function linesOf(segment: Segment, isWanted: (facts: Facts, seq: number) => boolean): HeldLine[] {
  return segment
    .seqs()
    .map((seq) => ({ seq, facts: segment.facts(seq), segment }))
    .filter(({ facts, seq }) => isWanted(facts, seq))
    .sort(byOrdinal);
}

function byOrdinal(one: HeldLine, other: HeldLine): number {
  return one.facts.admission.ordinal - other.facts.admission.ordinal;
}

/** Dead letters, in the order in which they were recorded. */
export function deadSignals({ sql }: StoreState, { cursor, last }: PlacesToRead, limit: number): StoredSignal[] {
  const rows = sql.exec<DeadLetterRow>(
    "SELECT * FROM dead_letters WHERE status = 'dead' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
    cursor,
    last,
    limit,
  );
  return rows.toArray().map(toStored);
}

/** The dead letters among these signals. */
function deadSignalsById({ sql }: StoreState, ids: string[]): StoredSignal[] {
  const rows = sql.exec<DeadLetterRow>(
    "SELECT * FROM dead_letters WHERE id IN (SELECT value FROM json_each(?)) AND status = 'dead'",
    JSON.stringify(ids),
  );
  return rows
    .toArray()
    .map(toStored)
    .sort((one, other) => one.place - other.place);
}

function toStored(row: DeadLetterRow): StoredSignal {
  return {
    admission: admissionOf(row),
    payload: row.payload ?? missing(),
    from: "dead",
    place: row.seq,
    cursor: row.seq,
  };
}

function missing(): never {
  throw new Error("a signal that may come again has lost its payload");
}

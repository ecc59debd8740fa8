/**
 * Sends signals through the queue again (design §6, §8): released held signals and replayed dead letters. They return to the
 * outbox with their ids and take no new ordinals. Jobs of the Signal Store call it batch by batch (store/resend-jobs.ts). A
 * repeated batch changes nothing.
 */
import { overageOfRelease, roomToRelease } from "../domain/quota/quota.ts";
import type { CounterRestore } from "./counter-restore.ts";
import type { LedgerState, Ledger } from "./ledger.ts";
import { type Outbox, type PackedRow, RowPacker } from "./outbox.ts";
import type { ReleaseTerms, ResentSignal, ResendPage, ResendResult } from "./protocol.ts";

/** Number of jobs whose last batch is remembered. A repeated call of an older job cannot come: it comes within seconds. */
const JOBS_REMEMBERED = 20;

export class ResentSignals {
  readonly #sql: SqlStorage;
  readonly #ledger: LedgerState;
  readonly #outbox: Outbox;
  readonly #restore: CounterRestore;

  constructor(sql: SqlStorage, ledger: LedgerState, outbox: Outbox, restore: CounterRestore) {
    this.#sql = sql;
    this.#ledger = ledger;
    this.#outbox = outbox;
    this.#restore = restore;
    // `released`: signals that this period's releases have counted; the store still lists them as held until they are
    // recorded. `resend_jobs`: the last sent batch of each recent job.
    sql.exec(`
      CREATE TABLE IF NOT EXISTS released (id TEXT PRIMARY KEY, period_start INTEGER NOT NULL) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS resend_jobs (
        job TEXT PRIMARY KEY, page INTEGER NOT NULL, through INTEGER NOT NULL, sent INTEGER NOT NULL
      ) WITHOUT ROWID;`);
  }

  /** Accepts as many held signals of the batch as now fit, and sends them. An empty batch asks for the numbers of the job. */
  release(page: ResendPage, terms: ReleaseTerms, nowMs: number): ResendResult {
    if (page.signals.length === 0) return { ...this.#lastPage(page.job), next: "end" };
    const before = this.#ledger.at(nowMs);
    if (before === null || this.#isBlocked) return { ...this.#lastPage(page.job), next: "wait" };
    const isOver = before.periodEndMs !== terms.periodEndMs || (terms.overages && !before.overages);
    if (isOver) return { ...this.#lastPage(page.job), next: "end" };
    const result = this.#send(page, nowMs, (ledger) => this.#takeFitting(ledger, page.signals));
    return roomToRelease(this.#ledger.current ?? before) === 0 ? { ...result, next: "end" } : result;
  }

  /** Sends the dead letters of the batch, uncounted: all, or none while nothing can be sent. */
  replay(page: ResendPage, nowMs: number): ResendResult {
    if (page.signals.length === 0) return { ...this.#lastPage(page.job), next: "end" };
    return this.#send(page, nowMs, () => page.signals);
  }

  /** @param take returns the signals to send. Runs in the transaction of the ledger's change. */
  #send(page: ResendPage, nowMs: number, take: (ledger: Ledger) => ResentSignal[]): ResendResult {
    const last = this.#lastPage(page.job);
    if (page.page <= last.page) return { ...last, next: "more" };
    if (this.#isBlocked || this.#ledger.current === null) return { ...last, next: "wait" };
    let { sent } = last;
    this.#ledger.update(nowMs, (ledger) => {
      const signals = take(ledger);
      sent = last.sent + signals.length;
      // A job id begins with the time of its request, so ids sort by age.
      if (last.page === 0) {
        this.#sql.exec(
          `DELETE FROM resend_jobs
           WHERE job <= (SELECT job FROM resend_jobs ORDER BY job DESC LIMIT 1 OFFSET ${JOBS_REMEMBERED - 1})`,
        );
      }
      this.#sql.exec(
        "INSERT OR REPLACE INTO resend_jobs (job, page, through, sent) VALUES (?, ?, ?, ?)",
        page.job,
        page.page,
        page.through,
        sent,
      );
      return { rows: rowsOf(ledger, signals, nowMs) };
    });
    return { sent, through: page.through, next: "more" };
  }

  /** Whether nothing can be sent now. */
  get #isBlocked(): boolean {
    return this.#restore.isClosed || this.#outbox.isFull;
  }

  /** The last sent batch of a job; page 0: none. */
  #lastPage(job: string): { page: number; through: number; sent: number } {
    const [last] = this.#sql.exec<{ page: number; through: number; sent: number }>(
      "SELECT page, through, sent FROM resend_jobs WHERE job = ?",
      job,
    );
    return last ?? { page: 0, through: 0, sent: 0 };
  }

  /** Accepts the first held signals that fit and returns them. Runs in the transaction of the ledger's change. */
  #takeFitting(ledger: Ledger, signals: ResentSignal[]): ResentSignal[] {
    const [any] = this.#sql.exec<{ period_start: number }>("SELECT period_start FROM released LIMIT 1").toArray();
    // All rows of the table belong to one period, so one row shows whether it has ended.
    if (any !== undefined && any.period_start < ledger.periodStartMs) this.#sql.exec("DELETE FROM released");
    const counted = this.#counted(signals);
    const fitting = signals
      .filter((signal) => signal.periodStartMs === ledger.periodStartMs && !counted.has(signal.id))
      .slice(0, roomToRelease(ledger));
    for (const { id, periodStartMs } of fitting) {
      this.#sql.exec("INSERT INTO released VALUES (?, ?)", id, periodStartMs);
    }
    ledger.overage += overageOfRelease(ledger, fitting.length);
    ledger.held -= fitting.length;
    ledger.accepted += fitting.length;
    return fitting;
  }

  /** Ids of signals that an earlier release has counted. */
  #counted(signals: ResentSignal[]): ReadonlySet<string> {
    const known = this.#sql.exec<{ id: string }>(
      "SELECT id FROM released WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(signals.map((signal) => signal.id)),
    );
    return new Set(known.toArray().map((row) => row.id));
  }
}

function rowsOf(ledger: Ledger, signals: ResentSignal[], nowMs: number): PackedRow[] {
  const rows: PackedRow[] = [];
  // A row belongs to one period, because the books are kept per period.
  for (const [periodStartMs, ofPeriod] of Map.groupBy(signals, (signal) => signal.periodStartMs)) {
    const header = {
      at: nowMs,
      period_start: periodStartMs,
      period_end: ledger.periodEndMs,
      limit: ledger.signalLimit,
    };
    const packer = new RowPacker(header, ledger.nextRow + rows.length, 0, true);
    for (const { text, bytes } of ofPeriod) packer.add([{ text, bytes, count: 1 }], 1, 0);
    rows.push(...packer.rows());
  }
  return rows;
}

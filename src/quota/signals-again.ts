/**
 * Signals that go through the queue once more (design §6, §8): held ones that are released, dead letters that are
 * replayed. They come back into the outbox with their ids, and take no new ordinals. Jobs of the Signal Store send them
 * page by page (store/returns/); a page that is repeated changes nothing.
 */
import { overageOfRelease, roomToRelease } from "../domain/quota/quota.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { Ledger } from "./ledger.ts";
import { RowPacker } from "./pack.ts";
import type { PackedRow } from "./pack.ts";
import type { ReleaseTerms, SignalAgain, SignalsAgainPage, SignalsAgainResult } from "./protocol.ts";

/** Jobs whose last page is remembered: a repeated call of an earlier one comes within seconds. */
const JOBS_REMEMBERED = 20;

export interface SignalsAgainOptions {
  state: LedgerState;
  /** Whether nothing can be sent now: the outbox is full, or the workspace is being restored. */
  isBlocked: () => boolean;
}

export class SignalsAgain {
  readonly #sql: SqlStorage;
  readonly #options: SignalsAgainOptions;

  constructor(sql: SqlStorage, options: SignalsAgainOptions) {
    this.#sql = sql;
    this.#options = options;
    // `released`: signals that this period's releases have counted. A later release finds them in the store until they are
    // recorded. `resend_jobs`: the last page that was sent for each of the latest jobs.
    sql.exec(`
      CREATE TABLE IF NOT EXISTS released (id TEXT PRIMARY KEY, period_start INTEGER NOT NULL) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS resend_jobs (
        job TEXT PRIMARY KEY, page INTEGER NOT NULL, through INTEGER NOT NULL, sent INTEGER NOT NULL
      ) WITHOUT ROWID;`);
  }

  /** Makes as many of the page's held signals accepted as now fit: none while nothing can be sent. */
  release(page: SignalsAgainPage, terms: ReleaseTerms, nowMs: number): SignalsAgainResult {
    const { state, isBlocked } = this.#options;
    const before = state.ledgerAt(nowMs);
    if (before === null || isBlocked()) return { ...this.#lastPage(page.job), next: "wait" };
    const isOver = before.periodEndMs !== terms.periodEndMs || (terms.overages && !before.overages);
    if (isOver) return { ...this.#lastPage(page.job), next: "end" };
    const result = this.#send(page, nowMs, (ledger) => this.#takeFitting(ledger, page.signals));
    return roomToRelease(state.ledger ?? before) === 0 ? { ...result, next: "end" } : result;
  }

  /** Sends the page's dead letters again, uncounted: all, or none while nothing can be sent. */
  replay(page: SignalsAgainPage, nowMs: number): SignalsAgainResult {
    return this.#send(page, nowMs, () => page.signals);
  }

  /** @param take gives the signals of the page that are sent. Runs in the transaction of the ledger's change. */
  #send(page: SignalsAgainPage, nowMs: number, take: (ledger: Ledger) => SignalAgain[]): SignalsAgainResult {
    const { state, isBlocked } = this.#options;
    const last = this.#lastPage(page.job);
    if (page.page <= last.page) return { ...last, next: "more" };
    if (isBlocked() || state.ledger === null) return { ...last, next: "wait" };
    let { sent } = last;
    state.update(nowMs, (ledger) => {
      const signals = take(ledger);
      sent = last.sent + signals.length;
      // A job's id begins with the time of its request.
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
      return { rows: rowsAgain(ledger, signals, nowMs) };
    });
    return { sent, through: page.through, next: "more" };
  }

  /** The last page that was sent for a job; page 0: none was. */
  #lastPage(job: string): { page: number; through: number; sent: number } {
    const [last] = this.#sql.exec<{ page: number; through: number; sent: number }>(
      "SELECT page, through, sent FROM resend_jobs WHERE job = ?",
      job,
    );
    return last ?? { page: 0, through: 0, sent: 0 };
  }

  /** Makes the first held signals that fit accepted ones; returns these. Runs in the transaction of the ledger's change. */
  #takeFitting(ledger: Ledger, signals: SignalAgain[]): SignalAgain[] {
    const [any] = this.#sql.exec<{ period_start: number }>("SELECT period_start FROM released LIMIT 1").toArray();
    // All rows of the table are of one period, so that any of them tells whether it is over.
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

  /** Ids of those signals that an earlier release has counted. */
  #counted(signals: SignalAgain[]): ReadonlySet<string> {
    const known = this.#sql.exec<{ id: string }>(
      "SELECT id FROM released WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(signals.map((signal) => signal.id)),
    );
    return new Set(known.toArray().map((row) => row.id));
  }
}

/** The signals as outbox rows. */
function rowsAgain(ledger: Ledger, signals: SignalAgain[], nowMs: number): PackedRow[] {
  const rows: PackedRow[] = [];
  // The books are kept per period: a row belongs to one.
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

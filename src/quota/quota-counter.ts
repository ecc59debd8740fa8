/**
 * Each workspace has one Quota Counter. It decides and counts signals one after the other. Its outbox keeps each signal
 * until the Signal Store has confirmed it.
 *
 * A commit has no `await`, so it is one atomic write. The output gate holds each answer until its writes are durable.
 * Memory only caches stored state, or holds statistics that may be lost (keys.ts, refusals.ts).
 */
import type * as Protocol from "./protocol.ts";
import type { WantedEvents } from "../domain/events/workspace-event.ts";
import type { Rejection } from "../domain/keys/refusal.ts";
import type { QuotaConfig } from "../domain/quota/billing.ts";
import { NO_VERDICTS, ordinalsTaken, overageOfRelease, roomToRelease } from "../domain/quota/quota.ts";
import { configuredOutboxBytes, configuredPaceMs, configuredRate } from "../env.ts";
import { REJECTIONS_KEPT, SAFETY_ALARM_MS } from "../limits.ts";
import { newEvent } from "../notifications/raised-events.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { WorkspaceObject } from "../platform/in-jurisdiction.ts";
import type { Admission } from "../wire/admission.ts";
import { CounterAlarm } from "./counter-alarm.ts";
import { CounterNotifications, readUsage, readUsageByDay, LedgerState, type Ledger } from "./ledger.ts";
import { Drain, RESEND_AFTER_MS } from "./drain.ts";
import { IncomingCalls } from "./incoming-calls.ts";
import { CallsByDay, RequestBuckets, RevokedKeys } from "./keys.ts";
import { findInFlight, Outbox, type PackedRow, RowPacker } from "./outbox.ts";
import { Refusals } from "./refusals.ts";

/** Age at which a row that cannot be parsed is set aside: after three attempts to record it. */
export const UNREADABLE_AFTER_MS = 3 * RESEND_AFTER_MS;
/** Age of the oldest unrecorded signal that raises `processing.late`, a hundred times that of a healthy backlog. */
export const PROCESSING_LATE_MS = 10 * 60_000;

export class QuotaCounter extends WorkspaceObject {
  readonly #workspaceId = this.ctx.id.name ?? "";
  readonly #alarm = new CounterAlarm(this.ctx);
  readonly #outbox = new Outbox(this.ctx.storage.sql, () => configuredOutboxBytes(this.env));
  readonly #drain = new Drain(this.#outbox, this.#alarm, {
    workspaceId: this.#workspaceId,
    paceMs: configuredPaceMs(this.env),
    send: (messages) => this.env.SIGNALS.sendBatch(messages),
  });
  readonly #notifications = new CounterNotifications(this.ctx.storage.sql, {
    workspaceId: this.#workspaceId,
    alarmBy: (atMs) => this.#alarm.workBy(atMs),
    destinations: this.env.DESTINATIONS,
  });
  readonly #ledger = new LedgerState(this.ctx.storage, {
    outbox: this.#outbox,
    drain: this.#drain,
    notifications: this.#notifications,
    alarm: this.#alarm,
  });
  readonly #revoked = new RevokedKeys(this.ctx.storage.sql);
  readonly #callsByDay = new CallsByDay(this.ctx.storage);
  readonly #refusals = new Refusals(this.ctx.storage, {
    calls: this.#callsByDay,
    notifications: this.#notifications,
    alarm: this.#alarm,
  });
  readonly #incoming = new IncomingCalls(this.ctx, {
    revoked: this.#revoked,
    rates: new RequestBuckets(configuredRate(this.env)),
    calls: this.#callsByDay,
    refusals: this.#refusals,
    ledger: this.#ledger,
    outbox: this.#outbox,
  });
  readonly #resent = new ResentSignals(this.ctx.storage.sql, this.#ledger, this.#outbox);

  /** A version that is not newer is ignored. */
  configure(config: QuotaConfig): void {
    this.#ledger.configure(config, Date.now());
    this.#alarm.workBy(this.#ledger.current?.periodEndMs ?? Number.POSITIVE_INFINITY);
  }

  wantEvents(wanted: WantedEvents): void {
    const nowMs = Date.now();
    this.#ledger.subscribe(wanted, nowMs);
    if (this.#notifications.wants("processing.late") && this.#outbox.oldest() !== null)
      this.#alarm.workBy(nowMs + SAFETY_ALARM_MS);
  }

  /** After it returns, no call with the key is accepted anywhere (spec §5.3), because every call asks this object. */
  revoke(keyId: string): void {
    this.#revoked.add([keyId], Date.now());
  }

  /** Revokes these keys too. @returns every revoked key. Idempotent. */
  revokeAll(keyIds: string[]): Protocol.RevokedKeys {
    const added = this.#revoked.add(keyIds, Date.now());
    return { added, keys: this.#revoked.all() };
  }

  /**
   * Concurrent calls share a commit (design §7). @throws if it fails. Then nothing was counted, and a retry may
   * succeed.
   */
  admit(call: Protocol.AdmitCall): Promise<Protocol.AdmitResult> | Protocol.AdmitResult {
    this.#alarm.countCall();
    return this.#incoming.admit(call, Date.now());
  }

  /** Charges and records a call that the edge refused. A deactivated key or an exceeded rate takes precedence. */
  refused(call: Protocol.RefusedCall): Protocol.RefusedResult {
    this.#alarm.countCall();
    return this.#incoming.refused(call, Date.now());
  }

  /** Counts failed authentications, which are no use of the key. */
  countRefused(calls: Rejection[]): void {
    const nowMs = Date.now();
    this.#alarm.countCall();
    for (const { keyId, calls: count } of calls) this.#refusals.countCalls(keyId, count, nowMs);
    this.#refusals.add(calls, nowMs);
  }

  /** Removes rows that the Signal Store has recorded. Idempotent. */
  settle(rows: number[]): void {
    if (this.#outbox.settle(rows) && this.#drain.storeFull) this.#drain.startOver();
  }

  /** From now on the drain only probes the store. */
  storeFull(): void {
    this.#drain.stopForFullStore();
  }

  /** Sends as many held signals as now fit, each batch once; none while the outbox is full. */
  release(page: Protocol.ResendPage, terms: Protocol.ReleaseTerms): Protocol.ResendResult {
    return this.#resent.release(page, terms, Date.now());
  }

  /** Sends dead letters again, uncounted and each batch once; none while the outbox is full. */
  replay(page: Protocol.ResendPage): Protocol.ResendResult {
    return this.#resent.replay(page, Date.now());
  }

  usage(): Protocol.Usage | null {
    const ledger = this.#ledger.upToDate(Date.now());
    return ledger && readUsage(this.ctx.storage.sql, ledger);
  }

  usageByDay(): Protocol.UsageByDay | null {
    const usage = this.usage();
    return usage && readUsageByDay(this.ctx.storage.sql, usage);
  }

  overview(): Protocol.CounterOverview | null {
    const days = this.usageByDay();
    return days && { ...days, rejections: this.rejections(REJECTIONS_KEPT), lastUsed: this.lastUsed() };
  }

  lastUsed(): Record<string, number> {
    return this.#callsByDay.lastUsed();
  }

  keyCalls(keyId: string): Protocol.KeyCalls {
    const rejections = this.rejections(REJECTIONS_KEPT).filter((entry) => entry.keyId === keyId);
    return { ...this.#callsByDay.ofKey(keyId), rejections };
  }

  rejections(limit: number): Rejection[] {
    return this.#refusals.latest(limit, Date.now());
  }

  books(periodStartMs?: number): Protocol.CounterBooks {
    const usage = this.usage();
    const period = [usage, ...(usage?.history ?? [])].find((usageOf) => usageOf?.periodStartMs === periodStartMs);
    const admitted = periodStartMs === undefined ? this.#ledger.current?.admitted : period && ordinalsTaken(period);
    return { admitted: admitted ?? 0, unsettled: this.#outbox.unsettled(periodStartMs) };
  }

  backlog(): Protocol.Backlog {
    return {
      storeFull: this.#drain.storeFull,
      outboxMaxBytes: configuredOutboxBytes(this.env),
      hasDestinations: this.#notifications.hasDestinations,
      admitted: this.#ledger.current?.admitted ?? 0,
      unreadableSignals: this.#outbox.unreadableSignals(),
      unsettledSignals: this.#outbox.unsettled(),
      outboxBytes: this.#outbox.databaseBytes,
      oldestAtMs: this.#outbox.oldest()?.atMs ?? null,
    };
  }

  inFlight(signalId: string): Admission | null {
    return findInFlight(this.ctx.storage.sql, signalId);
  }

  /** Never throws, because the platform gives up an alarm after six failures. */
  override async alarm(): Promise<void> {
    const nowMs = Date.now();
    if (!this.#alarm.fired(nowMs)) return;
    try {
      this.#setAsideUnreadable(nowMs);
      this.#notifyLateness(nowMs);
      this.#alarm.workBy(this.#ledger.current?.periodEndMs ?? Number.POSITIVE_INFINITY);
      this.#ledger.save();
      this.#callsByDay.write();
      this.#refusals.write(nowMs);
    } catch (error) {
      logEvent("alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarm.workBy(nowMs + SAFETY_ALARM_MS);
    }
    await Promise.all([this.#drain.run(), this.#notifications.handOn.runIfDue()]);
  }

  /** Notifies once, and again only after the delay has ended. */
  #notifyLateness(nowMs: number): void {
    if (!this.#notifications.wants("processing.late")) return;
    const oldest = this.#outbox.oldest();
    const lateMs = (oldest?.atMs ?? Number.POSITIVE_INFINITY) + PROCESSING_LATE_MS;
    const late = lateMs <= nowMs;
    if (!late) this.#alarm.workBy(lateMs);
    if (late === this.#ledger.current?.late) return;
    this.#ledger.update(nowMs, (ledger) => {
      ledger.late = late;
      if (!late || oldest === null) return { save: true };
      const data = { oldest_at: new Date(oldest.atMs).toISOString(), signals: this.#outbox.unsettled() };
      return { save: true, events: [newEvent("processing.late", data, nowMs)] };
    });
  }

  /** The update of the ledger also closes an ended period and day. */
  #setAsideUnreadable(nowMs: number): void {
    let signals = 0;
    this.#ledger.update(nowMs, () => {
      signals = this.#outbox.setAsideUnreadable(nowMs - UNREADABLE_AFTER_MS);
      return {};
    });
    if (signals > 0) logEvent("rows_set_aside", { workspace: this.#workspaceId, signals });
  }
}

// Released held signals and replayed dead letters (design §6, §8) return to the outbox with their ids and take no new
// ordinals. Jobs of the Signal Store call batch by batch (store/resend-jobs.ts); a repeated batch changes nothing.

/** A repeated call comes within seconds, so older jobs need not be remembered. */
const JOBS_REMEMBERED = 20;

class ResentSignals {
  readonly #sql: SqlStorage;
  readonly #ledger: LedgerState;
  readonly #outbox: Outbox;

  constructor(sql: SqlStorage, ledger: LedgerState, outbox: Outbox) {
    this.#sql = sql;
    this.#ledger = ledger;
    this.#outbox = outbox;
    // `released`: counted by this period's releases; the store lists them as held until they are recorded.
    // `resend_jobs`: the last sent batch of each recent job.
    sql.exec(`
      CREATE TABLE IF NOT EXISTS released (id TEXT PRIMARY KEY, period_start INTEGER NOT NULL) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS resend_jobs (
        job TEXT PRIMARY KEY, page INTEGER NOT NULL, through INTEGER NOT NULL, sent INTEGER NOT NULL
      ) WITHOUT ROWID;`);
  }

  /** An empty batch asks for the numbers of the job. */
  release(page: Protocol.ResendPage, terms: Protocol.ReleaseTerms, nowMs: number): Protocol.ResendResult {
    if (page.signals.length === 0) return { ...this.#lastPage(page.job), next: "end" };
    const before = this.#ledger.upToDate(nowMs);
    if (before === null || this.#outbox.isFull) return { ...this.#lastPage(page.job), next: "wait" };
    const isOver = before.periodEndMs !== terms.periodEndMs || (terms.overages && !before.overages);
    if (isOver) return { ...this.#lastPage(page.job), next: "end" };
    const result = this.#send(page, nowMs, (ledger) => this.#takeFitting(ledger, page.signals));
    return roomToRelease(this.#ledger.current ?? before) === 0 ? { ...result, next: "end" } : result;
  }

  replay(page: Protocol.ResendPage, nowMs: number): Protocol.ResendResult {
    if (page.signals.length === 0) return { ...this.#lastPage(page.job), next: "end" };
    return this.#send(page, nowMs, () => page.signals);
  }

  /** @param take returns the signals to send, in the transaction of the ledger's change. */
  #send(
    page: Protocol.ResendPage,
    nowMs: number,
    take: (ledger: Ledger) => Protocol.ResentSignal[],
  ): Protocol.ResendResult {
    const last = this.#lastPage(page.job);
    if (page.page <= last.page) return { ...last, next: "more" };
    if (this.#outbox.isFull || this.#ledger.current === null) return { ...last, next: "wait" };
    let { sent } = last;
    this.#ledger.update(nowMs, (ledger) => {
      const signals = take(ledger);
      sent = last.sent + signals.length;
      // Job ids begin with a time, so they sort by age.
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

  #lastPage(job: string): { page: number; through: number; sent: number } {
    const [last] = this.#sql.exec<{ page: number; through: number; sent: number }>(
      "SELECT page, through, sent FROM resend_jobs WHERE job = ?",
      job,
    );
    return last ?? { page: 0, through: 0, sent: 0 };
  }

  /** Accepts the first held signals that fit. Runs in the transaction of the ledger's change. */
  #takeFitting(ledger: Ledger, signals: Protocol.ResentSignal[]): Protocol.ResentSignal[] {
    const [any] = this.#sql.exec<{ period_start: number }>("SELECT period_start FROM released LIMIT 1").toArray();
    // All rows belong to one period, so one row shows whether it has ended.
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

  #counted(signals: Protocol.ResentSignal[]): ReadonlySet<string> {
    const known = this.#sql.exec<{ id: string }>(
      "SELECT id FROM released WHERE id IN (SELECT value FROM json_each(?))",
      JSON.stringify(signals.map((signal) => signal.id)),
    );
    return new Set(known.toArray().map((row) => row.id));
  }
}

function rowsOf(ledger: Ledger, signals: Protocol.ResentSignal[], nowMs: number): PackedRow[] {
  const rows: PackedRow[] = [];
  // A row belongs to one period, because the books are kept per period.
  for (const [periodStartMs, ofPeriod] of Map.groupBy(signals, (signal) => signal.periodStartMs)) {
    const header = {
      at: nowMs,
      period_start: periodStartMs,
      period_end: ledger.periodEndMs,
      limit: ledger.signalLimit,
    };
    const packer = new RowPacker(header, ledger.nextRow + rows.length, 0);
    for (const signal of ofPeriod) packer.add(signal, { ...NO_VERDICTS, accepted: 1 });
    rows.push(...packer.rows());
  }
  return rows;
}

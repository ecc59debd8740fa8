/**
 * Each workspace has one Quota Counter. It decides and counts signals one after the other. Its outbox keeps each signal
 * until the Signal Store has confirmed it.
 *
 * A commit has no `await`, so it is one atomic write. The output gate holds each answer until its writes are durable.
 * Memory only caches stored state, or holds statistics that may be lost (keys.ts, rejected-calls.ts).
 */
import migrations from "../../migrations/quota-counter/migrations.js";
import type * as Protocol from "./protocol.ts";
import type { WantedNotifications } from "../domain/notifications/notification.ts";
import type { RejectionEntry } from "../domain/keys/rejection.ts";
import type { QuotaConfig } from "../domain/quota/billing.ts";
import { NO_VERDICTS, ordinalsTaken, overageOfRelease, roomToRelease } from "../domain/quota/quota.ts";
import type { ByFirstKey } from "../domain/quota/key-budget.ts";
import { configuredOutboxBytes, configuredPaceMs, configuredRate } from "../env.ts";
import { CALL_TIMEOUT_MS, REJECTIONS_KEPT, SAFETY_ALARM_MS } from "../limits.ts";
import { newNotification } from "../notifications/raised-notifications.ts";
import { alarmsOfObject, NO_ALARMS } from "../domain/health/alarm.ts";
import { HealthReport } from "../platform/health-report.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { WorkspaceObject } from "../platform/workspace-object.ts";
import { within } from "../platform/time-limit.ts";
import { DAY_MS } from "../domain/duration.ts";
import { type FileRow, readRows, type TableLine, type TablePlace, writeRows } from "../platform/table-rows.ts";
import { COUNTER_TABLES } from "../wire/workspace-file.ts";
import type { Admission } from "../wire/message.ts";
import { PacedAlarm } from "../platform/alarm.ts";
import { CounterNotifications, readUsage, readUsageByDay, LedgerState, type Ledger } from "./ledger.ts";
import { Drain, RESEND_AFTER_MS } from "./drain.ts";
import { IncomingCalls } from "./incoming-calls.ts";
import { CallsByDay, KeyEnds, RequestBuckets, DeactivatedKeys, PublicKeys } from "./keys.ts";
import { findInFlight, Outbox, type PackedRow, RowPacker } from "./outbox.ts";
import { Rejections } from "./rejected-calls.ts";
import type { ResendJobRow } from "./schema.ts";

/** Age at which a row that cannot be parsed is set aside: after three attempts to record it. */
export const UNREADABLE_AFTER_MS = 3 * RESEND_AFTER_MS;
/** Age of the oldest unrecorded signal that raises `processing.late`, a hundred times that of a healthy backlog. */
export const PROCESSING_LATE_MS = 10 * 60_000;

const CLOSED_KEY = "closed";

interface Closed {
  reason: "moving" | "importing";
  /** When an import was last continued. */
  atMs: number;
}

/** Where the export of the counter goes on. */
interface ExportPlace extends TablePlace {
  lastRow: number;
}

/** Values of a slice of an export. */
const EXPORT_BYTES = 400_000;
const IMPORT_MAX_PAUSE_MS = DAY_MS;

/** Settled rows stay only for their counts, which the ledger row has. */
function isInFile({ row, bytes }: FileRow, lastRow: number): boolean {
  return Number(row) <= lastRow && bytes !== 0;
}

/** The end of a small workspace is complete when its call returns. */
const END_TURN_MS = CALL_TIMEOUT_MS;
const NOTHING_RESENT: Protocol.ResendResult = { sent: 0, through: 0, next: "end" };

export class QuotaCounter extends WorkspaceObject {
  readonly #workspaceId = this.ctx.id.name ?? "";
  readonly #alarm = new PacedAlarm(this.ctx);
  readonly #outbox = new Outbox(this.ctx.storage.sql, () => configuredOutboxBytes(this.env));
  readonly #drain = new Drain(this.#outbox, this.#alarm, {
    workspaceId: this.#workspaceId,
    paceMs: configuredPaceMs(this.env),
    send: (messages) => this.env.SIGNALS.sendBatch(messages),
  });
  readonly #notifications = new CounterNotifications(this.ctx.storage.sql, {
    workspaceId: this.#workspaceId,
    alarmBy: (atMs) => this.#alarm.wakeBy(atMs),
    destinations: this.env.DESTINATIONS,
  });
  readonly #ledger = new LedgerState(this.ctx.storage, {
    outbox: this.#outbox,
    drain: this.#drain,
    notifications: this.#notifications,
    alarm: this.#alarm,
  });
  readonly #deactivated = new DeactivatedKeys(this.ctx.storage.sql);
  readonly #ends = new KeyEnds(this.ctx.storage.sql);
  readonly #publicKeys = new PublicKeys(this.ctx.storage, this.#notifications);
  readonly #callsByDay = new CallsByDay(this.ctx.storage);
  readonly #rejections = new Rejections(this.ctx.storage, {
    calls: this.#callsByDay,
    notifications: this.#notifications,
    alarm: this.#alarm,
  });
  readonly #incoming = new IncomingCalls(this.ctx, {
    deactivated: this.#deactivated,
    ends: this.#ends,
    publicKeys: this.#publicKeys,
    rates: new RequestBuckets(configuredRate(this.env)),
    calls: this.#callsByDay,
    rejections: this.#rejections,
    ledger: this.#ledger,
    outbox: this.#outbox,
    hasEnded: () => this.ended !== null,
    isClosed: () => this.#closed !== null,
  });
  readonly #report = new HealthReport({
    workspaceId: this.#workspaceId,
    db: this.env.DB,
    alarmBy: (atMs) => this.#alarm.wakeBy(atMs),
  });
  #ending: Promise<void> | null = null;
  #closed = this.ctx.storage.kv.get<Closed>(CLOSED_KEY) ?? null;
  readonly #resent = new ResentSignals(this.ctx.storage.sql, this.#ledger, this.#outbox);

  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, bindings, migrations);
  }

  /** The newest version that it has; 0: none. */
  configVersion(): number {
    return this.#ledger.current?.configVersion ?? 0;
  }

  /** Takes the versions that it lacks, in any order. The newest holds from now on. @param budgets of keys, all that the newest has. */
  configure(versions: QuotaConfig[], budgets?: ByFirstKey): void {
    if (this.ended !== null) return;
    this.#ledger.configure(versions, Date.now(), budgets);
    this.#alarm.wakeBy(this.#ledger.current?.periodEndMs ?? Number.POSITIVE_INFINITY);
  }

  wantNotifications(wanted: WantedNotifications): void {
    if (this.ended !== null) return;
    const nowMs = Date.now();
    this.#ledger.subscribe(wanted, nowMs);
    if (this.#notifications.wants("processing.late") && this.#outbox.oldest() !== null)
      this.#alarm.wakeBy(nowMs + SAFETY_ALARM_MS);
  }

  /** After it returns, no call with the key is accepted anywhere (spec §5.3), because every call asks this object. */
  deactivate(keyId: string): void {
    if (this.ended !== null) return;
    this.#deactivated.add([keyId], Date.now());
  }

  /** A rotation ends the key then. Called before the rotation in D1; `keepKey` takes it back if that fails. @returns the end before. */
  endKey(keyId: string, endMs: number): number | null {
    return this.ended === null ? this.#ends.add(keyId, endMs) : null;
  }

  /** @param beforeMs what `endKey` returned. Idempotent. */
  keepKey(keyId: string, endMs: number, beforeMs: number | null): void {
    this.#ends.takeBack(keyId, endMs, beforeMs);
  }

  /** For a call that is neither counted nor recorded. @param isCopy see AdmitCall. */
  stateOfKey(keyId: string, isCopy: boolean): Protocol.KeyState {
    return this.#incoming.stateOfKey(keyId, isCopy, Date.now());
  }

  /** Deactivates these keys too. @returns every deactivated key. Idempotent. */
  deactivateAll(keyIds: string[]): Protocol.DeactivatedKeys {
    const added = this.ended === null ? this.#deactivated.add(keyIds, Date.now()) : 0;
    return { added, keys: this.#deactivated.all() };
  }

  /**
   * Concurrent calls share a commit. @throws if it fails. Then nothing was counted, and a retry may
   * succeed.
   */
  admit(call: Protocol.AdmitCall): Promise<Protocol.AdmitResult> | Protocol.AdmitResult {
    this.#alarm.countCall();
    return this.#incoming.admit(call, Date.now());
  }

  /** Charges and records a call that the edge rejected. A deactivated key or an exceeded rate takes precedence. */
  rejected(call: Protocol.RejectedCall): Protocol.RejectedResult {
    this.#alarm.countCall();
    return this.#incoming.rejected(call, Date.now());
  }

  /** Counts failed authentications, which are no use of the key. */
  countRejected(calls: RejectionEntry[]): void {
    if (this.ended !== null) return;
    const nowMs = Date.now();
    this.#alarm.countCall();
    for (const { keyId, calls: count } of calls) this.#rejections.countCalls(keyId, count, nowMs);
    this.#rejections.add(calls, nowMs);
  }

  /** Removes rows that the Signal Store has recorded. Idempotent. @param misfitsFull whether the store may keep no more misfits. */
  settle(rows: number[], misfitsFull = false): void {
    if (this.ended !== null) return;
    this.#incoming.misfitsFull = misfitsFull;
    if (this.#outbox.settle(rows) && this.#drain.storeFull) this.#drain.startOver();
  }

  /** From now on the drain only probes the store. */
  storeFull(): void {
    if (this.ended !== null) return;
    this.#drain.stopForFullStore();
  }

  /** Sends as many held signals as now fit, each batch once; none while the outbox is full. */
  release(batch: Protocol.ResendBatch, terms: Protocol.ReleaseTerms): Protocol.ResendResult {
    if (this.ended !== null) return NOTHING_RESENT;
    return this.#resent.release(batch, terms, Date.now());
  }

  /** Sends dead letters again, uncounted and each batch once; none while the outbox is full. */
  replay(batch: Protocol.ResendBatch): Protocol.ResendResult {
    if (this.ended !== null) return NOTHING_RESENT;
    return this.#resent.replay(batch, Date.now());
  }

  /** A closed workspace takes no signals: senders get 503. Idempotent. @param reason null: it takes signals again. */
  setClosed(reason: Closed["reason"] | null): void {
    if (this.ended !== null) return;
    this.#closed = reason === null ? null : { reason, atMs: Date.now() };
    if (this.#closed === null) this.ctx.storage.kv.delete(CLOSED_KEY);
    else this.ctx.storage.kv.put(CLOSED_KEY, this.#closed);
    if (reason === "importing") this.#alarm.by(Date.now() + IMPORT_MAX_PAUSE_MS);
  }

  /**
   * Rows for the file of the workspace. Without a place the moment of the file is now: later signals are not in it.
   * The store is paused meanwhile, so no row is settled that it has not recorded.
   */
  exportRows(place: ExportPlace | null): { lines: TableLine[]; next: ExportPlace | null } {
    const { sql } = this.ctx.storage;
    // The ledger row gets the counts of the last row.
    if (place === null) this.#ledger.update(Date.now(), () => ({ save: true }));
    const { lastRow, ...from } = place ?? { table: 0, after: null, lastRow: (this.#ledger.current?.nextRow ?? 1) - 1 };
    const { lines, next } = readRows(sql, COUNTER_TABLES, from, EXPORT_BYTES);
    const wanted = lines.filter(({ table, row }) => table !== "outbox" || isInFile(row, lastRow));
    return { lines: wanted, next: next && { ...next, lastRow } };
  }

  /** Idempotent. @throws if no import is under way, or a table lacks a column. */
  importRows(lines: TableLine[]): void {
    if (!this.#isImporting) throw new Error("no import is under way");
    this.ctx.storage.transactionSync(() => writeRows(this.ctx.storage.sql, lines));
    this.setClosed("importing");
  }

  /** Begins to take signals. The object restarts, so that its memory has the imported rows: the call fails, and another one shows the result. */
  async finishImport(): Promise<void> {
    if (!this.#isImporting) return;
    this.setClosed(null);
    this.#alarm.by(Date.now() + 1_000);
    await this.ctx.storage.sync();
    this.ctx.abort("The import is finished.");
  }

  get #isImporting(): boolean {
    return this.ended === null && this.#closed?.reason === "importing";
  }

  isClosed(): boolean {
    return this.#closed !== null;
  }

  /** An import that nobody has continued for a day is deleted. */
  #endForgottenImport(): void {
    if (this.#closed?.reason !== "importing" || this.ended !== null) return;
    const endMs = this.#closed.atMs + IMPORT_MAX_PAUSE_MS;
    if (Date.now() < endMs) this.#alarm.by(endMs);
    else this.noteEnd({ requestedAtMs: Date.now(), actor: "service" });
  }

  /**
   * Ends the workspace: after it returns, no call is accepted with any of its keys. The alarm deletes the workspace's data, and
   * goes on after an interruption. @returns after END_TURN_MS at the latest.
   */
  async end(request: { requestedAtMs: number; actor: string }): Promise<void> {
    this.noteEnd(request);
    this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    await within(END_TURN_MS, this.#end()).catch(() => undefined);
  }

  /** Never throws. Callers that come meanwhile share the work. */
  #end(): Promise<void> {
    return (this.#ending ??= this.#takeEndSteps().finally(() => (this.#ending = null)));
  }

  async #takeEndSteps(): Promise<void> {
    if (this.ended === null || this.ended.isEmpty) return;
    this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    try {
      const { endWorkspace } = await import("./end-of-workspace.ts");
      const { requestedAtMs, actor } = this.ended;
      const signals = this.#ledger.current?.admitted ?? 0;
      const work = endWorkspace({ env: this.env, workspaceId: this.#workspaceId, requestedAtMs, actor, signals });
      const nextMs = await work;
      if (nextMs !== null) return this.#alarm.by(nextMs);
      // A later read would close the period, and write it.
      this.#ledger.forget();
      await this.deleteEverything();
    } catch (error) {
      logEvent("end_failed", { workspace: this.#workspaceId, error: errorText(error) });
    }
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
    if (days === null) return null;
    const ofKeys = {
      lastUsed: this.lastUsed(),
      lastAccepted: this.#callsByDay.lastAccepted(),
      publicKeys: this.publicKeys(),
    };
    return { ...days, ...ofKeys, rejections: this.rejections(REJECTIONS_KEPT) };
  }

  lastUsed(): Record<string, number> {
    return this.#callsByDay.lastUsed();
  }

  /** The keys that a browser has used. */
  publicKeys(): Record<string, Protocol.BrowserUse> {
    return this.#publicKeys.all();
  }

  keyCalls(keyId: string): Protocol.KeyCalls {
    const rejections = this.rejections(REJECTIONS_KEPT).filter((entry) => entry.keyId === keyId);
    return { ...this.#callsByDay.ofKey(keyId), rejections, browser: this.#publicKeys.get(keyId) };
  }

  rejections(limit: number): RejectionEntry[] {
    return this.#rejections.latest(limit, Date.now());
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
      alarms: this.#alarm.counted.read(Date.now()),
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
    if (this.ended !== null || this.#isImporting) {
      this.#alarm.reset();
      this.#endForgottenImport();
      return this.#end();
    }
    if (!this.#alarm.fired(nowMs, this.#outbox.unsettled() > 0)) return;
    try {
      this.#setAsideUnreadable(nowMs);
      this.#notifyLateness(nowMs);
      this.#alarm.wakeBy(this.#ledger.current?.periodEndMs ?? Number.POSITIVE_INFINITY);
      this.#ledger.save();
      this.#callsByDay.write();
      this.#rejections.write(nowMs);
    } catch (error) {
      logEvent("alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarm.wakeBy(nowMs + SAFETY_ALARM_MS);
    }
    await Promise.all([
      this.#drain.run(),
      this.#notifications.forwarding.runIfDue(),
      this.#report.send(() => this.#alarmsFound(nowMs)),
    ]);
  }

  #alarmsFound(nowMs: number): string[] {
    const { outboxBytes, outboxMaxBytes, unreadableSignals, unsettledSignals, oldestAtMs, alarms } = this.backlog();
    const own = {
      outbox: { bytes: outboxBytes, maxBytes: outboxMaxBytes },
      unreadable: unreadableSignals,
      waiting: unsettledSignals,
      waitingSinceMs: oldestAtMs,
      alarms: { counter: alarms, store: NO_ALARMS },
    };
    return alarmsOfObject(own, nowMs);
  }

  /** Notifies once, and again only after the delay has ended. */
  #notifyLateness(nowMs: number): void {
    if (!this.#notifications.wants("processing.late")) return;
    const oldest = this.#outbox.oldest();
    const lateMs = (oldest?.atMs ?? Number.POSITIVE_INFINITY) + PROCESSING_LATE_MS;
    const late = lateMs <= nowMs;
    if (!late) this.#alarm.wakeBy(lateMs);
    if (late === this.#ledger.current?.late) return;
    this.#ledger.update(nowMs, (ledger) => {
      ledger.late = late;
      if (!late || oldest === null) return { save: true };
      const data = { oldest_at: new Date(oldest.atMs).toISOString(), signals: this.#outbox.unsettled() };
      return { save: true, notifications: [newNotification("processing.late", data, nowMs)] };
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

// Released held signals and replayed dead letters return to the outbox with their ids and take no new
// ordinals. Jobs of the Signal Store call batch by batch (store/resend-jobs.ts); a repeated batch changes nothing.

/** A repeated call comes within seconds, so older jobs need not be remembered; a batch brings what a job has sent. */
const JOBS_REMEMBERED = 20;

class ResentSignals {
  readonly #sql: SqlStorage;
  readonly #ledger: LedgerState;
  readonly #outbox: Outbox;

  constructor(sql: SqlStorage, ledger: LedgerState, outbox: Outbox) {
    this.#sql = sql;
    this.#ledger = ledger;
    this.#outbox = outbox;
  }

  /** An empty batch asks for the numbers of the job. */
  release(batch: Protocol.ResendBatch, terms: Protocol.ReleaseTerms, nowMs: number): Protocol.ResendResult {
    if (batch.signals.length === 0) return { ...this.#lastBatch(batch), next: "end" };
    const before = this.#ledger.upToDate(nowMs);
    if (before === null || this.#outbox.isFull) return { ...this.#lastBatch(batch), next: "wait" };
    // With overages switched on meanwhile, signals that were confirmed as free would be charged.
    const isOver = before.periodEndMs !== terms.periodEndMs || before.overages !== terms.overages;
    if (isOver) return { ...this.#lastBatch(batch), next: "end" };
    const most = terms.most ?? Number.POSITIVE_INFINITY;
    const result = this.#send(batch, nowMs, (ledger, sent) => this.#takeFitting(ledger, batch.signals, most - sent));
    const isDone = roomToRelease(this.#ledger.current ?? before) === 0 || result.sent === terms.most;
    return isDone ? { ...result, next: "end" } : result;
  }

  replay(batch: Protocol.ResendBatch, nowMs: number): Protocol.ResendResult {
    if (batch.signals.length === 0) return { ...this.#lastBatch(batch), next: "end" };
    return this.#send(batch, nowMs, () => batch.signals);
  }

  /** @param take returns the signals to send, in the transaction of the ledger's change. It gets the number that the job has sent. */
  #send(
    batch: Protocol.ResendBatch,
    nowMs: number,
    take: (ledger: Ledger, sent: number) => Protocol.ResentSignal[],
  ): Protocol.ResendResult {
    const last = this.#lastBatch(batch);
    if (batch.batch <= last.batch) return { ...last, next: "more" };
    if (this.#outbox.isFull || this.#ledger.current === null) return { ...last, next: "wait" };
    let { sent } = last;
    this.#ledger.update(nowMs, (ledger) => {
      const signals = take(ledger, last.sent);
      sent = last.sent + signals.length;
      // Job ids begin with a time, so they sort by age.
      if (last.batch === 0) {
        this.#sql.exec(
          `DELETE FROM resend_jobs
           WHERE job <= (SELECT job FROM resend_jobs ORDER BY job DESC LIMIT 1 OFFSET ${JOBS_REMEMBERED - 1})`,
        );
      }
      this.#sql.exec(
        "INSERT OR REPLACE INTO resend_jobs (job, batch, through, sent) VALUES (?, ?, ?, ?)",
        batch.job,
        batch.batch,
        batch.through,
        sent,
      );
      return { rows: rowsOf(ledger, signals, nowMs) };
    });
    return { sent, through: batch.through, next: "more" };
  }

  #lastBatch({ job, sent }: Protocol.ResendBatch): Omit<ResendJobRow, "job"> {
    const [last] = this.#sql.exec<Omit<ResendJobRow, "job">>(
      "SELECT batch, through, sent FROM resend_jobs WHERE job = ?",
      job,
    );
    return last ?? { batch: 0, through: 0, sent };
  }

  /** Accepts the first held signals that fit, `most` of them. Runs in the transaction of the ledger's change. */
  #takeFitting(ledger: Ledger, signals: Protocol.ResentSignal[], most: number): Protocol.ResentSignal[] {
    const [any] = this.#sql.exec<{ period_start: number }>("SELECT period_start FROM released LIMIT 1").toArray();
    // All rows belong to one period, so one row shows whether it has ended.
    if (any !== undefined && any.period_start < ledger.periodStartMs) this.#sql.exec("DELETE FROM released");
    const counted = this.#counted(signals);
    const fitting = signals
      .filter((signal) => signal.periodStartMs === ledger.periodStartMs && !counted.has(signal.id))
      .slice(0, Math.min(roomToRelease(ledger), most));
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

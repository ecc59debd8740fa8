/**
 * QuotaCounter: one Durable Object per workspace. It decides and counts every signal, one after the other, and keeps
 * each accepted one in its outbox until the Signal Store has confirmed it.
 *
 * Why this is correct on the platform: all state changes of a commit are made with no `await` between them, so they are
 * one atomic write; and no answer leaves the object before its writes are durable (the output gate), so a verdict that
 * a caller sees has been stored. Memory is a copy of what is stored, or may be lost (see notes.ts).
 */
import type { Refusal } from "../domain/refusal.ts";
import type { RefusedCalls, Rejection } from "../domain/rejection.ts";
import { decideQuotaRun, quotaCeiling, roomToRelease } from "../domain/quota.ts";
import { requestsLeft, takeRequest } from "../domain/request-rate.ts";
import type { RateState, RequestRate } from "../domain/request-rate.ts";
import { configuredOutboxBytes, configuredRate } from "../env.ts";
import { errorText, logEvent } from "../http/log.ts";
import { storedDetail } from "../http/problem.ts";
import { WatchedObject } from "../http/watchers.ts";
import { DRAIN_ALARM_MS, STORE_PROBE_MS } from "../limits.ts";
import { createReleasedTable, release, writeAgain } from "./again.ts";
import { Drain } from "./drain.ts";
import { GroupCommit } from "./group-commit.ts";
import type { Ledger } from "./ledger.ts";
import { closeEndedPeriods, closedPeriods, createLedgerTables, loadLedger, openLedger, saveLedger } from "./ledger.ts";
import { KeyUse } from "./key-use.ts";
import { Rejections } from "./rejections.ts";
import { createDaysTable, endDay, readUsageByDay } from "./usage-days.ts";
import {
  RowPacker,
  Unsettled,
  createOutboxTable,
  deleteRows,
  findUnsettled,
  oldestUnsettled,
  renumberRows,
} from "./outbox.ts";
import type { SendMessages } from "./outbox.ts";
import type {
  AdmitCall,
  AdmitResult,
  Backlog,
  CounterBooks,
  InFlightSignal,
  PeriodState,
  QuotaConfig,
  RefusedCall,
  RefusedResult,
  ReleaseResult,
  SignalAgain,
  Usage,
  UsageByDay,
} from "./protocol.ts";

/** As long as it takes to find out that the Signal Store has room again. */
const OUTBOX_FULL = {
  code: "unavailable",
  detail: "As many signals as there is room for wait to be stored.",
  retryAfterMs: STORE_PROBE_MS,
} as const;

/** A call that is within its request rate, and where that stands. */
interface CountedCall {
  call: AdmitCall;
  rate: RateState;
}

export class QuotaCounter extends WatchedObject<RefusedCalls> {
  readonly #sql: SqlStorage;
  readonly #rate: RequestRate;
  readonly #keyUse: KeyUse;
  readonly #rejections: Rejections;
  readonly #drain: Drain;
  readonly #unsettled: Unsettled;
  readonly #revoked = new Set<string>();
  /** Per key, see domain/request-rate.ts. Not stored: an object idle long enough to be evicted has full buckets. */
  readonly #buckets = new Map<string, number>();
  readonly #commits = new GroupCommit<CountedCall, AdmitResult>((calls) => this.#commit(calls));
  #ledger: Ledger | null;
  /** The ledger's count of refused signals is ahead of what is stored. */
  #unsaved = false;
  #alarmAtMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#rate = configuredRate(env);
    createLedgerTables(this.#sql);
    createDaysTable(this.#sql);
    createOutboxTable(this.#sql);
    createReleasedTable(this.#sql);
    this.#sql.exec("CREATE TABLE IF NOT EXISTS revoked_keys (key_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL)");
    this.#keyUse = new KeyUse(this.#sql);
    this.#rejections = new Rejections(this.#sql);
    this.#ledger = loadLedger(this.#sql);
    for (const row of this.#sql.exec<{ key_id: string }>("SELECT key_id FROM revoked_keys"))
      this.#revoked.add(row.key_id);
    this.#unsettled = new Unsettled(this.#sql);
    const send: SendMessages = (messages) => this.env.SIGNALS.sendBatch(messages);
    this.#drain = new Drain(this.#sql, this.#workspaceId, send, (atMs) => this.#alarmBy(atMs));
    if (oldestUnsettled(this.#sql) !== null) this.#drain.soon();
    // Known before the first call, which must not put off what is already to come.
    void ctx.blockConcurrencyWhile(async () => {
      this.#alarmAtMs = (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY;
    });
  }

  /** Plan and billing; takes effect with the next signal. The anchor is fixed by the first call. */
  configure(config: QuotaConfig): void {
    const nowMs = Date.now();
    this.#ledger ??= openLedger(config, nowMs);
    this.#update(nowMs, (ledger) => {
      Object.assign(ledger, { signalLimit: config.signalLimit, paid: config.paid, overages: config.overages });
      return true;
    });
    this.#alarmBy(this.#ledger.periodEndMs);
  }

  /** Once this has returned, no call with the key is accepted anywhere: every call asks here. */
  revoke(keyId: string): void {
    this.#sql.exec("INSERT OR IGNORE INTO revoked_keys VALUES (?, ?)", keyId, Date.now());
    this.#revoked.add(keyId);
  }

  /** Likewise for many, which were ended then. Returns how many of them were news. */
  revokeAll(keyIds: string[], atMs: number): number {
    const news = keyIds.filter((keyId) => !this.#revoked.has(keyId));
    this.#sql.exec("INSERT OR IGNORE INTO revoked_keys SELECT value, ? FROM json_each(?)", atMs, JSON.stringify(news));
    for (const keyId of news) this.#revoked.add(keyId);
    return news.length;
  }

  /**
   * Gives the unsettled rows new numbers behind `behindRow`, in the same order, where any is not behind it already; those
   * to come follow. For a counter that was restored from a backup: the Signal Store has seen its numbers before, and
   * refuses them. Returns how many rows it has renumbered.
   */
  renumber(behindRow: number): number {
    let renumbered = 0;
    this.#update(Date.now(), (ledger) => {
      // Behind what is under way as well, so that nothing that names an old number means a row that has it now; and
      // behind all that was sent, so that the drain sends them.
      ledger.nextRow = Math.max(ledger.nextRow, behindRow + 1);
      renumbered = renumberRows(this.#sql, behindRow, ledger.nextRow);
      ledger.nextRow += renumbered;
      return true;
    });
    return renumbered;
  }

  /**
   * Decides and counts the signals of one call (design §7). Calls that arrive while a commit is being prepared share
   * it: one ledger row and one outbox row for all of them.
   *
   * @throws when the commit fails; then nothing of the whole group has been counted, and a retry may succeed.
   */
  admit(call: AdmitCall): Promise<AdmitResult> | AdmitResult {
    const nowMs = Date.now();
    if (this.#ledger === null) return { outcome: "unconfigured" };
    if (this.#revoked.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    this.#keyUse.used(call.keyId, nowMs);
    if (!call.firstSlice) {
      return this.#commits.submit({ call, rate: requestsLeft(this.#buckets.get(call.keyId) ?? 0, nowMs, this.#rate) });
    }
    const { allowed, retryAfterMs, ...rate } = this.#takeRequest(call.keyId, nowMs);
    if (allowed) return this.#commits.submit({ call, rate });
    this.#reject(call, { code: "rate_limited", retryAfterMs }, countSignals(call), nowMs);
    this.#writeNotes(nowMs);
    return { outcome: "rate_limited", retryAfterMs, rate, period: this.#period(nowMs) };
  }

  /**
   * Notes a call that the edge refused: it takes from the key's bucket as any other, and its sender is told in the first
   * place that the key is deactivated, or that it comes too fast.
   */
  refused(call: RefusedCall): RefusedResult {
    const nowMs = Date.now();
    if (this.#revoked.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    this.#keyUse.used(call.keyId, nowMs);
    const { allowed, retryAfterMs, ...rate } = this.#takeRequest(call.keyId, nowMs);
    if (allowed) this.#note(call, { code: call.code, cause: null, detail: call.detail }, call.signals, nowMs);
    else this.#reject(call, { code: "rate_limited", retryAfterMs }, call.signals, nowMs);
    this.#writeNotes(nowMs);
    const period = this.#period(nowMs);
    return allowed ? { outcome: "noted", rate, period } : { outcome: "rate_limited", retryAfterMs, rate, period };
  }

  /**
   * Refused calls that an isolate has summed up: those that did not authenticate, and those with keys that it knows to be
   * deactivated. No use of a key.
   */
  countRefused(calls: RefusedCalls[]): void {
    const nowMs = Date.now();
    for (const refused of calls) this.#list(refused, nowMs);
    this.#writeNotes(nowMs);
  }

  /** The Signal Store has these rows' signals: only now are they deleted. Repeating it is harmless. */
  settle(rows: number[]): void {
    if (deleteRows(this.#sql, rows, this.#unsettled) && this.#drain.storeFull) this.#drain.startOver();
  }

  /** The Signal Store had no room for what was sent: it is asked once in a while until it has, see drain.ts. */
  storeFull(): void {
    this.#drain.stopForFullStore();
  }

  /**
   * Makes as many of these held signals accepted as now fit, and sends them through the queue again. While the outbox is
   * full none does: they are safe where they are.
   */
  release(signals: SignalAgain[]): ReleaseResult {
    if (this.#isOutboxFull()) return { released: 0, full: true };
    let released: SignalAgain[] = [];
    let full = true;
    const nowMs = Date.now();
    this.#update(nowMs, (ledger) => {
      released = release(this.#sql, ledger, signals);
      ledger.nextRow = writeAgain(this.#sql, ledger, released, nowMs, this.#unsettled);
      full = roomToRelease(ledger) === 0;
      return released.length > 0;
    });
    return { released: released.length, full };
  }

  /**
   * Sends dead letters through the queue again. They were counted when they first came.
   *
   * @returns how many: all, or none while the outbox is full.
   */
  replay(signals: SignalAgain[]): number {
    if (this.#isOutboxFull()) return 0;
    const nowMs = Date.now();
    this.#update(nowMs, (ledger) => {
      ledger.nextRow = writeAgain(this.#sql, ledger, signals, nowMs, this.#unsettled);
      return signals.length > 0;
    });
    return signals.length;
  }

  usage(): Usage | null {
    this.#update(Date.now(), () => false);
    if (this.#ledger === null) return null;
    const { anchorMs: _anchor, admitted: _admitted, nextRow: _next, dayMs: _day, ...usage } = this.#ledger;
    return { ...usage, history: closedPeriods(this.#sql) };
  }

  usageByDay(): UsageByDay | null {
    const usage = this.usage();
    return usage && readUsageByDay(this.#sql, usage);
  }

  /** Key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return this.#keyUse.lastUsed();
  }

  rejections(limit: number): Rejection[] {
    return this.#rejections.latest(limit, Date.now());
  }

  books(periodStartMs?: number): CounterBooks {
    const usage = this.usage();
    const period = [usage, ...(usage?.history ?? [])].find((one) => one?.periodStartMs === periodStartMs);
    const admitted = periodStartMs === undefined ? this.#ledger?.admitted : period && period.accepted + period.held;
    return { admitted: admitted ?? 0, unsettled: this.#unsettled.signals(periodStartMs) };
  }

  /** What waits for the Signal Store. */
  backlog(): Backlog {
    return {
      storeFull: this.#drain.storeFull,
      unsettledSignals: this.#unsettled.signals(undefined),
      outboxBytes: this.#sql.databaseSize,
      outboxMaxBytes: configuredOutboxBytes(this.env),
      oldestAtMs: oldestUnsettled(this.#sql),
    };
  }

  /** A signal that is admitted and not yet settled. */
  inFlight(signalId: string): InFlightSignal | null {
    const signal = findUnsettled(this.#sql, this.#workspaceId, signalId);
    if (signal === null) return null;
    return {
      id: signalId,
      keyId: signal.envelope.key,
      endpoint: signal.endpoint,
      receivedAtMs: signal.row.at,
      verdict: signal.verdict,
      ordinal: signal.ordinal,
      signalLimit: signal.row.limit,
      periodEndMs: signal.row.period_end,
    };
  }

  /** One alarm for everything that cannot die: drain, re-send, period end. Never throws: six throws would end it. */
  override async alarm(): Promise<void> {
    this.#alarmAtMs = Number.POSITIVE_INFINITY;
    try {
      this.#update(Date.now(), () => false);
      this.#writeNotes(Date.now());
      if (this.#ledger !== null) this.#alarmBy(this.#ledger.periodEndMs);
    } catch (error) {
      logEvent("alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarmBy(Date.now() + DRAIN_ALARM_MS);
    }
    await this.#drain.run();
  }

  #isOutboxFull(): boolean {
    return this.#sql.databaseSize >= configuredOutboxBytes(this.env);
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  #commit(calls: CountedCall[]): AdmitResult[] {
    const results: AdmitResult[] = [];
    const nowMs = Date.now();
    try {
      this.#update(nowMs, (ledger) => this.#decide(ledger, calls, results, nowMs));
    } catch (error) {
      logEvent("commit_failed", { workspace: this.#workspaceId, calls: calls.length, error: errorText(error) });
      throw error;
    }
    this.#writeNotes(nowMs);
    return results;
  }

  /** Verdicts of the calls in order of arrival, and their outbox rows. Says whether there is one. */
  #decide(ledger: Ledger, calls: CountedCall[], results: AdmitResult[], nowMs: number): boolean {
    const packer = new RowPacker(
      { at: nowMs, period_start: ledger.periodStartMs, period_end: ledger.periodEndMs, limit: ledger.signalLimit },
      ledger.nextRow,
      ledger.accepted + ledger.held,
    );
    // Asked once for all of them. What follows of a body whose first slice was admitted is admitted too.
    const full = this.#isOutboxFull();
    for (const { call, rate } of calls) {
      if (this.#revoked.has(call.keyId)) {
        results.push(this.#refuseDeactivated(call, nowMs));
        continue;
      }
      if (full && call.firstSlice) {
        const { retryAfterMs } = OUTBOX_FULL;
        this.#note(call, { ...OUTBOX_FULL, cause: null }, countSignals(call), nowMs);
        results.push({ outcome: "full", retryAfterMs, rate, period: periodState(ledger) });
        continue;
      }
      for (const { signals, ...told } of call.invalid) this.#note(call, { ...told, cause: null }, signals, nowMs);
      const used = ledger.accepted + ledger.held;
      const run = decideQuotaRun(used, countSignals(call), ledger);
      packer.add(call.chunks, run.accepted, run.held);
      ledger.accepted += run.accepted;
      ledger.held += run.held;
      ledger.rejected += run.rejected;
      ledger.admitted += run.accepted + run.held;
      ledger.overage += Math.min(run.accepted, Math.max(0, used + run.accepted - ledger.signalLimit));
      const refusal = run.refusal && { code: run.refusal, retryAfterMs: ledger.periodEndMs - nowMs };
      if (refusal) this.#reject(call, refusal, run.rejected, nowMs);
      results.push({ outcome: "counted", ...run, refusal, rate, period: periodState(ledger) });
    }
    const nextRow = packer.write(this.#sql, this.#unsettled);
    const wrote = nextRow !== ledger.nextRow;
    ledger.nextRow = nextRow;
    return wrote;
  }

  /**
   * Closes ended periods and the day, then applies a change to the ledger: all in one transaction or not at all, and memory follows
   * only when it succeeded. What a change calls not worth a write of its own is written with the next notes.
   */
  #update(nowMs: number, change: (ledger: Ledger) => boolean): void {
    const before = this.#ledger;
    if (before === null) return;
    const ledger = { ...before };
    let saved = false;
    try {
      this.ctx.storage.transactionSync(() => {
        const closed = closeEndedPeriods(this.#sql, ledger, nowMs);
        const dayEnded = endDay(this.#sql, ledger, nowMs);
        saved = change(ledger) || closed > 0 || dayEnded;
        if (saved) saveLedger(this.#sql, ledger);
      });
    } catch (error) {
      this.#unsettled.forget();
      throw error;
    }
    this.#ledger = ledger;
    this.#unsaved = !saved && (this.#unsaved || ledger.rejected !== before.rejected);
    if (ledger.nextRow === before.nextRow) return;
    this.#alarmBy(nowMs + DRAIN_ALARM_MS);
    this.#drain.soon();
  }

  /** Where the workspace stands now; a period that has ended is closed first. */
  #period(nowMs: number): PeriodState | null {
    if (this.#ledger !== null && this.#ledger.periodEndMs <= nowMs) this.#update(nowMs, () => false);
    return this.#ledger && periodState(this.#ledger);
  }

  #takeRequest(keyId: string, nowMs: number) {
    const { emptyAtMs, ...taken } = takeRequest(this.#buckets.get(keyId) ?? 0, nowMs, this.#rate);
    this.#buckets.set(keyId, emptyAtMs);
    return taken;
  }

  #refuseDeactivated(call: { keyId: string; requestId: string }, nowMs: number): { outcome: "key_deactivated" } {
    this.#reject(call, { code: "unauthorized", cause: "key_deactivated" }, 1, nowMs);
    this.#writeNotes(nowMs);
    return { outcome: "key_deactivated" };
  }

  /** Of this call so many signals are refused, for that. */
  #reject(call: { keyId: string; requestId: string }, refusal: Refusal, signals: number, atMs: number): void {
    const cause = "cause" in refusal ? refusal.cause : null;
    this.#note(call, { code: refusal.code, cause, detail: storedDetail(refusal) }, signals, atMs);
  }

  #note(
    { keyId, requestId }: { keyId: string; requestId: string },
    { code, cause, detail }: Pick<RefusedCalls, "code" | "cause" | "detail">,
    signals: number,
    atMs: number,
  ): void {
    const when = { firstAtMs: atMs, lastAtMs: atMs, atLeast: false };
    this.#list({ keyId, requestId, code, cause, detail, calls: 1, signals, ...when }, atMs);
  }

  #list(refused: RefusedCalls, nowMs: number): void {
    this.#rejections.add(refused, nowMs);
    this.watchers.tell(1, () => [refused]);
  }

  /** Writes what is noted besides the count, as far as it is due. What cannot be written is left to the alarm. */
  #writeNotes(nowMs: number): void {
    try {
      this.#keyUse.writeDue(nowMs);
      if (this.#rejections.dueMs <= nowMs) {
        this.#rejections.write(nowMs);
        if (this.#unsaved && this.#ledger !== null) saveLedger(this.#sql, this.#ledger);
        this.#unsaved = false;
      }
      this.#alarmBy(this.#rejections.dueMs);
    } catch (error) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarmBy(nowMs + DRAIN_ALARM_MS);
    }
  }

  /** The alarm rings at `atMs` or sooner. Written only when that is news. */
  #alarmBy(atMs: number): void {
    if (atMs >= this.#alarmAtMs) return;
    this.#alarmAtMs = atMs;
    void this.ctx.storage.setAlarm(atMs);
  }
}

function countSignals(call: AdmitCall): number {
  return call.chunks.reduce((sum, chunk) => sum + chunk.count, 0);
}

function periodState(ledger: Ledger): PeriodState {
  const ceiling = quotaCeiling(ledger);
  const used = ledger.accepted + ledger.held;
  return { ceiling, remaining: ceiling === null ? null : Math.max(0, ceiling - used), periodEndMs: ledger.periodEndMs };
}

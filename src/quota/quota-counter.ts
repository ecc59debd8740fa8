/**
 * QuotaCounter: one Durable Object per workspace. It decides and counts every signal, one after the other, and keeps
 * each accepted one in its outbox until the Signal Store has confirmed it.
 *
 * Why this is correct on the platform: all state changes of a commit are made with no `await` between them, so they are
 * one atomic write; and no answer leaves the object before its writes are durable (the output gate), so a verdict that
 * a caller sees has been stored. Memory is a copy of what is stored, or may be lost (rejections.ts, key-use.ts, drain.ts).
 */
import type { RefusedCalls, Rejection } from "../domain/keys/rejection.ts";
import { roomToRelease } from "../domain/quota/quota.ts";
import type { WantedEvents } from "../domain/events/workspace-event.ts";
import { HandOn } from "../events/hand-on.ts";
import { newEvent } from "../events/raised-events.ts";
import { configuredOutboxBytes, configuredPaceMs, configuredRate } from "../env.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { restoreAtNextStart, type PointInTime } from "../platform/point-in-time.ts";
import { WatchedObject } from "../platform/watchers.ts";
import { REJECTIONS_KEPT, SAFETY_ALARM_MS } from "../limits.ts";
import { countSignals, decideAdmissions, periodState, refusedCall, refusedFor } from "./admission.ts";
import type { CommitDecisions, CountedCall } from "./admission.ts";
import { createReleasedTable, release, rowsAgain } from "./again.ts";
import { Alarm } from "../platform/alarm.ts";
import { GroupCommit } from "./commits.ts";
import { CounterNews } from "./counter-news.ts";
import { Drain } from "./drain.ts";
import { findInFlight } from "./in-flight.ts";
import { KeyUse } from "./key-use.ts";
import type { Ledger } from "./ledger.ts";
import { readUsage } from "./ledger.ts";
import { Outbox } from "./outbox.ts";
import { Rejections } from "./rejections.ts";
import { RequestBuckets } from "./request-buckets.ts";
import { RevokedKeys } from "./revoked-keys.ts";
import { State } from "./state.ts";
import type { LedgerChange } from "./state.ts";
import { readUsageByDay } from "./usage-days.ts";
import type { QuotaConfig } from "../domain/quota/quota-config.ts";
import type {
  AdmitCall,
  AdmitResult,
  Backlog,
  CounterBooks,
  InFlightSignal,
  KeyCalls,
  PeriodState,
  RefusedCall,
  RefusedResult,
  ReleaseResult,
  SignalAgain,
  UnsettledRow,
  Usage,
  UsageByDay,
} from "./protocol.ts";

/** From this age on the oldest signal that is not recorded is told of: a healthy backlog is a hundred times younger. */
export const PROCESSING_LATE_MS = 10 * 60_000;

export class QuotaCounter extends WatchedObject<RefusedCalls> {
  readonly #sql: SqlStorage;
  readonly #buckets: RequestBuckets;
  readonly #revoked: RevokedKeys;
  readonly #keyUse: KeyUse;
  readonly #rejections: Rejections;
  readonly #outbox: Outbox;
  readonly #news: CounterNews;
  readonly #state: State;
  readonly #drain: Drain;
  readonly #handOn: HandOn;
  readonly #alarm: Alarm;
  readonly #commits: GroupCommit<CountedCall, AdmitResult>;
  /** Commits with signals since the alarm last rang. */
  #commitsSinceRing = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    createReleasedTable(this.#sql);
    this.#buckets = new RequestBuckets(configuredRate(env));
    this.#revoked = new RevokedKeys(this.#sql);
    this.#keyUse = new KeyUse(this.#sql);
    this.#rejections = new Rejections(this.#sql);
    this.#outbox = new Outbox(this.#sql);
    this.#news = new CounterNews(this.#sql);
    this.#state = new State(ctx.storage, this.#outbox, this.#news);
    this.#keyUse.noteLost(this.#state.ledger?.admitted ?? 0);
    this.#alarm = new Alarm(ctx);
    this.#handOn = new HandOn(this.#news.raised, {
      workspaceId: this.#workspaceId,
      raise: (events) => this.env.DESTINATIONS.getByName(this.#workspaceId).raise(events),
      alarmBy: (atMs) => this.#alarm.by(atMs),
    });
    this.#drain = new Drain(this.#outbox, {
      workspaceId: this.#workspaceId,
      send: (messages) => this.env.SIGNALS.sendBatch(messages),
      paceMs: configuredPaceMs(env),
      alarmBy: (atMs) => this.#alarm.by(atMs),
    });
    this.#commits = new GroupCommit(
      (calls) => this.#commit(calls),
      () => ctx.storage.sync(),
    );
  }

  /** Sets plan and billing, with effect from the next signal. The anchor is fixed by the first call. */
  configure(config: QuotaConfig): void {
    this.#state.configure(config, Date.now());
    this.#alarm.by(this.#state.ledger?.periodEndMs ?? Number.POSITIVE_INFINITY);
    this.#handOn.start();
  }

  /** Says which events are to be raised, from the next commit on. Repeating it changes nothing. */
  wantEvents(wanted: WantedEvents): void {
    const nowMs = Date.now();
    this.#state.want(wanted, nowMs);
    // The alarm finds out whether what is unsettled is late.
    if (this.#news.wants("processing.late") && this.#outbox.oldest() !== null) this.#alarm.by(nowMs + SAFETY_ALARM_MS);
  }

  /** Once this has returned, no call with the key is accepted anywhere: every call asks here. */
  revoke(keyId: string): void {
    this.#revoked.add([keyId], Date.now());
  }

  /** Revokes many keys, which were deactivated at `atMs`. Returns how many of them were not revoked before. */
  revokeAll(keyIds: string[], atMs: number): number {
    return this.#revoked.add(keyIds, atMs);
  }

  /**
   * Has later rows numbered behind `behindRow`. For a counter that was restored from a backup: the Signal Store has seen
   * the numbers up to there. Returns the rows that are not settled.
   */
  goOnBehind(behindRow: number): UnsettledRow[] {
    this.#update(Date.now(), (ledger) => {
      ledger.nextRow = Math.max(ledger.nextRow, behindRow + 1);
      return { save: true };
    });
    return this.#outbox.unsettledRows();
  }

  /** The rows that are not settled, and how many signals were ever admitted, at one moment. */
  unsettledRows(): { rows: UnsettledRow[]; admitted: number } {
    return { rows: this.#outbox.unsettledRows(), admitted: this.#state.ledger?.admitted ?? 0 };
  }

  /**
   * Counts signals that the store has and this counter, restored from a backup, has no memory of. Returns false, and counts
   * nothing, if signals were admitted since the caller looked: then it looks again.
   */
  countForgotten(signals: number, admitted: number): boolean {
    let counted = false;
    this.#update(Date.now(), (ledger) => {
      counted = ledger.admitted === admitted;
      if (counted) ledger.admitted += signals;
      return { save: counted };
    });
    return counted;
  }

  /** From the next start on the database is as it was then, see platform/point-in-time.ts. Returns how to undo it. */
  restoreAtNextStart(point: PointInTime): Promise<string> {
    return restoreAtNextStart(this.ctx.storage, point);
  }

  /** Ends the object, this call included. */
  startAnew(): void {
    this.ctx.abort("The object starts anew.");
  }

  /** Gives the unsettled among these rows new numbers, in the same order. Returns how many it has renumbered. */
  renumber(rows: number[]): number {
    let renumbered = 0;
    this.#update(Date.now(), (ledger) => {
      // The new numbers are behind all that were used, so that nothing under way that names a number means another row, and
      // behind all that was sent, so that the drain sends them.
      renumbered = this.#outbox.renumber(rows, ledger.nextRow);
      ledger.nextRow += renumbered;
      return { save: true };
    });
    this.#drain.renumbered();
    return renumbered;
  }

  /**
   * Decides and counts the signals of one call (design §7). Calls that arrive while a commit is being prepared share
   * it: one outbox row for all of them.
   *
   * @throws when the commit fails; then nothing of the whole group has been counted, and a retry may succeed.
   */
  admit(call: AdmitCall): Promise<AdmitResult> | AdmitResult {
    const nowMs = Date.now();
    if (this.#state.ledger === null) return { outcome: "unconfigured" };
    if (this.#revoked.ids.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    this.#keyUse.used(call.keyId, nowMs);
    if (!call.firstSlice) return this.#commits.submit({ call, rate: this.#buckets.left(call.keyId, nowMs) });
    this.#news.called(call.keyId, 1, nowMs);
    const { taken, rate } = this.#buckets.take(call.keyId, nowMs);
    if (taken.allowed) return this.#commits.submit({ call, rate });
    const { retryAfterMs } = taken;
    this.#list([refusedCall(call, { code: "rate_limited", retryAfterMs }, countSignals(call), nowMs)], nowMs);
    return { outcome: "rate_limited", retryAfterMs, rate, period: this.#period(nowMs) };
  }

  /**
   * Notes a call that the edge refused: it takes from the key's bucket as any other, and its sender is told in the first
   * place that the key is deactivated, or that it comes too fast.
   */
  refused(call: RefusedCall): RefusedResult {
    const nowMs = Date.now();
    if (this.#revoked.ids.has(call.keyId)) return this.#refuseDeactivated(call, nowMs);
    this.#keyUse.used(call.keyId, nowMs);
    this.#news.called(call.keyId, 1, nowMs);
    const { taken, rate } = this.#buckets.take(call.keyId, nowMs);
    const { retryAfterMs } = taken;
    const refused = taken.allowed
      ? refusedFor(call, { ...call, cause: null }, call.signals, nowMs)
      : refusedCall(call, { code: "rate_limited", retryAfterMs }, call.signals, nowMs);
    this.#list([refused], nowMs);
    const period = this.#period(nowMs);
    return taken.allowed ? { outcome: "noted", rate, period } : { outcome: "rate_limited", retryAfterMs, rate, period };
  }

  /**
   * Notes refused calls that an isolate has summed up: those that did not authenticate, and those with keys that it knows
   * to be deactivated. They are no use of a key.
   */
  countRefused(calls: RefusedCalls[]): void {
    const nowMs = Date.now();
    for (const { keyId, calls: count } of calls) this.#news.called(keyId, count, nowMs);
    this.#list(calls, nowMs);
  }

  /** Takes rows out of the outbox, now that the Signal Store has their signals. Repeating it is harmless. */
  settle(rows: number[]): void {
    const lastRow = (this.#state.ledger?.nextRow ?? 0) - 1;
    if (this.#outbox.settle(rows, lastRow) && this.#drain.storeFull) this.#drain.startOver();
  }

  /** To be called when the Signal Store had no room for what was sent: from then on it is probed, see drain.ts. */
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
      full = roomToRelease(ledger) === 0;
      return { rows: rowsAgain(ledger, released, nowMs) };
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
    this.#update(nowMs, (ledger) => ({ rows: rowsAgain(ledger, signals, nowMs) }));
    return signals.length;
  }

  usage(): Usage | null {
    const ledger = this.#ledgerAt(Date.now());
    return ledger && readUsage(this.#sql, ledger);
  }

  usageByDay(): UsageByDay | null {
    const usage = this.usage();
    return usage && readUsageByDay(this.#sql, usage);
  }

  /** When each key was last used: key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return this.#keyUse.lastUsed();
  }

  /** What has come of one key's calls. */
  keyCalls(keyId: string): KeyCalls {
    const rejections = this.#rejections.latest(REJECTIONS_KEPT, Date.now()).filter((one) => one.keyId === keyId);
    return {
      usedMs: this.#keyUse.lastUsed()[keyId] ?? null,
      acceptedMs: this.#keyUse.lastAccepted(keyId),
      rejections,
      accepted: this.#keyUse.callDays(keyId),
      refused: this.#rejections.callDays(keyId),
    };
  }

  /** The rejections list, those with the latest calls first. */
  rejections(limit: number): Rejection[] {
    return this.#rejections.latest(limit, Date.now());
  }

  books(periodStartMs?: number): CounterBooks {
    const usage = this.usage();
    const period = [usage, ...(usage?.history ?? [])].find((one) => one?.periodStartMs === periodStartMs);
    const admitted =
      periodStartMs === undefined ? this.#state.ledger?.admitted : period && period.accepted + period.held;
    return { admitted: admitted ?? 0, unsettled: this.#outbox.unsettled(periodStartMs) };
  }

  /** What waits for the Signal Store. */
  backlog(): Backlog {
    const oldest = this.#outbox.oldest();
    return {
      storeFull: this.#drain.storeFull,
      admitted: this.#state.ledger?.admitted ?? 0,
      unsettledSignals: this.#outbox.unsettled(),
      outboxBytes: this.#sql.databaseSize,
      outboxMaxBytes: configuredOutboxBytes(this.env),
      oldestAtMs: oldest?.atMs ?? null,
      oldestRow: oldest?.row ?? null,
    };
  }

  /** A signal that is admitted and not yet settled. */
  inFlight(signalId: string): InFlightSignal | null {
    return findInFlight(this.#sql, this.#workspaceId, signalId);
  }

  /** One alarm for everything that cannot die: drain, re-send, period end. Never throws: six throws would end it. */
  override async alarm(): Promise<void> {
    this.#alarm.rang();
    const commits = this.#commitsSinceRing;
    this.#commitsSinceRing = 0;
    try {
      const nowMs = Date.now();
      const ledger = this.#ledgerAt(nowMs);
      this.#writeNotes(nowMs);
      // More commits are likely to follow: with the alarm set here, none of them has to set it.
      if (commits > 1) this.#alarm.by(nowMs + SAFETY_ALARM_MS);
      this.#noteLateness(nowMs);
      if (ledger !== null) this.#alarm.by(ledger.periodEndMs);
    } catch (error) {
      logEvent("alarm_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
    await Promise.all([this.#drain.run(), this.#handOn.runIfDue()]);
  }

  #isOutboxFull(): boolean {
    return this.#outbox.isFull(configuredOutboxBytes(this.env));
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  #commit(calls: CountedCall[]): AdmitResult[] {
    const nowMs = Date.now();
    let decided: Omit<CommitDecisions, "rows"> = { results: [], refused: [], accepted: [] };
    try {
      this.#update(nowMs, (ledger) => {
        const time = { nowMs, revoked: this.#revoked.ids, full: this.#isOutboxFull() };
        const { rows, ...others } = decideAdmissions(ledger, calls, time);
        decided = others;
        return { rows };
      });
    } catch (error) {
      logEvent("commit_failed", { workspace: this.#workspaceId, calls: calls.length, error: errorText(error) });
      throw error;
    }
    for (const call of decided.accepted) this.#keyUse.accepted(call, nowMs);
    this.#list(decided.refused, nowMs);
    return decided.results;
  }

  /** Changes the ledger; rows that this writes to the outbox are sent soon, also if the object should be killed now. */
  #update(nowMs: number, change: (ledger: Ledger) => LedgerChange): void {
    const rows = this.#state.update(nowMs, change);
    this.#handOn.start();
    if (rows.length === 0) return;
    this.#commitsSinceRing++;
    this.#alarm.by(nowMs + SAFETY_ALARM_MS);
    this.#drain.committed(rows);
  }

  /** Where the workspace stands now; a period that has ended is closed first. */
  #period(nowMs: number): PeriodState | null {
    const { ledger } = this.#state;
    const now = ledger !== null && ledger.periodEndMs <= nowMs ? this.#ledgerAt(nowMs) : ledger;
    return now && periodState(now);
  }

  #ledgerAt(nowMs: number): Readonly<Ledger> | null {
    const ledger = this.#state.ledgerAt(nowMs);
    this.#handOn.start();
    return ledger;
  }

  /** Raises an event when signals wait too long, once until none does any more. */
  #noteLateness(nowMs: number): void {
    if (!this.#news.wants("processing.late")) return;
    const oldest = this.#outbox.oldest();
    const lateMs = (oldest?.atMs ?? Number.POSITIVE_INFINITY) + PROCESSING_LATE_MS;
    const late = lateMs <= nowMs;
    if (!late) this.#alarm.by(lateMs);
    if (late === this.#state.ledger?.late) return;
    this.#update(nowMs, (ledger) => {
      ledger.late = late;
      if (!late || oldest === null) return { save: true };
      const data = { oldest_at: new Date(oldest.atMs).toISOString(), signals: this.#outbox.unsettled() };
      return { save: true, events: [newEvent("processing.late", data, nowMs)] };
    });
  }

  #refuseDeactivated(call: Pick<AdmitCall, "keyId" | "requestId">, nowMs: number): { outcome: "key_deactivated" } {
    this.#news.called(call.keyId, 1, nowMs);
    this.#list([refusedCall(call, { code: "unauthorized", cause: "key_deactivated" }, 1, nowMs)], nowMs);
    return { outcome: "key_deactivated" };
  }

  #list(refused: readonly RefusedCalls[], nowMs: number): void {
    for (const one of refused) {
      this.#rejections.add(one, nowMs);
      this.watchers.tell(1, () => [one]);
    }
    this.#writeNotes(nowMs, refused);
    this.#handOn.start();
  }

  /** Writes what is noted besides the count, as far as it is due. What cannot be written is left to the alarm. */
  #writeNotes(nowMs: number, refused: readonly RefusedCalls[] = []): void {
    try {
      for (const one of refused) this.#news.refused(one, nowMs);
      this.#keyUse.writeDue(nowMs);
      if (this.#rejections.dueMs <= nowMs) {
        this.#rejections.write(nowMs);
        this.#state.save();
      }
      this.#alarm.by(this.#rejections.dueMs);
    } catch (error) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(error) });
      this.#alarm.by(nowMs + SAFETY_ALARM_MS);
    }
  }
}

/**
 * QuotaCounter: one Durable Object per workspace. It decides and counts signals one after the other, and keeps each accepted
 * signal in its outbox until the Signal Store has confirmed it.
 *
 * All changes of a commit are made without an `await` between them, so they are one atomic write. The output gate holds each
 * answer until its writes are durable, so every verdict that a caller sees is stored. Memory only caches stored state, or
 * holds statistics that may be lost (call-counts.ts, drain.ts).
 */
import type { WantedEvents } from "../domain/events/workspace-event.ts";
import type { RefusedCalls, Rejection } from "../domain/keys/refusal.ts";
import type { QuotaConfig } from "../domain/quota/billing.ts";
import { ordinalsTaken } from "../domain/quota/quota.ts";
import { configuredOutboxBytes, configuredPaceMs, configuredRate } from "../env.ts";
import { HandOn, newEvent } from "../notifications/raised-events.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { Alarm, RestorableObject } from "../platform/restorable-object.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { uuidv7Ms } from "../platform/ids.ts";
import type { Admission } from "../wire/admission.ts";
import { readMessage, writeMessage } from "../wire/message.ts";
import { CallCounts } from "./call-counts.ts";
import { type Correction, Corrections, CounterRestore } from "./counter-restore.ts";
import { CounterNews } from "./counter-news.ts";
import { Drain, RESEND_AFTER_MS } from "./drain.ts";
import { IncomingCalls, RevokedKeys } from "./incoming-calls.ts";
import { LedgerState, type LedgerStateOptions } from "./ledger-state.ts";
import { readUsage, readUsageByDay } from "./ledger.ts";
import { Outbox } from "./outbox.ts";
import type * as Protocol from "./protocol.ts";
import { ResentSignals } from "./resent-signals.ts";

/** Age at which an unreadable row is set aside: after three attempts to record it. */
export const UNREADABLE_AFTER_MS = 3 * RESEND_AFTER_MS;
/** Age of the oldest unrecorded signal that raises a notification. A healthy backlog is a hundred times younger. */
export const PROCESSING_LATE_MS = 10 * 60_000;

/**
 * Interval at which the alarm checks whether calls still arrive. An idle object stays in memory for ten seconds and must
 * write its call counts before. An alarm costs a row; a pending timer costs as much in less than a second.
 */
export const WATCH_MS = 9_000;

export class QuotaCounter extends RestorableObject {
  readonly #revoked: RevokedKeys;
  readonly #outbox: Outbox;
  readonly #news: CounterNews;
  readonly #state: LedgerState;
  readonly #counts: CallCounts;
  readonly #calls: IncomingCalls;
  readonly #resent: ResentSignals;
  readonly #alarm: Alarm;
  readonly #handOn: HandOn;
  readonly #drain: Drain;
  readonly #corrections: Corrections;
  readonly #restore: CounterRestore;
  /** Calls since the last alarm. */
  #callsSinceRing = 0;
  /** Time at which the alarm does all of its work, even under load. After a start the time is unknown, so it is 0. */
  #workDueMs = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    const workspaceId = ctx.id.name ?? "";
    const common = { workspaceId, alarmBy: (atMs: number): void => this.#wakeBy(atMs) };
    const outbox = (this.#outbox = new Outbox(sql));
    const revoked = (this.#revoked = new RevokedKeys(sql));
    const news = (this.#news = new CounterNews(sql));
    const state = (this.#state = new LedgerState(ctx.storage, { outbox, news, changed: this.#changed }));
    const corrections = (this.#corrections = new Corrections(sql));
    this.#restore = new CounterRestore(ctx.storage, { state, outbox, corrections });
    const counts = (this.#counts = new CallCounts(ctx.storage, { workspaceId, news, changed: this.#refused }));
    const isOutboxFull = (): boolean => outbox.isFull(configuredOutboxBytes(this.env));
    this.#resent = new ResentSignals(sql, { state, isBlocked: () => this.#restore.isClosed || isOutboxFull() });
    this.#calls = new IncomingCalls(configuredRate(env), {
      workspaceId,
      storage: ctx.storage,
      revoked,
      state,
      counts,
      isOutboxFull,
    });
    this.#alarm = new Alarm(ctx);
    this.#handOn = new HandOn(news.raised, { ...common, destinations: env.DESTINATIONS });
    this.#drain = new Drain(outbox, {
      ...common,
      send: (messages) => this.env.SIGNALS.sendBatch(messages),
      paceMs: configuredPaceMs(env),
    });
  }

  /**
   * Sets plan and billing, effective from the next signal. The first call fixes the anchor of the billing periods. A version
   * that is not newer than the counter's is ignored. Callers of an earlier deployment send no version; their configuration
   * counts as new.
   */
  configure({ configVersion, ...config }: Omit<QuotaConfig, "configVersion"> & Partial<QuotaConfig>): void {
    const nowMs = Date.now();
    const newVersion = Math.max(nowMs, 1 + (this.#state.ledger?.configVersion ?? 0));
    this.#state.configure({ ...config, configVersion: configVersion ?? newVersion }, nowMs);
    this.#wakeBy(this.#state.ledger?.periodEndMs ?? Number.POSITIVE_INFINITY);
  }

  /** Sets the notification types to raise, from the next commit. Idempotent. */
  wantEvents(wanted: WantedEvents): void {
    const nowMs = Date.now();
    this.#state.want(wanted, nowMs);
    // The alarm checks whether unsettled signals are late.
    if (this.#news.wants("processing.late") && this.#outbox.oldest() !== null) this.#wakeBy(nowMs + SAFETY_ALARM_MS);
  }

  /** After it returns, no call with the key is accepted anywhere, because every call asks this object (spec §5.4). */
  revoke(keyId: string): void {
    this.#revoked.add([keyId], Date.now());
  }

  /** Revokes keys that were deactivated at `atMs`. @returns the number of keys that were not revoked before. */
  revokeAll(keyIds: string[], atMs: number): number {
    return this.#revoked.add(keyIds, atMs);
  }

  /**
   * Refuses calls until then, for a restore of the workspace. @returns the number of signals that wait for the Signal Store.
   */
  close(untilMs: number): number {
    return this.#restore.close(untilMs);
  }

  open(): void {
    this.#restore.open();
  }

  /** Returns the counts before a restore. @throws unless calls are refused; otherwise the counts would be outdated at once. */
  beforeRestore(): Protocol.CountedBefore {
    if (!this.#restore.isClosed) throw new Error("The Quota Counter takes calls.");
    return this.#restore.before();
  }

  /** @throws unless calls are refused; otherwise the signals of new calls would be lost without being counted. */
  override async restoreTo(id: string, bookmark: string): Promise<void> {
    if (this.awaitsRestore(id) && !this.#restore.isClosed) throw new Error("The Quota Counter takes calls.");
    await super.restoreTo(id, bookmark);
  }

  /** Returns the restored counts. Later rows get numbers above `highestRow`. */
  afterRestore(highestRow: number): Protocol.RestoredCounter {
    return this.#restore.after(highestRow, Date.now());
  }

  /** Stores the losses of all restores and accepts calls again. */
  correct(corrections: Correction[]): void {
    this.#restore.correct(corrections);
    // A restored object may have lost its alarm.
    this.#wakeBy(Date.now() + SAFETY_ALARM_MS);
  }

  /**
   * Decides and counts the signals of one call (design §7), in a commit that concurrent calls share.
   * @throws if the commit fails. Then nothing was counted, and a retry may succeed.
   */
  admit(call: Protocol.AdmitCall): Promise<Protocol.AdmitResult> | Protocol.AdmitResult {
    if (this.#restore.isClosed) return { outcome: "closed" };
    this.#callsSinceRing++;
    return this.#calls.admit(call, Date.now());
  }

  /**
   * Records a call that the edge refused. It uses up request rate like any other. If the key is deactivated or too fast, the
   * answer says so instead of the edge's refusal.
   */
  refused(call: Protocol.RefusedCall): Protocol.RefusedResult {
    this.#callsSinceRing++;
    return this.#calls.refused(call, Date.now());
  }

  /** Counts calls that failed to authenticate, as summed up by an isolate. They do not count as use of the key. */
  countRefused(calls: RefusedCalls[]): void {
    const nowMs = Date.now();
    this.#callsSinceRing++;
    for (const { keyId, calls: count } of calls) this.#counts.called(keyId, count, nowMs);
    this.#counts.refused(calls, nowMs);
  }

  /** Removes rows from the outbox whose signals the Signal Store has recorded. Idempotent. */
  settle(rows: number[]): void {
    if (this.#outbox.settle(rows) && this.#drain.storeFull) this.#drain.startOver();
  }

  /** Called when the Signal Store was full. From then on the drain only probes it. */
  storeFull(): void {
    this.#drain.stopForFullStore();
  }

  /**
   * Accepts as many held signals of the batch as now fit and sends them through the queue again, each batch once. Sends none
   * while the outbox is full; the signals stay held.
   */
  release(page: Protocol.ResendPage, terms: Protocol.ReleaseTerms): Protocol.ResendResult {
    return this.#resent.release(page, terms, Date.now());
  }

  /** Sends dead letters through the queue again, uncounted and each batch once. Sends none while the outbox is full. */
  replay(page: Protocol.ResendPage): Protocol.ResendResult {
    return this.#resent.replay(page, Date.now());
  }

  usage(): Protocol.Usage | null {
    const ledger = this.#state.ledgerAt(Date.now());
    return ledger && readUsage(this.ctx.storage.sql, ledger);
  }

  usageByDay(): Protocol.UsageByDay | null {
    const usage = this.usage();
    return usage && readUsageByDay(this.ctx.storage.sql, usage);
  }

  /** Time of each key's last use: key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return this.#counts.lastUsed();
  }

  keyCalls(keyId: string): Protocol.KeyCalls {
    return this.#counts.keyCalls(keyId, Date.now());
  }

  rejections(limit: number): Rejection[] {
    return this.#counts.latestRejections(limit, Date.now());
  }

  /** @param periodStartMs start of a billing period; undefined: since the workspace began. */
  books(periodStartMs?: number): Protocol.CounterBooks {
    const usage = this.usage();
    const period = [usage, ...(usage?.history ?? [])].find((usageOf) => usageOf?.periodStartMs === periodStartMs);
    const admitted = periodStartMs === undefined ? this.#state.ledger?.admitted : period && ordinalsTaken(period);
    const { forgotten, lost } = this.#corrections.sums(periodStartMs);
    return { admitted: (admitted ?? 0) + forgotten, unsettled: this.#outbox.unsettled(periodStartMs), lost };
  }

  backlog(): Protocol.Backlog {
    const { forgotten, lost } = this.#corrections.sums();
    return {
      storeFull: this.#drain.storeFull,
      outboxMaxBytes: configuredOutboxBytes(this.env),
      hasDestinations: this.#news.hasDestinations,
      admitted: (this.#state.ledger?.admitted ?? 0) + forgotten,
      lostSignals: lost,
      unreadableSignals: this.#outbox.unreadableSignals(),
      unsettledSignals: this.#outbox.unsettled(),
      outboxBytes: this.#outbox.databaseBytes,
      oldestAtMs: this.#outbox.oldest()?.atMs ?? null,
    };
  }

  inFlight(signalId: string): Admission | null {
    return findInFlight(this.ctx.storage.sql, this.ctx.id.name ?? "", signalId);
  }

  /**
   * The single alarm: drain, resend, end of period. Never throws, because the platform gives up an alarm after six failures.
   */
  override async alarm(): Promise<void> {
    this.#alarm.rang();
    const nowMs = Date.now();
    const isLoad = this.#callsSinceRing > 1;
    this.#callsSinceRing = 0;
    const untilWorkMs = this.#workDueMs - nowMs;
    // A wait of more than a minute means that the clock was set back.
    if (isLoad && untilWorkMs > 0 && untilWorkMs <= SAFETY_ALARM_MS) {
      return this.#alarm.by(nowMs + Math.min(WATCH_MS, untilWorkMs));
    }
    this.#workDueMs = nowMs + SAFETY_ALARM_MS;
    // More calls are likely. Setting the alarm here spares each of them from setting it.
    if (isLoad) this.#alarm.by(nowMs + WATCH_MS);
    try {
      this.#setAsideUnreadable(nowMs);
      const ledger = this.#state.ledgerAt(nowMs);
      this.#noteLateness(nowMs);
      if (ledger !== null) this.#wakeBy(ledger.periodEndMs);
      this.#state.save();
      this.#counts.write(nowMs);
    } catch (error) {
      logEvent("alarm_failed", { workspace: this.ctx.id.name ?? "", error: errorText(error) });
      this.#wakeBy(nowMs + SAFETY_ALARM_MS);
    }
    await Promise.all([this.#drain.run(), this.#handOn.runIfDue()]);
  }

  /** Raises a notification when signals wait too long to be recorded; the next one follows only after the delay has ended. */
  #noteLateness(nowMs: number): void {
    if (!this.#news.wants("processing.late")) return;
    const oldest = this.#outbox.oldest();
    const lateMs = (oldest?.atMs ?? Number.POSITIVE_INFINITY) + PROCESSING_LATE_MS;
    const late = lateMs <= nowMs;
    if (!late) this.#wakeBy(lateMs);
    if (late === this.#state.ledger?.late) return;
    this.#state.update(nowMs, (ledger) => {
      ledger.late = late;
      if (!late || oldest === null) return { save: true };
      const data = { oldest_at: new Date(oldest.atMs).toISOString(), signals: this.#outbox.unsettled() };
      return { save: true, events: [newEvent("processing.late", data, nowMs)] };
    });
  }

  /** By then a row has been sent several times. */
  #setAsideUnreadable(nowMs: number): void {
    try {
      const signals = this.ctx.storage.transactionSync(() =>
        this.#outbox.setAsideUnreadable(nowMs - UNREADABLE_AFTER_MS),
      );
      if (signals > 0) logEvent("rows_set_aside", { workspace: this.ctx.id.name ?? "", signals });
    } catch (error) {
      this.#outbox.rolledBack();
      throw error;
    }
  }

  /** After each change of the ledger: sends new outbox rows soon. The alarm covers a crash of the object. */
  readonly #changed: LedgerStateOptions["changed"] = (rows, nowMs) => {
    this.#handOn.start();
    if (rows.length === 0) return;
    this.#alarm.by(nowMs + WATCH_MS);
    this.#drain.committed(rows);
  };

  /** After refused calls: schedules the write of their counts and sends raised notifications. */
  readonly #refused = (nowMs: number): void => {
    this.#alarm.by(nowMs + WATCH_MS);
    this.#handOn.start();
  };

  /** Makes the alarm do all of its work at that time or earlier. */
  #wakeBy(atMs: number): void {
    this.#workDueMs = Math.min(this.#workDueMs, atMs);
    this.#alarm.by(atMs);
  }
}

// Search for a signal in the outbox by its id.

/** Maximum difference between the clocks of edge and counter. */
const CLOCK_SKEW_MS = 5_000;
/** Maximum time from a signal's id to its commit: the edge creates a new id for each attempt and gives up after this time. */
const COMMIT_MAX_DELAY_MS = CALL_TIMEOUT_MS;

/**
 * Returns the admission of a signal in the outbox, or null. The id contains a time, which limits the search even if very
 * many rows wait. SQLite compares the bodies, so only matching rows reach JavaScript. Resent signals are not found here; the
 * Signal Store still has them.
 */
export function findInFlight(sql: SqlStorage, workspaceId: string, signalId: string): Admission | null {
  const idMs = uuidv7Ms(signalId.slice(signalId.indexOf("_") + 1));
  if (idMs === null) return null;
  const [fromMs, untilMs] = [idMs - CLOCK_SKEW_MS, idMs + COMMIT_MAX_DELAY_MS + CLOCK_SKEW_MS];
  const rows = sql.exec<{ body: string }>(
    "SELECT body FROM outbox WHERE row >= ? AND row < ? AND at BETWEEN ? AND ? AND instr(body, ?) > 0 ORDER BY row",
    firstRowSince(sql, fromMs),
    firstRowSince(sql, untilMs + 1),
    fromMs,
    untilMs,
    `"${signalId}"`,
  );
  // A payload may quote another signal's id, so several rows can contain the text.
  for (const { body } of rows) {
    const { rows: received } = readMessage(writeMessage(workspaceId, 0, body));
    const found = received.flatMap(({ signals }) => signals).find(({ admission }) => admission.id === signalId);
    if (found !== undefined) return found.admission;
  }
  return null;
}

/**
 * Binary search for the first row that is not older than `atMs`. Row numbers are ordered by time but have gaps; the search
 * takes at most 53 reads.
 */
function firstRowSince(sql: SqlStorage, atMs: number): number {
  // Two queries, because each reads one end of the table. A single query for both would scan it.
  const first = sql.exec<{ row: number | null }>("SELECT min(row) AS row FROM outbox").one();
  const last = sql.exec<{ row: number | null }>("SELECT max(row) AS row FROM outbox").one();
  if (first.row === null || last.row === null) return 0;
  let [low, high] = [first.row, last.row + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { row, at } = sql
      .exec<{ row: number; at: number }>("SELECT row, at FROM outbox WHERE row >= ? ORDER BY row LIMIT 1", middle)
      .one();
    if (at < atMs) low = row + 1;
    else high = middle;
  }
  return low;
}

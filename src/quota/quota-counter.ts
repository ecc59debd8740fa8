/**
 * QuotaCounter: one Durable Object per workspace. It decides and counts every signal, one after the other, and keeps
 * each accepted one in its outbox until the Signal Store has confirmed it.
 *
 * Why this is correct on the platform: all state changes of a commit are made with no `await` between them, so they are
 * one atomic write; and no answer leaves the object before its writes are durable (the output gate), so a verdict that
 * a caller sees has been stored. Memory is a copy of what is stored, or may be lost (call-counts.ts, drain.ts).
 */
import type { WantedEvents } from "../domain/events/workspace-event.ts";
import type { RefusedCalls, Rejection } from "../domain/keys/rejection.ts";
import type { QuotaConfig } from "../domain/quota/quota-config.ts";
import { ordinalsTaken } from "../domain/quota/quota.ts";
import { configuredOutboxBytes, configuredPaceMs, configuredRate } from "../env.ts";
import { HandOn } from "../notifications/hand-on.ts";
import { newEvent } from "../notifications/raised-events.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { Alarm } from "../platform/alarm.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { RestorableObject } from "../platform/restorable-object.ts";
import { uuidv7Ms } from "../platform/uuidv7.ts";
import type { Admission } from "../wire/admission.ts";
import { readMessage, writeMessage } from "../wire/message.ts";
import { CallCounts } from "./call-counts.ts";
import { type Correction, Corrections } from "./corrections.ts";
import { CounterNews } from "./counter-news.ts";
import { CounterRestore } from "./counter-restore.ts";
import { Drain, RESEND_AFTER_MS } from "./drain.ts";
import { IncomingCalls } from "./incoming-calls.ts";
import { LedgerState, type LedgerStateOptions } from "./ledger-state.ts";
import { readUsage } from "./ledger.ts";
import { Outbox } from "./outbox.ts";
import type * as Protocol from "./protocol.ts";
import { RevokedKeys } from "./revoked-keys.ts";
import { SignalsAgain } from "./signals-again.ts";
import { readUsageByDay } from "./usage-days.ts";

/** Rows that cannot be read are set aside after this long: after three attempts to have them recorded. */
export const UNREADABLE_AFTER_MS = 3 * RESEND_AFTER_MS;
/** From this age on the oldest signal that is not recorded is told of: a healthy backlog is a hundred times younger. */
export const PROCESSING_LATE_MS = 10 * 60_000;

/**
 * The alarm sees so often whether calls still come: an idle object stays in memory for ten seconds, and is not to leave with
 * counts of calls that are not written. An alarm costs a row; a timer that is set costs as much in less than a second.
 */
export const WATCH_MS = 9_000;

export class QuotaCounter extends RestorableObject {
  readonly #revoked: RevokedKeys;
  readonly #outbox: Outbox;
  readonly #news: CounterNews;
  readonly #state: LedgerState;
  readonly #counts: CallCounts;
  readonly #calls: IncomingCalls;
  readonly #again: SignalsAgain;
  readonly #alarm: Alarm;
  readonly #handOn: HandOn;
  readonly #drain: Drain;
  readonly #corrections: Corrections;
  readonly #restore: CounterRestore;
  /** Calls since the alarm last rang. */
  #callsSinceRing = 0;
  /** When the alarm does all of its work, however many calls come. A start does not know what the alarm is set for. */
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
    this.#again = new SignalsAgain(sql, { state, isBlocked: () => this.#restore.isClosed || isOutboxFull() });
    const durable = (): Promise<unknown> => ctx.storage.sync();
    this.#calls = new IncomingCalls(configuredRate(env), {
      workspaceId,
      revoked,
      state,
      counts,
      isOutboxFull,
      durable,
    });
    this.#alarm = new Alarm(ctx);
    this.#handOn = new HandOn(news.raised, {
      ...common,
      raise: (events) => this.env.DESTINATIONS.getByName(workspaceId).raise(events),
    });
    this.#drain = new Drain(outbox, {
      ...common,
      send: (messages) => this.env.SIGNALS.sendBatch(messages),
      paceMs: configuredPaceMs(env),
    });
  }

  /**
   * Sets plan and billing, with effect from the next signal. The anchor is fixed by the first call. A version that is not
   * newer than the counter's changes nothing. A caller of an earlier deployment sends no version: its configuration is new.
   */
  configure({ configVersion, ...config }: Omit<QuotaConfig, "configVersion"> & Partial<QuotaConfig>): void {
    const nowMs = Date.now();
    const newVersion = Math.max(nowMs, 1 + (this.#state.ledger?.configVersion ?? 0));
    this.#state.configure({ ...config, configVersion: configVersion ?? newVersion }, nowMs);
    this.#wakeBy(this.#state.ledger?.periodEndMs ?? Number.POSITIVE_INFINITY);
  }

  /** Says which events are to be raised, from the next commit on. Repeating it changes nothing. */
  wantEvents(wanted: WantedEvents): void {
    const nowMs = Date.now();
    this.#state.want(wanted, nowMs);
    // The alarm finds out whether what is unsettled is late.
    if (this.#news.wants("processing.late") && this.#outbox.oldest() !== null) this.#wakeBy(nowMs + SAFETY_ALARM_MS);
  }

  /** Once this has returned, no call with the key is accepted anywhere: every call asks here. */
  revoke(keyId: string): void {
    this.#revoked.add([keyId], Date.now());
  }

  /** Revokes many keys, which were deactivated at `atMs`. Returns how many of them were not revoked before. */
  revokeAll(keyIds: string[], atMs: number): number {
    return this.#revoked.add(keyIds, atMs);
  }

  /** Refuses calls until then: the workspace is about to be restored. Returns how many signals wait for the Signal Store. */
  close(untilMs: number): number {
    return this.#restore.close(untilMs);
  }

  open(): void {
    this.#restore.open();
  }

  /** What is counted before a restore. @throws where calls are not refused: then it would be wrong at once. */
  beforeRestore(): Protocol.CountedBefore {
    if (!this.#restore.isClosed) throw new Error("The Quota Counter takes calls.");
    return this.#restore.before();
  }

  /** @throws where calls are not refused: then what they brought would be lost and in no count. */
  override async restoreTo(id: string, bookmark: string): Promise<void> {
    if (this.awaitsRestore(id) && !this.#restore.isClosed) throw new Error("The Quota Counter takes calls.");
    await super.restoreTo(id, bookmark);
  }

  /** What the restored counter has. Later rows get numbers behind `highestRow`. */
  afterRestore(highestRow: number): Protocol.RestoredCounter {
    return this.#restore.after(highestRow, Date.now());
  }

  /** Writes what all restores have lost, and takes calls again. */
  correct(corrections: Correction[]): void {
    this.#restore.correct(corrections);
    // A restored object may have lost its alarm.
    this.#wakeBy(Date.now() + SAFETY_ALARM_MS);
  }

  /**
   * Decides and counts the signals of one call (design §7), in a commit that it shares with others.
   *
   * @throws when the commit fails; then nothing of it has been counted, and a retry may succeed.
   */
  admit(call: Protocol.AdmitCall): Promise<Protocol.AdmitResult> | Protocol.AdmitResult {
    if (this.#restore.isClosed) return { outcome: "closed" };
    this.#callsSinceRing++;
    return this.#calls.admit(call, Date.now());
  }

  /**
   * Notes a call that the edge refused: it takes from the key's bucket as any other, and its sender is told in the first
   * place that the key is deactivated, or that it comes too fast.
   */
  refused(call: Protocol.RefusedCall): Protocol.RefusedResult {
    this.#callsSinceRing++;
    return this.#calls.refused(call, Date.now());
  }

  /** Counts refused calls that an isolate has summed up: they did not authenticate, and are no use of a key. */
  countRefused(calls: RefusedCalls[]): void {
    const nowMs = Date.now();
    this.#callsSinceRing++;
    for (const { keyId, calls: count } of calls) this.#counts.called(keyId, count, nowMs);
    this.#counts.refused(calls, nowMs);
  }

  /** Takes rows out of the outbox, now that the Signal Store has their signals. Repeating it is harmless. */
  settle(rows: number[]): void {
    if (this.#outbox.settle(rows) && this.#drain.storeFull) this.#drain.startOver();
  }

  /** To be called when the Signal Store had no room for what was sent: from then on it is probed, see drain.ts. */
  storeFull(): void {
    this.#drain.stopForFullStore();
  }

  /**
   * Makes as many held signals of a page accepted as now fit, and sends them through the queue again, each page once.
   * While the outbox is full none is sent: they are safe where they are.
   */
  release(page: Protocol.SignalsAgainPage, terms: Protocol.ReleaseTerms): Protocol.SignalsAgainResult {
    return this.#again.release(page, terms, Date.now());
  }

  /** Sends a page of dead letters through the queue again, uncounted and once: none while the outbox is full. */
  replay(page: Protocol.SignalsAgainPage): Protocol.SignalsAgainResult {
    return this.#again.replay(page, Date.now());
  }

  usage(): Protocol.Usage | null {
    const ledger = this.#state.ledgerAt(Date.now());
    return ledger && readUsage(this.ctx.storage.sql, ledger);
  }

  usageByDay(): Protocol.UsageByDay | null {
    const usage = this.usage();
    return usage && readUsageByDay(this.ctx.storage.sql, usage);
  }

  /** When each key was last used: key id → milliseconds since 1970. */
  lastUsed(): Record<string, number> {
    return this.#counts.lastUsed();
  }

  keyCalls(keyId: string): Protocol.KeyCalls {
    return this.#counts.keyCalls(keyId, Date.now());
  }

  rejections(limit: number): Rejection[] {
    return this.#counts.latestRejections(limit, Date.now());
  }

  /** @param periodStartMs of a billing period; undefined: since the workspace began. */
  books(periodStartMs?: number): Protocol.CounterBooks {
    const usage = this.usage();
    const period = [usage, ...(usage?.history ?? [])].find((one) => one?.periodStartMs === periodStartMs);
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

  /** One alarm for everything that cannot die: drain, re-send, period end. Never throws: six throws would end it. */
  override async alarm(): Promise<void> {
    this.#alarm.rang();
    const nowMs = Date.now();
    const isLoad = this.#callsSinceRing > 1;
    this.#callsSinceRing = 0;
    const untilWorkMs = this.#workDueMs - nowMs;
    // A wait longer than a minute means that the clock was set back.
    if (isLoad && untilWorkMs > 0 && untilWorkMs <= SAFETY_ALARM_MS) {
      return this.#alarm.by(nowMs + Math.min(WATCH_MS, untilWorkMs));
    }
    this.#workDueMs = nowMs + SAFETY_ALARM_MS;
    // More calls are likely to follow: with the alarm set here, none of them has to set it.
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

  /** Raises an event when signals wait too long to be recorded, once until none does any more. */
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

  /** A row that cannot be read has been sent again several times by then. */
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

  /** After each change of the ledger: rows of the outbox are sent soon, also if the object should be killed now. */
  readonly #changed: LedgerStateOptions["changed"] = (rows, nowMs) => {
    this.#handOn.start();
    if (rows.length === 0) return;
    this.#alarm.by(nowMs + WATCH_MS);
    this.#drain.committed(rows);
  };

  /** After refused calls: their counts are written soon, and what they raised is sent. */
  readonly #refused = (nowMs: number): void => {
    this.#alarm.by(nowMs + WATCH_MS);
    this.#handOn.start();
  };

  /** Has the alarm do all of its work at that time or sooner. */
  #wakeBy(atMs: number): void {
    this.#workDueMs = Math.min(this.#workDueMs, atMs);
    this.#alarm.by(atMs);
  }
}

// A signal that the outbox holds, found by its id.

/** How far the clocks of edge and counter may differ. */
const CLOCK_SKEW_MS = 5_000;
/** The longest time from a signal's id to its commit: the edge gives a new id to each attempt, and answers after this time. */
const COMMIT_MAX_DELAY_MS = CALL_TIMEOUT_MS;

/**
 * How a signal of the outbox was admitted; null when the outbox does not hold it. The id tells the time, so the search takes
 * no longer while the queue is down. SQLite compares the bodies: only those with the id come to JavaScript. A signal that is
 * sent once more is not found: the Signal Store still has it.
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
  // Another signal's payload may quote the id, so that more than one row can hold the text.
  for (const { body } of rows) {
    const { rows: received } = readMessage(writeMessage(workspaceId, 0, body));
    const found = received.flatMap(({ signals }) => signals).find(({ admission }) => admission.id === signalId);
    if (found !== undefined) return found.admission;
  }
  return null;
}

/**
 * A number that divides the rows: those before it are of an earlier time, it and those behind it are not. The numbers are in
 * order of the rows' times, and need not follow each other: halving the range takes at most 53 reads.
 */
function firstRowSince(sql: SqlStorage, atMs: number): number {
  // Each by itself is read off an end of the table; one query for both would go through all of it.
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

/**
 * QuotaCounter: one Durable Object per workspace. It decides and counts every signal, one after the other, and keeps
 * each accepted one in its outbox until the Signal Store has confirmed it.
 *
 * Why this is correct on the platform: all state changes of a commit are made with no `await` between them, so they are
 * one atomic write; and no answer leaves the object before its writes are durable (the output gate), so a verdict that
 * a caller sees has been stored. Memory is a copy of what is stored, or may be lost (call-notes.ts, key-use.ts, drain.ts).
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
import { CallNotes } from "./call-notes.ts";
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

export class QuotaCounter extends RestorableObject {
  readonly #revoked: RevokedKeys;
  readonly #outbox: Outbox;
  readonly #news: CounterNews;
  readonly #state: LedgerState;
  readonly #notes: CallNotes;
  readonly #calls: IncomingCalls;
  readonly #again: SignalsAgain;
  readonly #alarm: Alarm;
  readonly #handOn: HandOn;
  readonly #drain: Drain;
  readonly #corrections: Corrections;
  readonly #restore: CounterRestore;
  /** Commits with signals since the alarm last rang. */
  #commitsSinceRing = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    const workspaceId = ctx.id.name ?? "";
    const common = { workspaceId, alarmBy: (atMs: number): void => this.#alarm.by(atMs) };
    const outbox = (this.#outbox = new Outbox(sql));
    const revoked = (this.#revoked = new RevokedKeys(sql));
    const news = (this.#news = new CounterNews(sql));
    const state = (this.#state = new LedgerState(ctx.storage, { outbox, news, changed: this.#changed }));
    const corrections = (this.#corrections = new Corrections(sql));
    this.#restore = new CounterRestore(ctx.storage, { state, outbox, corrections });
    const notes = new CallNotes(sql, { ...common, state, news, handOn: () => this.#handOn.start() });
    this.#notes = notes;
    const isOutboxFull = (): boolean => outbox.isFull(configuredOutboxBytes(this.env));
    this.#again = new SignalsAgain(sql, { state, isBlocked: () => this.#restore.isClosed || isOutboxFull() });
    const durable = (): Promise<unknown> => ctx.storage.sync();
    this.#calls = new IncomingCalls(configuredRate(env), { workspaceId, revoked, state, notes, isOutboxFull, durable });
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
    this.#alarm.by(this.#state.ledger?.periodEndMs ?? Number.POSITIVE_INFINITY);
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
    this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
  }

  /**
   * Decides and counts the signals of one call (design §7), in a commit that it shares with others.
   *
   * @throws when the commit fails; then nothing of it has been counted, and a retry may succeed.
   */
  admit(call: Protocol.AdmitCall): Promise<Protocol.AdmitResult> | Protocol.AdmitResult {
    if (this.#restore.isClosed) return { outcome: "closed" };
    return this.#calls.admit(call, Date.now());
  }

  /**
   * Notes a call that the edge refused: it takes from the key's bucket as any other, and its sender is told in the first
   * place that the key is deactivated, or that it comes too fast.
   */
  refused(call: Protocol.RefusedCall): Protocol.RefusedResult {
    return this.#calls.refused(call, Date.now());
  }

  /** Notes refused calls that an isolate has summed up: they did not authenticate, and are no use of a key. */
  countRefused(calls: RefusedCalls[]): void {
    const nowMs = Date.now();
    for (const { keyId, calls: count } of calls) this.#notes.called(keyId, count, nowMs);
    this.#notes.refused(calls, nowMs);
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
    return this.#notes.lastUsed();
  }

  keyCalls(keyId: string): Protocol.KeyCalls {
    return this.#notes.keyCalls(keyId, Date.now());
  }

  rejections(limit: number): Rejection[] {
    return this.#notes.latestRejections(limit, Date.now());
  }

  books(periodStartMs?: number): Protocol.CounterBooks {
    return counterBooks(this.usage(), this.#state, this.#outbox, this.#corrections, periodStartMs);
  }

  backlog(): Protocol.Backlog {
    const outboxMaxBytes = configuredOutboxBytes(this.env);
    return {
      storeFull: this.#drain.storeFull,
      outboxMaxBytes,
      ...waiting(this.#state, this.#outbox, this.#corrections, this.#news),
    };
  }

  inFlight(signalId: string): Admission | null {
    return findInFlight(this.ctx.storage.sql, this.ctx.id.name ?? "", signalId);
  }

  /** One alarm for everything that cannot die: drain, re-send, period end. Never throws: six throws would end it. */
  override async alarm(): Promise<void> {
    this.#alarm.rang();
    const commits = this.#commitsSinceRing;
    this.#commitsSinceRing = 0;
    try {
      const nowMs = Date.now();
      this.#setAsideUnreadable(nowMs);
      const ledger = this.#state.ledgerAt(nowMs);
      this.#notes.writeDue(nowMs);
      // More commits are likely to follow: with the alarm set here, none of them has to set it.
      if (commits > 1) this.#alarm.by(nowMs + SAFETY_ALARM_MS);
      noteLateness({ state: this.#state, news: this.#news, outbox: this.#outbox, alarm: this.#alarm }, nowMs);
      if (ledger !== null) this.#alarm.by(ledger.periodEndMs);
    } catch (error) {
      logEvent("alarm_failed", { workspace: this.ctx.id.name ?? "", error: errorText(error) });
      this.#alarm.by(Date.now() + SAFETY_ALARM_MS);
    }
    await Promise.all([this.#drain.run(), this.#handOn.runIfDue()]);
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
    this.#commitsSinceRing++;
    this.#alarm.by(nowMs + SAFETY_ALARM_MS);
    this.#drain.committed(rows);
  };
}

// Whether signals wait too long to be recorded, as far as somebody wants to be told.

/** From this age on the oldest signal that is not recorded is told of: a healthy backlog is a hundred times younger. */
export const PROCESSING_LATE_MS = 10 * 60_000;

interface Lateness {
  state: LedgerState;
  news: CounterNews;
  outbox: Outbox;
  /** When it rings, `noteLateness` is called. */
  alarm: Alarm;
}

/** Raises an event when signals wait too long, once until none does any more. */
function noteLateness({ state, news, outbox, alarm }: Lateness, nowMs: number): void {
  if (!news.wants("processing.late")) return;
  const oldest = outbox.oldest();
  const lateMs = (oldest?.atMs ?? Number.POSITIVE_INFINITY) + PROCESSING_LATE_MS;
  const late = lateMs <= nowMs;
  if (!late) alarm.by(lateMs);
  if (late === state.ledger?.late) return;
  state.update(nowMs, (ledger) => {
    ledger.late = late;
    if (!late || oldest === null) return { save: true };
    const data = { oldest_at: new Date(oldest.atMs).toISOString(), signals: outbox.unsettled() };
    return { save: true, events: [newEvent("processing.late", data, nowMs)] };
  });
}

// The counter's side of the books (design §1.2): what was admitted, and what of it waits for the Signal Store.

/** @param periodStartMs of the billing period that is asked for; undefined: since the workspace began. */
function counterBooks(
  usage: Protocol.Usage | null,
  { ledger }: LedgerState,
  outbox: Outbox,
  corrections: Corrections,
  periodStartMs: number | undefined,
): Protocol.CounterBooks {
  const period = [usage, ...(usage?.history ?? [])].find((one) => one?.periodStartMs === periodStartMs);
  const admitted = periodStartMs === undefined ? ledger?.admitted : period && ordinalsTaken(period);
  const { forgotten, lost } = corrections.sums(periodStartMs);
  return { admitted: (admitted ?? 0) + forgotten, unsettled: outbox.unsettled(periodStartMs), lost };
}

/** What waits in the outbox, and whether anybody is told of it. */
function waiting(
  { ledger }: LedgerState,
  outbox: Outbox,
  corrections: Corrections,
  { hasDestinations }: CounterNews,
): Omit<Protocol.Backlog, "storeFull" | "outboxMaxBytes"> {
  const oldest = outbox.oldest();
  const { forgotten, lost } = corrections.sums();
  return {
    hasDestinations,
    admitted: (ledger?.admitted ?? 0) + forgotten,
    lostSignals: lost,
    unreadableSignals: outbox.unreadableSignals(),
    unsettledSignals: outbox.unsettled(),
    outboxBytes: outbox.databaseBytes,
    oldestAtMs: oldest?.atMs ?? null,
  };
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

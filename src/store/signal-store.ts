/**
 * The Durable Object of a workspace with its signal log, people and scores.
 *
 * Why this is safe: each writing method is one transaction without `await`, so methods cannot interleave. A savepoint rolls back a
 * failure; `record` without savepoint aborts the object before anything is committed. No answer leaves before its writes are durable, so
 * the consumer settles only stored signals. Memory is a copy of the tables, and is read again after a rollback.
 */
import migrations from "../../migrations/signal-store/migrations.js";
import type { WantedNotifications } from "../domain/notifications/notification.ts";
import type { Exclusion } from "../domain/rules/exclusion.ts";
import type { MappingRule } from "../domain/rules/mapping-rule.ts";
import type { SignalStatus } from "../domain/signal/signal.ts";
import { storeMaxBytes } from "../env.ts";
import { CALL_TIMEOUT_MS, DUPLICATE_WINDOW_WITH_ID_MS } from "../limits.ts";
import { Forwarding } from "../notifications/raised-notifications.ts";
import type { ListQuery } from "../platform/list-page.ts";
import { alarmsOfObject, type HealthFigures, NO_ALARMS } from "../domain/health/alarm.ts";
import { HealthReport } from "../platform/health-report.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Alarm } from "../platform/alarm.ts";
import { WorkspaceObject } from "../platform/workspace-object.ts";
import { within } from "../platform/time-limit.ts";
import { findAccounts, listAccounts, readAccountPage } from "./queries/account-page.ts";
import { ChoreRunner, failingChores } from "./chores.ts";
import {
  beginDeletion,
  findDeletion,
  findDeletionById,
  noteForwarded,
  repeatDeletions,
  stepDeletions,
  waitsForDestinations,
} from "./deletion/person-deletions.ts";
import { deleteExpired, purgeHeld, setRetention } from "./deletion/retention.ts";
import { COLD_ABANDONED_MS, ColdObjects, lastWriteMs } from "./log/cold.ts";
import type { SignalLog } from "./log/signal-log.ts";
import { StoredSignalLog, type StoredSignalLogOptions } from "./log/stored-log.ts";
import { stepLapses } from "./people/lapse-run.ts";
import { dayOf } from "../domain/duration.ts";
import { readKeyUsage } from "./state/key-days.ts";
import { hasRunnableLinkJob, hurryLinkJobs, stepLinkJobs } from "./people/linking.ts";
import { stepReplacements } from "./people/replacements.ts";
import type {
  AccountFilter,
  AccountsQuery,
  ListedPeople,
  PeopleQuery,
  PersonTimeline,
} from "./protocol/people-and-accounts.ts";
import type {
  DeletionReceipt,
  ExportRange,
  KeyUsage,
  ForgottenDeletion,
  PreviewRange,
  RuleJob,
  ExclusionsToApply,
  RuleToApply,
  StoreConfig,
} from "./protocol/store-operations.ts";
import type {
  FindFilter,
  QueueFilter,
  RecordOptions,
  RecordResult,
  RowToRecord,
  SignalToRecord,
  StoreHealth,
} from "./protocol/stored-signals.ts";
import { findGroup, listEventGroups, queuePage, recentNames, suggestForRule } from "./queries/event-groups.ts";
import { findSignals, latestSignals, sampleSignal, sampleSignals, traceSignal } from "./queries/newest-signals.ts";
import { findPeople, readPeople } from "./queries/people-search.ts";
import { readPersonPage } from "./queries/person-page.ts";
import { previewExclusionsPart } from "./queries/exclusions-preview.ts";
import { previewPart, scoredPeople } from "./queries/rule-preview.ts";
import { shown, type ShownState } from "./queries/shown.ts";
import { type TableLine, writeRows } from "../platform/table-rows.ts";
import { ExportJobs, type ExportProgress, type ExportSources } from "./transfer/export-jobs.ts";
import { recordSignals } from "./record-signals.ts";
import { beginResend, resendProgress, type ResendProgress, type ResendScope, stepResends } from "./resend-jobs.ts";
import {
  ALL_RULES,
  findRuleJob,
  ruleResults,
  seenVersions,
  startExclusionsJob,
  startRuleJob,
  stepRuleJob,
} from "./rules/rule-jobs.ts";
import { hasTooManyMisfits, latestDeadLetterMs, raiseDeadLetters, stepMisfits } from "./state/dead-letters.ts";
import { wantNotifications } from "./state/raise-notifications.ts";
import {
  forgetRowsBelow,
  canTrackRows,
  type OpenSignalLog,
  takeFreshRows,
  StoreState,
  transact,
} from "./state/store-state.ts";
import { isStale } from "./state/rule-outcomes.ts";
import { readTotals, updateGroups } from "./state/status-change.ts";
import {
  type ChoreName,
  NextDue,
  nextDeadLetterNotificationMs,
  nextDeletionMs,
  nextLapseMs,
  nextLinkJobMs,
  nextMisfitsMs,
  nextPurgeMs,
  nextReplacementMs,
  nextResendMs,
  nextRetentionMs,
  nextRuleJobMs,
} from "./state/due.ts";

/** Steps of linking in one turn: 5,000 signals. */
const LINK_TURN_STEPS = 10;
/** A deletion waits this long for Destinations before it answers. The work continues afterwards. */
const FORWARD_WAIT_MS = 2_000;
/** A release or replay runs this long while the caller waits. Then the alarm continues the work. */
const RESEND_TURN_MS = 5_000;
/** A full store notes this once per interval, because each note writes a row. */
const FULL_NOTED_MS = 3_600_000;

const IMPORTING_KEY = "importing";

export class SignalStore extends WorkspaceObject {
  readonly #workspaceId = this.ctx.id.name ?? "";
  #loadedState: StoreState | null = null;
  readonly #alarm = new Alarm(this.ctx);
  readonly #due = new NextDue();
  readonly #report = new HealthReport({
    workspaceId: this.#workspaceId,
    db: this.env.DB,
    alarmBy: (atMs) => this.#alarm.by(atMs),
  });
  /** Dead letters when they were last looked at, and when the latest was recorded; null: not since the start. */
  #knownDeadLetters: Pick<HealthFigures, "deadLetters" | "deadLetterMs"> | null = null;
  #startedForwarding: Forwarding | null = null;
  /** Whether the store was full when the chores were last asked: rule jobs wait meanwhile. */
  #wasFull = false;
  readonly #exports = new ExportJobs(this.ctx.storage);
  /** Resolves when no lost payloads are being marked, for which an export waits. Never rejects. */
  #marking: Promise<unknown> = Promise.resolve();
  #isImporting = this.ctx.storage.kv.get(IMPORTING_KEY) === true;
  readonly #pausing = {
    next: () => this.due,
    mayRun: (name: ChoreName): boolean => !this.#isImporting && (name === "export" || !this.#exports.isWriting),
  };
  /** The work of the alarm, in this order, since chores share lines. */
  readonly #chores = new ChoreRunner(this.#workspaceId, this.ctx.storage, this.#pausing, [
    {
      name: "purge",
      due: () => nextPurgeMs(this.state),
      step: (nowMs) => this.#transact(() => purgeHeld(this.state, nowMs)),
    },
    {
      name: "apply_rules",
      // A rule job adds entries to timelines, so it waits while the store is full.
      due: () => (this.#isFull() ? null : nextRuleJobMs(this.state.sql)),
      step: async () => void (await stepRuleJob(this.state, this.ctx.storage)),
    },
    {
      name: "deletion",
      due: () => nextDeletionMs(this.state),
      step: (nowMs) => this.#transact(() => stepDeletions(this.state, nowMs)),
    },
    { name: "retention", due: () => nextRetentionMs(this.state), step: (nowMs) => this.#deleteExpired(nowMs) },
    {
      name: "link",
      failureEvent: "link_failed",
      due: () => nextLinkJobMs(this.state.sql),
      step: () => this.#stepLinkJobs(),
    },
    {
      name: "replace",
      due: () => nextReplacementMs(this.state.sql),
      step: (nowMs) => this.#transact(() => stepReplacements(this.state, nowMs)),
    },
    {
      name: "lapse",
      due: () => nextLapseMs(this.state),
      step: (nowMs) => this.#transact(() => stepLapses(this.state, nowMs)),
    },
    {
      name: "cold",
      due: (nowMs) => this.state.signals.workMs(nowMs),
      step: (nowMs) => this.state.signals.work(nowMs),
    },
    {
      name: "misfits",
      due: () => nextMisfitsMs(this.state),
      step: (nowMs) => this.#transact(() => stepMisfits(this.state, nowMs)),
    },
    {
      name: "notify_dead_letters",
      due: () => nextDeadLetterNotificationMs(this.state),
      step: (nowMs) => this.#transact(() => raiseDeadLetters(this.state, nowMs)),
    },
    {
      name: "resend",
      failureEvent: "resend_failed",
      due: () => nextResendMs(this.state.sql),
      step: (nowMs) => stepResends(this.state, this.env, this.#workspaceId, nowMs + RESEND_TURN_MS),
    },
    { name: "export", due: (nowMs) => this.#exports.dueMs(nowMs), step: () => this.#stepExports() },
    {
      name: "forward",
      due: () => (this.state.raised.isEmpty ? null : this.#forwarding.dueMs),
      step: () => this.#forwarding.run(),
    },
  ]);

  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, bindings, migrations);
  }

  protected get state(): StoreState {
    if (this.ended !== null) throw new Error("the workspace has ended");
    return (this.#loadedState ??= this.#openState());
  }

  #openState(): StoreState {
    const objects = (): ColdObjects => new ColdObjects(this.env.COLD, this.#workspaceId);
    const isHalfFull = (): boolean => this.#isHalfFull();
    const open: OpenSignalLog = (options) => this.openSignalLog({ ...options, objects, isHalfFull });
    return new StoreState(this.ctx.storage.sql, open, this.due);
  }

  protected get due(): NextDue {
    return this.#due;
  }

  protected openSignalLog(options: StoredSignalLogOptions): SignalLog {
    return new StoredSignalLog(this.ctx.storage, options);
  }

  /** The state that queries read. */
  #show(): ShownState {
    return shown(this.state);
  }

  /** With the pending changes of event groups written to their rows. */
  #showWithGroups(): ShownState {
    this.#writeGroups();
    return this.#show();
  }

  #writeGroups(): void {
    const { state } = this;
    if (Object.keys(state.head.groups).length > 0) {
      this.#transact(() => {
        updateGroups(state);
        state.signals.flush();
      });
    }
  }

  #transact<T>(act: () => T): T {
    return transact(this.ctx.storage, this.state, act);
  }

  /**
   * Idempotent: rows that were recorded before change nothing. If a signal cannot be recorded, none is, and the object restarts.
   *
   * @throws when a newer rule has been applied to stored signals, since it would never evaluate these signals; and when there are too
   *   many gaps between recorded rows.
   */
  record(
    rows: RowToRecord[],
    { rulesVersion, lowestUnsettledRow = 0, isolateFailures = false, retentionDays }: RecordOptions = {},
  ): RecordResult {
    if (this.ended !== null) return { outcome: "gone" };
    if (this.#isPaused) return { outcome: "paused" };
    if (isStale(this.state.sql, rulesVersion ?? Number.MAX_SAFE_INTEGER)) {
      throw new Error("newer mapping rules have been applied meanwhile");
    }
    const nowMs = Date.now();
    if (retentionDays !== undefined && retentionDays !== this.state.retentionDays) {
      setRetention(this.state, { retentionDays }, nowMs);
    }
    if (this.#isFull()) {
      this.#noteFull(nowMs);
      return { outcome: "full" };
    }
    forgetRowsBelow(this.state.head, lowestUnsettledRow);
    // The queue retries these messages with growing delays. Rows that fill the gaps arrive before them.
    if (!canTrackRows(this.state.head, rows)) throw new Error("too many rows wait between those that are recorded");
    const fresh = takeFreshRows(this.state.head, rows);
    const signals = fresh.flatMap((row) => row.signals);
    if (fresh.length > 0) {
      try {
        const record = (): void => recordSignals(this.state, signals, nowMs, rulesVersion);
        if (isolateFailures) this.#transact(record);
        else record();
      } catch (error) {
        logEvent("record_failed", { workspace: this.#workspaceId, signals: signals.length, error: errorText(error) });
        // Abort the object, so that nothing is committed. An exception alone would not roll back.
        if (!isolateFailures) this.ctx.abort(`Signals could not be recorded: ${errorText(error)}`);
        for (const row of fresh) this.#recordAlone(row, nowMs);
      }
    }
    this.#alarmForNext();
    const misfitsFull = hasTooManyMisfits(this.state.head) ? { misfitsFull: true as const } : {};
    return { outcome: "recorded", linksWait: hasRunnableLinkJob(this.state.sql, nowMs), ...misfitsFull };
  }

  /** Links a bounded number of earlier signals of visitors. The alarm links the rest. Never throws. */
  link(): Promise<void> {
    return this.#runNow("link");
  }

  /** Sets the plan's terms from the next alarm on. Idempotent. Retention reads D1 again before it drops anything. */
  configure(config: StoreConfig): void {
    this.#requireNoPause();
    setRetention(this.state, config, Date.now());
    this.#alarmForNext();
  }

  /**
   * Joins a running deletion of the same person, or begins a new one. The alarm continues the work.
   *
   * @param id of the receipt of a new deletion. @param email trimmed and lower-cased.
   */
  async deletePerson(id: string, email: string): Promise<DeletionReceipt> {
    this.#requireNoPause();
    this.#transact(() => beginDeletion(this.state, id, email, Date.now()));
    this.#alarmForNext();
    if (waitsForDestinations(this.state, email)) {
      await within(FORWARD_WAIT_MS, this.#forwarding.run()).catch(() => undefined);
    }
    const receipt = findDeletion(this.state.sql, email);
    if (receipt === null) throw new Error("a deletion that was just begun is gone");
    return receipt;
  }

  /** Answers after RESEND_TURN_MS at the latest. The alarm continues the work. @param auditId audit entry that gets the numbers. */
  async resend(auditId: string, scope: ResendScope): Promise<ResendProgress> {
    this.#requireNoPause();
    const id = this.#transact(() => beginResend(this.state, auditId, scope, Date.now()));
    const turn = this.#runNow("resend");
    this.#alarmForNext();
    await within(RESEND_TURN_MS, turn).catch(() => undefined);
    return resendProgress(this.state.sql, id);
  }

  applyRule(rule: RuleToApply): RuleJob {
    return this.#startRuleJob(rule.ruleId, (nowMs) => startRuleJob(this.state, rule, nowMs));
  }

  applyExclusions(exclusions: ExclusionsToApply): RuleJob {
    return this.#startRuleJob(ALL_RULES, (nowMs) => startExclusionsJob(this.state, exclusions, nowMs));
  }

  #startRuleJob(ruleId: string, start: (nowMs: number) => void): RuleJob {
    this.#requireNoPause();
    this.#writeGroups();
    this.#transact(() => start(Date.now()));
    this.#alarmForNext();
    const job = findRuleJob(this.state.sql, ruleId);
    if (job === null) throw new Error("a job that was just started is gone");
    return job;
  }

  wantNotifications(wanted: WantedNotifications): void {
    this.#requireNoPause();
    this.#transact(() => {
      wantNotifications(this.state, wanted);
      this.state.signals.flush();
    });
  }

  /**
   * Marks payloads that are missing in R2, so that exports and deletions do not wait for them for ever. @returns their
   * signals. @throws when R2 does not answer.
   */
  async markLostPayloads(): Promise<number> {
    this.#requireNoPause();
    const marking = this.state.signals.markLostPayloads(Date.now());
    this.#marking = Promise.allSettled([this.#marking, marking]);
    const signals = await marking;
    this.due.forget();
    this.#alarmForNext();
    return signals;
  }

  get #isPaused(): boolean {
    return this.#isImporting || this.#exports.isWriting;
  }

  /** @throws while the store is copied: the caller gets a 503, and repeats. */
  #requireNoPause(): void {
    if (this.#isPaused) throw new Error("the workspace is being exported or imported");
  }

  /** Begins an export of the whole workspace, or joins the one that runs. @returns its id. */
  beginExport(id: string): string {
    if (!this.#exports.isWriting) this.#requireNoPause();
    const begun = this.#exports.begin(id, Date.now());
    this.due.forget();
    this.#alarmForNext();
    return begun;
  }

  /** Null: there is no such export, or not any more. */
  exportProgress(id: string): ExportProgress | null {
    return this.#exports.progress(id);
  }

  async #stepExports(): Promise<void> {
    const { env, ctx } = this;
    const [counter, destinations] = [
      env.QUOTA_COUNTER.getByName(this.#workspaceId),
      env.DESTINATIONS.getByName(this.#workspaceId),
    ];
    await this.#exports.step({
      workspaceId: this.#workspaceId,
      bucket: env.COLD,
      storage: ctx.storage,
      d1: env.DB,
      counterRows: (place) => counter.exportRows(place) as Promise<Awaited<ReturnType<ExportSources["counterRows"]>>>,
      destinationRows: () => destinations.exportRows() as Promise<TableLine[]>,
      settle: async () => {
        await Promise.all([this.#chores.settleAllBut("export"), this.#marking]);
        const { state } = this;
        this.#transact(() => {
          updateGroups(state);
          state.signals.flush();
        });
      },
    });
    this.due.forget();
  }

  /** From now on until `finishImport` the store takes only rows. Idempotent. */
  beginImport(): void {
    this.ctx.storage.kv.put(IMPORTING_KEY, true);
    this.#isImporting = true;
  }

  /** Idempotent. @throws if the store is not being imported, or a table lacks a column. */
  importRows(lines: TableLine[]): void {
    if (this.ended !== null || !this.#isImporting) throw new Error("no import is under way");
    this.ctx.storage.transactionSync(() => writeRows(this.ctx.storage.sql, lines));
  }

  /** Whether an object of R2 is the store's. During an import each may be. */
  hasObject(key: string): boolean {
    if (this.ended !== null) return false;
    const { sql } = this.ctx.storage;
    return this.#isImporting || sql.exec("SELECT 1 FROM cold_objects WHERE key = ?", key).toArray().length > 0;
  }

  /**
   * The store begins to work. Idempotent.
   *
   * @param deletions of people, requested after the export: they are repeated.
   */
  finishImport(deletions: ForgottenDeletion[], retentionDays: number | null): void {
    const isFirst = this.#isImporting;
    // The state that was read before the rows came is stale, also in `Forwarding`.
    if (isFirst) [this.#loadedState, this.#startedForwarding] = [null, null];
    const { state } = this;
    const nowMs = Date.now();
    this.#transact(() => {
      // Destinations have nothing of earlier deletions, because waiting notifications are not in a file.
      if (isFirst) {
        const open = state.sql.exec<{ id: string }>("SELECT id FROM deletions WHERE to_forward = 1").toArray();
        for (const { id } of open) noteForwarded(state, id, nowMs);
      }
      repeatDeletions(state, deletions, nowMs);
      setRetention(state, { retentionDays }, nowMs);
    });
    this.ctx.storage.kv.delete(IMPORTING_KEY);
    this.#isImporting = false;
    this.due.forget();
    this.#alarmForNext();
  }

  /** What the receipt of the workspace's end counts. */
  amounts(): { people: number; coldObjects: number } {
    const { sql } = this.state;
    const count = (table: string): number => sql.exec<{ n: number }>(`SELECT count(*) AS n FROM ${table}`).one().n;
    return { people: count("people"), coldObjects: count("cold_objects") };
  }

  /**
   * Deletes everything of the workspace in R2 and here. From now on nothing is recorded. Idempotent.
   *
   * @returns when to call again; null: all is deleted. @throws when R2 does not answer.
   */
  async end(request: { requestedAtMs: number; actor: string }): Promise<number | null> {
    this.noteEnd(request);
    // A step under way may still write an object.
    await this.#chores.stop();
    this.#loadedState = null;
    const nowMs = Date.now();
    if (await new ColdObjects(this.env.COLD, this.#workspaceId).removeFirst()) return nowMs;
    const lateMs = this.#exports.lastWriteMs + COLD_ABANDONED_MS;
    const nextMs = Math.max(nowMs, lateMs, lastWriteMs(this.ctx.storage.sql) ?? 0);
    if (nextMs > nowMs) return nextMs;
    await this.deleteEverything();
    return null;
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    this.#alarm.reset();
    if (this.ended !== null) return;
    const steps = await this.#chores.run(info?.isRetry ?? false);
    // The workspace may have ended meanwhile.
    if (this.ended !== null) return;
    this.#alarm.counted.add(Date.now(), steps === 0);
    this.#alarmForNext();
    await this.#report.send(() => this.#alarmsFound(Date.now()));
  }

  #alarmsFound(nowMs: number): string[] {
    const { totals, alarms, ...own } = this.#figures(nowMs);
    const figures = { ...own, deadLetters: totals.deadLettered, alarms: { store: alarms, counter: NO_ALARMS } };
    return alarmsOfObject({ ...figures, store: { bytes: own.bytes, maxBytes: own.maxBytes } }, nowMs);
  }

  /** A dead letter makes no work for a chore, so the alarm that reports it is set here. */
  #noteDeadLetters(): void {
    const [known, deadLetters] = [this.#knownDeadLetters, this.totals().deadLettered];
    if (deadLetters === known?.deadLetters) return;
    this.#knownDeadLetters = { deadLetters, deadLetterMs: latestDeadLetterMs(this.state.sql) };
    // They may have been replayed, or have become old, without any alarm of this object.
    if (known !== null && alarmsOfObject(known, Date.now()).length === 0) this.#report.forget("dead_letters");
    if (!this.#report.isNew("dead_letters")) return;
    if (this.#alarmsFound(Date.now()).includes("dead_letters")) this.#alarm.by(Date.now());
  }

  /** Sets the alarm too: chores that make room are due, also after a change of the limit. */
  #noteFull(nowMs: number): void {
    const { head, signals } = this.state;
    if (nowMs - head.fullAtMs >= FULL_NOTED_MS) {
      head.fullAtMs = nowMs;
      signals.flush();
    }
    this.#alarmForNext();
  }

  get #forwarding(): Forwarding {
    return (this.#startedForwarding ??= new Forwarding(this.state.raised, {
      workspaceId: this.#workspaceId,
      destinations: this.env.DESTINATIONS,
      forwardedDeletion: ({ receiptId }) => noteForwarded(this.state, receiptId, Date.now()),
      alarmBy: (atMs) => {
        this.due.by("forward", atMs);
        this.#alarm.by(atMs);
      },
    }));
  }

  /** Without new signals the store does not learn of a changed plan, so it asks D1. Without an answer nothing is dropped. */
  async #deleteExpired(nowMs: number): Promise<void> {
    const { controlDatabase } = await import("../d1/database.ts");
    const { recordingTerms } = await import("../d1/stored-rules.ts");
    const db = controlDatabase(this.env.DB.withSession("first-primary"));
    const terms = await within(CALL_TIMEOUT_MS, recordingTerms(db, [this.#workspaceId]));
    // If D1 does not have the workspace, signals are kept for ever.
    const retentionDays = terms.get(this.#workspaceId)?.retentionDays ?? null;
    this.#transact(() => {
      setRetention(this.state, { retentionDays }, nowMs);
      deleteExpired(this.state, nowMs);
    });
  }

  async #stepLinkJobs(): Promise<void> {
    const { state } = this;
    const rules = async () => {
      const { rulesOf } = await import("../d1/stored-rules.ts");
      return within(CALL_TIMEOUT_MS, rulesOf(this.env.DB, this.#workspaceId));
    };
    const work = { state, storage: this.ctx.storage, rules };
    let waits = true;
    // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
    for (let steps = 0; steps < LINK_TURN_STEPS && waits; steps++) waits = await stepLinkJobs(work);
    if (waits) hurryLinkJobs(state, Date.now());
  }

  async #runNow(chore: ChoreName): Promise<void> {
    await this.#chores.runNow(chore);
    this.#alarmForNext();
  }

  /** A signal that cannot be recorded becomes a dead letter. */
  #recordAlone(row: RowToRecord, nowMs: number): void {
    this.#transact(() => {
      takeFreshRows(this.state.head, [row]);
      for (const signal of row.signals) {
        try {
          this.#transact(() => recordSignals(this.state, [signal], nowMs));
        } catch (error) {
          const work = { kind: "dead" as const, reason: `Could not be recorded: ${errorText(error)}` };
          takeFreshRows(this.state.head, [row]);
          recordSignals(this.state, [{ ...signal, work } satisfies SignalToRecord], nowMs);
        }
      }
    });
  }

  /** Sets the alarm for the next chore, even if forwarding fails: without an alarm all chores would stop. */
  #alarmForNext(): void {
    if (this.ended !== null) return;
    try {
      if (!this.#isPaused && !this.state.raised.isEmpty) this.#forwarding.start();
      this.#noteSize();
      this.#noteDeadLetters();
    } finally {
      this.#alarm.by(this.#chores.nextDueMs(Date.now()));
    }
  }

  /** Two chores depend on the store's size, so no single change makes them due. */
  #noteSize(): void {
    const isFull = this.#isFull();
    if (this.#wasFull && !isFull) this.due.forget();
    this.#wasFull = isFull;
    // More than half full: payloads move at once.
    if (this.#isHalfFull()) this.#chores.askAgain("cold", Date.now());
  }

  /** The chores with work that no code has announced. That is a bug: such work would wait until the next alarm. */
  protected unknownWork(): ChoreName[] {
    if (this.ended !== null) return [];
    this.#noteSize();
    return this.#chores.unknownWork(Date.now());
  }

  // Reads. They write only pending changes of event groups, and wait only for R2. `health` sets the alarm too.

  ruleVersions() {
    return seenVersions(this.state);
  }

  health(): StoreHealth {
    this.#findUnknownWork();
    this.#alarmForNext();
    return this.#figures(Date.now());
  }

  #figures(nowMs: number): StoreHealth {
    const { sql, signals } = this.state;
    return {
      totals: this.totals(),
      deadLetterMs: latestDeadLetterMs(sql),
      failingChores: failingChores(this.ctx.storage.kv),
      alarms: this.#alarm.counted.read(nowMs),
      // Freed database pages do not count, so deletions make room at once.
      bytes: sql.databaseSize,
      maxBytes: storeMaxBytes(this.env),
      duplicatesCoveredMs: Math.min(DUPLICATE_WINDOW_WITH_ID_MS, nowMs - signals.remembersSinceMs),
    };
  }

  /** Repairs the known times after a bug. */
  #findUnknownWork(): void {
    const chores = this.unknownWork();
    if (chores.length === 0) return;
    logEvent("work_unknown", { workspace: this.#workspaceId, chores: chores.join(", ") });
    this.due.forget();
  }

  #isFull(): boolean {
    return this.ctx.storage.sql.databaseSize >= storeMaxBytes(this.env);
  }

  #isHalfFull(): boolean {
    return this.ctx.storage.sql.databaseSize > storeMaxBytes(this.env) / 2;
  }

  totals(periodStartMs?: number) {
    return readTotals(this.state.head.totals, periodStartMs);
  }

  events(listQuery: ListQuery) {
    return listEventGroups(this.#showWithGroups(), listQuery);
  }

  signals(filter: FindFilter, listQuery: ListQuery) {
    return findSignals(this.#show(), filter, listQuery);
  }

  latest(cursor: string | null, limit: number) {
    return latestSignals(this.#show(), cursor, limit);
  }

  signal(id: string) {
    return traceSignal(() => this.#show(), id);
  }

  samples(keyId: string, limit: number) {
    return sampleSignals(() => this.#show(), keyId, limit);
  }

  sample(signalId: string) {
    return sampleSignal(() => this.#show(), signalId);
  }

  queuePage(filter: QueueFilter, listQuery: ListQuery) {
    this.#writeGroups();
    const { sources } = recentNames(this.state.sql);
    const groups = queuePage(this.state.sql, filter, listQuery);
    return { groups, sources, totals: this.totals(), isFull: this.#isFull() };
  }

  keyUsage(periodStartMs: number): KeyUsage {
    return readKeyUsage(this.state, periodStartMs, dayOf(Date.now()));
  }

  /** @param sinceDay first day on which the people were seen, in days since 1970. */
  overview(sinceDay: number, people: number) {
    const top = findPeople(this.#show(), { sort: "score", minScore: 1, sinceDay }, { cursor: null, limit: people });
    const [anybody] = this.state.sql.exec("SELECT 1 FROM people LIMIT 1");
    return { totals: this.totals(), isFull: this.#isFull(), hasPeople: anybody !== undefined, top };
  }

  /** Returns up to `limit` + 1 of each kind, to show that more exist. */
  search(text: string, limit: number) {
    const state = this.#showWithGroups();
    const listQuery = { cursor: null, limit: limit + 1 };
    return {
      people: findPeople(state, { sort: "last_seen", text }, listQuery).items,
      events: queuePage(state.sql, { search: text }, listQuery).items,
      accounts: findAccounts(state, { sort: "score", text }, listQuery).items,
    };
  }

  queueGroup(event: string, source: string, status: SignalStatus | undefined, listQuery: ListQuery) {
    const state = this.#showWithGroups();
    const { sql } = state;
    // Signals whose source names a person are in the group without a source.
    const group = findGroup(sql, event, source) ?? findGroup(sql, event, "");
    const filter = { event, source: group?.source ?? "", ...(status === undefined ? {} : { status }) };
    return group && { group, signals: findSignals(state, filter, listQuery) };
  }

  suggestForRule(pattern: string) {
    return suggestForRule(this.#showWithGroups(), pattern);
  }

  recentNames() {
    this.#writeGroups();
    return recentNames(this.state.sql);
  }

  people(filter: ListedPeople, listQuery: ListQuery) {
    return readPeople(this.#show(), filter, listQuery);
  }

  findPeople(query: PeopleQuery, listQuery: ListQuery) {
    return findPeople(this.#show(), query, listQuery);
  }

  personPage(email: string, timeline: PersonTimeline, listQuery: ListQuery) {
    return readPersonPage(this.#show(), email, timeline, listQuery);
  }

  deletion(email: string) {
    return findDeletion(this.state.sql, email);
  }

  deletionById(id: string) {
    return findDeletionById(this.state.sql, id);
  }

  accounts(filter: AccountFilter, listQuery: ListQuery) {
    return listAccounts(this.state, filter, listQuery);
  }

  findAccounts(query: AccountsQuery, listQuery: ListQuery) {
    return findAccounts(this.state, query, listQuery);
  }

  accountPage(externalId: string, listQuery: ListQuery) {
    return readAccountPage(this.#show(), externalId, listQuery);
  }

  deadLetters(listQuery: ListQuery) {
    return this.#show().deadLetters.list(listQuery);
  }

  async exportPart(range: ExportRange) {
    const { exportPart } = await import("./queries/exports.ts");
    return exportPart(() => this.#show(), range);
  }

  scoredPeople(ids: readonly number[]) {
    return scoredPeople(this.#show(), ids);
  }

  previewPart(rule: MappingRule, range: PreviewRange) {
    return previewPart(this.#show(), rule, range);
  }

  previewExclusionsPart(exclusions: readonly Exclusion[], range: PreviewRange) {
    return previewExclusionsPart(this.#show(), exclusions, range);
  }

  ruleJob(ruleId: string) {
    return findRuleJob(this.state.sql, ruleId);
  }

  exclusionsJob() {
    return findRuleJob(this.state.sql, ALL_RULES);
  }

  ruleResults(ruleIds: string[]) {
    return ruleResults(this.state, ruleIds);
  }
}

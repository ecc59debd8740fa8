/**
 * SignalStore: one Durable Object per workspace, with the workspace's own database: the log of signals, people, scores. The
 * consumer records into it, admins delete people and apply rules; the rest reads (queries/store-reads.ts).
 *
 * Why this is correct on the platform: each writing method is one transaction with no `await` in it, so that methods
 * cannot interleave; what fails is taken back by a savepoint, or, where `record` does without one, by ending the object
 * before anything is committed; and no answer leaves before the writes are durable, so what the consumer settles has
 * been stored. Memory is a copy of what is stored, and read again where a transaction was taken back.
 */
import type { WantedEvents } from "../domain/events/workspace-event.ts";
import { storeMaxBytes } from "../env.ts";
import { HandOn } from "../notifications/hand-on.ts";
import { CALL_TIMEOUT_MS, SAFETY_ALARM_MS } from "../limits.ts";
import { Alarm } from "../platform/alarm.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { ChoreRunner } from "./chore-runner.ts";
import { choresOf } from "./chores.ts";
import {
  beginDeletion,
  findDeletion,
  handedOver,
  repeatDeletions,
  waitsForDestinations,
} from "./deletion/person-deletions.ts";
import { setRetention } from "./deletion/retention.ts";
import { compareWithR2, removeUnknown } from "./log/cold.ts";
import { wantEvents } from "./events/wanted.ts";
import { hasFreshLinkJob, hurryLinkJobs } from "./people/link-jobs.ts";
import { stepLinkJobs } from "./people/linking.ts";
import type { BeforeStoreRestore, DeletionReceipt, RestoredStore, StoreConfig } from "./protocol/data-care.ts";
import type { ReturnProgress, ReturnScope } from "./protocol/returns.ts";
import type { RuleJob, RuleToApply } from "./protocol/rules-on-history.ts";
import type { RecordOptions, RecordResult, RowToRecord, SignalToRecord } from "./protocol/signals-to-record.ts";
import { StoreReads } from "./queries/store-reads.ts";
import { recordSignals } from "./record/record-signals.ts";
import { beginReturn, nextReturnMs, returnProgress, stepReturns } from "./returns/return-jobs.ts";
import { findRuleJob, startRuleJob } from "./rules/rule-jobs.ts";
import { recordedByPeriod } from "./state/books.ts";
import { isStale } from "./state/applied-rules.ts";
import { forgetRowsBelow, hasRoomFor, hasRow, loseRows, takeFreshRows } from "./state/recorded-rows.ts";

/** Steps of linking before the consumer, or the alarm, lets others have their turn: 5,000 signals. */
const LINK_TURN_STEPS = 10;
/** How long the answer to a deletion waits for Destinations. The store goes on by itself. */
const HAND_OVER_WAIT_MS = 2_000;
/** How long signals are sent again before the alarm goes on with it: the caller waits for it. */
const RETURN_TURN_MS = 5_000;
/** A store that is full notes it this often: each time is a row. */
const FULL_NOTED_MS = 3_600_000;

export class SignalStore extends StoreReads {
  /** One alarm for all chores. */
  readonly #alarm = new Alarm(this.ctx);
  #handingOn: HandOn | null = null;
  /** The turn at linking that is under way, and those that wait for it. */
  #linking: Promise<void> = Promise.resolve();
  /** The turn at sending signals again that is under way. */
  #returning: Promise<void> | null = null;
  readonly #chores = new ChoreRunner(
    this.workspaceId,
    this.failing,
    choresOf({
      storage: this.ctx.storage,
      state: () => this.state,
      coldObjects: () => this.coldObjects(),
      maxBytes: () => storeMaxBytes(this.env),
      isFull: () => this.isFull(),
      transact: (act) => this.transact(act),
      link: () => this.link(),
      returnsDueMs: () => (this.#returning === null ? nextReturnMs(this.state.sql) : Date.now() + SAFETY_ALARM_MS),
      sendReturns: () => this.#sendReturns(),
      handOn: () => this.#handOn,
      currentRetention: () => this.#currentRetention(),
    }),
  );

  /**
   * Records the signals of outbox rows; rows that were recorded before change nothing. If a signal cannot be recorded, none
   * is, and the object starts anew.
   *
   * @throws when a newer rule has been applied to what is stored, since these signals would never be run through it; and when too
   *   many gaps between recorded rows are remembered already.
   */
  record(
    rows: RowToRecord[],
    { rulesVersion, low = 0, carefully = false, retentionDays }: RecordOptions = {},
  ): RecordResult {
    if (isStale(this.state.sql, rulesVersion ?? Number.MAX_SAFE_INTEGER)) {
      throw new Error("newer mapping rules have been applied meanwhile");
    }
    const nowMs = Date.now();
    if (retentionDays !== undefined) setRetention(this.state.sql, { retentionDays }, nowMs);
    if (this.isFull()) {
      this.#noteFull(nowMs);
      return { outcome: "full" };
    }
    forgetRowsBelow(this.state.books, low);
    // The messages come again, later and later; the rows between those that are recorded come before them.
    if (!hasRoomFor(this.state.books, rows)) throw new Error("too many rows wait between those that are recorded");
    const fresh = takeFreshRows(this.state.books, rows);
    const signals = fresh.flatMap((row) => row.signals);
    if (fresh.length > 0) {
      try {
        const record = (): void => recordSignals(this.state, signals, nowMs, rulesVersion);
        if (carefully) this.transact(record);
        else record();
      } catch (error) {
        logEvent("record_failed", { workspace: this.workspaceId, signals: signals.length, error: errorText(error) });
        // The object ends here, so that nothing of this is committed. An exception alone would undo nothing.
        if (!carefully) this.ctx.abort(`Signals could not be recorded: ${errorText(error)}`);
        for (const row of fresh) this.#recordAlone(row, nowMs);
      }
    }
    this.#alarmForNext();
    return { outcome: "recorded", linksWait: hasFreshLinkJob(this.state.sql, nowMs) };
  }

  /**
   * Gives earlier signals of visitors that are known now to their persons: a bounded number, the alarm sees to the rest
   * (people/linking.ts). One turn after the other, so that nothing is fetched twice. Never throws.
   */
  link(): Promise<void> {
    this.#linking = this.#linking.then(() => this.#linkTurn());
    return this.#linking;
  }

  /**
   * Sets the plan's terms, with effect from the next alarm, also where no signals come any more. Repeating it changes
   * nothing. Retention asks D1 once more before it drops anything.
   */
  configure(config: StoreConfig): void {
    setRetention(this.state.sql, config, Date.now());
    this.#alarmForNext();
  }

  /**
   * Deletes a person with everything that is linked to them, see deletion/person-deletions.ts. What the call does not get done the
   * alarm does. Repeating it is harmless: the same deletion while it is under way, else another one, for what has come since.
   *
   * @param id of the receipt, if it is a new one.
   * @param email trimmed and lower-cased.
   */
  async deletePerson(id: string, email: string): Promise<DeletionReceipt> {
    this.transact(() => beginDeletion(this.state, id, email, Date.now()));
    this.#alarmForNext();
    if (waitsForDestinations(this.state.sql, email)) {
      await within(HAND_OVER_WAIT_MS, this.#handOn.run()).catch(() => undefined);
    }
    const receipt = findDeletion(this.state.sql, email);
    if (receipt === null) throw new Error("a deletion that was just begun is gone");
    return receipt;
  }

  /**
   * Sends held signals or dead letters through the queue once more, see returns/return-jobs.ts. Returns what has been done
   * within a few seconds; the alarm goes on with what is left.
   *
   * @param auditId entry of the audit log to which the numbers are added.
   */
  async sendAgain(auditId: string, scope: ReturnScope): Promise<ReturnProgress> {
    const id = this.transact(() => beginReturn(this.state, auditId, scope, Date.now()));
    const turn = this.#sendReturns();
    this.#alarmForNext();
    await within(RETURN_TURN_MS, turn).catch(() => undefined);
    return returnProgress(this.state.sql, id);
  }

  /** Begins to apply a rule to what is stored, see rules/rule-jobs.ts. The alarm does the work. */
  applyRule(rule: RuleToApply): RuleJob {
    this.transact(() => {
      startRuleJob(this.state, rule, Date.now());
      this.state.signals.flush();
    });
    this.#alarmForNext();
    const job = findRuleJob(this.state.sql, rule.ruleId);
    if (job === null) throw new Error("a job that was just started is gone");
    return job;
  }

  /** Sets what is to be raised, from the next transaction on. Repeating it changes nothing. */
  wantEvents(wanted: WantedEvents): void {
    this.transact(() => {
      wantEvents(this.state, wanted);
      this.state.signals.flush();
    });
  }

  /**
   * Finishes a restore of the workspace in its store: ignores the outbox rows that are lost, begins forgotten deletions again,
   * and compares with R2. Repeating it changes nothing more.
   *
   * @throws when R2 does not answer.
   */
  async afterRestore({ highestRow, unsettled, deletions }: BeforeStoreRestore): Promise<RestoredStore> {
    const { state } = this;
    // All rows that were not settled at the moment restored to come before those that are lost.
    const firstLost = Math.max(0, ...unsettled) + 1;
    const nowMs = Date.now();
    this.transact(() => {
      loseRows(state.books, firstLost, highestRow);
      repeatDeletions(state, deletions, nowMs);
      state.signals.flush();
    });
    await compareWithR2({ storage: this.ctx.storage, log: state.signals, objects: this.coldObjects() }, nowMs);
    // Objects that the store does not know may hold payloads of people who are deleted again.
    if (deletions.length > 0) this.removeUnknownObjects();
    this.#alarmForNext();
    return {
      recorded: unsettled.filter((row) => hasRow(state.books, row)),
      signals: recordedByPeriod(state.books.totals),
      ruleVersions: this.ruleVersions(),
    };
  }

  /** Has objects removed from R2 that the store does not know since a restore: then the restore cannot be undone in full. */
  removeUnknownObjects(): void {
    removeUnknown(this.state.sql, Date.now());
    this.#alarmForNext();
  }

  override async alarm(): Promise<void> {
    this.#alarm.rang();
    await this.#chores.run();
    this.#alarmForNext();
  }

  /**
   * Notes that the store is full, and sets the alarm, for chores that make room are due; so they are where the limit has
   * changed.
   */
  #noteFull(nowMs: number): void {
    const { books, signals } = this.state;
    if (nowMs - books.fullAtMs >= FULL_NOTED_MS) {
      books.fullAtMs = nowMs;
      signals.flush();
    }
    this.#alarmForNext();
  }

  get #handOn(): HandOn {
    return (this.#handingOn ??= new HandOn(this.state.raised, {
      workspaceId: this.workspaceId,
      raise: (events) => this.env.DESTINATIONS.getByName(this.workspaceId).raise(events),
      deletions: {
        handOver: ({ email, atMs }) => this.env.DESTINATIONS.getByName(this.workspaceId).deletePerson(email, atMs),
        handedOver: ({ receiptId }) => handedOver(this.state, receiptId, Date.now()),
      },
      alarmBy: (atMs) => this.#alarm.by(atMs),
    }));
  }

  /** The plan's retention as D1 has it now; what D1 does not have is kept for ever. @throws when D1 does not answer. */
  async #currentRetention(): Promise<StoreConfig> {
    const { controlDatabase } = await import("../control/database.ts");
    const { recordingTerms } = await import("../control/workspaces.ts");
    const db = controlDatabase(this.env.DB.withSession("first-primary"));
    const terms = await within(CALL_TIMEOUT_MS, recordingTerms(db, [this.workspaceId]));
    return { retentionDays: terms.get(this.workspaceId)?.retentionDays ?? null };
  }

  async #linkTurn(): Promise<void> {
    const { state } = this;
    const rules = async () => {
      const { rulesOf } = await import("../control/rules-cache.ts");
      return within(CALL_TIMEOUT_MS, rulesOf(this.env.DB, this.workspaceId));
    };
    const work = { state, storage: this.ctx.storage, objects: this.coldObjects(), rules };
    try {
      let waits = true;
      // oxlint-disable-next-line no-await-in-loop -- each step is what the one before it left
      for (let steps = 0; steps < LINK_TURN_STEPS && waits; steps++) waits = await stepLinkJobs(work);
      if (waits) hurryLinkJobs(state.sql, Date.now());
    } catch (error) {
      logEvent("link_failed", { workspace: this.workspaceId, error: errorText(error) });
      this.#chores.failed("link", error);
    }
    this.#alarmForNext();
  }

  /** Sends signals again until nothing is due or the turn is over. Never throws. */
  #sendReturns(): Promise<void> {
    this.#returning ??= this.#returnTurn().finally(() => {
      this.#returning = null;
      this.#alarmForNext();
    });
    return this.#returning;
  }

  async #returnTurn(): Promise<void> {
    const { state, env, workspaceId } = this;
    try {
      await stepReturns({ state, env, workspaceId }, Date.now() + RETURN_TURN_MS);
    } catch (error) {
      logEvent("send_again_failed", { workspace: workspaceId, error: errorText(error) });
      this.#chores.failed("send_again", error);
    }
  }

  /** Records a row on its own: each of its signals is recorded, or becomes a dead letter. */
  #recordAlone(row: RowToRecord, nowMs: number): void {
    this.transact(() => {
      takeFreshRows(this.state.books, [row]);
      for (const signal of row.signals) {
        try {
          this.transact(() => recordSignals(this.state, [signal], nowMs));
        } catch (error) {
          const work = { kind: "dead" as const, reason: `Could not be recorded: ${errorText(error)}` };
          takeFreshRows(this.state.books, [row]);
          recordSignals(this.state, [{ ...signal, work } satisfies SignalToRecord], nowMs);
        }
      }
    });
  }

  /** Has the alarm ring when the next chore is due, whatever else fails: without it, all of them would stand. */
  #alarmForNext(): void {
    try {
      this.#handOn.start();
    } finally {
      this.#alarm.by(this.#chores.nextMs(Date.now()));
    }
  }
}

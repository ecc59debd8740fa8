/**
 * The Durable Object of a workspace with its log of signals, people and scores.
 *
 * Why this is safe: each writing method is one transaction without `await`, so methods cannot interleave. A savepoint rolls back a
 * failure; `record` without savepoint aborts the object before anything is committed. No answer leaves before its writes are durable, so
 * the consumer settles only stored signals. Memory is a copy of the tables, and is read again after a rollback.
 */
import type { WantedEvents } from "../domain/events/workspace-event.ts";
import type { MappingRule } from "../domain/rules/mapping-rule.ts";
import type { SignalStatus } from "../domain/signal/signal.ts";
import { storeMaxBytes } from "../env.ts";
import { CALL_TIMEOUT_MS } from "../limits.ts";
import { HandOn } from "../notifications/raised-events.ts";
import type { Page } from "../platform/list-page.ts";
import { errorText, logEvent } from "../platform/log.ts";
import { Alarm } from "../platform/alarm.ts";
import { WorkspaceObject } from "../platform/in-jurisdiction.ts";
import { within } from "../platform/time-limit.ts";
import { findAccounts, listAccounts, readAccountPage } from "./queries/account-page.ts";
import { ChoreRunner, failingChores } from "./chores.ts";
import {
  beginDeletion,
  findDeletion,
  findDeletionById,
  noteHandedOver,
  nextDeletionMs,
  stepDeletions,
  waitsForDestinations,
} from "./deletion/person-deletions.ts";
import { deleteExpired, nextRetentionMs, purgeHeld, setRetention } from "./deletion/retention.ts";
import { coldAfterMs, ColdObjects, type ColdWork, compareWithR2, nextColdWorkMs, workOnCold } from "./log/cold.ts";
import { nextLapseMs, stepLapses } from "./people/lapse-run.ts";
import { hasRunnableLinkJob, hurryLinkJobs, nextLinkJobMs, stepLinkJobs } from "./people/linking.ts";
import { hasRecounts, hasReplacements, stepRecounts, stepReplacements } from "./people/people.ts";
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
  PreviewRange,
  RuleJob,
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
import { findSignals, latestSignals, traceSignal } from "./queries/newest-signals.ts";
import { findPeople, readPeople } from "./queries/people-search.ts";
import { readPersonPage } from "./queries/person-page.ts";
import { recordSignals } from "./record-signals.ts";
import {
  beginResend,
  nextResendMs,
  resendProgress,
  type ResendProgress,
  type ResendScope,
  stepResends,
} from "./resend-jobs.ts";
import {
  previewPage,
  appliedVersions,
  findRuleJob,
  hasRuleJobs,
  nextRuleJobMs,
  ruleFacts,
  startRuleJob,
  stepRuleJob,
} from "./rules/rule-jobs.ts";
import { latestDeadLetterMs, listDeadLetters, nextDeadLetterNewsMs, raiseDeadLetters } from "./state/dead-letters.ts";
import { wantEvents } from "./state/raise-events.ts";
import { forgetRowsBelow, hasRoomFor, takeFreshRows, StoreState, transact } from "./state/store-state.ts";
import { isStale } from "./state/rule-outcomes.ts";
import { readTotals, updateGroups } from "./state/status-change.ts";

/** Steps of linking in one turn: 5,000 signals. */
const LINK_TURN_STEPS = 10;
/** A deletion waits this long for Destinations before it answers. The work continues afterwards. */
const HAND_OVER_WAIT_MS = 2_000;
/** A release or replay runs this long while the caller waits. Then the alarm continues the work. */
const RESEND_TURN_MS = 5_000;
/** A full store notes this once per interval, because each note writes a row. */
const FULL_NOTED_MS = 3_600_000;

export class SignalStore extends WorkspaceObject {
  readonly #workspaceId = this.ctx.id.name ?? "";
  #loadedState: StoreState | null = null;
  readonly #alarm = new Alarm(this.ctx);
  #handingOn: HandOn | null = null;
  /** The work of the alarm, in this order, since chores share lines. */
  readonly #chores = new ChoreRunner(this.#workspaceId, this.ctx.storage.kv, [
    {
      name: "purge",
      due: () => this.state.held.nextPeriodEnd()?.endMs ?? null,
      step: (nowMs) => this.#transact(() => purgeHeld(this.state, nowMs)),
    },
    {
      name: "apply_rules",
      // A rule job adds entries to timelines, so it waits while the store is full.
      due: () => (this.#isFull() ? null : nextRuleJobMs(this.state.sql)),
      step: async () => void (await stepRuleJob(this.state, this.coldObjects(), this.ctx.storage)),
    },
    {
      name: "deletion",
      due: (nowMs) => nextDeletionMs(this.state, nowMs),
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
      name: "recount",
      due: (nowMs) => (hasRecounts(this.state.sql) ? nowMs : null),
      step: (nowMs) => this.#transact(() => stepRecounts(this.state, nowMs)),
    },
    {
      name: "replace",
      // Rule jobs come first: they remove and add scores that a replacement would count.
      due: (nowMs) => (hasReplacements(this.state.sql) && !hasRuleJobs(this.state.sql) ? nowMs : null),
      step: (nowMs) => this.#transact(() => stepReplacements(this.state, nowMs)),
    },
    {
      name: "lapse",
      due: () => nextLapseMs(this.state.sql),
      step: (nowMs) => this.#transact(() => stepLapses(this.state, nowMs)),
    },
    {
      name: "cold",
      due: (nowMs) => nextColdWorkMs(this.state.sql, nowMs, this.#coldAfterMs()),
      step: (nowMs) => workOnCold(this.#coldWork(), nowMs, this.#coldAfterMs()),
    },
    {
      name: "tell_dead_letters",
      due: () => nextDeadLetterNewsMs(this.state),
      step: (nowMs) => this.#transact(() => raiseDeadLetters(this.state, nowMs)),
    },
    {
      name: "send_again",
      failureEvent: "send_again_failed",
      due: () => nextResendMs(this.state.sql),
      step: (nowMs) => stepResends(this.state, this.env, this.#workspaceId, nowMs + RESEND_TURN_MS),
    },
    { name: "hand_on", due: () => this.#handOn.dueMs, step: () => this.#handOn.run() },
  ]);

  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, bindings);
    void ctx.blockConcurrencyWhile(async () => {
      const { drizzle } = await import("drizzle-orm/durable-sqlite");
      const { migrate } = await import("drizzle-orm/durable-sqlite/migrator");
      const { default: migrations } = await import("../../migrations/signal-store/migrations.js");
      await migrate(drizzle(ctx.storage), migrations);
    });
  }

  protected get state(): StoreState {
    return (this.#loadedState ??= new StoreState(this.ctx.storage.sql));
  }

  /** The state with the pending changes of event groups written to their rows. */
  get #stateWithGroups(): StoreState {
    const { state } = this;
    if (Object.keys(state.books.groups).length > 0) {
      this.#transact(() => {
        updateGroups(state);
        state.signals.flush();
      });
    }
    return state;
  }

  #transact<T>(act: () => T): T {
    return transact(this.ctx.storage, this.state, act);
  }

  protected coldObjects(): ColdObjects {
    return new ColdObjects(this.env.COLD, this.#workspaceId);
  }

  /**
   * Idempotent: rows that were recorded before change nothing. If a signal cannot be recorded, none is, and the object restarts.
   *
   * @throws when a newer rule has been applied to stored signals, since it would never evaluate these signals; and when there are too
   *   many gaps between recorded rows.
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
    if (this.#isFull()) {
      this.#noteFull(nowMs);
      return { outcome: "full" };
    }
    forgetRowsBelow(this.state.books, low);
    // The queue retries these messages with growing delays. Rows that fill the gaps arrive before them.
    if (!hasRoomFor(this.state.books, rows)) throw new Error("too many rows wait between those that are recorded");
    const fresh = takeFreshRows(this.state.books, rows);
    const signals = fresh.flatMap((row) => row.signals);
    if (fresh.length > 0) {
      try {
        const record = (): void => recordSignals(this.state, signals, nowMs, rulesVersion);
        if (carefully) this.#transact(record);
        else record();
      } catch (error) {
        logEvent("record_failed", { workspace: this.#workspaceId, signals: signals.length, error: errorText(error) });
        // Abort the object, so that nothing is committed. An exception alone would not roll back.
        if (!carefully) this.ctx.abort(`Signals could not be recorded: ${errorText(error)}`);
        for (const row of fresh) this.#recordAlone(row, nowMs);
      }
    }
    this.#alarmForNext();
    return { outcome: "recorded", linksWait: hasRunnableLinkJob(this.state.sql, nowMs) };
  }

  /** Links a bounded number of earlier signals of visitors. The alarm links the rest. Never throws. */
  link(): Promise<void> {
    return this.#runNow("link");
  }

  /** Sets the plan's terms from the next alarm on. Idempotent. Retention reads D1 again before it drops anything. */
  configure(config: StoreConfig): void {
    setRetention(this.state.sql, config, Date.now());
    this.#alarmForNext();
  }

  /**
   * Joins a running deletion of the same person, or begins a new one. The alarm continues the work.
   *
   * @param id of the receipt of a new deletion. @param email trimmed and lower-cased.
   */
  async deletePerson(id: string, email: string): Promise<DeletionReceipt> {
    this.#transact(() => beginDeletion(this.state, id, email, Date.now()));
    this.#alarmForNext();
    if (waitsForDestinations(this.state.sql, email)) {
      await within(HAND_OVER_WAIT_MS, this.#handOn.run()).catch(() => undefined);
    }
    const receipt = findDeletion(this.state.sql, email);
    if (receipt === null) throw new Error("a deletion that was just begun is gone");
    return receipt;
  }

  /** Answers after RESEND_TURN_MS at the latest. The alarm continues the work. @param auditId audit entry that gets the numbers. */
  async sendAgain(auditId: string, scope: ResendScope): Promise<ResendProgress> {
    const id = this.#transact(() => beginResend(this.state, auditId, scope, Date.now()));
    const turn = this.#runNow("send_again");
    this.#alarmForNext();
    await within(RESEND_TURN_MS, turn).catch(() => undefined);
    return resendProgress(this.state.sql, id);
  }

  applyRule(rule: RuleToApply): RuleJob {
    const state = this.#stateWithGroups;
    this.#transact(() => {
      startRuleJob(state, rule, Date.now());
      state.signals.flush();
    });
    this.#alarmForNext();
    const job = findRuleJob(state.sql, rule.ruleId);
    if (job === null) throw new Error("a job that was just started is gone");
    return job;
  }

  wantEvents(wanted: WantedEvents): void {
    this.#transact(() => {
      wantEvents(this.state, wanted);
      this.state.signals.flush();
    });
  }

  /**
   * Marks payloads that are missing in R2, so that exports and deletions do not wait for them for ever. @returns their
   * signals. @throws when R2 does not answer.
   */
  async markLostPayloads(): Promise<number> {
    const signals = await compareWithR2(this.#coldWork(), Date.now());
    this.#alarmForNext();
    return signals;
  }

  override async alarm(): Promise<void> {
    this.#alarm.reset();
    await this.#chores.run();
    this.#alarmForNext();
  }

  /** Sets the alarm too: chores that make room are due, also after a change of the limit. */
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
      workspaceId: this.#workspaceId,
      destinations: this.env.DESTINATIONS,
      handedOver: ({ receiptId }) => noteHandedOver(this.state, receiptId, Date.now()),
      alarmBy: (atMs) => this.#alarm.by(atMs),
    }));
  }

  /** Without new signals the store does not learn of a changed plan, so it asks D1. Without an answer nothing is dropped. */
  async #deleteExpired(nowMs: number): Promise<void> {
    const { controlDatabase } = await import("../control/database.ts");
    const { recordingTerms } = await import("../control/workspaces.ts");
    const db = controlDatabase(this.env.DB.withSession("first-primary"));
    const terms = await within(CALL_TIMEOUT_MS, recordingTerms(db, [this.#workspaceId]));
    // If D1 does not have the workspace, signals are kept for ever.
    const retentionDays = terms.get(this.#workspaceId)?.retentionDays ?? null;
    this.#transact(() => {
      setRetention(this.state.sql, { retentionDays }, nowMs);
      deleteExpired(this.state, nowMs);
    });
  }

  #coldWork(): ColdWork {
    return { storage: this.ctx.storage, log: this.state.signals, objects: this.coldObjects() };
  }

  #coldAfterMs(): number {
    return coldAfterMs(this.state.sql, storeMaxBytes(this.env));
  }

  async #stepLinkJobs(): Promise<void> {
    const { state } = this;
    const rules = async () => {
      const { rulesOf } = await import("../control/stored-rules.ts");
      return within(CALL_TIMEOUT_MS, rulesOf(this.env.DB, this.#workspaceId));
    };
    const work = { state, storage: this.ctx.storage, objects: this.coldObjects(), rules };
    let waits = true;
    // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
    for (let steps = 0; steps < LINK_TURN_STEPS && waits; steps++) waits = await stepLinkJobs(work);
    if (waits) hurryLinkJobs(state.sql, Date.now());
  }

  async #runNow(chore: string): Promise<void> {
    await this.#chores.runNow(chore);
    this.#alarmForNext();
  }

  /** A signal that cannot be recorded becomes a dead letter. */
  #recordAlone(row: RowToRecord, nowMs: number): void {
    this.#transact(() => {
      takeFreshRows(this.state.books, [row]);
      for (const signal of row.signals) {
        try {
          this.#transact(() => recordSignals(this.state, [signal], nowMs));
        } catch (error) {
          const work = { kind: "dead" as const, reason: `Could not be recorded: ${errorText(error)}` };
          takeFreshRows(this.state.books, [row]);
          recordSignals(this.state, [{ ...signal, work } satisfies SignalToRecord], nowMs);
        }
      }
    });
  }

  /** Sets the alarm for the next chore, even if the hand-over fails: without an alarm all chores would stop. */
  #alarmForNext(): void {
    try {
      this.#handOn.start();
    } finally {
      this.#alarm.by(this.#chores.nextDueMs(Date.now()));
    }
  }

  // Reads. They write only pending changes of event groups, and wait only for R2.

  ruleVersions() {
    return appliedVersions(this.state.sql);
  }

  health(): StoreHealth {
    const { sql, originals, books } = this.state;
    return {
      totals: readTotals(books.totals, undefined),
      deadLetterMs: latestDeadLetterMs(sql),
      failingJobs: failingChores(this.ctx.storage.kv),
      // Freed database pages do not count, so deletions make room at once.
      bytes: sql.databaseSize,
      maxBytes: storeMaxBytes(this.env),
      duplicatesCoveredMs: originals.coveredMs(Date.now()),
    };
  }

  #isFull(): boolean {
    return this.state.sql.databaseSize >= storeMaxBytes(this.env);
  }

  totals(periodStartMs?: number) {
    return readTotals(this.state.books.totals, periodStartMs);
  }

  events(page: Page) {
    return listEventGroups(this.#stateWithGroups, this.coldObjects(), page);
  }

  signals(filter: FindFilter, page: Page) {
    return findSignals(this.state, filter, page);
  }

  latest(cursor: string | null, limit: number) {
    return latestSignals(this.state, cursor, limit);
  }

  signal(id: string) {
    return traceSignal(this.state, this.coldObjects(), id);
  }

  queuePage(filter: QueueFilter, page: Page) {
    const { sources } = recentNames(this.#stateWithGroups.sql);
    const groups = queuePage(this.state.sql, filter, page);
    return { groups, sources, totals: this.totals(), isFull: this.#isFull() };
  }

  /** @param sinceDay first day on which the people were seen, in days since 1970. */
  overview(sinceDay: number, people: number) {
    const top = findPeople(this.state, { sort: "score", minScore: 1, sinceDay }, { cursor: null, limit: people });
    const [anybody] = this.state.sql.exec("SELECT 1 FROM people LIMIT 1");
    return { totals: this.totals(), isFull: this.#isFull(), hasPeople: anybody !== undefined, top };
  }

  /** Returns up to `limit` + 1 of each kind, to show that more exist. */
  search(text: string, limit: number) {
    const page = { cursor: null, limit: limit + 1 };
    return {
      people: findPeople(this.state, { sort: "last_seen", text }, page).items,
      events: queuePage(this.#stateWithGroups.sql, { search: text }, page).items,
      accounts: findAccounts(this.state.sql, { prefix: text }, page).items,
    };
  }

  queueGroup(event: string, source: string, status: SignalStatus | undefined, page: Page) {
    const { sql } = this.#stateWithGroups;
    // Signals whose source names a person are in the group without a source.
    const group = findGroup(sql, event, source) ?? findGroup(sql, event, "");
    const filter = { event, source: group?.source ?? "", ...(status === undefined ? {} : { status }) };
    return group && { group, signals: findSignals(this.state, filter, page) };
  }

  suggestForRule(pattern: string) {
    return suggestForRule(this.#stateWithGroups, this.coldObjects(), pattern);
  }

  recentNames() {
    return recentNames(this.#stateWithGroups.sql);
  }

  people(filter: ListedPeople, page: Page) {
    return readPeople(this.state, filter, page);
  }

  findPeople(query: PeopleQuery, page: Page) {
    return findPeople(this.state, query, page);
  }

  personPage(email: string, timeline: PersonTimeline, page: Page) {
    return readPersonPage(this.state, email, timeline, page);
  }

  deletion(email: string) {
    return findDeletion(this.state.sql, email);
  }

  deletionById(id: string) {
    return findDeletionById(this.state.sql, id);
  }

  accounts(filter: AccountFilter, page: Page) {
    return listAccounts(this.state.sql, filter, page);
  }

  findAccounts(query: AccountsQuery, page: Page) {
    return findAccounts(this.state.sql, query, page);
  }

  accountPage(externalId: string, page: Page) {
    return readAccountPage(this.state, externalId, page);
  }

  deadLetters(page: Page) {
    return listDeadLetters(this.state.sql, page);
  }

  async exportPage(range: ExportRange) {
    const { exportPage } = await import("./queries/exports.ts");
    return exportPage(this.state, this.coldObjects(), range);
  }

  previewPage(rule: MappingRule, range: PreviewRange) {
    return previewPage(this.state, this.coldObjects(), rule, range);
  }

  ruleJob(ruleId: string) {
    return findRuleJob(this.state.sql, ruleId);
  }

  ruleFacts(ruleIds: string[]) {
    return ruleFacts(this.state, ruleIds);
  }
}

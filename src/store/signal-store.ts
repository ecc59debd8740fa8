/**
 * SignalStore: one Durable Object per workspace, with the workspace's own database: signals, people, scores. The
 * consumer records into it; everything else reads.
 *
 * Why this is correct on the platform: each writing method is one transaction with no `await` in it, so that methods
 * cannot interleave; an exception rolls all of it back; and no answer leaves before the writes are durable, so what the
 * consumer settles has been stored.
 */
import { drizzle } from "drizzle-orm/durable-sqlite";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { migrate } from "drizzle-orm/durable-sqlite/migrator";
import migrations from "../../migrations/signal-store/migrations.js";
import { errorText, logEvent } from "../http/log.ts";
import { WatchedObject } from "../http/watchers.ts";
import { rulesOf } from "../control/rules-cache.ts";
import { COLD_RETRY_MS } from "../limits.ts";
import { deadSignals, deadSignalsById, heldSignals } from "./again.ts";
import { listAccounts } from "./account-list.ts";
import { findAccounts, readAccountPage } from "./account-page.ts";
import { ColdObjects, placeKey } from "./cold-objects.ts";
import { nextColdWorkMs } from "./cold-storage.ts";
import { workOnColdStorage } from "./cold-work.ts";
import type { MappingRule } from "../domain/mapping-rule.ts";
import { erasePerson, findErasure, nextErasureMs, stepErasure } from "./erasure.ts";
import { exportPage } from "./export.ts";
import { listEventGroups } from "./event-groups.ts";
import { nextPurgeMs, purgeHeld } from "./held.ts";
import { hasFreshLinkJobs, nextLinkJobMs, linkTurn } from "./link-jobs.ts";
import type { ErasureReceipt, ExportPage, ExportRange, StoreConfig } from "./data-care.ts";
import { latestSignals, recordedSignals } from "./live.ts";
import type {
  Account,
  AccountFilter,
  DeadLetter,
  EventGroup,
  LiveSignal,
  Page,
  PageOf,
  Person,
  SignalStatus,
  SignalToRecord,
  SignalTrace,
  StoreTotals,
  StoredSignal,
} from "./protocol.ts";
import type { PreviewPage, PreviewRange, RuleJob, RuleToApply } from "./rule-protocol.ts";
import type {
  AccountPage,
  AccountsQuery,
  AccountSummary,
  PeopleQuery,
  PersonPage,
  PersonSummary,
  PersonTimeline,
} from "./record-pages.ts";
import { listDeadLetters } from "./dead-letters.ts";
import { parsed } from "./page.ts";
import { listPeople } from "./people-list.ts";
import { findPeople } from "./people-search.ts";
import { readPersonPage } from "./person-page.ts";
import { traceSignal } from "./trace.ts";
import { readTotals } from "./totals.ts";
import { recordBatch } from "./record.ts";
import { deleteExpired, nextRetentionMs, setRetention } from "./retention.ts";
import { findGroup, queuePage, recentNames } from "./queue-page.ts";
import type { QueueFilter, QueueGroup, QueuePage } from "./queue-page.ts";
import { findSignals } from "./signal-list.ts";
import type { FindFilter, FoundSignals } from "./signal-list.ts";
import { ruleFacts } from "./rule-facts.ts";
import type { RuleFacts } from "./rule-facts.ts";
import { findRuleJob, hasRuleJobs, hasScoringSignals, isStale, startRuleJob, stepRuleJob } from "./rule-jobs.ts";
import { previewEvents, previewPage } from "./rule-preview.ts";

/** An alarm's work that has failed is tried again after this long. */
const ALARM_RETRY_MS = 60_000;

export class SignalStore extends WatchedObject<LiveSignal> {
  readonly #sql: SqlStorage;
  readonly #db: DrizzleSqliteDODatabase;
  #alarmAtMs = Number.POSITIVE_INFINITY;
  /** Until then R2, or the control plane's rules, are let alone by the alarm: they have failed. */
  #restUntilMs = 0;
  /** The turn at linking that is under way, and those that wait for it. */
  #linking: Promise<void> = Promise.resolve();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#db = drizzle(ctx.storage);
    void ctx.blockConcurrencyWhile(() => migrate(this.#db, migrations));
  }

  /**
   * Records signals; those that were recorded before change nothing. One that cannot be recorded becomes a dead letter.
   *
   * @param rulesVersion of the rules that the signals were run through, if they were.
   * @returns whether there are earlier signals to be linked, see `link`.
   * @throws when a newer rule has been applied to what is stored: these signals would never be run through it.
   */
  record(batch: SignalToRecord[], rulesVersion?: number): boolean {
    this.#refuseStale(rulesVersion);
    const nowMs = Date.now();
    try {
      this.ctx.storage.transactionSync(() => recordBatch(this.#sql, batch, nowMs));
    } catch (error) {
      logEvent("record_failed", { workspace: this.#workspaceId, signals: batch.length, error: errorText(error) });
      for (const signal of batch) this.#recordAlone(signal, nowMs);
    }
    this.#alarmForNext();
    this.watchers.tell(batch.length, (limit) => {
      const ids = batch.slice(0, limit).map(({ admission }) => admission.id);
      return recordedSignals(this.#sql, ids, nowMs);
    });
    return hasFreshLinkJobs(this.#sql, nowMs);
  }

  /**
   * Gives earlier signals of visitors that are known now to their persons: a bounded number, the alarm sees to the rest
   * (link-jobs.ts). One turn after the other, so that nothing is fetched twice. Never throws.
   */
  link(): Promise<void> {
    this.#linking = this.#linking.then(() => this.#linkTurn());
    return this.#linking;
  }

  /** See again.ts. */
  held(periodEndMs: number, cursor: number, limit: number): StoredSignal[] {
    return heldSignals(this.#sql, periodEndMs, cursor, limit);
  }

  dead(cursor: number, limit: number): StoredSignal[] {
    return deadSignals(this.#sql, cursor, limit);
  }

  deadById(ids: string[]): StoredSignal[] {
    return deadSignalsById(this.#sql, ids);
  }

  /** Takes effect with the next alarm, also where no signals come any more. Repeating it changes nothing. */
  configure(config: StoreConfig): void {
    setRetention(this.#sql, config, Date.now());
    this.#alarmForNext();
  }

  /** Since the beginning, or for one billing period. */
  totals(periodStartMs?: number): StoreTotals {
    return readTotals(this.#db, periodStartMs);
  }

  async events(page: Page): Promise<PageOf<EventGroup>> {
    const { groups, cold } = listEventGroups(this.#db, page);
    const payloads = await this.#coldObjects().read(cold.map(({ place }) => place));
    for (const { group, place } of cold) group.sample.payload = parsed(payloads.get(placeKey(place)) ?? null);
    return groups;
  }

  /** See signal-list.ts. */
  signals(filter: FindFilter, page: Page): FoundSignals {
    return findSignals(this.#sql, filter, page);
  }

  /** See live.ts. */
  latest(limit: number): LiveSignal[] {
    return latestSignals(this.#sql, limit);
  }

  async signal(id: string): Promise<SignalTrace | null> {
    const found = traceSignal(this.#db, id);
    if (found === null || found.place === null) return found?.trace ?? null;
    const payloads = await this.#coldObjects().read([found.place]);
    const payload = payloads.get(placeKey(found.place));
    // Where there is none it may have been linked meanwhile, and be here.
    if (payload === undefined) return traceSignal(this.#db, id)?.trace ?? null;
    return { ...found.trace, payload: parsed(payload) };
  }

  people(filter: { email?: string }, page: Page): PageOf<Person> {
    return listPeople(this.#db, filter, page);
  }

  findPeople(query: PeopleQuery, page: Page): PageOf<PersonSummary> {
    return findPeople(this.#db, query, page);
  }

  /** See person-page.ts. */
  personPage(email: string, timeline: PersonTimeline, page: Page): PersonPage | null {
    return readPersonPage(this.#db, this.#sql, email, timeline, page);
  }

  /**
   * Deletes a person with everything that is linked to them, see erasure.ts. What the call does not get done the alarm
   * does. Repeating it is harmless: the same deletion while it is under way, else another one, for what has come since.
   *
   * @param id of the receipt, if it is a new one.
   * @param email trimmed and lower-cased.
   */
  erase(id: string, email: string): ErasureReceipt {
    this.ctx.storage.transactionSync(() => erasePerson(this.#sql, id, email, Date.now()));
    this.#alarmForNext();
    const receipt = findErasure(this.#sql, email);
    if (receipt === null) throw new Error("a deletion that was just begun is gone");
    return receipt;
  }

  erasure(email: string): ErasureReceipt | null {
    return findErasure(this.#sql, email);
  }

  accounts(filter: AccountFilter, page: Page): PageOf<Account> {
    return listAccounts(this.#db, filter, page);
  }

  /** See account-page.ts. */
  findAccounts(query: AccountsQuery, page: Page): PageOf<AccountSummary> {
    return findAccounts(this.#db, query, page);
  }

  accountPage(externalId: string, page: Page): AccountPage | null {
    return readAccountPage(this.#db, externalId, page);
  }

  deadLetters(page: Page): PageOf<DeadLetter> {
    return listDeadLetters(this.#db, page);
  }

  /** See export.ts. */
  exportPage(range: ExportRange): Promise<ExportPage> {
    return exportPage(this.#sql, this.#coldObjects(), range);
  }

  /** The signal queue's page: the groups, and what it says besides. See queue-page.ts. */
  queuePage(filter: QueueFilter, page: Page): { groups: QueuePage; sources: string[]; totals: StoreTotals } {
    const { sources } = recentNames(this.#sql);
    return { groups: queuePage(this.#sql, filter, page), sources, totals: readTotals(this.#db, undefined) };
  }

  /** One group of it with its signals; null: no such group. */
  queueGroup(
    event: string,
    source: string,
    status: SignalStatus | undefined,
    page: Page,
  ): { group: QueueGroup; signals: FoundSignals } | null {
    const group = findGroup(this.#sql, event, source);
    const filter = { event, source, ...(status === undefined ? {} : { status }) };
    return group && { group, signals: findSignals(this.#sql, filter, page) };
  }

  /** Names of events that came lately. */
  recentEvents(): string[] {
    return recentNames(this.#sql).events;
  }

  /** See rule-facts.ts. */
  ruleFacts(ruleIds: string[]): RuleFacts[] {
    return ruleFacts(this.#sql, ruleIds);
  }

  /** See rule-preview.ts. */
  previewEvents(rule: MappingRule, sinceMs: number): { events: string[]; complete: boolean } {
    return previewEvents(this.#sql, rule, sinceMs);
  }

  previewPage(rule: MappingRule, range: PreviewRange): PreviewPage {
    return previewPage(this.#sql, rule, range);
  }

  /** See rule-jobs.ts. The alarm does the work. */
  applyRule(rule: RuleToApply): RuleJob {
    startRuleJob(this.#sql, rule, Date.now());
    this.#alarmForNext();
    const job = findRuleJob(this.#sql, rule.ruleId);
    if (job === null) throw new Error("a job that was just started is gone");
    return job;
  }

  ruleJob(ruleId: string): RuleJob | null {
    return findRuleJob(this.#sql, ruleId);
  }

  hasScoringSignals(ruleId: string): boolean {
    return hasScoringSignals(this.#sql, ruleId);
  }

  /**
   * Purges held signals, deletes persons' and expired ones, applies rules to what is stored, links, and moves signals to cold storage,
   * a bounded part of each at a time. Never throws: an alarm that throws six times is gone.
   */
  override async alarm(): Promise<void> {
    this.#alarmAtMs = Number.POSITIVE_INFINITY;
    const purged = this.#attempt("purge_failed", purgeHeld);
    const applied = this.#attempt("apply_failed", stepRuleJob);
    const erased = this.#attempt("erasure_failed", stepErasure);
    const expired = this.#attempt("retention_failed", deleteExpired);
    if (Date.now() >= this.#restUntilMs) {
      await this.link();
      this.#restUnless(await workOnColdStorage(this.ctx.storage, this.#coldObjects()));
    }
    if (purged && applied && erased && expired && this.#attempt("alarm_failed", () => this.#alarmForNext())) return;
    // Not at once: what has failed is due already.
    this.#alarmBy(Date.now() + ALARM_RETRY_MS);
  }

  async #linkTurn(): Promise<void> {
    const rules = () => rulesOf(this.env.DB, this.#workspaceId);
    const work = { storage: this.ctx.storage, objects: this.#coldObjects(), rules };
    this.#restUnless(await linkTurn(work, this.#workspaceId));
  }

  #restUnless(well: boolean): void {
    if (!well) this.#restUntilMs = Date.now() + COLD_RETRY_MS;
  }

  #coldObjects(): ColdObjects {
    return new ColdObjects(this.env.COLD, this.#workspaceId);
  }

  get #workspaceId(): string {
    return this.ctx.id.name ?? "";
  }

  /** Whether it worked; as one transaction. */
  #attempt(event: string, work: (sql: SqlStorage, nowMs: number) => void): boolean {
    try {
      this.ctx.storage.transactionSync(() => work(this.#sql, Date.now()));
      return true;
    } catch (error) {
      logEvent(event, { workspace: this.#workspaceId, error: errorText(error) });
      return false;
    }
  }

  #refuseStale(rulesVersion = Number.MAX_SAFE_INTEGER): void {
    if (isStale(this.#sql, rulesVersion)) throw new Error("newer mapping rules have been applied meanwhile");
  }

  #recordAlone(signal: SignalToRecord, nowMs: number): void {
    try {
      this.ctx.storage.transactionSync(() => recordBatch(this.#sql, [signal], nowMs));
    } catch (error) {
      const dead = { ...signal, work: { kind: "dead" as const, reason: `Could not be recorded: ${String(error)}` } };
      this.ctx.storage.transactionSync(() => recordBatch(this.#sql, [dead], nowMs));
    }
  }

  /** One alarm for everything, the earliest wins: also one that was set before a restart, so all is looked at. */
  #alarmForNext(): void {
    const nowMs = Date.now();
    const nextMs = Math.min(
      nextPurgeMs(this.#sql) ?? Number.POSITIVE_INFINITY,
      nextErasureMs(this.#sql, nowMs) ?? Number.POSITIVE_INFINITY,
      nextRetentionMs(this.#sql) ?? Number.POSITIVE_INFINITY,
      hasRuleJobs(this.#sql) ? nowMs : Number.POSITIVE_INFINITY,
      Math.max(nextLinkJobMs(this.#sql) ?? Number.POSITIVE_INFINITY, this.#restUntilMs),
      Math.max(nextColdWorkMs(this.#sql, nowMs) ?? Number.POSITIVE_INFINITY, this.#restUntilMs),
    );
    if (nextMs !== Number.POSITIVE_INFINITY) this.#alarmBy(nextMs);
  }

  #alarmBy(atMs: number): void {
    if (atMs >= this.#alarmAtMs) return;
    this.#alarmAtMs = atMs;
    void this.ctx.storage.setAlarm(atMs);
  }
}

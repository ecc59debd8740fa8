/**
 * What is read of a workspace's Signal Store, with the database that it is read from. Nothing here writes; only payloads
 * in cold storage are waited for.
 */
import { drizzle } from "drizzle-orm/durable-sqlite";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { migrate } from "drizzle-orm/durable-sqlite/migrator";
import migrations from "../../migrations/signal-store/migrations.js";
import type { MappingRule } from "../domain/mapping-rule.ts";
import { WatchedObject } from "../http/watchers.ts";
import { listAccounts } from "./accounts/account-list.ts";
import { findAccounts, readAccountPage } from "./accounts/account-page.ts";
import { deadSignals, deadSignalsById, heldSignals } from "./again.ts";
import { ColdObjects, placeKey } from "./cold-objects.ts";
import type { ErasureReceipt, ExportPage, ExportRange } from "./data-care.ts";
import { listDeadLetters } from "./dead-letters.ts";
import { findErasure } from "./erasure.ts";
import { listEventGroups } from "./event-groups.ts";
import { exportPage } from "./export.ts";
import { latestSignals } from "./live.ts";
import { parsed } from "./queries/list-page.ts";
import { listPeople } from "./people-list.ts";
import { findPeople } from "./people-search.ts";
import { readPersonPage } from "./person-page.ts";
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
  SignalTrace,
  StoreTotals,
  StoredSignal,
} from "./protocol.ts";
import { hasScoringSignals } from "./day-changes.ts";
import { findGroup, queuePage, recentNames } from "./queue-page.ts";
import type { QueueFilter, QueueGroup, QueuePage } from "./queue-page.ts";
import type {
  AccountPage,
  AccountsQuery,
  AccountSummary,
  PeopleQuery,
  PersonPage,
  PersonSummary,
  PersonTimeline,
} from "./record-pages.ts";
import { ruleFacts } from "./rule-facts.ts";
import type { RuleFacts } from "./rule-facts.ts";
import { findRuleJob } from "./rule-jobs.ts";
import { previewEvents, previewPage } from "./rule-preview.ts";
import type { PreviewPage, PreviewRange, RuleJob } from "./rule-protocol.ts";
import { findSignals } from "./signal-list.ts";
import type { FindFilter, FoundSignals } from "./signal-list.ts";
import { readTotals } from "./totals.ts";
import { traceSignal } from "./trace.ts";

export class StoreReads extends WatchedObject<LiveSignal> {
  protected readonly sql: SqlStorage;
  protected readonly db: DrizzleSqliteDODatabase;
  protected readonly workspaceId: string;
  protected readonly coldObjects = (): ColdObjects => new ColdObjects(this.env.COLD, this.workspaceId);

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.db = drizzle(ctx.storage);
    this.workspaceId = ctx.id.name ?? "";
    void ctx.blockConcurrencyWhile(() => migrate(this.db, migrations));
  }

  /** See again.ts. */
  held(periodEndMs: number, cursor: number, limit: number): StoredSignal[] {
    return heldSignals(this.sql, periodEndMs, cursor, limit);
  }

  dead(cursor: number, limit: number): StoredSignal[] {
    return deadSignals(this.sql, cursor, limit);
  }

  deadById(ids: string[]): StoredSignal[] {
    return deadSignalsById(this.sql, ids);
  }

  /** The highest number of an outbox row that was recorded; this store does not know any. */
  highestRow(): number {
    return 0;
  }

  /** Since the beginning, or for one billing period. */
  totals(periodStartMs?: number): StoreTotals {
    return readTotals(this.db, periodStartMs);
  }

  async events(page: Page): Promise<PageOf<EventGroup>> {
    const { groups, cold } = listEventGroups(this.db, page);
    const payloads = await this.coldObjects().read(cold.map(({ place }) => place));
    for (const { group, place } of cold) group.sample.payload = parsed(payloads.get(placeKey(place)) ?? null);
    return groups;
  }

  /** See signal-list.ts. */
  signals(filter: FindFilter, page: Page): FoundSignals {
    return findSignals(this.sql, filter, page);
  }

  /** See live.ts. */
  latest(limit: number): LiveSignal[] {
    return latestSignals(this.sql, limit);
  }

  async signal(id: string): Promise<SignalTrace | null> {
    const found = traceSignal(this.db, id);
    if (found === null || found.place === null) return found?.trace ?? null;
    const payloads = await this.coldObjects().read([found.place]);
    const payload = payloads.get(placeKey(found.place));
    // Where there is none it may have been linked meanwhile, and be here.
    if (payload === undefined) return traceSignal(this.db, id)?.trace ?? null;
    return { ...found.trace, payload: parsed(payload) };
  }

  /** The signal queue's page: the groups, and what it says besides. See queue-page.ts. */
  queuePage(filter: QueueFilter, page: Page): { groups: QueuePage; sources: string[]; totals: StoreTotals } {
    const { sources } = recentNames(this.sql);
    return { groups: queuePage(this.sql, filter, page), sources, totals: readTotals(this.db, undefined) };
  }

  /** One group of it with its signals; null: no such group. */
  queueGroup(
    event: string,
    source: string,
    status: SignalStatus | undefined,
    page: Page,
  ): { group: QueueGroup; signals: FoundSignals } | null {
    const group = findGroup(this.sql, event, source);
    const filter = { event, source, ...(status === undefined ? {} : { status }) };
    return group && { group, signals: findSignals(this.sql, filter, page) };
  }

  /** Names of events that came lately. */
  recentEvents(): string[] {
    return recentNames(this.sql).events;
  }

  people(filter: { email?: string }, page: Page): PageOf<Person> {
    return listPeople(this.db, this.sql, filter, page);
  }

  findPeople(query: PeopleQuery, page: Page): PageOf<PersonSummary> {
    return findPeople(this.db, query, page);
  }

  /** See person-page.ts. */
  personPage(email: string, timeline: PersonTimeline, page: Page): PersonPage | null {
    return readPersonPage(this.db, this.sql, email, timeline, page);
  }

  erasure(email: string): ErasureReceipt | null {
    return findErasure(this.sql, email);
  }

  accounts(filter: AccountFilter, page: Page): PageOf<Account> {
    return listAccounts(this.db, filter, page);
  }

  /** See account-page.ts. */
  findAccounts(query: AccountsQuery, page: Page): PageOf<AccountSummary> {
    return findAccounts(this.db, query, page);
  }

  accountPage(externalId: string, page: Page): AccountPage | null {
    return readAccountPage(this.db, externalId, page);
  }

  deadLetters(page: Page): PageOf<DeadLetter> {
    return listDeadLetters(this.db, page);
  }

  /** See export.ts. */
  exportPage(range: ExportRange): Promise<ExportPage> {
    return exportPage(this.sql, this.coldObjects(), range);
  }

  /** See rule-preview.ts. */
  previewEvents(rule: MappingRule, sinceMs: number): { events: string[]; complete: boolean } {
    return previewEvents(this.sql, rule, sinceMs);
  }

  previewPage(rule: MappingRule, range: PreviewRange): PreviewPage {
    return previewPage(this.sql, rule, range);
  }

  ruleJob(ruleId: string): RuleJob | null {
    return findRuleJob(this.sql, ruleId);
  }

  /** See rule-facts.ts. */
  ruleFacts(ruleIds: string[]): RuleFacts[] {
    return ruleFacts(this.sql, ruleIds);
  }

  hasScoringSignals(ruleId: string): boolean {
    return hasScoringSignals(this.sql, ruleId);
  }
}

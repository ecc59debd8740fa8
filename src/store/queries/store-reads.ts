/**
 * Reads of a workspace's Signal Store. They write only the migrations, before any read, and pending changes of event
 * groups. They wait only for payloads in R2.
 */
import type { SignalStatus } from "../../domain/signal/signal.ts";
import type { MappingRule } from "../../domain/rules/mapping-rule.ts";
import type { RuleVersions } from "../../domain/rules/rule-content.ts";
import { storeMaxBytes } from "../../env.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import { RestorableObject } from "../../platform/restorable-object.ts";
import { findDeletion, findDeletionById } from "../deletion/person-deletions.ts";
import { FailingChores } from "../chore-runner.ts";
import { ColdObjects } from "../log/cold.ts";
import type {
  Account,
  AccountFilter,
  AccountPage,
  AccountsQuery,
  AccountSummary,
  PeoplePage,
  PeopleQuery,
  Person,
  PersonPage,
  PersonTimeline,
} from "../protocol/people-and-accounts.ts";
import type {
  DeletionReceipt,
  ExportPage,
  ExportRange,
  PreviewPage,
  PreviewRange,
  RuleFacts,
  RuleJob,
  RuleSuggestions,
} from "../protocol/store-operations.ts";
import type {
  DeadLetter,
  FindFilter,
  FoundSignals,
  LatestSignals,
  SignalTrace,
  EventGroup,
  QueueFilter,
  QueueGroup,
  QueuePage,
  RecentNames,
  StoreHealth,
  StoreTotals,
} from "../protocol/stored-signals.ts";
import { latestDeadLetterMs, listDeadLetters } from "../state/dead-letters.ts";
import { previewPage } from "../rules/preview.ts";
import { ruleFacts, appliedVersions, findRuleJob } from "../rules/rule-jobs.ts";
import { readTotals } from "../state/status-change.ts";
import { updateGroups } from "../state/event-group-changes.ts";
import { StoreState } from "../state/store-state.ts";
import { latestSignals, findSignals } from "./newest-signals.ts";
import { readPeople, findPeople } from "./people-search.ts";
import { readPersonPage } from "./person-page.ts";
import { findGroup, listEventGroups, queuePage, recentNames, suggestForRule } from "./event-groups.ts";
import { traceSignal } from "./trace.ts";

export class StoreReads extends RestorableObject {
  protected readonly workspaceId: string;
  protected readonly failing = new FailingChores(this.ctx.storage.kv);
  #state: StoreState | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.workspaceId = ctx.id.name ?? "";
    void ctx.blockConcurrencyWhile(async () => {
      const { migrateStore } = await import("../migrate.ts");
      await migrateStore(ctx.storage);
    });
  }

  protected get state(): StoreState {
    return (this.#state ??= new StoreState(this.ctx.storage.sql));
  }

  /** The state for readers of the signal queue's groups: their rows are brought up to date first. */
  protected get stateWithGroups(): StoreState {
    const { state } = this;
    if (Object.keys(state.books.groups).length > 0) {
      this.transact(() => {
        updateGroups(state);
        state.signals.flush();
      });
    }
    return state;
  }

  /** Runs a transaction: all of it, or nothing; memory follows. */
  protected transact<T>(act: () => T): T {
    try {
      return this.ctx.storage.transactionSync(act);
    } catch (error) {
      this.state.reload();
      throw error;
    }
  }

  protected coldObjects(): ColdObjects {
    return new ColdObjects(this.env.COLD, this.workspaceId);
  }

  /** The versions of the mapping rules, and of all of them together, that the store has seen; 0: none. */
  ruleVersions(): RuleVersions {
    return appliedVersions(this.state.sql);
  }

  /** State of the store. */
  health(): StoreHealth {
    return storeHealth(this.state, { failingJobs: this.failing.list(), maxBytes: storeMaxBytes(this.env) });
  }

  protected isFull(): boolean {
    return this.state.sql.databaseSize >= storeMaxBytes(this.env);
  }

  /** The books since the beginning, or of one billing period. */
  totals(periodStartMs?: number): StoreTotals {
    return readTotals(this.state.books.totals, periodStartMs);
  }

  events(page: Page): Promise<PageOf<EventGroup>> {
    return listEventGroups(this.stateWithGroups, this.coldObjects(), page);
  }

  /** Signals by a filter, see signal-list.ts. */
  signals(filter: FindFilter, page: Page): FoundSignals {
    return findSignals(this.state, filter, page);
  }

  /** Signals of the live page, see latest-signals.ts. */
  latest(cursor: string | null, limit: number): LatestSignals | null {
    return latestSignals(this.state, cursor, limit);
  }

  signal(id: string): Promise<SignalTrace | null> {
    return traceSignal(this.state, this.coldObjects(), id);
  }

  /** Page of the signal queue with its groups, see queue-page.ts. */
  queuePage(
    filter: QueueFilter,
    page: Page,
  ): { groups: QueuePage; sources: string[]; totals: StoreTotals; isFull: boolean; hasPeople: boolean } {
    const { sources } = recentNames(this.stateWithGroups.sql);
    const groups = queuePage(this.state.sql, filter, page);
    const [anybody] = this.state.sql.exec("SELECT 1 FROM people LIMIT 1");
    return { groups, sources, totals: this.totals(), isFull: this.isFull(), hasPeople: anybody !== undefined };
  }

  /** A group of the signal queue with its signals; null: unknown group. */
  queueGroup(
    event: string,
    source: string,
    status: SignalStatus | undefined,
    page: Page,
  ): { group: QueueGroup; signals: FoundSignals } | null {
    const { sql } = this.stateWithGroups;
    // A source that tells whose a signal is names no group.
    const group = findGroup(sql, event, source) ?? findGroup(sql, event, "");
    const filter = { event, source: group?.source ?? "", ...(status === undefined ? {} : { status }) };
    return group && { group, signals: findSignals(this.state, filter, page) };
  }

  /** Suggestions for the rule editor, see rule-suggestions.ts. */
  suggestForRule(pattern: string): Promise<RuleSuggestions> {
    return suggestForRule(this.stateWithGroups, this.coldObjects(), pattern);
  }

  /** Names of events, and sources, that came lately. */
  recentNames(): RecentNames {
    return recentNames(this.stateWithGroups.sql);
  }

  people(filter: { email?: string; text?: string }, page: Page): PageOf<Person> {
    return readPeople(this.state, filter, page);
  }

  /** The page of people, see people-search.ts. */
  findPeople(query: PeopleQuery, page: Page): PeoplePage {
    return findPeople(this.state, query, page);
  }

  /** A person's page, see person-page.ts. */
  personPage(email: string, timeline: PersonTimeline, page: Page): PersonPage | null {
    return readPersonPage(this.state, email, timeline, page);
  }

  deletion(email: string): DeletionReceipt | null {
    return findDeletion(this.state.sql, email);
  }

  deletionById(id: string): DeletionReceipt | null {
    return findDeletionById(this.state.sql, id);
  }

  async accounts(filter: AccountFilter, page: Page): Promise<PageOf<Account>> {
    const { listAccounts } = await import("../accounts/account-page.ts");
    return listAccounts(this.ctx.storage, filter, page);
  }

  /** The page of accounts, see accounts/account-page.ts. */
  async findAccounts(query: AccountsQuery, page: Page): Promise<PageOf<AccountSummary>> {
    const { findAccounts } = await import("../accounts/account-page.ts");
    return findAccounts(this.ctx.storage, query, page);
  }

  async accountPage(externalId: string, page: Page): Promise<AccountPage | null> {
    const { readAccountPage } = await import("../accounts/account-page.ts");
    return readAccountPage(this.ctx.storage, this.state.signals, externalId, page);
  }

  deadLetters(page: Page): PageOf<DeadLetter> {
    return listDeadLetters(this.state.sql, page);
  }

  /** A page of an export, see export-page.ts. */
  async exportPage(range: ExportRange): Promise<ExportPage> {
    const { exportPage } = await import("./exports.ts");
    return exportPage(this.state, this.coldObjects(), range);
  }

  /** A page of a rule's preview, see rules/preview.ts. */
  previewPage(rule: MappingRule, range: PreviewRange): Promise<PreviewPage> {
    return previewPage(this.state, this.coldObjects(), rule, range);
  }

  ruleJob(ruleId: string): RuleJob | null {
    return findRuleJob(this.state.sql, ruleId);
  }

  /** Results of rules, see rules/rule-facts.ts. */
  ruleFacts(ruleIds: string[]): RuleFacts[] {
    return ruleFacts(this.state, ruleIds);
  }
}

/** Fill level of the store. Freed database pages do not count, so deletions make room at once. */
function storeHealth(
  { sql, originals, books }: StoreState,
  { failingJobs, maxBytes }: { failingJobs: Readonly<StoreHealth["failingJobs"]>; maxBytes: number },
): StoreHealth {
  return {
    totals: readTotals(books.totals, undefined),
    deadLetterMs: latestDeadLetterMs(sql),
    failingJobs: [...failingJobs],
    bytes: sql.databaseSize,
    maxBytes,
    duplicatesCoveredMs: originals.coveredMs(Date.now()),
  };
}

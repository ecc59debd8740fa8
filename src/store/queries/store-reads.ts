/** Reads of a workspace's Signal Store. They write only migrations and pending changes of event groups, and wait only for R2. */
import type { SignalStatus } from "../../domain/signal/signal.ts";
import type { MappingRule } from "../../domain/rules/mapping-rule.ts";
import { storeMaxBytes } from "../../env.ts";
import type { Page } from "../../platform/list-page.ts";
import { RestorableObject } from "../../platform/restorable-object.ts";
import { findAccounts, listAccounts, readAccountPage } from "../accounts/account-page.ts";
import { findDeletion, findDeletionById } from "../deletion/person-deletions.ts";
import { failingChores } from "../chores.ts";
import { ColdObjects } from "../log/cold.ts";
import type { AccountFilter, AccountsQuery, PeopleQuery, PersonTimeline } from "../protocol/people-and-accounts.ts";
import type { ExportRange, PreviewRange } from "../protocol/store-operations.ts";
import type { FindFilter, QueueFilter } from "../protocol/stored-signals.ts";
import { latestDeadLetterMs, listDeadLetters } from "../state/dead-letters.ts";
import { previewPage } from "../rules/preview.ts";
import { ruleFacts, appliedVersions, findRuleJob } from "../rules/rule-jobs.ts";
import { readTotals, updateGroups } from "../state/status-change.ts";
import { StoreState, transact } from "../state/store-state.ts";
import { latestSignals, findSignals } from "./newest-signals.ts";
import { readPeople, findPeople } from "./people-search.ts";
import { readPersonPage } from "./person-page.ts";
import { findGroup, listEventGroups, queuePage, recentNames, suggestForRule } from "./event-groups.ts";
import { traceSignal } from "./trace.ts";

export class StoreReads extends RestorableObject {
  protected readonly workspaceId: string;
  #state: StoreState | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.workspaceId = ctx.id.name ?? "";
    void ctx.blockConcurrencyWhile(async () => {
      const { drizzle } = await import("drizzle-orm/durable-sqlite");
      const { migrate } = await import("drizzle-orm/durable-sqlite/migrator");
      const { default: migrations } = await import("../../../migrations/signal-store/migrations.js");
      await migrate(drizzle(ctx.storage), migrations);
    });
  }

  protected get state(): StoreState {
    return (this.#state ??= new StoreState(this.ctx.storage.sql));
  }

  /** The state with the pending changes of event groups written to their rows. */
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

  protected transact<T>(act: () => T): T {
    return transact(this.ctx.storage, this.state, act);
  }

  protected coldObjects(): ColdObjects {
    return new ColdObjects(this.env.COLD, this.workspaceId);
  }

  ruleVersions() {
    return appliedVersions(this.state.sql);
  }

  health() {
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

  protected isFull(): boolean {
    return this.state.sql.databaseSize >= storeMaxBytes(this.env);
  }

  totals(periodStartMs?: number) {
    return readTotals(this.state.books.totals, periodStartMs);
  }

  events(page: Page) {
    return listEventGroups(this.stateWithGroups, this.coldObjects(), page);
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
    const { sources } = recentNames(this.stateWithGroups.sql);
    const groups = queuePage(this.state.sql, filter, page);
    return { groups, sources, totals: this.totals(), isFull: this.isFull() };
  }

  /** What the overview page shows of the store. @param sinceDay first day (days since 1970) on which the people were seen. */
  overview(sinceDay: number, people: number) {
    const top = findPeople(this.state, { sort: "score", minScore: 1, sinceDay }, { cursor: null, limit: people });
    const [anybody] = this.state.sql.exec("SELECT 1 FROM people LIMIT 1");
    const { totals, bytes, maxBytes } = this.health();
    return { totals, bytes, maxBytes, isFull: this.isFull(), hasPeople: anybody !== undefined, top };
  }

  /** The latest people, event groups and accounts that match a text: `limit` of each, and one more where there are more. */
  search(text: string, limit: number) {
    const page = { cursor: null, limit: limit + 1 };
    return {
      people: findPeople(this.state, { sort: "last_seen", text }, page).items,
      events: queuePage(this.stateWithGroups.sql, { search: text }, page).items,
      accounts: findAccounts(this.state.sql, { prefix: text }, page).items,
    };
  }

  /** A group of the signal queue with its signals; null: there is none. */
  queueGroup(event: string, source: string, status: SignalStatus | undefined, page: Page) {
    const { sql } = this.stateWithGroups;
    // Signals whose source names a person are in the group without a source.
    const group = findGroup(sql, event, source) ?? findGroup(sql, event, "");
    const filter = { event, source: group?.source ?? "", ...(status === undefined ? {} : { status }) };
    return group && { group, signals: findSignals(this.state, filter, page) };
  }

  suggestForRule(pattern: string) {
    return suggestForRule(this.stateWithGroups, this.coldObjects(), pattern);
  }

  recentNames() {
    return recentNames(this.stateWithGroups.sql);
  }

  people(filter: { email?: string | undefined; text?: string | undefined }, page: Page) {
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
    return readAccountPage(this.state.sql, this.state.signals, externalId, page);
  }

  deadLetters(page: Page) {
    return listDeadLetters(this.state.sql, page);
  }

  async exportPage(range: ExportRange) {
    const { exportPage } = await import("./exports.ts");
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

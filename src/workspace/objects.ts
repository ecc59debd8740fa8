/** The two Durable Objects of a workspace, as the operator API and the pages call them. Their name is the workspace's id. */
import { createHash } from "node:crypto";
import type { MappingRule } from "../domain/mapping-rule.ts";
import { errorText, logEvent } from "../http/log.ts";
import { WATCHER_HEADER } from "../http/watchers.ts";
import type { CounterBooks, InFlightSignal, QuotaConfig, Rejection, Usage, UsageByDay } from "../quota/protocol.ts";
import type { ErasureReceipt, ExportPage, ExportRange, StoreConfig } from "../store/data-care.ts";
import type { FindFilter, FoundSignals } from "../store/signal-list.ts";
import type { QueueFilter, QueueGroup, QueuePage } from "../store/queue-page.ts";
import type { RuleFacts } from "../store/rule-facts.ts";
import type {
  Account,
  AccountFilter,
  DeadLetter,
  EventGroup,
  LiveSignal,
  Page,
  PageOf,
  Person,
  PreviewPage,
  PreviewRange,
  RuleJob,
  RuleToApply,
  SignalStatus,
  SignalTrace,
  StoreTotals,
} from "../store/protocol.ts";
import type {
  AccountPage,
  AccountsQuery,
  AccountSummary,
  PeopleQuery,
  PersonPage,
  PersonSummary,
  PersonTimeline,
} from "../store/record-pages.ts";

interface QuotaCounterCalls {
  configure(config: QuotaConfig): Promise<void>;
  revoke(keyId: string): Promise<void>;
  usage(): Promise<Usage | null>;
  usageByDay(): Promise<UsageByDay | null>;
  /** Key id → milliseconds since 1970. */
  lastUsed(): Promise<Record<string, number>>;
  rejections(limit: number): Promise<Rejection[]>;
  books(periodStartMs?: number): Promise<CounterBooks>;
  inFlight(signalId: string): Promise<InFlightSignal | null>;
}

interface SignalStoreCalls {
  configure(config: StoreConfig): Promise<void>;
  totals(periodStartMs?: number): Promise<StoreTotals>;
  events(page: Page): Promise<PageOf<EventGroup>>;
  signals(filter: FindFilter, page: Page): Promise<FoundSignals>;
  latest(limit: number): Promise<LiveSignal[]>;
  signal(id: string): Promise<SignalTrace | null>;
  people(filter: { email?: string }, page: Page): Promise<PageOf<Person>>;
  findPeople(query: PeopleQuery, page: Page): Promise<PageOf<PersonSummary>>;
  personPage(email: string, timeline: PersonTimeline, page: Page): Promise<PersonPage | null>;
  erase(id: string, email: string): Promise<ErasureReceipt>;
  erasure(email: string): Promise<ErasureReceipt | null>;
  accounts(filter: AccountFilter, page: Page): Promise<PageOf<Account>>;
  findAccounts(query: AccountsQuery, page: Page): Promise<PageOf<AccountSummary>>;
  accountPage(externalId: string, page: Page): Promise<AccountPage | null>;
  deadLetters(page: Page): Promise<PageOf<DeadLetter>>;
  exportPage(range: ExportRange): Promise<ExportPage>;
  previewEvents(rule: MappingRule, sinceMs: number): Promise<{ events: string[]; complete: boolean }>;
  previewPage(rule: MappingRule, range: PreviewRange): Promise<PreviewPage>;
  applyRule(rule: RuleToApply): Promise<RuleJob>;
  ruleJob(ruleId: string): Promise<RuleJob | null>;
  hasScoringSignals(ruleId: string): Promise<boolean>;
  queuePage(filter: QueueFilter, page: Page): Promise<{ groups: QueuePage; sources: string[]; totals: StoreTotals }>;
  queueGroup(
    event: string,
    source: string,
    status: SignalStatus | undefined,
    page: Page,
  ): Promise<{ group: QueueGroup; signals: FoundSignals } | null>;
  recentEvents(): Promise<string[]>;
  ruleFacts(ruleIds: string[]): Promise<RuleFacts[]>;
}

// Payloads are `unknown`, which the platform's types of remote calls turn into `never`: hence the interfaces above.

export function quotaCounter(env: Env, workspaceId: string): QuotaCounterCalls {
  return env.QUOTA_COUNTER.getByName(workspaceId) as unknown as QuotaCounterCalls;
}

export function signalStore(env: Env, workspaceId: string): SignalStoreCalls {
  return env.SIGNAL_STORE.getByName(workspaceId) as unknown as SignalStoreCalls;
}

/**
 * A WebSocket on which the object tells what happens (see http/watchers.ts): `signals` as they are recorded, or
 * `rejections`. The caller has made sure that whoever asks may watch this workspace.
 *
 * @param watcher their email.
 */
export function watchWorkspace(
  env: Env,
  workspaceId: string,
  what: "signals" | "rejections",
  watcher: string,
): Promise<Response> {
  const object = what === "signals" ? env.SIGNAL_STORE : env.QUOTA_COUNTER;
  // A request of our own: nothing of the caller's goes along.
  const headers = { upgrade: "websocket", [WATCHER_HEADER]: watcherOf(watcher) };
  return object.getByName(workspaceId).fetch("https://object/live", { headers });
}

/**
 * Ends what somebody watches who has been removed, or has signed out. Never throws: what cannot be reached ends the
 * connection by itself, after LIVE_SOCKET_MS.
 */
export async function endWatching(env: Env, workspaceIds: readonly string[], watcher: string): Promise<void> {
  const objects = workspaceIds.flatMap((id) => [env.SIGNAL_STORE.getByName(id), env.QUOTA_COUNTER.getByName(id)]);
  const ended = await Promise.allSettled(objects.map((object) => object.endWatching(watcherOf(watcher))));
  for (const one of ended) {
    if (one.status === "rejected") logEvent("live_failed", { error: errorText(one.reason) });
  }
}

/** A connection is found by a short text of plain characters, which an email need not be. */
function watcherOf(email: string): string {
  return createHash("sha256").update(email).digest("hex");
}

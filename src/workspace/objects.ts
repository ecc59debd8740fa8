/** The two Durable Objects of a workspace, as the operator API and the pages call them. Their name is the workspace's id. */
import type { MappingRule } from "../domain/mapping-rule.ts";
import type { CounterBooks, InFlightSignal, QuotaConfig, Rejection, Usage } from "../quota/protocol.ts";
import type {
  Account,
  AccountFilter,
  AccountPage,
  AccountsQuery,
  AccountSummary,
  DeadLetter,
  ErasureReceipt,
  EventGroup,
  ExportPage,
  ExportRange,
  Page,
  PageOf,
  PeopleQuery,
  Person,
  PersonPage,
  PersonSummary,
  PersonTimeline,
  PreviewPage,
  PreviewRange,
  RuleJob,
  RuleToApply,
  SignalFilter,
  SignalSummary,
  SignalTrace,
  StoreConfig,
  StoreTotals,
} from "../store/protocol.ts";

interface QuotaCounterCalls {
  configure(config: QuotaConfig): Promise<void>;
  revoke(keyId: string): Promise<void>;
  usage(): Promise<Usage | null>;
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
  signals(filter: SignalFilter, page: Page): Promise<PageOf<SignalSummary>>;
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
}

// Payloads are `unknown`, which the platform's types of remote calls turn into `never`: hence the interfaces above.

export function quotaCounter(env: Env, workspaceId: string): QuotaCounterCalls {
  return env.QUOTA_COUNTER.getByName(workspaceId) as unknown as QuotaCounterCalls;
}

export function signalStore(env: Env, workspaceId: string): SignalStoreCalls {
  return env.SIGNAL_STORE.getByName(workspaceId) as unknown as SignalStoreCalls;
}

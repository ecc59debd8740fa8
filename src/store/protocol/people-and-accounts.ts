/** People and accounts in questions and answers of the store. Times are milliseconds since 1970. */
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import type { PersonTraits } from "../../domain/signal/traits.ts";
import type { ListPage } from "../../platform/list-page.ts";
import type { NamedBy, SignalSummary } from "./stored-signals.ts";

export interface Identity {
  kind: "anonymous_id" | "user_id";
  value: string;
  linkedAtMs: number;
}

export interface PersonAccount {
  externalId: string;
  /** Null: no text was sent, or a very long one. */
  name: string | null;
}

export interface ScoringSignal {
  scoringSignal: string;
  points: number;
  ruleId: string;
  ruleVersion: number;
  signalId: string;
  /** When the signal was received, and when it occurred. */
  atMs: number;
  occurredAtMs: number;
  /** From when the points count: the occurrence, or the day of an earlier match of a once-ever rule whose points lapse. */
  countsFromMs: number;
  /** When the points lapse; null: never. */
  lapsesAtMs: number | null;
  lapsed: boolean;
}

export interface Person extends PersonTraits {
  email: string;
  /** Without points that have lapsed. */
  score: number;
  /** True: a match that scored has left the person, and the match that counts instead is still searched. */
  recomputing: boolean;
  /** When the next points lapse; null: none will. */
  nextLapseAtMs: number | null;
  account: PersonAccount | null;
  firstSeenMs: number;
  lastSeenMs: number;
  /** A person keeps PERSON_MAX_IDS of a kind. Each drop of an id counts. */
  idsDropped: number;
  identities: Identity[];
  /** Newest first, at most 100. */
  scoringSignals: ScoringSignal[];
}

export interface ListedPeople {
  email?: string | undefined;
  text?: string | undefined;
  account?: string | undefined;
}

export interface PeopleFilter {
  /** Part of the email, or of a trait that is searched, in any letter case. */
  text?: string | undefined;
  minScore?: number | undefined;
  /** External id of the account that the people belong to. */
  account?: string | undefined;
  /** First and last day of the last signal, inclusive, in days since 1970. */
  sinceDay?: number | undefined;
  untilDay?: number | undefined;
}

export interface PeopleQuery extends PeopleFilter {
  sort: PeopleSort;
}

/** `_up`: ascending. */
export type PeopleSort = "newest" | "last_seen" | "last_seen_up" | "score" | "score_up" | "email";

export interface PeoplePage extends ListPage<PersonSummary> {
  /** False: the search stopped early and goes on from `next`. */
  complete: boolean;
  /** False: there are too many people to sort, so they are in the order of their emails. */
  sorted: boolean;
  /** True: points are lapsing right now, so that the order by score is not final. */
  lapsing: boolean;
}

export type PersonSummary = Omit<Person, "identities" | "scoringSignals">;

export type PersonTimeline = "all" | "scores";

export interface PersonPage {
  person: PersonSummary;
  /** Newest first, at most PERSON_IDENTITIES_SHOWN. */
  identities: Identity[];
  moreIdentities: boolean;
  /** Ids that have named other people too. */
  sharedIds: SharedId[];
  curve: ScoreCurve;
  timeline: ListPage<TimelineEntry>;
  /** When the latest dropped signal was received; 0: none was dropped. */
  deletedUntilMs: number;
}

export interface SharedId {
  kind: Identity["kind"];
  value: string;
  email: string;
  /** When a signal last named the other person. */
  sinceMs: number;
}

export interface ScoreCurve {
  /** Before the first point. */
  fromScore: number;
  points: { atMs: number; score: number }[];
  signals: number;
  /** The points of the curve's signals by rule, the largest share first. */
  byRule: RuleShare[];
  /** False: the curve has only the latest scoring signals. */
  complete: boolean;
}

export interface RuleShare {
  ruleId: string;
  points: number;
  times: number;
  /** When the latest of these signals occurred. */
  latestMs: number;
}

export interface TimelineEntry {
  /** Null: the signal is gone, while its score is kept. */
  signal: TimelineSignal | null;
  scores: ScoringSignal[];
}

export interface TimelineSignal extends Omit<SignalSummary, "email"> {
  /** Whether an exclusion covers the signal, so that it scores nothing. */
  isExcluded: boolean;
  namedBy: NamedBy | null;
  /** The email, user id or anonymous id that named the person. */
  namedByValue: string | null;
  /** When the anonymous signal was linked to the person; null: it was never anonymous. */
  linkedAtMs: number | null;
}

/** Payload templates make the values, of any JSON type; null: never sent. */
export interface Account extends Record<AccountField, unknown> {
  externalId: string;
  attributes: Record<string, unknown>;
  score: number;
  /** True: matches of a member are being replaced. */
  recomputing: boolean;
  people: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /** True: the history of a field has lost its oldest changes. */
  historyCut: boolean;
  /** Newest first, at most ACCOUNT_HISTORY_SHOWN. */
  history: AccountChange[];
}

export interface AccountChange {
  field: AccountField;
  before: unknown;
  after: unknown;
  /** When the update was received. */
  atMs: number;
  signalId: string;
}

export interface AccountFilter {
  externalId?: string | undefined;
  /** Default: the newest first. */
  sort?: AccountsSort | undefined;
}

export interface AccountsQuery {
  sort: AccountsSort;
  /** Part of the name or of the external id, in any letter case. */
  text?: string | undefined;
}

export type AccountsSort = "newest" | "last_seen" | "score" | "people";

/** An account in the list. A cut value is a JSON text of one character more than ACCOUNT_LIST_CHARACTERS. */
export interface AccountSummary {
  externalId: string;
  name: string | null;
  plan: string | null;
  userCount: string | null;
  recurringRevenue: string | null;
  trialStatus: string | null;
  score: number;
  /** True: matches of a member are being replaced. */
  recomputing: boolean;
  people: number;
  firstSeenMs: number;
  /** The day of the latest signal of its people, or the latest update. */
  lastSeenMs: number;
}

export type AccountsPage = OrderedAccounts<AccountSummary>;
export type AccountsList = OrderedAccounts<Account>;

interface OrderedAccounts<Item> extends ListPage<Item> {
  /**
   * False: there are too many accounts. So the newest come first, and a text finds the accounts whose external id begins with it, in the
   * order of these ids.
   */
  sorted: boolean;
  /** True: points are lapsing right now, so that the order by score is not final. */
  lapsing: boolean;
}

export interface AccountPage {
  externalId: string;
  values: Record<AccountField, unknown>;
  attributes: Record<string, unknown>;
  /**
   * The signal that set each value, by target, such as `plan` or `attributes.region`: an account update or a group call. The key is null
   * when the signal is gone.
   */
  origins: Record<string, { atMs: number; signalId: string; keyId: string | null; by: "update" | "group" }>;
  score: number;
  /** True: matches of a member are being replaced. */
  recomputing: boolean;
  people: number;
  topPeople: PersonSummary[];
  /** The latest scores of its 20 people who were last seen, the latest first. */
  latestScores: AccountScore[];
  /** Score of the people who belong to it now. Null: it has more than 20. */
  curve: ScoreCurve | null;
  lapsing: boolean;
  firstSeenMs: number;
  lastSeenMs: number;
  /** True: the history of a field has lost its oldest changes. */
  historyCut: boolean;
  changes: ListPage<ShownChange>;
}

interface AccountScore extends ScoringSignal {
  email: string;
}

/** A change with values cut as in AccountSummary, after ACCOUNT_CHANGE_CHARACTERS. */
export interface ShownChange extends Omit<AccountChange, "before" | "after"> {
  before: string | null;
  after: string | null;
}

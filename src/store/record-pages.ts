/** What the pages of people and accounts ask the Signal Store for, and get. Times are milliseconds since 1970. */
import type { AccountField } from "../domain/accounts/payload-template.ts";
import type { SharedId } from "./queries/shared-ids.ts";
import type { PageOf } from "../platform/list-page.ts";
import type { AccountChange, Identity, NamedBy, Person, ScoringSignal, SignalSummary } from "./protocol.ts";

/** Of whom all that is asked for holds. */
export interface PeopleFilter {
  /** Part of the email, the name or the company, in any letter case. */
  text?: string;
  minScore?: number;
  /** When they were last seen, in days since 1970; both included. */
  sinceDay?: number;
  untilDay?: number;
}

export interface PeopleQuery extends PeopleFilter {
  sort: PeopleSort;
}

/** `_up`: the lowest, or the earliest, first. */
export type PeopleSort = "newest" | "last_seen" | "last_seen_up" | "score" | "score_up" | "email";

export interface PeoplePage extends PageOf<PersonSummary> {
  /** False: the page stopped before it was full, and goes on from `next`. */
  complete: boolean;
  /** False: there are more people, or more of them fit, than are sorted: they come in the order of their email. */
  sorted: boolean;
}

export type PersonSummary = Omit<Person, "identities" | "scoringSignals">;

/** All of a person's signals, or only what they have scored. */
export type PersonTimeline = "all" | "scores";

export interface PersonPage {
  person: PersonSummary;
  /** Newest first, at most PERSON_IDENTITIES_SHOWN. */
  identities: Identity[];
  moreIdentities: boolean;
  /** Other people who have been named by an id of theirs too, the latest. */
  sharedIds: SharedId[];
  curve: ScoreCurve;
  timeline: PageOf<TimelineEntry>;
  /** Receipt of the latest signal that was deleted for its age; 0: none was. */
  deletedUntilMs: number;
}

export interface ScoreCurve {
  /** Before the first point. */
  fromScore: number;
  /** The score from then on, by the times of the signals. */
  points: { atMs: number; score: number }[];
  /** Scoring signals in it. */
  signals: number;
  /** False: the person may have more, and these are the latest. */
  complete: boolean;
}

export interface TimelineEntry {
  /** Null: not kept any more; what it scored is. */
  signal: TimelineSignal | null;
  scores: ScoringSignal[];
}

export interface TimelineSignal extends Omit<SignalSummary, "email"> {
  namedBy: NamedBy | null;
  /** The value that named the person: an email, a user id, an anonymous id; null where nothing did. */
  namedByValue: string | null;
  /** When it became the person's, if it was anonymous before. */
  linkedAtMs: number | null;
}

/** An order, or the beginning of an external id or a name. */
export type AccountsQuery = { sort: AccountsSort } | { prefix: string };

export type AccountsSort = "newest" | "last_seen";

/** A value is the beginning of its JSON text, one character longer than ACCOUNT_LIST_CHARACTERS where it goes on. */
export interface AccountSummary {
  externalId: string;
  name: string | null;
  plan: string | null;
  userCount: string | null;
  recurringRevenue: string | null;
  trialStatus: string | null;
  firstSeenMs: number;
  lastSeenMs: number;
}

export interface AccountPage {
  externalId: string;
  /** Null: never sent. */
  values: Record<AccountField, unknown>;
  attributes: Record<string, unknown>;
  /** By target, such as `plan` or `attributes.region`: the update that carried the value; its key while it is kept. */
  origins: Record<string, { atMs: number; signalId: string; keyId: string | null }>;
  firstSeenMs: number;
  lastSeenMs: number;
  changes: PageOf<ShownChange>;
}

/** Before and after as in AccountSummary, with ACCOUNT_CHANGE_CHARACTERS. */
export interface ShownChange extends Omit<AccountChange, "before" | "after"> {
  before: string | null;
  after: string | null;
}

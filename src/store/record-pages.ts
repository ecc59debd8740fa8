/** What the pages of people and accounts ask the Signal Store for, and get. Times are milliseconds since 1970. */
import type { AccountField } from "../domain/accounts/payload-template.ts";
import type { PageOf } from "../platform/list-page.ts";
import type { AccountChange, Identity, NamedBy, Person, ScoringSignal, SignalSummary } from "./protocol.ts";

/** The people of whom all that is asked for holds. */
export interface PeopleFilter {
  /** Part of the email, or of a trait that is searched, in any letter case. */
  text?: string;
  minScore?: number;
  /** The first and the last day on which they may have been seen last, in days since 1970; both included. */
  sinceDay?: number;
  untilDay?: number;
}

export interface PeopleQuery extends PeopleFilter {
  sort: PeopleSort;
}

/** An order of the list of people. `_up`: the lowest, or the earliest, first. */
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
  /** The latest ids, newest first, at most PERSON_IDENTITIES_SHOWN. */
  identities: Identity[];
  moreIdentities: boolean;
  /** Ids of the person's by which others have been named too, the latest. */
  sharedIds: SharedId[];
  curve: ScoreCurve;
  timeline: PageOf<TimelineEntry>;
  /** Receipt of the latest signal that was deleted for its age; 0: none was. */
  deletedUntilMs: number;
}

/** An id, and another person who has been named by it too. */
export interface SharedId {
  kind: Identity["kind"];
  value: string;
  email: string;
  /** Receipt of what named the other person last. */
  sinceMs: number;
}

export interface ScoreCurve {
  /** The score before the first point. */
  fromScore: number;
  /** The score from then on, by the times of the signals. */
  points: { atMs: number; score: number }[];
  /** How many scoring signals the curve is made of. */
  signals: number;
  /** False: the person may have more scoring signals than these, the latest. */
  complete: boolean;
}

export interface TimelineEntry {
  /** The signal; null: it is not kept any more, while what it scored is. */
  signal: TimelineSignal | null;
  scores: ScoringSignal[];
}

export interface TimelineSignal extends Omit<SignalSummary, "email"> {
  namedBy: NamedBy | null;
  /** The value that named the person: an email, a user id, an anonymous id; null where nothing did. */
  namedByValue: string | null;
  /** When the signal became the person's, if it was anonymous before; null: it was not. */
  linkedAtMs: number | null;
}

/** Which accounts: all in an order, or those whose external id or name begins so. */
export type AccountsQuery = { sort: AccountsSort } | { prefix: string };

export type AccountsSort = "newest" | "last_seen";

/**
 * An account in the list. A value is the beginning of its JSON text, one character longer than ACCOUNT_LIST_CHARACTERS where
 * it goes on.
 */
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
  /** The account's fields; null: never sent. */
  values: Record<AccountField, unknown>;
  attributes: Record<string, unknown>;
  /**
   * The update that each value came from, by target, such as `plan` or `attributes.region`; its key while the signal is
   * kept.
   */
  origins: Record<string, { atMs: number; signalId: string; keyId: string | null }>;
  firstSeenMs: number;
  lastSeenMs: number;
  changes: PageOf<ShownChange>;
}

/** A change as its page shows it. Before and after are beginnings as in AccountSummary, of ACCOUNT_CHANGE_CHARACTERS. */
export interface ShownChange extends Omit<AccountChange, "before" | "after"> {
  before: string | null;
  after: string | null;
}

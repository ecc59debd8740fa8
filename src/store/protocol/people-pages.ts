/** People, as they are asked for and told of. Times are milliseconds since 1970. */
import type { PersonTraits } from "../../domain/signal/traits.ts";
import type { PageOf } from "../../platform/list-page.ts";
import type { NamedBy, SignalSummary } from "./recorded-signals.ts";

export interface Identity {
  kind: "anonymous_id" | "user_id";
  value: string;
  linkedAtMs: number;
}

export interface ScoringSignal {
  scoringSignal: string;
  points: number;
  ruleId: string;
  ruleVersion: number;
  signalId: string;
  atMs: number;
}

export interface Person extends PersonTraits {
  email: string;
  score: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /**
   * How many older ids were dropped: nobody keeps more than PERSON_MAX_IDS of a kind. One that came back and was dropped
   * again counts twice.
   */
  idsDropped: number;
  /** The latest ids, newest first, at most PERSON_IDENTITIES_LISTED. */
  identities: Identity[];
  /** The latest scoring signals, newest first, at most 100. */
  scoringSignals: ScoringSignal[];
}

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

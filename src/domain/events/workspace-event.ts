/**
 * What a workspace's destinations can be told (its types, and the data of each as it is sent). An event is made where it
 * becomes true, with an id that it keeps through every repetition, so that a receiver can drop what it has had.
 */

/** What a destination may ask for. */
export const eventTypes = [
  "person.score_crossed",
  "person.scored",
  "people.rescored",
  "usage.level",
  "period.closed",
  "key.expiring",
  "key.silent",
  "refusals.burst",
  "dead_letters.added",
  "processing.late",
] as const;

/** What a destination is told without asking: that another was switched off, and that a test has reached it. */
export const destinationEventTypes = ["destination.disabled", "destination.test"] as const;

export type EventType = (typeof eventTypes)[number];
export type AnyEventType = EventType | (typeof destinationEventTypes)[number];

/** The data of each type, in the names that it is sent with. Times are ISO 8601 UTC. */
export interface EventData {
  /** A person's score has risen to a threshold, or above it. */
  "person.score_crossed": {
    email: string;
    threshold: number;
    score: number;
    score_before: number;
    /** The latest of the signals that made the difference; null: that signal is somebody else's by now. */
    signal_id: string | null;
  };
  /** Scoring signals were made. The order is that in which they were recorded. */
  "person.scored": { scoring_signals: ScoringSignalMade[] };
  /**
   * Many scoring signals at once, one event in place of a `person.scored` for each: a mapping rule was applied to the past,
   * or the earlier signals of a visitor became a person's. A threshold that a visitor's signals have made the person cross
   * is told by a `person.score_crossed` too; those that a rule has made people cross are told by their counts here alone.
   */
  "people.rescored": {
    cause: "rule_applied" | "signals_linked";
    /** The rule that was applied; null where signals were linked. */
    rule_id: string | null;
    /** Email of the person whose the signals are now; null where a rule was applied. */
    email: string | null;
    /** Signals that score something, and did not before. */
    added: number;
    /** Signals that score something else than before. */
    changed: number;
    /** Signals that score nothing any more. */
    removed: number;
    /** By how much the scores of all people together have changed. */
    points: number;
    /** How often a score has risen to a threshold, or above it, and how often one has fallen below. */
    thresholds: { threshold: number; risen: number; fallen: number }[];
  };
  /**
   * A level of the signal limit was reached. It is told once for each billing period and limit: where the limit is raised, a
   * level that is no longer reached is told again when it is.
   */
  "usage.level": {
    level: UsageLevelReached;
    /** Signals counted in the period. */
    used: number;
    signal_limit: number;
    overages: boolean;
    period_start: string;
    period_end: string;
  };
  "period.closed": {
    period_start: string;
    period_end: string;
    signal_limit: number;
    overages: boolean;
    accepted: number;
    held: number;
    rejected: number;
    /** Signals accepted beyond the limit, with overages on. */
    overage: number;
    /** Periods in a row over the allowance, this one included. */
    streak: number;
    extra_room_removed: boolean;
  };
  "key.expiring": {
    key_id: string;
    key_name: string;
    expires_at: string;
    /** How many days ahead the end is at most: 30, 7 or 1. */
    days: number;
    /** The key that this one was rotated into; null: it was not. */
    successor_id: string | null;
    last_used_at: string | null;
  };
  "key.silent": {
    key_id: string;
    key_name: string;
    /** Days without a call, as many as were chosen for the key. */
    days: number;
    last_used_at: string | null;
  };
  /** More than a tenth of a key's calls of five minutes were refused, and at least 20. */
  "refusals.burst": {
    key_id: string;
    from: string;
    to: string;
    calls: number;
    refused: number;
    /** Refused calls by the code that their senders got. */
    codes: Record<string, number>;
  };
  "dead_letters.added": {
    signals: number;
    /** Signals by what was wrong with them. */
    reasons: Record<string, number>;
  };
  "processing.late": {
    /** When the oldest signal that has not been recorded yet was accepted. */
    oldest_at: string;
    signals: number;
  };
  "destination.disabled": {
    destination_id: string;
    destination_name: string;
    /** `gone`: it has answered 410. `failing`: nothing has reached it for five days. */
    reason: "gone" | "failing";
  };
  "destination.test": { message: string };
}

/** Percent of the signal limit, or the first signal of the period that was refused for it. */
export type UsageLevelReached = "80" | "100" | "200" | "first_refusal";

export interface ScoringSignalMade {
  email: string;
  scoring_signal: string;
  points: number;
  /** The person's score after this one. */
  score: number;
  rule_id: string;
  signal_id: string;
  event: string;
  received_at: string;
}

export type EventId = `evt_${string}`;

/** An event of one of these types, each with its own data. */
export type EventOf<Type extends AnyEventType> = {
  [T in Type]: {
    id: EventId;
    type: T;
    /** When it became true, in milliseconds since 1970. */
    time: number;
    data: EventData[T];
  };
}[Type];

/** What a workspace's sources raise. */
export type WorkspaceEvent = EventOf<EventType>;

/** Whatever a destination can be sent. */
export type AnyEvent = EventOf<AnyEventType>;

/** What a workspace's sources are to raise. Without types nobody listens, and not one row is written. */
export interface WantedEvents {
  types: EventType[];
  /** Scores whose crossing is told, at most THRESHOLDS_MAX, ascending. */
  thresholds: number[];
  /** How many destinations the workspace has, in whatever state: where it has none, nobody asks how they are. */
  destinations?: number;
}

/**
 * Notifications of scores from one transaction, for wanted types: its scoring signals and the thresholds reached. A
 * threshold is judged once, by the scores before and after the transaction.
 */
import { fallenBelow, risenTo } from "../../domain/events/workspace-event.ts";
import type {
  EventData,
  ScoringSignalMade,
  WantedEvents,
  WorkspaceEvent,
} from "../../domain/events/workspace-event.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { newEvent } from "../../notifications/raised-events.ts";

/**
 * Limits of one notification in scoring signals and characters of text: a delivery of 256 KB carries whole
 * notifications.
 */
export const SCORED_EVENT_MAX_SIGNALS = 200;
const SCORED_EVENT_MAX_CHARACTERS = 64_000;
/** Characters of a scoring signal in addition to its texts. */
const SCORING_SIGNAL_CHARACTERS = 250;

/** The scoring part of an entry of a person's list. */
interface ScoredLine {
  scored: { signalId: string; atMs: number } | null;
}

interface ScoredPerson {
  id: number;
  email: string;
  score: number;
}

/** A line that has come to score, with the matches that count. */
interface Made {
  signalId: string;
  atMs: number;
  event: string;
  email: string;
  /** The person's score with this line. */
  score: number;
  matches: readonly RuleMatch[];
}

/** Number of times that scores have reached a threshold and fallen below it. */
export interface Crossings {
  threshold: number;
  risen: number;
  fallen: number;
}

export class ScoreNews {
  readonly #wanted: WantedEvents;
  readonly #made: Made[] = [];
  /** Id of the latest signal that scored, by person. */
  readonly #latest = new Map<number, string>();
  readonly #crossed: EventData["person.score_crossed"][] = [];
  readonly #thresholds = new Map<number, Crossings>();
  /** By how much all scores together have changed. */
  points = 0;

  constructor(wanted: WantedEvents) {
    this.#wanted = wanted;
  }

  /** Notes a line that has become the person's, with the matches of it that count. */
  made(person: ScoredPerson, { scored }: ScoredLine, event: string, matches: readonly RuleMatch[]): void {
    if (scored === null || matches.length === 0) return;
    const { signalId, atMs } = scored;
    this.#latest.set(person.id, signalId);
    this.#made.push({ signalId, atMs, event, email: person.email, score: person.score, matches });
  }

  /** Notes a person's new score, which is about to be stored. */
  changed({ id, email, score }: ScoredPerson, before: number): void {
    if (score === before) return;
    this.points += score - before;
    for (const threshold of risenTo(before, score, this.#wanted.thresholds)) {
      const signalId = this.#latest.get(id) ?? null;
      this.#crossed.push({ email, threshold, score, score_before: before, signal_id: signalId });
      this.#at(threshold).risen++;
    }
    for (const threshold of fallenBelow(before, score, this.#wanted.thresholds)) this.#at(threshold).fallen++;
  }

  get crossings(): Iterable<Crossings> {
    return this.#thresholds.values();
  }

  crossedEvents(nowMs: number): WorkspaceEvent[] {
    if (!this.#wanted.types.includes("person.score_crossed")) return [];
    return this.#crossed.map((crossed) => newEvent("person.score_crossed", crossed, nowMs));
  }

  /** The scoring signals as events of several at a time, in the order of their lines. */
  scoredEvents(nowMs: number): WorkspaceEvent[] {
    if (!this.#wanted.types.includes("person.scored")) return [];
    // Signals that were admitted together share their time, which is written out once.
    let [atMs, receivedAt] = [Number.NaN, ""];
    const all = this.#made.flatMap((made) => {
      if (made.atMs !== atMs) [atMs, receivedAt] = [made.atMs, new Date(made.atMs).toISOString()];
      return scoringSignals(made, receivedAt);
    });
    return inPieces(all).map((some) => newEvent("person.scored", { scoring_signals: some }, nowMs));
  }

  #at(threshold: number): Crossings {
    const known = this.#thresholds.get(threshold);
    if (known !== undefined) return known;
    const crossings = { threshold, risen: 0, fallen: 0 };
    this.#thresholds.set(threshold, crossings);
    return crossings;
  }
}

function inPieces(all: readonly ScoringSignalMade[]): ScoringSignalMade[][] {
  const pieces: ScoringSignalMade[][] = [];
  let [piece, characters]: [ScoringSignalMade[], number] = [[], 0];
  for (const one of all) {
    const more = SCORING_SIGNAL_CHARACTERS + one.email.length + one.event.length + one.scoring_signal.length;
    if (
      piece.length === 0 ||
      piece.length === SCORED_EVENT_MAX_SIGNALS ||
      characters + more > SCORED_EVENT_MAX_CHARACTERS
    ) {
      [piece, characters] = [[], 0];
      pieces.push(piece);
    }
    piece.push(one);
    characters += more;
  }
  return pieces;
}

/** The scoring signals of a line: it may have scored by several rules. */
function scoringSignals({ email, signalId, event, score, matches }: Made, receivedAt: string): ScoringSignalMade[] {
  return matches.map(({ scoringSignal, points, ruleId }) => ({
    email,
    scoring_signal: scoringSignal,
    points,
    score,
    rule_id: ruleId,
    signal_id: signalId,
    event,
    received_at: receivedAt,
  }));
}

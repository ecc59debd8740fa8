/** Notification types that the store must raise. Stored in the head, so that unwanted types cost nothing. */
import { fallenBelow, risenTo } from "../../domain/events/workspace-event.ts";
import type {
  EventData,
  EventType,
  ScoringSignalMade,
  WantedEvents,
  WorkspaceEvent,
} from "../../domain/events/workspace-event.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import type { DeadLetterNews, StoreState } from "./store-state.ts";

/** Sets the wanted types from the next transaction on. The caller writes the head. */
export function wantEvents({ books }: StoreState, wanted: WantedEvents): void {
  books.wanted = wanted.types.length === 0 ? null : wanted;
  if (!wanted.types.includes("dead_letters.added")) books.deadLetterNews = null;
}

export function wants({ books }: StoreState, type: EventType): boolean {
  return books.wanted !== null && books.wanted.types.includes(type);
}

/** Dead letters within this time after a notification share the next one: a broken sender causes one a minute. */
export const DEAD_LETTERS_TOLD_MS = 60_000;
/** Reasons that an event of dead letters tells apart, and characters of each. */
const DEAD_LETTER_REASONS = 20;
const DEAD_LETTER_REASON_CHARACTERS = 200;

const OTHERS = "Other reasons";

/** Counts added dead letters by reason. Returns the notification if it is due at once. The caller writes the head. */
export function noteDeadLetters(state: StoreState, reasons: readonly string[], nowMs: number): WorkspaceEvent[] {
  if (reasons.length === 0 || !wants(state, "dead_letters.added")) return [];
  const news = (state.books.deadLetterNews ??= { toldAtMs: 0, waiting: [] });
  for (const reason of reasons) count(news, reason.slice(0, DEAD_LETTER_REASON_CHARACTERS));
  return nowMs - news.toldAtMs < DEAD_LETTERS_TOLD_MS ? [] : tellDeadLetters(state, nowMs);
}

/** Due time of the waiting notification, in milliseconds since 1970; null: none waits. */
export function nextDeadLetterNewsMs({ books: { deadLetterNews } }: StoreState): number | null {
  if (deadLetterNews === null || deadLetterNews.waiting.length === 0) return null;
  return deadLetterNews.toldAtMs + DEAD_LETTERS_TOLD_MS;
}

/** Raises the event of dead letters that have waited long enough. */
export function raiseDeadLetters(state: StoreState, nowMs: number): void {
  state.raised.raise(tellDeadLetters(state, nowMs));
  state.signals.flush();
}

/** One notification of all waiting dead letters. */
function tellDeadLetters(state: StoreState, nowMs: number): WorkspaceEvent[] {
  const reasons = state.books.deadLetterNews?.waiting ?? [];
  if (reasons.length === 0) return [];
  state.books.deadLetterNews = { toldAtMs: nowMs, waiting: [] };
  const signals = reasons.reduce((sum, [, of]) => sum + of, 0);
  return [newEvent("dead_letters.added", { signals, reasons: Object.fromEntries(reasons) }, nowMs)];
}

function count({ waiting }: DeadLetterNews, reason: string): void {
  const known = waiting.find(([one]) => one === reason);
  if (known !== undefined) known[1]++;
  else if (reason !== OTHERS && waiting.length >= DEAD_LETTER_REASONS) count({ toldAtMs: 0, waiting }, OTHERS);
  else waiting.push([reason, 1]);
}

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

/** The types of notifications that the store must raise, and the notifications about scores. */
import type { EventData } from "../../domain/events/event-data.ts";
import {
  fallenBelow,
  risenTo,
  type Crossings,
  type EventType,
  type ScoringSignalMade,
  type WantedEvents,
  type WorkspaceEvent,
} from "../../domain/events/workspace-event.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import type { StoreState } from "./store-state.ts";

/** Sets the wanted types from the next transaction on. They are in the head, so that unwanted types cost nothing. The caller flushes. */
export function wantEvents({ books }: StoreState, wanted: WantedEvents): void {
  books.wanted = wanted.types.length === 0 ? null : wanted;
  if (!wanted.types.includes("dead_letters.added")) books.deadLetterNews = null;
}

export function wants({ books }: StoreState, type: EventType): boolean {
  return books.wanted !== null && books.wanted.types.includes(type);
}

/** Limits of one notification, in scoring signals and characters of text: a delivery of 256 KB carries whole notifications. */
export const SCORED_EVENT_MAX_SIGNALS = 200;
const SCORED_EVENT_MAX_CHARACTERS = 64_000;
/** Characters of a scoring signal in addition to its texts. */
const SCORING_SIGNAL_CHARACTERS = 250;

interface ScoredPerson {
  id: number;
  email: string;
  score: number;
}

interface ScoredAccount {
  external_id: string;
  name: string | null;
  score: number;
}

interface ScoredLine {
  signalId: string;
  atMs: number;
  event: string;
}

export function addCrossings(sums: Crossings[], step: Iterable<Crossings>): void {
  for (const { threshold, risen, fallen } of step) {
    const sum = sums.find((known) => known.threshold === threshold);
    if (sum === undefined) sums.push({ threshold, risen, fallen });
    else Object.assign(sum, { risen: sum.risen + risen, fallen: sum.fallen + fallen });
  }
  sums.sort((a, b) => a.threshold - b.threshold);
}

/** The changes of scores in one transaction. */
export class ScoreNews {
  readonly #wanted: WantedEvents;
  readonly #made: ScoringSignalMade[] = [];
  /** Id of the latest signal that scored, by person. */
  readonly #latest = new Map<number, string>();
  readonly #crossed: EventData["person.score_crossed"][] = [];
  readonly #fell: EventData["person.score_fell"][] = [];
  readonly #ofAccounts: {
    type: "account.score_crossed" | "account.score_fell";
    data: EventData["account.score_fell"];
  }[] = [];
  readonly #crossings = new Map<number, Crossings>();
  /** Sum of all changes of scores. */
  points = 0;

  constructor(wanted: WantedEvents) {
    this.#wanted = wanted;
  }

  get crossings(): Iterable<Crossings> {
    return this.#crossings.values();
  }

  /** @param person with the score that includes these matches. @param matches the matches that count. */
  noteScored(person: ScoredPerson, { signalId, atMs, event }: ScoredLine, matches: readonly RuleMatch[]): void {
    if (matches.length === 0) return;
    this.#latest.set(person.id, signalId);
    if (!this.#wanted.types.includes("person.scored")) return;
    for (const { scoringSignal, points, ruleId } of matches) {
      this.#made.push({
        email: person.email,
        scoring_signal: scoringSignal,
        points,
        score: person.score,
        rule_id: ruleId,
        signal_id: signalId,
        event,
        received_at: new Date(atMs).toISOString(),
      });
    }
  }

  noteScoreChange({ id, email, score }: ScoredPerson, before: number): void {
    if (score === before) return;
    this.points += score - before;
    const { thresholds } = this.#wanted;
    for (const threshold of risenTo(before, score, thresholds)) {
      const signalId = this.#latest.get(id) ?? null;
      this.#crossed.push({ email, threshold, score, score_before: before, signal_id: signalId });
      this.#crossingsOf(threshold).risen++;
    }
    for (const threshold of fallenBelow(before, score, thresholds)) {
      this.#fell.push({ email, threshold, score, score_before: before });
      this.#crossingsOf(threshold).fallen++;
    }
  }

  noteAccountScore({ external_id, name, score }: ScoredAccount, before: number): void {
    const thresholds = this.#wanted.accountThresholds;
    const data = { external_id, name, score, score_before: before };
    for (const threshold of risenTo(before, score, thresholds)) {
      this.#ofAccounts.push({ type: "account.score_crossed", data: { ...data, threshold } });
    }
    for (const threshold of fallenBelow(before, score, thresholds)) {
      this.#ofAccounts.push({ type: "account.score_fell", data: { ...data, threshold } });
    }
  }

  thresholdEvents(nowMs: number): WorkspaceEvent[] {
    return [...this.personEvents(nowMs), ...this.accountEvents(nowMs)];
  }

  personEvents(nowMs: number): WorkspaceEvent[] {
    const { types } = this.#wanted;
    const crossed = types.includes("person.score_crossed") ? this.#crossed : [];
    const fell = types.includes("person.score_fell") ? this.#fell : [];
    return [
      ...crossed.map((data) => newEvent("person.score_crossed", data, nowMs)),
      ...fell.map((data) => newEvent("person.score_fell", data, nowMs)),
    ];
  }

  accountEvents(nowMs: number): WorkspaceEvent[] {
    return this.#ofAccounts
      .filter(({ type }) => this.#wanted.types.includes(type))
      .map(({ type, data }) => newEvent(type, data, nowMs));
  }

  scoredEvents(nowMs: number): WorkspaceEvent[] {
    const pieces: ScoringSignalMade[][] = [];
    let characters = 0;
    for (const made of this.#made) {
      const more = SCORING_SIGNAL_CHARACTERS + made.email.length + made.event.length + made.scoring_signal.length;
      const piece = pieces.at(-1);
      characters += more;
      if (
        piece === undefined ||
        piece.length === SCORED_EVENT_MAX_SIGNALS ||
        characters > SCORED_EVENT_MAX_CHARACTERS
      ) {
        pieces.push([made]);
        characters = more;
      } else piece.push(made);
    }
    return pieces.map((signals) => newEvent("person.scored", { scoring_signals: signals }, nowMs));
  }

  #crossingsOf(threshold: number): Crossings {
    const known = this.#crossings.get(threshold) ?? { threshold, risen: 0, fallen: 0 };
    this.#crossings.set(threshold, known);
    return known;
  }
}

/** The types of notifications that the store must raise, and the notifications about scores. */
import type { NotificationData } from "../../domain/notifications/notification-data.ts";
import {
  fallenBelow,
  risenTo,
  type Crossings,
  type NotificationType,
  type ScoringSignalMade,
  type WantedNotifications,
  type Notification,
} from "../../domain/notifications/notification.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { newNotification } from "../../notifications/raised-notifications.ts";
import type { StoreState } from "./store-state.ts";

/** Sets the wanted types from the next transaction on. They are in the head, so that unwanted types cost nothing. The caller flushes. */
export function wantNotifications({ head }: StoreState, wanted: WantedNotifications): void {
  head.wanted = wanted.types.length === 0 ? null : wanted;
  if (!wanted.types.includes("dead_letters.added")) head.deadLetterNotification = null;
}

export function wants({ head }: StoreState, type: NotificationType): boolean {
  return head.wanted !== null && head.wanted.types.includes(type);
}

/** Limits of one notification, in scoring signals and characters of text: a delivery of 256 KB carries whole notifications. */
export const SCORED_NOTIFICATION_MAX_SIGNALS = 200;
const SCORED_NOTIFICATION_MAX_CHARACTERS = 64_000;
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

/** A person's score that passed a threshold, upwards or downwards. */
export interface Crossing {
  person: { id: number; email: string };
  threshold: number;
  score: number;
  scoreBefore: number;
  /** The latest signal that scored; null: none has. */
  signalId: string | null;
}

export interface ScoreSums {
  /** Sum of the changes of scores. */
  points: number;
  crossings: Crossing[];
}

export function addCrossings(sums: Crossings[], crossings: readonly Crossing[]): void {
  for (const { threshold, score, scoreBefore } of crossings) {
    let sum = sums.find((known) => known.threshold === threshold);
    if (sum === undefined) sums.push((sum = { threshold, risen: 0, fallen: 0 }));
    sum[score > scoreBefore ? "risen" : "fallen"]++;
  }
  sums.sort((a, b) => a.threshold - b.threshold);
}

export function crossingNotifications(
  { head }: StoreState,
  crossings: readonly Crossing[],
  atMs: number,
): Notification[] {
  const isRise = ({ score, scoreBefore }: Crossing): boolean => score > scoreBefore;
  const types = head.wanted?.types ?? [];
  const risen = types.includes("person.score_crossed") ? crossings.filter(isRise) : [];
  const fallen = types.includes("person.score_fell") ? crossings.filter((crossing) => !isRise(crossing)) : [];
  const dataOf = ({ person: { email }, threshold, score, scoreBefore }: Crossing) => {
    return { email, threshold, score, score_before: scoreBefore };
  };
  return [
    ...risen.map((crossing) =>
      newNotification("person.score_crossed", { ...dataOf(crossing), signal_id: crossing.signalId }, atMs),
    ),
    ...fallen.map((crossing) => newNotification("person.score_fell", dataOf(crossing), atMs)),
  ];
}

/** The changes of scores in one transaction. */
export class ScoreNotifications {
  readonly #wanted: WantedNotifications;
  readonly #made: ScoringSignalMade[] = [];
  /** Id of the latest signal that scored, by person. */
  readonly #latest = new Map<number, string>();
  readonly #ofAccounts: {
    type: "account.score_crossed" | "account.score_fell";
    data: NotificationData["account.score_fell"];
  }[] = [];
  /** Points that lapsed, and all other changes. */
  readonly lapses: ScoreSums = { points: 0, crossings: [] };
  readonly changes: ScoreSums = { points: 0, crossings: [] };

  constructor(wanted: WantedNotifications) {
    this.#wanted = wanted;
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

  /** Compares a person's score with the thresholds. @param sums that receive the crossings. */
  compare({ id, email }: Pick<ScoredPerson, "id" | "email">, before: number, score: number, sums: ScoreSums): void {
    if (score === before) return;
    const { thresholds } = this.#wanted;
    for (const threshold of [...risenTo(before, score, thresholds), ...fallenBelow(before, score, thresholds)]) {
      const signalId = sums === this.changes ? (this.#latest.get(id) ?? null) : null;
      sums.crossings.push({ person: { id, email }, threshold, score, scoreBefore: before, signalId });
    }
  }

  compareAccount({ external_id, name, score }: ScoredAccount, before: number): void {
    const thresholds = this.#wanted.accountThresholds;
    const data = { external_id, name, score, score_before: before };
    for (const threshold of risenTo(before, score, thresholds)) {
      this.#ofAccounts.push({ type: "account.score_crossed", data: { ...data, threshold } });
    }
    for (const threshold of fallenBelow(before, score, thresholds)) {
      this.#ofAccounts.push({ type: "account.score_fell", data: { ...data, threshold } });
    }
  }

  accountNotifications(nowMs: number): Notification[] {
    return this.#ofAccounts
      .filter(({ type }) => this.#wanted.types.includes(type))
      .map(({ type, data }) => newNotification(type, data, nowMs));
  }

  scoredNotifications(nowMs: number): Notification[] {
    const pieces: ScoringSignalMade[][] = [];
    let characters = 0;
    for (const made of this.#made) {
      const more = SCORING_SIGNAL_CHARACTERS + made.email.length + made.event.length + made.scoring_signal.length;
      const piece = pieces.at(-1);
      characters += more;
      if (
        piece === undefined ||
        piece.length === SCORED_NOTIFICATION_MAX_SIGNALS ||
        characters > SCORED_NOTIFICATION_MAX_CHARACTERS
      ) {
        pieces.push([made]);
        characters = more;
      } else piece.push(made);
    }
    return pieces.map((signals) => newNotification("person.scored", { scoring_signals: signals }, nowMs));
  }
}

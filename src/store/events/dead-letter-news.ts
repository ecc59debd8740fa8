/**
 * Dead letters, as they are told: the first at once, and those that follow within DEAD_LETTERS_TOLD_MS together, for a
 * sender that is broken goes on. What waits to be told stands in the head, which recording writes in any case.
 */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { newEvent } from "../../events/raised-events.ts";
import { DEAD_LETTERS_TOLD_MS, DEAD_LETTER_REASONS, DEAD_LETTER_REASON_CHARACTERS } from "../../limits.ts";
import type { StoreState } from "../state.ts";
import { wants } from "./wanted.ts";

/** As the head has them. */
export interface DeadLetterNews {
  /** When the latest were told. */
  toldAtMs: number;
  /** How many wait, by reason. */
  waiting: [reason: string, signals: number][];
}

const OTHERS = "Other reasons";

/** Some have been added, for these reasons. The caller writes the head. */
export function noteDeadLetters(state: StoreState, reasons: readonly string[], nowMs: number): WorkspaceEvent[] {
  if (reasons.length === 0 || !wants(state, "dead_letters.added")) return [];
  const news = (state.books.deadLetterNews ??= { toldAtMs: 0, waiting: [] });
  for (const reason of reasons) count(news, reason.slice(0, DEAD_LETTER_REASON_CHARACTERS));
  return nowMs - news.toldAtMs < DEAD_LETTERS_TOLD_MS ? [] : tellDeadLetters(state, nowMs);
}

/** When those that wait are to be told, in milliseconds since 1970; null: none does. */
export function nextDeadLetterNewsMs({ books: { deadLetterNews } }: StoreState): number | null {
  if (deadLetterNews === null || deadLetterNews.waiting.length === 0) return null;
  return deadLetterNews.toldAtMs + DEAD_LETTERS_TOLD_MS;
}

/** Those that wait have waited long enough. */
export function raiseDeadLetters(state: StoreState, nowMs: number): void {
  state.raised.raise(tellDeadLetters(state, nowMs));
  state.signals.flush();
}

/** One event of all that wait. */
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

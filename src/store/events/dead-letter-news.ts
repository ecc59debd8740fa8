/**
 * Dead letters, as they are told: the first at once, and those that follow within DEAD_LETTERS_TOLD_MS together, for a
 * sender that is broken goes on. What waits to be told stands in the head, which recording writes in any case.
 */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import type { StoreState } from "../state/store-state.ts";
import type { DeadLetterNews } from "../state/store-state.ts";
import { wants } from "./wanted.ts";

/** Dead letters that come within this time of an event of some are told together: of a broken sender one event a minute. */
export const DEAD_LETTERS_TOLD_MS = 60_000;
/** Reasons that an event of dead letters tells apart, and characters of each. */
const DEAD_LETTER_REASONS = 20;
const DEAD_LETTER_REASON_CHARACTERS = 200;

const OTHERS = "Other reasons";

/**
 * Notes that dead letters have been added, for these reasons; returns the event, if they are told at once. The caller writes
 * the head.
 */
export function noteDeadLetters(state: StoreState, reasons: readonly string[], nowMs: number): WorkspaceEvent[] {
  if (reasons.length === 0 || !wants(state, "dead_letters.added")) return [];
  const news = (state.books.deadLetterNews ??= { toldAtMs: 0, waiting: [] });
  for (const reason of reasons) count(news, reason.slice(0, DEAD_LETTER_REASON_CHARACTERS));
  return nowMs - news.toldAtMs < DEAD_LETTERS_TOLD_MS ? [] : tellDeadLetters(state, nowMs);
}

/** When the dead letters that wait are to be told, in milliseconds since 1970; null: none does. */
export function nextDeadLetterNewsMs({ books: { deadLetterNews } }: StoreState): number | null {
  if (deadLetterNews === null || deadLetterNews.waiting.length === 0) return null;
  return deadLetterNews.toldAtMs + DEAD_LETTERS_TOLD_MS;
}

/** Raises the event of dead letters that have waited long enough. */
export function raiseDeadLetters(state: StoreState, nowMs: number): void {
  state.raised.raise(tellDeadLetters(state, nowMs));
  state.signals.flush();
}

/** One event of all dead letters that wait. */
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

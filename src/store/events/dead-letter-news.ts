/**
 * Notifications of dead letters: the first at once, those within the next DEAD_LETTERS_TOLD_MS together, because a
 * broken sender continues. Waiting counts are stored in the head, which recording writes anyway.
 */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import type { StoreState } from "../state/store-state.ts";
import type { DeadLetterNews } from "../state/store-state.ts";
import { wants } from "./wanted.ts";

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

/** Dead letters (design §8): signals that could not be processed, with the reason, until an admin replays them. */
import type { WorkspaceEvent } from "../../domain/events/workspace-event.ts";
import { parsed } from "../../domain/json/json-value.ts";
import { newEvent } from "../../notifications/raised-events.ts";
import { pageOf, type Page, type PageOf } from "../../platform/list-page.ts";
import type { Admission } from "../../wire/admission.ts";
import type { DeadLetter, SignalToRecord } from "../protocol/stored-signals.ts";
import type { DeadLetterRow } from "../schema.ts";
import { wants } from "./raise-events.ts";
import type { StoreState } from "./store-state.ts";

/** The highest number that a dead letter has had, even if it is gone; 0: there was none. */
export function lastDeadLetter(sql: SqlStorage): number {
  const [last] = sql.exec<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'dead_letters'");
  return last?.seq ?? 0;
}

export function insertDeadLetter(sql: SqlStorage, signal: SignalToRecord, reason: string, nowMs: number): void {
  const { resent: _resent, ...admission } = signal.admission;
  sql.exec(
    `INSERT INTO dead_letters (id, status, admission, reason, payload, recorded_at, received_at)
     VALUES (?, 'dead', ?, ?, ?, ?, ?)`,
    admission.id,
    JSON.stringify(admission),
    reason,
    signal.payload,
    nowMs,
    admission.receivedAtMs,
  );
}

/** A signal can have several dead letters. Returns the latest. */
export function findDeadLetter(sql: SqlStorage, id: string): DeadLetterRow | null {
  const [row] = sql.exec<DeadLetterRow>("SELECT * FROM dead_letters WHERE id = ? ORDER BY seq DESC LIMIT 1", id);
  return row ?? null;
}

export function admissionOf({ admission }: Pick<DeadLetterRow, "admission">): Admission {
  return JSON.parse(admission) as Admission;
}

export function latestDeadLetterMs(sql: SqlStorage): number | null {
  const [latest] = sql.exec<{ recorded_at: number }>(
    "SELECT recorded_at FROM dead_letters WHERE status = 'dead' AND seq < ? ORDER BY seq DESC LIMIT 1",
    Number.MAX_SAFE_INTEGER,
  );
  return latest?.recorded_at ?? null;
}

export function listDeadLetters(sql: SqlStorage, page: Page): PageOf<DeadLetter> {
  const rows = sql
    .exec<DeadLetterRow>(
      "SELECT * FROM dead_letters WHERE status = 'dead' AND seq < ? ORDER BY seq DESC LIMIT ?",
      page.cursor === null ? Number.MAX_SAFE_INTEGER : Number(page.cursor),
      page.limit + 1,
    )
    .toArray();
  const { items, next } = pageOf(rows, page, (row) => String(row.seq));
  const shown = items.map(({ id, reason, received_at: receivedAtMs, recorded_at: deadAtMs, payload }) => {
    return { id, reason, receivedAtMs, deadAtMs, payload: parsed(payload) };
  });
  return { items: shown, next };
}

// Notifications of new dead letters

/** Dead letters within this time after a notification share the next one: a broken sender causes one a minute. */
export const DEAD_LETTERS_PAUSE_MS = 60_000;
/** Reasons that a notification tells apart, and characters of each. */
const DEAD_LETTER_REASONS = 20;
const DEAD_LETTER_REASON_CHARACTERS = 200;
const OTHER_REASONS = "Other reasons";

/** Counts added dead letters by reason. Returns the notification if it is due at once. The caller flushes the head. */
export function noteDeadLetters(state: StoreState, reasons: readonly string[], nowMs: number): WorkspaceEvent[] {
  if (reasons.length === 0 || !wants(state, "dead_letters.added")) return [];
  const news = (state.books.deadLetterNews ??= { toldAtMs: 0, waiting: [] });
  const counts = new Map(news.waiting);
  for (const reason of reasons) {
    const cut = reason.slice(0, DEAD_LETTER_REASON_CHARACTERS);
    const name = counts.has(cut) || counts.size < DEAD_LETTER_REASONS ? cut : OTHER_REASONS;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  news.waiting = [...counts];
  return nowMs - news.toldAtMs < DEAD_LETTERS_PAUSE_MS ? [] : takeDeadLetterNews(state, nowMs);
}

export function nextDeadLetterNewsMs({ books: { deadLetterNews } }: StoreState): number | null {
  if (deadLetterNews === null || deadLetterNews.waiting.length === 0) return null;
  return deadLetterNews.toldAtMs + DEAD_LETTERS_PAUSE_MS;
}

export function raiseDeadLetters(state: StoreState, nowMs: number): void {
  state.raised.raise(takeDeadLetterNews(state, nowMs));
  state.signals.flush();
}

function takeDeadLetterNews(state: StoreState, nowMs: number): WorkspaceEvent[] {
  const reasons = state.books.deadLetterNews?.waiting ?? [];
  if (reasons.length === 0) return [];
  state.books.deadLetterNews = { toldAtMs: nowMs, waiting: [] };
  const signals = reasons.reduce((sum, [, count]) => sum + count, 0);
  return [newEvent("dead_letters.added", { signals, reasons: Object.fromEntries(reasons) }, nowMs)];
}

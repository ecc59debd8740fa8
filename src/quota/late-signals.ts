/** Whether signals wait too long to be recorded, as far as somebody wants to be told. */
import { newEvent } from "../events/raised-events.ts";
import type { Alarm } from "../platform/alarm.ts";
import type { CounterNews } from "./counter-news.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { Outbox } from "./outbox.ts";

/** From this age on the oldest signal that is not recorded is told of: a healthy backlog is a hundred times younger. */
export const PROCESSING_LATE_MS = 10 * 60_000;

export interface Lateness {
  state: LedgerState;
  news: CounterNews;
  outbox: Outbox;
  /** When it rings, `noteLateness` is called. */
  alarm: Alarm;
}

/** Raises an event when signals wait too long, once until none does any more. */
export function noteLateness({ state, news, outbox, alarm }: Lateness, nowMs: number): void {
  if (!news.wants("processing.late")) return;
  const oldest = outbox.oldest();
  const lateMs = (oldest?.atMs ?? Number.POSITIVE_INFINITY) + PROCESSING_LATE_MS;
  const late = lateMs <= nowMs;
  if (!late) alarm.by(lateMs);
  if (late === state.ledger?.late) return;
  state.update(nowMs, (ledger) => {
    ledger.late = late;
    if (!late || oldest === null) return { save: true };
    const data = { oldest_at: new Date(oldest.atMs).toISOString(), signals: outbox.unsettled() };
    return { save: true, events: [newEvent("processing.late", data, nowMs)] };
  });
}

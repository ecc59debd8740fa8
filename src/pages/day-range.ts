/** The days that a list's address asks for: `from` and `to`, each a day in UTC, both included. Pure. */
import { DAY_MS } from "../domain/duration.ts";

export interface DayRange {
  /** As they are shown and sent on; empty: no bound. */
  from: string;
  to: string;
  /** Milliseconds since 1970: not before, and before. */
  sinceMs: number | null;
  untilMs: number | null;
}

/** What is no day is as if it were not there. */
export function readDayRange(asked: Record<string, string>): DayRange {
  const [from, to] = [dayOf(asked["from"]), dayOf(asked["to"])];
  return {
    from: from === null ? "" : (asked["from"] ?? ""),
    to: to === null ? "" : (asked["to"] ?? ""),
    sinceMs: from,
    untilMs: to === null ? null : to + DAY_MS,
  };
}

/** For the address of the next page, without what is empty. */
export function shownRange({ from, to }: DayRange): Record<string, string> {
  return { ...(from === "" ? {} : { from }), ...(to === "" ? {} : { to }) };
}

function dayOf(text: string | undefined): number | null {
  if (text === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return null;
  const ms = Date.parse(`${text}T00:00:00.000Z`);
  // Not the 31st of February, which becomes a day of March.
  return Number.isNaN(ms) || ms < 0 || new Date(ms).toISOString().slice(0, 10) !== text ? null : ms;
}

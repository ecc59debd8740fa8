/** The days that a list's address asks for: `from` and `to`, each a day in UTC, both included. Pure. */
import { DAY_MS } from "../domain/duration.ts";

export interface DayRange {
  /** The first and the last day as they are shown and sent on, `2026-11-21`. Empty: no bound on that side. */
  from: string;
  to: string;
  /** The same range in milliseconds since 1970: `sinceMs` is in it, `untilMs` is not. Null: no bound on that side. */
  sinceMs: number | null;
  untilMs: number | null;
}

/** The range that a query asks for; a text that is no day is passed over. */
export function readDayRange(asked: Record<string, string>): DayRange {
  const [from, to] = [dayStartMs(asked["from"]), dayStartMs(asked["to"])];
  return {
    from: from === null ? "" : (asked["from"] ?? ""),
    to: to === null ? "" : (asked["to"] ?? ""),
    sinceMs: from,
    untilMs: to === null ? null : to + DAY_MS,
  };
}

/** The range as query fields for the address of the next page, without empty ones. */
export function shownRange({ from, to }: DayRange): Record<string, string> {
  return { ...(from === "" ? {} : { from }), ...(to === "" ? {} : { to }) };
}

function dayStartMs(text: string | undefined): number | null {
  if (text === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return null;
  const ms = Date.parse(`${text}T00:00:00.000Z`);
  // JavaScript makes a day of March of the 31st of February: such a day is refused.
  return Number.isNaN(ms) || ms < 0 || new Date(ms).toISOString().slice(0, 10) !== text ? null : ms;
}

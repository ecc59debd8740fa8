/** What the address of the activity page asks for. Pure. */
import type { AuditFilter } from "../../control/audit-list.ts";
import { EMAIL_MAX_LENGTH } from "../../limits.ts";
import { readDayRange, shownRange, type DayRange } from "../day-range.ts";

export interface ActivityQuery {
  actor: string;
  action: string;
  /** An API key's id. Empty: entries of every key, and those that concern no key. */
  key: string;
  days: DayRange;
  filter: AuditFilter;
  /** The address's query without its empty fields. */
  shown: Record<string, string>;
}

export function readActivityQuery(asked: Record<string, string>, forManagers: boolean): ActivityQuery {
  const actor = (asked["actor"] ?? "").trim().toLowerCase().slice(0, EMAIL_MAX_LENGTH);
  const action = (asked["action"] ?? "").trim();
  const key = forManagers ? (asked["key"] ?? "").trim() : "";
  const { cursor } = asked;
  const days = readDayRange(asked);
  const { sinceMs, untilMs } = days;
  return {
    actor,
    action,
    days,
    key,
    filter: {
      ...(actor === "" ? {} : { actor }),
      ...(action === "" ? {} : { action }),
      ...(key === "" ? {} : { target: key }),
      sinceMs,
      untilMs,
      forManagers,
    },
    shown: {
      ...(actor === "" ? {} : { actor }),
      ...(action === "" ? {} : { action }),
      ...(key === "" ? {} : { key }),
      ...shownRange(days),
      ...(cursor === undefined ? {} : { cursor }),
    },
  };
}

/** What the address of the activity page asks for. Pure. */
import type { AuditFilter } from "../../control/audit.ts";
import { EMAIL_MAX_LENGTH } from "../../limits.ts";
import { shownKey, type KeyFilter } from "../key-filter.ts";
import { readDayRange, shownRange, type DayRange } from "../day-range.ts";

export interface ActivityQuery {
  actor: string;
  action: string;
  days: DayRange;
  filter: AuditFilter;
  /** The address's query without its empty fields. */
  shown: Record<string, string>;
}

/** @param key the one whose entries are asked for; null: the reader sees nothing of keys and notifications. */
export function readActivityQuery(asked: Record<string, string>, key: KeyFilter | null): ActivityQuery {
  const actor = (asked["actor"] ?? "").trim().toLowerCase().slice(0, EMAIL_MAX_LENGTH);
  const action = (asked["action"] ?? "").trim();
  const { cursor } = asked;
  const days = readDayRange(asked);
  const { sinceMs, untilMs } = days;
  return {
    actor,
    action,
    days,
    filter: {
      ...(actor === "" ? {} : { actor }),
      ...(action === "" ? {} : { action }),
      ...(key === null || key.id === "" ? {} : { target: key.id }),
      sinceMs,
      untilMs,
      forManagers: key !== null,
    },
    shown: {
      ...(actor === "" ? {} : { actor }),
      ...(action === "" ? {} : { action }),
      ...(key === null ? {} : shownKey(key)),
      ...shownRange(days),
      ...(cursor === undefined ? {} : { cursor }),
    },
  };
}

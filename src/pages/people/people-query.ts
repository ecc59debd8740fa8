/** What the address of the list of people asks for. Pure; what makes no sense is as if it were not there. */
import { dayOf } from "../../domain/quota/day-counts.ts";
import type { PeopleQuery, PeopleSort } from "../../store/protocol/people-and-accounts.ts";
import { readDayRange, shownRange } from "../day-range.ts";
import type { DayRange } from "../day-range.ts";
import { choiceOf, searchText, shownOf, type Asked } from "../list-query.ts";

export const PEOPLE_SORTS = {
  newest: "Newest",
  last_seen: "Last seen",
  last_seen_up: "Longest unseen",
  score: "Highest score",
  score_up: "Lowest score",
  email: "Email",
} as const satisfies Record<PeopleSort, string>;

export interface PeopleList {
  q: string;
  sort: PeopleSort;
  /** The lowest score that is shown, as typed. Empty: any score. */
  minScore: string;
  /** The days on which people were last seen. */
  days: DayRange;
  query: PeopleQuery;
  /** The address's query without fields that have their default. */
  shown: Asked;
}

export function readPeopleQuery(asked: Asked): PeopleList {
  const q = searchText(asked);
  const sort = choiceOf(PEOPLE_SORTS, asked["sort"], "newest");
  const score = /^\s*-?\d{1,9}\s*$/.test(asked["score"] ?? "") ? String(Number(asked["score"])) : "";
  const days = readDayRange(asked);
  const { sinceMs, untilMs } = days;
  return {
    q,
    sort,
    minScore: score,
    days,
    query: {
      sort,
      ...(q === "" ? {} : { text: q }),
      ...(score === "" ? {} : { minScore: Number(score) }),
      ...(sinceMs === null ? {} : { sinceDay: dayOf(sinceMs) }),
      ...(untilMs === null ? {} : { untilDay: dayOf(untilMs) - 1 }),
    },
    shown: shownOf({ q, sort: sort === "newest" ? "" : sort, score, ...shownRange(days), cursor: asked["cursor"] }),
  };
}

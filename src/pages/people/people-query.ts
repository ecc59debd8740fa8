/** What the addresses of the lists of people and accounts ask for. Pure; what makes no sense is as if it were not there. */
import { dayOf } from "../../domain/quota/day-counts.ts";
import { IDENTITY_MAX_LENGTH } from "../../limits.ts";
import type { AccountsQuery, AccountsSort, PeopleQuery, PeopleSort } from "../../store/record-pages.ts";
import { readDayRange, shownRange } from "../day-range.ts";
import type { DayRange } from "../day-range.ts";

export const PEOPLE_SORTS = {
  newest: "Newest",
  last_seen: "Last seen",
  last_seen_up: "Longest unseen",
  score: "Highest score",
  score_up: "Lowest score",
  email: "Email",
} as const satisfies Record<PeopleSort, string>;

export const ACCOUNTS_SORTS = { newest: "Newest first", last_seen: "Last seen" } as const satisfies Record<
  AccountsSort,
  string
>;

type Asked = Record<string, string>;

export interface PeopleList {
  q: string;
  sort: PeopleSort;
  /** The lowest score that is shown, as typed. Empty: any score. */
  minScore: string;
  /** The days on which people or accounts were last seen. */
  days: DayRange;
  query: PeopleQuery;
  /** The address's query without fields that have their default. */
  shown: Asked;
}

export function readPeopleQuery(asked: Asked): PeopleList {
  const q = searchText(asked);
  const sort = oneOf(PEOPLE_SORTS, asked["sort"], "newest");
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

export interface AccountsList {
  q: string;
  sort: AccountsSort;
  query: AccountsQuery;
  shown: Asked;
}

export function readAccountsQuery(asked: Asked): AccountsList {
  const q = searchText(asked);
  const sort = oneOf(ACCOUNTS_SORTS, asked["sort"], "newest");
  return {
    q,
    sort,
    query: q === "" ? { sort } : { prefix: q },
    shown: shownOf({ q, sort: sort === "newest" ? "" : sort, cursor: asked["cursor"] }),
  };
}

/** The text to look for, of whole characters, because halves cannot be compared, and as long as an email or id at most. */
function searchText(asked: Asked): string {
  return (asked["q"] ?? "").toWellFormed().trim().slice(0, IDENTITY_MAX_LENGTH);
}

function oneOf<Key extends string>(of: Record<Key, string>, value: string | undefined, otherwise: Key): Key {
  return value !== undefined && Object.hasOwn(of, value) ? (value as Key) : otherwise;
}

function shownOf(parts: Record<string, string | undefined>): Asked {
  const shown: Asked = {};
  for (const [name, value] of Object.entries(parts)) if (value !== undefined && value !== "") shown[name] = value;
  return shown;
}

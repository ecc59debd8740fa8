/** What the addresses of the lists of people and accounts ask for. Pure; what makes no sense is as if it were not there. */
import { IDENTITY_MAX_LENGTH } from "../limits.ts";
import type { AccountsQuery, AccountsSort, PeopleQuery, PeopleSort } from "../store/record-pages.ts";

export const PEOPLE_SORTS = {
  newest: "Newest first",
  last_seen: "Last seen",
  score: "Highest score",
  email: "Email",
} as const satisfies Record<PeopleSort, string>;

export const ACCOUNTS_SORTS = { newest: "Newest first", last_seen: "Last seen" } as const satisfies Record<
  AccountsSort,
  string
>;

export const SEARCHED = { email: "Email", name: "Name" } as const;

type Asked = Record<string, string>;

export interface PeopleList {
  q: string;
  by: keyof typeof SEARCHED;
  sort: PeopleSort;
  query: PeopleQuery;
  /** The address's query without what is as it would be anyhow. */
  shown: Asked;
}

export function readPeopleQuery(asked: Asked): PeopleList {
  const q = prefixOf(asked);
  const by = asked["by"] === "name" ? "name" : "email";
  const sort = oneOf(PEOPLE_SORTS, asked["sort"], "newest");
  return {
    q,
    by,
    sort,
    query: q === "" ? { sort } : { by, prefix: q },
    shown: shownOf({ q, by: by === "email" ? "" : by, sort: sort === "newest" ? "" : sort, cursor: asked["cursor"] }),
  };
}

export interface AccountsList {
  q: string;
  sort: AccountsSort;
  query: AccountsQuery;
  shown: Asked;
}

export function readAccountsQuery(asked: Asked): AccountsList {
  const q = prefixOf(asked);
  const sort = oneOf(ACCOUNTS_SORTS, asked["sort"], "newest");
  return {
    q,
    sort,
    query: q === "" ? { sort } : { prefix: q },
    shown: shownOf({ q, sort: sort === "newest" ? "" : sort, cursor: asked["cursor"] }),
  };
}

/** Half characters cannot be compared with what is stored, and no email, name or id is longer. */
function prefixOf(asked: Asked): string {
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

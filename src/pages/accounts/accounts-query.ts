/** What the address of the list of accounts asks for. Pure; what makes no sense is as if it were not there. */
import type { AccountsQuery, AccountsSort } from "../../store/protocol/people-and-accounts.ts";
import { choiceOf, searchText, shownOf, type Asked } from "../list-query.ts";

export const ACCOUNTS_SORTS = { newest: "Newest first", last_seen: "Last seen" } as const satisfies Record<
  AccountsSort,
  string
>;

export interface AccountsList {
  q: string;
  sort: AccountsSort;
  query: AccountsQuery;
  shown: Asked;
}

export function readAccountsQuery(asked: Asked): AccountsList {
  const q = searchText(asked);
  const sort = choiceOf(ACCOUNTS_SORTS, asked["sort"], "newest");
  return {
    q,
    sort,
    query: q === "" ? { sort } : { prefix: q },
    shown: shownOf({ q, sort: sort === "newest" ? "" : sort, cursor: asked["cursor"] }),
  };
}

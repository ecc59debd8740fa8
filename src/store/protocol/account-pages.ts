/** Accounts, as they are asked for and told of. Times are milliseconds since 1970. */
import type { AccountField } from "../../domain/accounts/payload-template.ts";
import type { PageOf } from "../../platform/list-page.ts";

/** Workspace or account data (design §8.7). A value is whatever JSON the payload templates make; null: never sent. */
export interface Account extends Record<AccountField, unknown> {
  externalId: string;
  attributes: Record<string, unknown>;
  firstSeenMs: number;
  lastSeenMs: number;
  /** The latest changes, newest first, at most ACCOUNT_HISTORY_SHOWN. */
  history: AccountChange[];
}

export interface AccountChange {
  field: AccountField;
  /** The value before; null where the field was not known. */
  before: unknown;
  after: unknown;
  /** Receipt of the update that made the change, and its signal. */
  atMs: number;
  signalId: string;
}

export interface AccountFilter {
  externalId?: string;
}

/** Which accounts: all in an order, or those whose external id or name begins so. */
export type AccountsQuery = { sort: AccountsSort } | { prefix: string };

export type AccountsSort = "newest" | "last_seen";

/**
 * An account in the list. A value is the beginning of its JSON text, one character longer than ACCOUNT_LIST_CHARACTERS where
 * it goes on.
 */
export interface AccountSummary {
  externalId: string;
  name: string | null;
  plan: string | null;
  userCount: string | null;
  recurringRevenue: string | null;
  trialStatus: string | null;
  firstSeenMs: number;
  lastSeenMs: number;
}

export interface AccountPage {
  externalId: string;
  /** The account's fields; null: never sent. */
  values: Record<AccountField, unknown>;
  attributes: Record<string, unknown>;
  /**
   * The update that each value came from, by target, such as `plan` or `attributes.region`; its key while the signal is
   * kept.
   */
  origins: Record<string, { atMs: number; signalId: string; keyId: string | null }>;
  firstSeenMs: number;
  lastSeenMs: number;
  changes: PageOf<ShownChange>;
}

/** A change as its page shows it. Before and after are beginnings as in AccountSummary, of ACCOUNT_CHANGE_CHARACTERS. */
export interface ShownChange extends Omit<AccountChange, "before" | "after"> {
  before: string | null;
  after: string | null;
}

/** Accounts (spec §1, design §8.7): the list, and one account with its history. */
import { keyNames } from "../../control/api-keys.ts";
import { canManageKeys } from "../../domain/keys/role.ts";
import { IDENTITY_MAX_LENGTH, PAGE_ROWS } from "../../limits.ts";
import { signalStore } from "../../workspace/objects.ts";
import { pages, workspacePath } from "../pages-env.ts";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { readAccountsQuery } from "./accounts-query.ts";
import { AccountView } from "./account-view.tsx";
import { AccountsView } from "./accounts-view.tsx";

export const accountPages = pages
  .createApp()
  .get("/", async (c) => {
    const list = readAccountsQuery(c.req.query());
    const asked = { cursor: c.req.query("cursor") ?? null, limit: PAGE_ROWS };
    const accounts = await signalStore(c.env, c.get("workspace").id).findAccounts(list.query, asked);
    const view = { base: workspacePath(c), list, accounts, mayManage: mayManage(c), nowMs: Date.now() };
    return page(c, { title: "Accounts", section: "accounts" }, <AccountsView {...view} />);
  })
  .get("/one", async (c) => {
    const { id } = c.get("workspace");
    const externalId = (c.req.query("external_id") ?? "").slice(0, IDENTITY_MAX_LENGTH);
    const cursor = c.req.query("cursor");
    const asked = { cursor: cursor ?? null, limit: PAGE_ROWS };
    const account = await signalStore(c.env, id).accountPage(externalId, asked);
    if (account === null) return notFoundPage(c, "account");
    const keyIds = Object.values(account.origins).flatMap(({ keyId }) => keyId ?? []);
    // Spec §1: only owners and admins may see keys.
    const keys = canManageKeys(c.get("role")) ? await keyNames(c.get("db"), id, keyIds) : null;
    const view = { base: workspacePath(c), account, keys, cursor, nowMs: Date.now() };
    return page(c, { title: externalId, section: "accounts" }, <AccountView {...view} />);
  });

/** The list of accounts. */
import { ACCOUNT_LIST_CHARACTERS } from "../../limits.ts";
import type { PageOf } from "../../platform/list-page.ts";
import type { AccountSummary } from "../../store/protocol/people-and-accounts.ts";
import { ACCOUNTS_SORTS, type AccountsList } from "./accounts-query.ts";
import { ShortValue } from "./account-values.tsx";
import { SelectField, TextField } from "../kit/forms.tsx";
import { Empty, PageHead, Panel, Time } from "../views/parts.tsx";
import { Pager, Table } from "../views/table.tsx";

/** External ids are the sender's own and may be `.` or `..`, which a path takes for steps: so they stand in the query. */
function accountPath(base: string, externalId: string): string {
  return `${base}/accounts/one?${new URLSearchParams({ external_id: externalId }).toString()}`;
}

interface Props {
  base: string;
  list: AccountsList;
  accounts: PageOf<AccountSummary>;
  mayManage: boolean;
  nowMs: number;
}

export function AccountsView({ base, list, accounts, mayManage, nowMs }: Props) {
  const path = `${base}/accounts`;
  const isFiltered = list.shown["q"] !== undefined || list.shown["cursor"] !== undefined;
  return (
    <>
      <PageHead title="Accounts">
        Workspace and account data, as Product Org Updates keys have sent it: one record for each external id.
      </PageHead>
      <form method="get" action={path} class="filters" role="search">
        <TextField name="q" type="search" label="External id begins with" value={list.q} />
        <SelectField name="sort" label="Sort by" value={list.sort} options={Object.entries(ACCOUNTS_SORTS)} />
        <button>Show</button>
        {list.q !== "" && (
          <a class="button" href={path}>
            Show all
          </a>
        )}
      </form>
      {list.q !== "" && <p class="quiet small">What is found comes in the order of the external ids.</p>}
      <Panel flush>
        {accounts.items.length > 0 ? (
          <AccountsTable base={base} accounts={accounts.items} nowMs={nowMs} />
        ) : isFiltered ? (
          <Empty title="No account found">
            <p>Upper and lower case are different in external ids, and only beginnings are searched.</p>
            <p>
              <a href={path}>Show all accounts</a>
            </p>
          </Empty>
        ) : (
          <NoneYet base={base} mayManage={mayManage} />
        )}
        <Pager path={path} query={list.shown} next={accounts.next} />
      </Panel>
    </>
  );
}

function AccountsTable({ base, accounts, nowMs }: { base: string; accounts: AccountSummary[]; nowMs: number }) {
  const short = (json: string | null) => <ShortValue json={json} characters={ACCOUNT_LIST_CHARACTERS} />;
  return (
    <Table
      caption="Accounts"
      head={[
        "External id",
        "Name",
        "Plan",
        { text: "Users", number: true },
        { text: "Recurring revenue", number: true },
        "Trial",
        "Last seen",
      ]}
    >
      {accounts.map((account) => (
        <tr>
          <th scope="row" class="who">
            <a href={accountPath(base, account.externalId)}>{account.externalId}</a>
          </th>
          <td class="what">{short(account.name)}</td>
          <td>{short(account.plan)}</td>
          <td class="number">{short(account.userCount)}</td>
          <td class="number">{short(account.recurringRevenue)}</td>
          <td>{short(account.trialStatus)}</td>
          <td>
            <Time ms={account.lastSeenMs} nowMs={nowMs} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function NoneYet({ base, mayManage }: { base: string; mayManage: boolean }) {
  return (
    <Empty title="No accounts yet">
      <p>
        An account appears with the first update that is sent with a key of the endpoint type Product Org Updates. Such
        a key has a payload template: it says which path of what you send is the external id, the plan, the user count
        and so on.
      </p>
      {mayManage ? (
        <p>
          <a href={`${base}/settings/api-keys/new?endpoint_type=product_org`}>Create a Product Org Updates key</a>
        </p>
      ) : (
        <p>Ask an owner or admin to create one.</p>
      )}
    </Empty>
  );
}

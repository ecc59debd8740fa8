/** Accounts (spec §1, design §8.7): the list, and an account's page with the origin and history of its values. */
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import * as z from "zod";
import type { AccountField } from "../domain/accounts/payload-template.ts";
import { cut } from "../domain/text.ts";
import { ACCOUNT_CHANGE_CHARACTERS, ACCOUNT_LIST_CHARACTERS, IDENTITY_MAX_LENGTH, PAGE_ROWS } from "../limits.ts";
import type { AccountPage, AccountSummary, AccountsSort, ShownChange } from "../store/protocol/people-and-accounts.ts";
import { signalStore } from "../workspace/objects.ts";
import { keyText, type KeyNames, readKeyNames } from "./key-names.tsx";
import { Filters, NoMatches } from "./kit/filters.tsx";
import { grouped } from "./kit/format.ts";
import { SelectField } from "./kit/forms.tsx";
import { ListAddress } from "./kit/list-address.ts";
import { Empty, PageHead, Panel, Stat, Stats, Time } from "./kit/parts.tsx";
import { Pager, Table } from "./kit/table.tsx";
import { mayManage, notFoundPage, page } from "./page.tsx";
import { pages, type PagesEnv, workspacePath } from "./pages-env.ts";
import { SignalLink } from "./signals/signals.tsx";

/** Path of an account's page. External ids may be `.` or `..`, which a path would resolve: they stand in the query. */
function accountPath(base: string, externalId: string): string {
  return `${base}/accounts/one?${new URLSearchParams({ external_id: externalId }).toString()}`;
}

const SORTS = { score: "Score", people: "People", last_seen: "Last seen", newest: "Newest" } as const satisfies Record<
  AccountsSort,
  string
>;

export const accountPages = pages
  .createApp()
  .get("/", async (c) => {
    const list = new ListAddress(`${workspacePath(c)}/accounts`, c.req.query());
    const q = list.text("q", "External id begins with");
    const sort = list.choice("sort", null, SORTS, "newest");
    const accounts = await storeOf(c).findAccounts(q === "" ? { sort } : { prefix: q }, list.slice(PAGE_ROWS));
    return page(
      c,
      { title: "Accounts", section: "accounts" },
      <>
        <PageHead title="Accounts">Account data that Product Org Updates keys send, by external id.</PageHead>
        <Filters list={list} search={{ name: "q", label: "External id begins with" }}>
          <SelectField name="sort" label="Sort by" value={sort} options={Object.entries(SORTS)} />
        </Filters>
        {q !== "" && <p class="quiet small">Search results are sorted by external id.</p>}
        <Panel list>
          {accounts.items.length > 0 && <AccountsTable base={workspacePath(c)} accounts={accounts.items} />}
          {accounts.items.length === 0 && list.isFiltered && (
            <NoMatches what="accounts" list={list}>
              <p>External ids are case-sensitive.</p>
            </NoMatches>
          )}
          {accounts.items.length === 0 && !list.isFiltered && <NoAccounts c={c} />}
          <Pager list={list} next={accounts.next} />
        </Panel>
      </>,
    );
  })
  .get("/one", async (c) => {
    const externalId = (c.req.query("external_id") ?? "").slice(0, IDENTITY_MAX_LENGTH);
    const list = new ListAddress(`${workspacePath(c)}/accounts/one`, c.req.query());
    list.use("External id", "", { external_id: externalId });
    const account = await storeOf(c).accountPage(externalId, list.slice(PAGE_ROWS));
    if (account === null) return notFoundPage(c, "account");
    const keyIds = Object.values(account.origins).flatMap(({ keyId }) => keyId ?? []);
    const keys = await readKeyNames(c, keyIds);
    const view = { base: workspacePath(c), account, keys, list };
    return page(c, { title: externalId, section: "accounts" }, <AccountView {...view} />);
  });

function storeOf(c: Context<PagesEnv>) {
  return signalStore(c.env, c.get("workspace").id);
}

export function AccountsTable({ base, accounts }: { base: string; accounts: readonly AccountSummary[] }) {
  const short = (json: string | null) => <ShortValue json={json} characters={ACCOUNT_LIST_CHARACTERS} />;
  return (
    <Table
      caption="Accounts"
      rows={accounts}
      href={({ externalId }) => accountPath(base, externalId)}
      columns={[
        { head: "External id", cell: ({ externalId }) => externalId },
        { head: "Name", kind: "text", cell: ({ name }) => short(name) },
        { head: "Score", kind: "number", cell: ({ score }) => grouped(score) },
        { head: "People", kind: "number", cell: ({ people }) => grouped(people) },
        { head: "Plan", drop: "narrow", cell: ({ plan }) => short(plan) },
        { head: "Users", kind: "number", cell: ({ userCount }) => short(userCount) },
        { head: "Recurring revenue", kind: "number", cell: ({ recurringRevenue }) => short(recurringRevenue) },
        { head: "Trial", drop: "narrow", cell: ({ trialStatus }) => short(trialStatus) },
        { head: "Last seen", drop: "phone", cell: ({ lastSeenMs }) => <Time ms={lastSeenMs} /> },
      ]}
    />
  );
}

function NoAccounts({ c }: { c: Context<PagesEnv> }) {
  return (
    <Empty title="No accounts yet">
      <p>
        The first update from a Product Org Updates key creates an account. The payload template of the key says which
        paths have the external id, the plan, the user count and other fields.
      </p>
      {mayManage(c) ? (
        <a class="button primary" href={`${workspacePath(c)}/settings/api-keys/new?endpoint_type=product_org`}>
          Create Product Org Updates key
        </a>
      ) : (
        <p>Ask an owner or admin to create such a key.</p>
      )}
    </Empty>
  );
}

interface Props {
  base: string;
  account: AccountPage;
  keys: KeyNames;
  list: ListAddress;
}

const FIELD_LABEL = {
  name: "Name",
  plan: "Plan",
  user_count: "User count",
  recurring_revenue: "Recurring revenue",
  trial_status: "Trial status",
  feature_flags: "Feature flags",
} as const satisfies Record<AccountField, string>;

const FIELDS = Object.entries(FIELD_LABEL) as [AccountField, string][];

function AccountView(props: Props) {
  const { base, account, list } = props;
  const { externalId, values, attributes, changes } = account;
  const title = typeof values.name === "string" && values.name.length <= ACCOUNT_CHANGE_CHARACTERS ? values.name : null;
  return (
    <>
      <PageHead title={title ?? externalId} crumbs={[<a href={`${base}/accounts`}>Accounts</a>]}>
        {title !== null && externalId}
      </PageHead>
      <Stats>
        <Stat label="Last seen" value={<Time ms={account.lastSeenMs} />} />
        <Stat label="First seen" value={<Time ms={account.firstSeenMs} />} />
      </Stats>
      <Values
        {...props}
        title="Fields"
        rows={FIELDS.map(([field, label]) => [
          label,
          field,
          field === "feature_flags" ? <FeatureFlags value={values[field]} /> : <JsonValue value={values[field]} />,
        ])}
      />
      {Object.keys(attributes).length > 0 && (
        <Values
          {...props}
          title="Attributes"
          rows={Object.entries(attributes).map(([name, value]) => [
            name,
            `attributes.${name}`,
            <JsonValue value={value} />,
          ])}
        />
      )}
      <Panel title="History" list id="history">
        {changes.items.length === 0 ? (
          <Empty title="No changes">
            <p>No field has been sent yet. Attributes have no history.</p>
          </Empty>
        ) : (
          <ol class="entries">
            {changes.items.map((change) => (
              <Change base={base} change={change} />
            ))}
          </ol>
        )}
        <Pager list={list} next={changes.next} />
      </Panel>
    </>
  );
}

/** Values with the update that set each, and the key whose payload template read it. */
function Values({ base, account, keys, title, rows }: Props & { title: string; rows: [string, string, Child][] }) {
  const origin = (target: string): Child => {
    const found = account.origins[target];
    if (found === undefined) return <span class="quiet">–</span>;
    const { atMs, signalId, keyId } = found;
    const key = keyId === null ? undefined : keys.get(keyId);
    return (
      <div class="row small">
        <Time ms={atMs} />
        {keyId === null ? <span class="quiet">by a deleted signal</span> : <SignalLink base={base} id={signalId} />}
        {keyId !== null && key !== undefined && (
          <a href={`${base}/settings/api-keys/${keyId}`}>{keyText(key, keyId)}</a>
        )}
      </div>
    );
  };
  return (
    <Panel title={title} list>
      <Table
        caption={title}
        rows={rows}
        columns={[
          { head: "Name", cell: ([name]) => name },
          { head: "Value", kind: "text", cell: ([, , value]) => value },
          { head: "Last sent", cell: ([, target]) => origin(target) },
        ]}
      />
    </Panel>
  );
}

function Change({ base, change: { field, before, after, atMs, signalId } }: { base: string; change: ShownChange }) {
  return (
    <li>
      <Time ms={atMs} />
      <div>
        <div class="row">
          <strong>{FIELD_LABEL[field]}</strong>
          <SignalLink base={base} id={signalId} />
        </div>
        <ShortValue json={before} characters={ACCOUNT_CHANGE_CHARACTERS} /> →{" "}
        <ShortValue json={after} characters={ACCOUNT_CHANGE_CHARACTERS} />
      </div>
    </li>
  );
}

/** Characters of a value on the page of an account. */
const VALUE_CHARACTERS = 10_000;

/** The beginning of a JSON text, which the store has cut (see AccountSummary). */
function ShortValue({ json, characters }: { json: string | null; characters: number }) {
  if (json === null) return <span class="quiet">–</span>;
  if (json.length > characters) return <>{cut(json, characters)}</>;
  return /^[[{]/.test(json) ? <code>{json}</code> : <JsonValue value={JSON.parse(json) as unknown} />;
}

function JsonValue({ value }: { value: unknown }): Child {
  if (value === null) return <span class="quiet">–</span>;
  if (typeof value === "number") return <>{grouped(value)}</>;
  if (typeof value === "boolean") return <>{value ? "Yes" : "No"}</>;
  if (typeof value === "string") return <>{cut(value, VALUE_CHARACTERS)}</>;
  return <code>{cut(JSON.stringify(value, null, 1), VALUE_CHARACTERS)}</code>;
}

const SCALAR = z.union([z.boolean(), z.string(), z.number()]);
const FLAGS = z.union([
  z.array(z.string()).transform((names) => names.map((name) => [name, true] as const)),
  z.record(z.string(), SCALAR).transform(Object.entries<z.infer<typeof SCALAR>>),
]);

/** Feature flags are usually a list of names, or names with values. Anything else is shown as JSON. */
function FeatureFlags({ value }: { value: unknown }) {
  const flags = FLAGS.safeParse(value).data;
  if (flags === undefined) return <JsonValue value={value} />;
  const texts = flags.map(([name, flag]) => (flag === true ? name : `${name}: ${flag === false ? "off" : flag}`));
  return <>{cut(texts.join(", ") || "None", VALUE_CHARACTERS)}</>;
}

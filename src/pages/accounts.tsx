/** Accounts (spec §1): the list by score, and an account's page with its people, scores and values. */
import type { Child } from "hono/jsx";
import * as z from "zod";
import { ruleNames } from "../d1/stored-rules.ts";
import type { AccountField } from "../domain/accounts/payload-template.ts";
import { cut } from "../domain/text.ts";
import {
  ACCOUNT_CHANGE_CHARACTERS,
  ACCOUNT_LIST_CHARACTERS,
  FIELD_HISTORY_MAX_BYTES,
  FIELD_HISTORY_MAX_CHANGES,
  IDENTITY_MAX_LENGTH,
  PAGE_ROWS,
} from "../limits.ts";
import type { AccountPage, AccountsSort, AccountSummary, ShownChange } from "../store/protocol/people-and-accounts.ts";
import { destinationsOf } from "../use-cases/objects.ts";
import { type KeyNames, KeyTitle, readKeyNames } from "./keys/key-parts.tsx";
import { LinkButton } from "./kit/forms.tsx";
import { grouped } from "./kit/format.ts";
import { Filters, LapsingNote, ListAddress, ListPanel, totalOf } from "./kit/list.tsx";
import {
  CopyText,
  Count,
  Day,
  Empty,
  Panel,
  ShareBar,
  shareText,
  Stat,
  Stats,
  Table,
  Time,
  ValueList,
} from "./kit/parts.tsx";
import { mayManage, notFoundPage, page } from "./page.tsx";
import { pages, storeOf, workspacePath, accountPath, keyPath, personPath, signalPath, withQuery } from "./pages-env.ts";
import { AccountName, JsonValue, NO_VALUE, ShortValue, VALUE_CHARACTERS } from "./account-text.tsx";
import { PeopleTable } from "./people/people.tsx";
import { Breakdown, Curve, NoScores, type RuleNames, Score } from "./people/person.tsx";
import { SignalLink } from "./signals/signals.tsx";

const SORTS = { score: "Score", people: "People", last_seen: "Last seen", newest: "Newest" } as const satisfies Record<
  AccountsSort,
  string
>;

export const accountPages = pages
  .createApp()
  .get("/", async (c) => {
    const base = workspacePath(c);
    const list = new ListAddress(`${base}/accounts`, c.req.query());
    const text = list.searchText("q", "Search", "Search name or external id");
    const sort = list.sort(SORTS, "score");
    const accounts = await storeOf(c).findAccounts({ sort, text }, list.slice(PAGE_ROWS));
    return page(
      c,
      {
        section: "accounts",
        title: "Accounts",
        total: totalOf(list, accounts),
        intro: "Companies, with the sum of the scores of their people.",
      },
      <Filters list={list} />,
      !accounts.sorted && (
        <p class="quiet small">
          {text === undefined
            ? "There are too many accounts to sort. The newest come first."
            : "There are too many accounts to search their names. Found by the beginning of the external id, in upper and lower case as sent."}
        </p>
      ),
      <LapsingNote lapsing={accounts.lapsing} />,
      <ListPanel
        list={list}
        found={accounts}
        empty={<NoAccounts base={base} mayCreate={mayManage(c)} />}
        noun="accounts"
      >
        <AccountsTable base={base} accounts={accounts.items} order={list.order} />
      </ListPanel>,
    );
  })
  .get("/one", async (c) => {
    const base = workspacePath(c);
    const externalId = (c.req.query("external_id") ?? "").slice(0, IDENTITY_MAX_LENGTH);
    const list = new ListAddress(`${base}/accounts/one`, c.req.query());
    list.addFilter("External id", "", { external_id: externalId });
    const account = await storeOf(c).accountPage(externalId, list.slice(PAGE_ROWS));
    if (account === null) return notFoundPage(c, "account");
    const keyIds = Object.values(account.origins).flatMap(({ keyId }) => keyId ?? []);
    const { curve } = account;
    const ruleIds = [...account.latestScores, ...(curve?.byRule ?? [])].map(({ ruleId }) => ruleId);
    const [keys, rules, { accounts: thresholds }] = await Promise.all([
      readKeyNames(c, keyIds),
      ruleNames(c.get("db"), c.get("workspace").id, [...new Set(ruleIds)]),
      // Only owners and admins see notifications.
      mayManage(c) ? destinationsOf(c.env, c.get("workspace").id).thresholds() : { accounts: [] },
    ]);
    const props = { base, account, keys };
    const { values, attributes, changes } = account;
    const isShort = typeof values.name === "string" && values.name.length <= ACCOUNT_CHANGE_CHARACTERS;
    const heading = isShort ? String(values.name) : externalId;
    const fields = FIELDS.map(([field, label]): readonly [string, Child] => {
      const value = values[field];
      const shown = field === "feature_flags" ? <FeatureFlags value={value} /> : <JsonValue value={value} />;
      return [label, [<div>{shown}</div>, field in account.origins && <Origin {...props} target={field} />]];
    });
    const attributeRows = Object.entries(attributes).map(([name, value]): ValueRow => [
      name,
      `attributes.${name}`,
      <JsonValue value={value} />,
    ]);
    return page(
      c,
      { section: "accounts", title: externalId, heading, crumbs: [], intro: isShort && externalId },
      <Stats>
        <Stat label="Score" value={account.score} note={scoreNote(account)} lead />
        <Stat label="People" value={account.people} />
        <Stat label="Last seen" value={<Time ms={account.lastSeenMs} />} />
        <Stat label="First seen" value={<Time ms={account.firstSeenMs} />} />
      </Stats>,
      <div class="columns main-first">
        <Panel title="Score over time (UTC)">
          {curve === null ? (
            <p class="quiet">Only the score of an account with at most 20 people is drawn.</p>
          ) : (
            <>
              <Curve curve={curve} score={account.score} thresholds={thresholds} whose={ITS_PEOPLE} />
              {curve.points.length > 0 && <p class="quiet small">Of the people who belong to the account now.</p>}
            </>
          )}
        </Panel>
        <Panel title="Fields" id="fields">
          {Object.keys(account.origins).length === 0 ? <NoFields account={account} /> : <ValueList of={fields} />}
        </Panel>
      </div>,
      curve !== null && curve.byRule.length > 0 && (
        <Breakdown base={base} curve={curve} rules={rules} whose={ITS_PEOPLE} />
      ),
      <PeoplePanel base={base} account={account} />,
      account.people > 0 && <LatestScores base={base} account={account} rules={rules} />,
      attributeRows.length > 0 && <Attributes {...props} rows={attributeRows} />,
      <ListPanel
        id="history"
        title="History"
        list={list}
        found={changes}
        empty={
          <Empty
            title="No changes"
            text="Account updates write the history of fields. Group calls and attributes have none."
          />
        }
      >
        <HistoryCut isCut={account.historyCut} />
        <ol class="entries">
          {changes.items.map((change) => (
            <Change base={base} change={change} />
          ))}
        </ol>
      </ListPanel>,
    );
  });

const ITS_PEOPLE = "the account’s people";

function scoreNote({ recomputing, lapsing }: AccountPage): string | undefined {
  if (recomputing) return "being recomputed";
  return lapsing ? "points are lapsing right now" : undefined;
}

/** Says that the history has lost its oldest changes. */
function HistoryCut({ isCut }: { isCut: boolean }) {
  if (!isCut) return <></>;
  const [changes, size] = [grouped(FIELD_HISTORY_MAX_CHANGES), FIELD_HISTORY_MAX_BYTES / 1024];
  return (
    <p class="quiet small">
      A field keeps its latest {changes} changes, up to {size} KB of values. Older changes are no longer kept.
    </p>
  );
}

interface AccountsTableProps {
  base: string;
  accounts: readonly AccountSummary[];
  order?: ListAddress["order"];
}

export function AccountsTable({ base, accounts, order }: AccountsTableProps) {
  const short = (json: string | null) =>
    json !== null && <ShortValue json={json} characters={ACCOUNT_LIST_CHARACTERS} />;
  return (
    <Table
      caption="Accounts"
      rows={accounts}
      href={({ externalId }) => accountPath(base, externalId)}
      {...(order === undefined ? {} : { order })}
      columns={[
        {
          head: "Account",
          cell: ({ name, externalId }) => (
            <>
              <AccountName name={name} externalId={externalId} />
              {name !== null && <small>{externalId}</small>}
            </>
          ),
        },
        { head: "Score", kind: "number", cell: ({ score }) => <Count value={score} />, sorts: ["score"] },
        { head: "People", kind: "number", cell: ({ people }) => <Count value={people} />, sorts: ["people"] },
        { head: "Plan", drop: "narrow", cell: ({ plan }) => short(plan) },
        { head: "Users", kind: "number", cell: ({ userCount }) => short(userCount) },
        { head: "Recurring revenue", kind: "number", cell: ({ recurringRevenue }) => short(recurringRevenue) },
        { head: "Trial", drop: "narrow", cell: ({ trialStatus }) => short(trialStatus) },
        { head: "Last seen", drop: "phone", cell: ({ lastSeenMs }) => <Day ms={lastSeenMs} />, sorts: ["last_seen"] },
      ]}
    />
  );
}

function NoAccounts({ base, mayCreate }: { base: string; mayCreate: boolean }) {
  const text = (
    <>
      Send a <code>group</code> call. It creates the account and makes the person its member. An identify call with{" "}
      <code>traits.company.id</code> does so too.
    </>
  );
  const newKey = `${base}/settings/api-keys/new?endpoint_type=product_org`;
  return (
    <Empty title="No accounts yet" text={text}>
      <GroupCall externalId="acme-42" />
      <p>
        Updates from a Product Org Updates key create accounts, too. The payload template of the key says which paths
        have the external id, the plan, the user count and other fields.
      </p>
      {mayCreate ? (
        <LinkButton href={newKey} text="Create Product Org Updates key" look="primary" />
      ) : (
        <p>Ask an owner or admin to create such a key.</p>
      )}
    </Empty>
  );
}

function GroupCall({ externalId }: { externalId: string }) {
  const call = { type: "group", userId: "user-1", groupId: externalId, traits: { name: "Acme", plan: "Growth" } };
  return <CopyText id="group-call" label="group call" text={JSON.stringify(call, null, 2)} block />;
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

type ValueRow = readonly [name: string, target: string, value: Child];

interface OriginProps {
  base: string;
  account: AccountPage;
  keys: KeyNames;
}

function PeoplePanel({ base, account: { externalId, topPeople, score } }: { base: string; account: AccountPage }) {
  const scored = topPeople.filter((person) => person.score > 0);
  const sum = scored.reduce((total, person) => total + person.score, 0);
  const rest = Math.max(0, score - sum);
  const label = scored
    .map((person) => `${person.name ?? person.email} ${shareText(person.score, sum + rest)}`)
    .join(", ");
  const all = withQuery(`${base}/people`, { account: externalId, sort: "score" });
  const text = (
    <>
      Send a <code>group</code> call with the user id or anonymous id of a person. It makes the person a member.
    </>
  );
  return (
    <Panel
      title="People"
      list
      id="people"
      actions={topPeople.length > 0 && <a href={all}>All people of this account</a>}
    >
      {scored.length > 1 && (
        <ShareBar parts={[...scored.map((person) => person.score), ...(rest > 0 ? [rest] : [])]} label={label} />
      )}
      <PeopleTable
        base={base}
        people={topPeople}
        sum={scored.length > 1 ? sum + rest : 0}
        empty={
          <Empty title="No people yet" text={text}>
            <GroupCall externalId={externalId} />
          </Empty>
        }
      />
    </Panel>
  );
}

function LatestScores({ base, account, rules }: { base: string; account: AccountPage; rules: RuleNames }) {
  const { latestScores } = account;
  return (
    <Panel title="Latest scores" list id="scores">
      {latestScores.length === 0 ? (
        <NoScores base={base} text="Mapping rules turn signals of people into points." />
      ) : (
        <>
          <p class="quiet small">Of the 20 people who were seen last.</p>
          <ol class="entries">
            {latestScores.map((score) => (
              <li>
                <span class="quiet">
                  <Time ms={score.occurredAtMs} />
                </span>
                <div>
                  <div class="row">
                    <a href={personPath(base, score.email)}>{score.email}</a>
                    <SignalLink base={base} id={score.signalId} />
                  </div>
                  <Score score={score} base={base} rules={rules} />
                </div>
              </li>
            ))}
          </ol>
        </>
      )}
    </Panel>
  );
}

function NoFields({ account: { externalId, people } }: { account: AccountPage }) {
  const text = (
    <>
      Send a <code>group</code> call with traits, or updates from a Product Org Updates key.
    </>
  );
  return (
    <Empty title="No fields yet" text={text}>
      {people > 0 && <GroupCall externalId={externalId} />}
    </Empty>
  );
}

const SET_BY = { update: "by an account update", group: "by a group call" } as const satisfies Record<
  AccountPage["origins"][string]["by"],
  string
>;

function Origin({ base, account, keys, target }: OriginProps & { target: string }) {
  const found = account.origins[target];
  if (found === undefined) return NO_VALUE;
  const { atMs, signalId, keyId, by } = found;
  const key = keyId === null ? undefined : keys.get(keyId);
  return (
    <div class="quiet small">
      <Time ms={atMs} />{" "}
      {keyId === null ? `${SET_BY[by]}, deleted since` : <a href={signalPath(base, signalId)}>{SET_BY[by]}</a>}
      {keyId !== null &&
        key !== undefined && [
          ", ",
          <a href={keyPath(base, keyId)}>
            <KeyTitle {...key} />
          </a>,
        ]}
    </div>
  );
}

function Attributes({ rows, ...props }: OriginProps & { rows: readonly ValueRow[] }) {
  return (
    <Panel title="Attributes" list>
      <Table
        caption="Attributes"
        rows={rows}
        columns={[
          { head: "Name", cell: ([name]) => name },
          { head: "Value", kind: "text", cell: ([, , value]) => value },
          { head: "Last set", kind: "text", cell: ([, target]) => <Origin {...props} target={target} /> },
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

const SCALAR = z.union([z.boolean(), z.string(), z.number()]);
const FLAGS = z.union([
  z.array(z.string()).transform((names) => names.map((name) => [name, true] as const)),
  z.record(z.string(), SCALAR).transform(Object.entries<z.infer<typeof SCALAR>>),
]);

/** Usually a list of names, or names with values. Anything else is shown as JSON. */
function FeatureFlags({ value }: { value: unknown }) {
  const flags = FLAGS.safeParse(value).data;
  if (flags === undefined) return <JsonValue value={value} />;
  const texts = flags.map(([name, flag]) => (flag === true ? name : `${name}: ${flag === false ? "off" : flag}`));
  return <>{cut(texts.join(", ") || "None", VALUE_CHARACTERS)}</>;
}

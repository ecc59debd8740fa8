/** Search: one field in the sidebar for people, events, signals, accounts, mapping rules and keys. */
import { newestKeyNames, type KeyName } from "../control/api-keys.ts";
import { rulesNamed } from "../control/stored-rules.ts";
import { canManageKeys } from "../domain/keys/role.ts";
import { IDENTITY_MAX_LENGTH } from "../limits.ts";
import type { Child } from "hono/jsx";
import { signalStore } from "../workspace/objects.ts";
import { followSignal } from "../workspace/signal-operations.ts";
import { Empty, PageHead, Panel, Time } from "./kit/parts.tsx";
import { Count, Table } from "./kit/table.tsx";
import { page } from "./page.tsx";
import { KeyTitle } from "./key-names.tsx";
import { pages, workspacePath } from "./pages-env.ts";
import { PeopleTable } from "./people/people.tsx";
import { AccountsTable } from "./accounts.tsx";
import { EnabledBadge } from "./rules/rule-text.tsx";
import { groupPath } from "./signals/signals.tsx";

/** Results of each group. */
const RESULTS_SHOWN = 5;

export const searchPages = pages.createApp().get("/", async (c) => {
  const text = (c.req.query("q") ?? "").toWellFormed().trim().slice(0, IDENTITY_MAX_LENGTH);
  const [base, { id }] = [workspacePath(c), c.get("workspace")];
  if (text === "") return page(c, { title: "Search", section: null }, <NoText />);
  // A signal id leads to the signal at once.
  if (/^sig_[\w-]+$/.test(text) && (await followSignal(c.env, id, text)) !== null) {
    return c.redirect(`${base}/signals/${encodeURIComponent(text)}`, 303);
  }
  const [found, rules, keys] = await Promise.all([
    signalStore(c.env, id).search(text, RESULTS_SHOWN),
    rulesNamed(c.get("db"), id, text, RESULTS_SHOWN + 1),
    // Spec §1: only owners and admins see keys.
    canManageKeys(c.get("role"))
      ? newestKeyNames(c.get("db"), id, text, RESULTS_SHOWN + 1)
      : new Map<string, KeyName>(),
  ]);
  const { people, events, accounts } = found;
  const nowMs = Date.now();
  const query = new URLSearchParams({ q: text }).toString();
  const groups: GroupProps[] = [
    {
      title: "People",
      count: people.length,
      all: `${base}/people?${query}`,
      children: <PeopleTable base={base} people={people.slice(0, RESULTS_SHOWN)} nowMs={nowMs} />,
    },
    {
      title: "Events",
      count: events.length,
      all: `${base}/signals?${query}`,
      children: (
        <Table
          caption="Events"
          rows={events.slice(0, RESULTS_SHOWN)}
          href={({ event, source }) => groupPath(base, event, source)}
          columns={[
            { head: "Event", cell: ({ event }) => event },
            { head: "Source", cell: ({ source }) => source },
            { head: "Signals", kind: "number", cell: ({ count }) => <Count value={count} /> },
            { head: "Last seen", cell: ({ lastSeenMs }) => <Time ms={lastSeenMs} nowMs={nowMs} /> },
          ]}
        />
      ),
    },
    {
      title: "Accounts",
      count: accounts.length,
      all: `${base}/accounts?${query}`,
      children: <AccountsTable base={base} accounts={accounts.slice(0, RESULTS_SHOWN)} />,
    },
    {
      title: "Mapping rules",
      count: rules.length,
      all: `${base}/rules`,
      children: (
        <Table
          caption="Mapping rules"
          rows={rules.slice(0, RESULTS_SHOWN)}
          href={(rule) => `${base}/rules/${encodeURIComponent(rule.id)}`}
          columns={[
            { head: "Rule", cell: ({ name }) => name },
            { head: "Event", cell: ({ event }) => <code>{event}</code> },
            { head: "Status", cell: ({ enabled }) => <EnabledBadge enabled={enabled} /> },
          ]}
        />
      ),
    },
    {
      title: "API keys",
      count: keys.size,
      all: `${base}/settings/api-keys`,
      children: (
        <Table
          caption="API keys"
          rows={[...keys].slice(0, RESULTS_SHOWN)}
          href={([keyId]) => `${base}/settings/api-keys/${encodeURIComponent(keyId)}`}
          columns={[{ head: "Name", cell: ([, key]) => <KeyTitle {...key} /> }]}
        />
      ),
    },
  ].filter(({ count }) => count > 0);
  return page(
    c,
    { title: `Search: ${text}`, section: null, search: text },
    <>
      <PageHead title="Search results">For “{text}”.</PageHead>
      {groups.length === 0 && <NothingFound text={text} />}
      {groups.map((group) => (
        <Group {...group} />
      ))}
    </>,
  );
});

interface GroupProps {
  title: string;
  count: number;
  /** Address of the list with the same search. */
  all: string;
  children: Child;
}

function Group({ title, count, all, children }: GroupProps) {
  return (
    <Panel title={title} actions={count > RESULTS_SHOWN && <a href={all}>View all</a>} list>
      {children}
    </Panel>
  );
}

function NothingFound({ text }: { text: string }) {
  return (
    <Empty title={`No results for “${text}”`}>
      <p>
        Search part of an email, name, company, event or mapping rule, the beginning of an account's external id or
        name, or a whole signal id.
      </p>
    </Empty>
  );
}

function NoText() {
  return (
    <>
      <PageHead title="Search" />
      <Empty title="Enter a search text">
        <p>Search people, events, accounts, mapping rules and signal ids. Press / to jump to the search field.</p>
      </Empty>
    </>
  );
}

/** Search: one field in the sidebar for people, events, signals, accounts, mapping rules and keys. */
import type { Child } from "hono/jsx";
import { newestKeyNames, type KeyName } from "../d1/api-keys.ts";
import { rulesNamed } from "../d1/stored-rules.ts";
import { canManage } from "../domain/keys/role.ts";
import { IDENTITY_MAX_LENGTH } from "../limits.ts";
import { followSignal } from "../use-cases/signal-operations.ts";
import { AccountsTable } from "./accounts.tsx";
import { KeyTitle } from "./keys/key-parts.tsx";
import { Count, Empty, Panel, Table, Time } from "./kit/parts.tsx";
import { page } from "./page.tsx";
import { pages, storeOf, workspacePath, groupPath, keyPath, rulePath, signalPath, withQuery } from "./pages-env.ts";
import { PeopleTable } from "./people/people.tsx";
import { EnabledBadge } from "./rules/rule-text.tsx";
import { isSignalId } from "./signals/signals.tsx";

const RESULTS_SHOWN = 5;

export const searchPages = pages.createApp().get("/", async (c) => {
  const text = (c.req.query("q") ?? "").toWellFormed().trim().slice(0, IDENTITY_MAX_LENGTH);
  const [base, { id }] = [workspacePath(c), c.get("workspace")];
  if (text === "") {
    const hint = "Search people, events, accounts, mapping rules and signal ids. Press / to jump to the field.";
    return page(c, { title: "Search", section: null }, <Empty title="Enter a search text" text={hint} />);
  }
  if (isSignalId(text) && (await followSignal(c.env, id, text)) !== null)
    return c.redirect(signalPath(base, text), 303);
  const [found, rules, keys] = await Promise.all([
    storeOf(c).search(text, RESULTS_SHOWN),
    rulesNamed(c.get("db"), id, text, RESULTS_SHOWN + 1),
    // Spec §1: only owners and admins see keys.
    canManage(c.get("role")) ? newestKeyNames(c.get("db"), id, text, RESULTS_SHOWN + 1) : new Map<string, KeyName>(),
  ]);
  const { people, events, accounts } = found;
  const isEmpty = [people, events, accounts, rules, [...keys]].every(({ length }) => length === 0);
  const hint = "Search part of an email, name, company, event, account or mapping rule, or a whole signal id.";
  return page(
    c,
    { title: `Search: ${text}`, heading: "Search results", intro: `For “${text}”.`, section: null, search: text },
    isEmpty && <Empty title={`No results for “${text}”`} text={hint} />,
    results("People", people, withQuery(`${base}/people`, { q: text }), (rows) => (
      <PeopleTable base={base} people={rows} />
    )),
    results("Events", events, withQuery(`${base}/signals`, { q: text }), (rows) => (
      <Table
        caption="Events"
        rows={rows}
        href={({ event, source }) => groupPath(base, event, source)}
        columns={[
          { head: "Event", cell: ({ event }) => event },
          { head: "Source", cell: ({ source }) => source },
          { head: "Signals", kind: "number", cell: ({ count }) => <Count value={count} /> },
          { head: "Last seen", cell: ({ lastSeenMs }) => <Time ms={lastSeenMs} /> },
        ]}
      />
    )),
    results("Accounts", accounts, withQuery(`${base}/accounts`, { q: text }), (rows) => (
      <AccountsTable base={base} accounts={rows} />
    )),
    results("Mapping rules", rules, withQuery(`${base}/rules`, { q: text }), (rows) => (
      <Table
        caption="Mapping rules"
        rows={rows}
        href={(rule) => rulePath(base, rule.id)}
        columns={[
          { head: "Rule", cell: ({ name }) => name },
          { head: "Event", cell: ({ event }) => <code>{event}</code> },
          { head: "Status", cell: ({ enabled }) => <EnabledBadge enabled={enabled} /> },
        ]}
      />
    )),
    results("API keys", [...keys], `${base}/settings/api-keys`, (rows) => (
      <Table
        caption="API keys"
        rows={rows}
        href={([keyId]) => keyPath(base, keyId)}
        columns={[{ head: "Name", cell: ([, key]) => <KeyTitle {...key} /> }]}
      />
    )),
  );
});

/** @param all the address of the unabridged list. */
function results<Row>(
  title: string,
  found: readonly Row[],
  all: string,
  table: (rows: readonly Row[]) => Child,
): Child {
  if (found.length === 0) return <></>;
  return (
    <Panel title={title} actions={found.length > RESULTS_SHOWN && <a href={all}>View all</a>} list>
      {table(found.slice(0, RESULTS_SHOWN))}
    </Panel>
  );
}

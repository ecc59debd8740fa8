/** Search: one field in the sidebar for people, events, signals, accounts, mapping rules and keys. */
import type { Child } from "hono/jsx";
import { newestKeyNames, type KeyName } from "../d1/api-keys.ts";
import { rulesNamed } from "../d1/stored-rules.ts";
import { IDENTITY_MAX_LENGTH } from "../limits.ts";
import { followSignal } from "../use-cases/signal-operations.ts";
import { AccountName } from "./account-text.tsx";
import { AccountsTable } from "./accounts.tsx";
import { KeyTitle } from "./keys/key-parts.tsx";
import { Count, Empty, Panel, Table, Time } from "./kit/parts.tsx";
import { LinkButton } from "./kit/forms.tsx";
import { Suggestions } from "./kit/layout.tsx";
import { fragment, mayManage, page } from "./page.tsx";
import {
  accountPath,
  type Ctx,
  groupPath,
  keyPath,
  pages,
  personPath,
  rulePath,
  signalPath,
  storeOf,
  withQuery,
  workspacePath,
} from "./pages-env.ts";
import { deletedPerson, PeopleTable } from "./people/people.tsx";
import { EnabledBadge } from "./rules/rule-text.tsx";
import { isSignalId } from "./signals/signals.tsx";

const RESULTS_SHOWN = 5;
/** Suggestions of each kind, while somebody types. */
const SUGGESTED = 3;

export const searchPages = pages
  .createApp()
  .get("/", (c) => resultsPage(c))
  .get("/suggestions", (c) => suggestions(c));

function searchText(c: Ctx): string {
  return (c.req.query("q") ?? "").toWellFormed().trim().slice(0, IDENTITY_MAX_LENGTH);
}

/** The records that contain the text, of each kind at most `limit` and one more if there are more. */
async function findRecords(c: Ctx, text: string, limit: number) {
  const [db, { id }] = [c.get("db"), c.get("workspace")];
  const [found, rules, keys] = await Promise.all([
    storeOf(c).search(text, limit),
    rulesNamed(db, id, text, limit + 1),
    // Spec §1: only owners and admins see keys.
    mayManage(c) ? newestKeyNames(db, id, text, limit + 1) : new Map<string, KeyName>(),
  ]);
  return { ...found, rules, keys: [...keys] };
}

/** The entries of the list below the search field (client/suggestions.ts). */
async function suggestions(c: Ctx) {
  const [base, text] = [workspacePath(c), searchText(c)];
  if (text === "") return fragment(c, <Suggestions />);
  const { people, events, accounts, rules, keys } = await findRecords(c, text, SUGGESTED);
  const entries: (readonly [href: string, name: Child, about: string])[] = [
    ...people
      .slice(0, SUGGESTED)
      .map(({ email, name }) => [personPath(base, email), name ?? email, name === null ? "Person" : email] as const),
    ...accounts
      .slice(0, SUGGESTED)
      .map((account) => [accountPath(base, account.externalId), <AccountName {...account} />, "Account"] as const),
    ...events
      .slice(0, SUGGESTED)
      .map(({ event, source }) => [groupPath(base, event, source), event, `Event from ${source}`] as const),
    ...rules.slice(0, SUGGESTED).map((rule) => [rulePath(base, rule.id), rule.name, "Mapping rule"] as const),
    ...keys.slice(0, SUGGESTED).map(([id, key]) => [keyPath(base, id), key.name, `API key ${key.maskedKey}`] as const),
  ];
  return fragment(
    c,
    <Suggestions>
      {entries.map(([href, name, about], index) => (
        <a role="option" id={`suggestion-${index}`} href={href} tabindex={-1} aria-selected="false">
          {name}
          <small>{about}</small>
        </a>
      ))}
    </Suggestions>,
  );
}

async function resultsPage(c: Ctx) {
  const text = searchText(c);
  const [base, { id }] = [workspacePath(c), c.get("workspace")];
  if (text === "") {
    const hint = `Search people, events, accounts, mapping rules${mayManage(c) ? ", API keys" : ""} and signal ids. Press / to jump to the field.`;
    return page(c, { title: "Search", section: null }, <Empty title="Enter a search text" text={hint} />);
  }
  if (isSignalId(text) && (await followSignal(c.env, id, text)) !== null)
    return c.redirect(signalPath(base, text), 303);
  const { people, events, accounts, rules, keys } = await findRecords(c, text, RESULTS_SHOWN);
  const deleted = people.length === 0 ? await deletedPerson(c, text) : null;
  const isEmpty = [people, events, accounts, rules, keys].every(({ length }) => length === 0);
  return page(
    c,
    { title: `Search: ${text}`, heading: "Search results", intro: `For “${text}”.`, section: null, search: text },
    deleted ?? (isEmpty && <NoResults c={c} text={text} />),
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
    results("API keys", keys, `${base}/settings/api-keys`, (rows) => (
      <Table
        caption="API keys"
        rows={rows}
        href={([keyId]) => keyPath(base, keyId)}
        columns={[{ head: "Name", cell: ([, key]) => <KeyTitle {...key} /> }]}
      />
    )),
  );
}

/** A held signal or a dead letter creates no person, so its email is found among the signals only. */
function NoResults({ c, text }: { c: Ctx; text: string }) {
  const names = mayManage(c) ? "account, mapping rule or API key" : "account or mapping rule";
  const hint = `Search part of an email, name, company, event, ${names}, or a whole signal id.`;
  const signals = withQuery(`${workspacePath(c)}/signals/all`, { email: text });
  return (
    <Empty title={`No results for “${text}”`} text={hint}>
      {text.includes("@") && <LinkButton href={signals} text="Search signals with this email" />}
    </Empty>
  );
}

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

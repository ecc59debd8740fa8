/** People (spec §2.3): the list, its exports, and the routes of a person's pages. */
import type { Child } from "hono/jsx";
import { emailAsStored } from "../../domain/signal/identity.ts";
import { SEARCHED_TRAITS, TRAIT_NAMES, traitLabel, traitsInWords } from "../../domain/signal/traits.ts";
import { PAGE_ROWS, PEOPLE_SCAN, PEOPLE_SEARCHED } from "../../limits.ts";
import type { AccountSummary, PeopleSort, PersonSummary } from "../../store/protocol/people-and-accounts.ts";
import { exportFile } from "../../use-cases/export-file.ts";
import { AccountName } from "../account-text.tsx";
import { EXPORT_LABEL, FORMAT_LABEL } from "../copy.ts";
import { LinkButton, Menu } from "../kit/forms.tsx";
import { counted } from "../kit/format.ts";
import { Filters, LapsingNote, ListAddress, ListPanel, scanUntilMatch, totalOf } from "../kit/list.tsx";
import { Count, Empty, shareText, Table, Time } from "../kit/parts.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { contextOf, type Ctx, pages, storeOf, workspacePath, personPath, withQuery } from "../pages-env.ts";
import { problemPage } from "../session/form-guard.tsx";
import { requireManager } from "../session/sign-in.tsx";
import { deletionPages } from "./deletion.tsx";
import { personPages } from "./person.tsx";

const SORTS = {
  score: "Highest score",
  score_up: "Lowest score",
  last_seen: "Last seen",
  last_seen_up: "Longest unseen",
  newest: "Newest",
  email: "Email",
} as const satisfies Record<PeopleSort, string>;

export const peoplePages = pages
  .createApp()
  .get("/", async (c) => {
    const base = workspacePath(c);
    const asked = c.req.query("email");
    // For links from systems that know only the email.
    if (asked !== undefined) return c.redirect(personPath(base, emailAsStored(asked)), 303);
    const list = new ListAddress(`${base}/people`, c.req.query());
    const query = {
      text: list.searchText("q", "Search", `Search email, ${traitsInWords(SEARCHED_TRAITS, "or")}`),
      sort: list.sort(SORTS, "score"),
      minScore: list.wholeNumber("score", "Score at least"),
      account: list.text("account", "Account", "Name or external id of the account"),
      ...list.days("Last seen", "Last seen from"),
    };
    const people = await scanUntilMatch(list.slice(PAGE_ROWS), (slice) => storeOf(c).findPeople(query, slice));
    const isEmpty = people.items.length === 0;
    const isOfNobody = isEmpty && people.complete && list.query["cursor"] === undefined;
    const named = isOfNobody && query.account !== undefined ? await accountsNamed(c, query.account) : [];
    const [account, ...further] = named;
    if (account !== undefined && further.length === 0) {
      return c.redirect(withQuery(list.path, { ...list.query, account: account.externalId }), 303);
    }
    const deleted = isEmpty ? await deletedPerson(c, query.text ?? "") : null;
    const scanned = query.text === undefined || query.account !== undefined ? PEOPLE_SCAN : PEOPLE_SEARCHED;
    const showsExports = mayManage(c) && !(isEmpty && people.complete);
    return page(
      c,
      {
        section: "people",
        title: "People",
        total: totalOf(list, people),
        intro: "Everyone whom a signal or an identify call names by email.",
        actions: showsExports && <ExportMenu base={base} />,
      },
      <Filters list={list} />,
      <LapsingNote lapsing={people.lapsing} />,
      !people.sorted && <p class="quiet small">Too many people match to be sorted. They are listed by email.</p>,
      <ListPanel
        list={list}
        found={people}
        searched={counted(people.scans * scanned, "person", "people")}
        empty={<NobodyYet base={base} />}
        noun="people"
        noMatches={deleted ?? (named.length > 0 && <ChooseAccount base={base} list={list} accounts={named} />)}
      >
        <PeopleTable base={base} people={people.items} order={list.order} />
      </ListPanel>,
    );
  })
  .get("/export", requireManager, async (c) => {
    const { records = "people", format = "csv" } = c.req.query();
    if (!isKey(EXPORT_LABEL, records) || !isKey(FORMAT_LABEL, format)) return notFoundPage(c, "export");
    const file = await exportFile(contextOf(c), c.get("workspace").slug, { records, format });
    if (file === null) return problemPage(c, "downloads");
    const { name, contentType, body } = file;
    return c.body(body, 200, {
      "content-type": contentType,
      "content-disposition": `attachment; filename="${name}"`,
      "x-content-type-options": "nosniff",
    });
  })
  .route("/", deletionPages)
  .route("/", personPages);

/** What is shown instead of a person if the text is the email of a deleted one. The store knows it as a hash. */
export async function deletedPerson(c: Ctx, text: string): Promise<Child | null> {
  const email = text.toLowerCase();
  if (!email.includes("@") || (await storeOf(c).deletion(email)) === null) return null;
  return (
    <Empty title="This person was deleted">
      <LinkButton href={`${personPath(workspacePath(c), email)}/deletion`} text="View the receipt" />
    </Empty>
  );
}

/**
 * The accounts that a typed text names, if it is no external id: that with the name, else those whose name or external id
 * contains it. Empty: it is an external id, or names none.
 */
async function accountsNamed(c: Ctx, text: string): Promise<AccountSummary[]> {
  const found = await storeOf(c).findAccounts({ sort: "score", text }, { cursor: null, limit: ACCOUNTS_READ });
  if (found.items.some(({ externalId }) => externalId === text)) return [];
  // A name is JSON.
  const wanted = JSON.stringify(text).toLowerCase();
  const exact = found.items.filter(({ name }) => name?.toLowerCase() === wanted);
  return exact.length === 1 ? exact : found.items;
}

/** Accounts among which one with exactly the typed name is looked for, and accounts to choose from, if several fit. */
const [ACCOUNTS_READ, ACCOUNTS_OFFERED] = [200, 10];

interface ChooseProps {
  base: string;
  list: ListAddress;
  accounts: readonly AccountSummary[];
}

function ChooseAccount({ base, list, accounts }: ChooseProps) {
  return (
    <Empty title="Several accounts fit">
      {accounts.slice(0, ACCOUNTS_OFFERED).map(({ name, externalId }) => (
        <p>
          <a href={withQuery(list.path, { ...list.query, account: externalId })}>
            <AccountName name={name} externalId={externalId} />
          </a>{" "}
          <small>{externalId}</small>
        </p>
      ))}
      {accounts.length > ACCOUNTS_OFFERED && (
        <p>
          More accounts fit. Type more of the name, or{" "}
          <a href={withQuery(`${base}/accounts`, { q: list.query["account"] ?? "" })}>search accounts</a>.
        </p>
      )}
    </Empty>
  );
}

export function PeopleTable({
  base,
  people,
  empty,
  order,
  sum = 0,
}: {
  base: string;
  people: readonly PersonSummary[];
  empty?: Child;
  order?: ListAddress["order"];
  /** Shows each score's share of it. 0: no shares. */
  sum?: number;
}) {
  return (
    <Table
      caption="People"
      rows={people}
      empty={empty}
      href={({ email }) => personPath(base, email)}
      {...(order === undefined ? {} : { order })}
      columns={[
        { head: "Person", cell: (person) => <WhoCell {...person} />, sorts: ["email"] },
        { head: "Score", kind: "number", cell: ({ score }) => <Count value={score} />, sorts: ["score", "score_up"] },
        {
          head: "Share",
          kind: "number",
          cell: ({ score }) => sum > 0 && score > 0 && shareText(score, sum),
        },
        ...TRAIT_NAMES.filter((trait) => trait !== "name").map((trait) => ({
          head: traitLabel(trait),
          cell: (person: PersonSummary) => person[trait],
          drop: "narrow" as const,
        })),
        { head: "First seen", drop: "narrow", cell: ({ firstSeenMs }) => <Time ms={firstSeenMs} />, sorts: ["newest"] },
        {
          head: "Last seen",
          cell: ({ lastSeenMs }) => <Time ms={lastSeenMs} />,
          sorts: ["last_seen", "last_seen_up"],
        },
      ]}
    />
  );
}

/** The name, and the email below it. */
function WhoCell({ name, email }: Pick<PersonSummary, "name" | "email">) {
  if (name === null) return <>{email}</>;
  return (
    <>
      {name}
      <small>{email}</small>
    </>
  );
}

function ExportMenu({ base }: { base: string }) {
  return (
    <Menu label="Export" text="Export">
      {Object.entries(EXPORT_LABEL).flatMap(([records, name]) =>
        Object.entries(FORMAT_LABEL).map(([format, formatName]) => (
          <a href={withQuery(`${base}/people/export`, { records, format })} download>
            {`All ${name.toLowerCase()} as ${formatName}`}
          </a>
        )),
      )}
      <a href={`${base}/settings/activity?action=data.exported`}>View past exports</a>
    </Menu>
  );
}

function NobodyYet({ base }: { base: string }) {
  const text = (
    <>
      The first signal with an <code>email</code> creates a person. An identify call with an email in its traits does so
      too.
    </>
  );
  return (
    <Empty title="No people yet" text={text}>
      <LinkButton href={`${base}/connect`} text="Connect a sender" look="primary" />
    </Empty>
  );
}

function isKey<Key extends string>(options: Record<Key, unknown>, key: string): key is Key {
  return Object.hasOwn(options, key);
}

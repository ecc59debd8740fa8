/** People (spec §2.3): the list, its exports, and the routes of a person's pages. */
import type { Context } from "hono";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { SEARCHED_TRAITS, TRAIT_NAMES, traitLabel, traitsInWords } from "../../domain/signal/traits.ts";
import { PAGE_ROWS, PEOPLE_SCAN, PEOPLE_SEARCHED } from "../../limits.ts";
import type { PeoplePage, PeopleSort, PersonSummary } from "../../store/protocol/people-and-accounts.ts";
import type { ExportedRecords, ExportFormat } from "../../store/protocol/store-operations.ts";
import { exportFile } from "../../workspace/export-file.ts";
import { signalStore } from "../../workspace/objects.ts";
import { Menu } from "../kit/actions.tsx";
import { Filters, LapsingNote, NoMatches, ScanNote } from "../kit/filters.tsx";
import { counted } from "../kit/format.ts";
import { DayFields, SelectField, TextField } from "../kit/forms.tsx";
import { type DayRange, ListAddress, type Scanned, scanOn } from "../kit/list-address.ts";
import { Empty, PageHead, Panel, Time } from "../kit/parts.tsx";
import { Count, Pager, Table } from "../kit/table.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { contextOf, pages, type PagesEnv, workspacePath } from "../pages-env.ts";
import { requireManager } from "../session/require-sign-in.ts";
import { deletionPages } from "./deletion.tsx";
import { personPages, personPath } from "./person.tsx";

const SORTS = {
  newest: "Newest",
  last_seen: "Last seen",
  last_seen_up: "Longest unseen",
  score: "Highest score",
  score_up: "Lowest score",
  email: "Email",
} as const satisfies Record<PeopleSort, string>;

export const EXPORTS = {
  people: "People",
  signals: "Signals",
  scoring_signals: "Scoring signals",
} as const satisfies Record<ExportedRecords, string>;

export const FORMATS = { csv: "CSV", ndjson: "NDJSON" } as const satisfies Record<ExportFormat, string>;

export const peoplePages = pages
  .createApp()
  .get("/", async (c) => {
    const { email } = c.req.query();
    // `?email=` is for links that have only a person's email. It redirects to the person's page.
    if (email !== undefined) return c.redirect(personPath(workspacePath(c), email.trim().toLowerCase()), 303);
    const asked = readAddress(c);
    const people = await scanOn(asked.list.slice(PAGE_ROWS), (slice) => storeOf(c).findPeople(asked.query, slice));
    const { q } = asked;
    const nobody = people.items.length === 0 && q.includes("@");
    const wasDeleted = nobody && (await storeOf(c).deletion(q.toLowerCase())) !== null;
    const view = { ...asked, base: workspacePath(c), people, wasDeleted, mayExport: mayManage(c), nowMs: Date.now() };
    return page(c, { title: "People", section: "people" }, <PeopleView {...view} />);
  })
  .get("/export", requireManager, async (c) => {
    const { records = "people", format = "csv" } = c.req.query();
    if (!isKey(EXPORTS, records) || !isKey(FORMATS, format)) return notFoundPage(c, "export");
    const { name, contentType, body } = await exportFile(contextOf(c), c.get("workspace").slug, { records, format });
    return c.body(body, 200, {
      "content-type": contentType,
      "content-disposition": `attachment; filename="${name}"`,
      "x-content-type-options": "nosniff",
    });
  })
  .route("/", deletionPages)
  .route("/", personPages);

function storeOf(c: Context<PagesEnv>) {
  return signalStore(c.env, c.get("workspace").id);
}

function readAddress(c: Context<PagesEnv>) {
  const list = new ListAddress(`${workspacePath(c)}/people`, c.req.query());
  const q = list.text("q", "Search");
  const sort = list.choice("sort", null, SORTS, "newest");
  const minScore = list.wholeNumber("score", "Score at least");
  const account = list.text("account", "Account");
  const days = list.days("Last seen");
  const query = {
    sort,
    ...(q === "" ? {} : { text: q }),
    ...(account === "" ? {} : { account }),
    ...(minScore === null ? {} : { minScore }),
    ...(days.sinceMs === null ? {} : { sinceDay: dayOf(days.sinceMs) }),
    ...(days.untilMs === null ? {} : { untilDay: dayOf(days.untilMs) - 1 }),
  };
  return { list, q, sort, minScore, account, days, query };
}

interface Props {
  base: string;
  list: ListAddress;
  q: string;
  sort: PeopleSort;
  minScore: number | null;
  /** External id of the people's account; empty: any. */
  account: string;
  days: DayRange;
  people: Scanned<PeoplePage>;
  /** Whether the search has no results and a receipt proves that the person of this email was deleted. */
  wasDeleted: boolean;
  mayExport: boolean;
  nowMs: number;
}

function PeopleView({ base, list, q, sort, minScore, account, days, people, wasDeleted, mayExport, nowMs }: Props) {
  const { items, next, complete, sorted, lapsing, scans } = people;
  const isEmpty = items.length === 0 && complete;
  return (
    <>
      <PageHead title="People" actions={mayExport && !isEmpty && <ExportMenu base={base} />}>
        Everyone whom a signal or an identify call names by email.
      </PageHead>
      <Filters list={list} search={{ name: "q", label: `Search email, ${traitsInWords(SEARCHED_TRAITS, "or")}` }}>
        <SelectField name="sort" label="Sort by" value={sort} options={Object.entries(SORTS)} />
        <TextField name="score" label="Score at least" value={minScore ?? ""} inputmode="numeric" />
        <TextField name="account" label="External id of the account" value={account} />
        <DayFields days={days} label="Last seen" />
      </Filters>
      <LapsingNote lapsing={lapsing} />
      {!sorted && <p class="quiet small">Too many people match to be sorted. They are listed by email.</p>}
      <Panel list>
        {items.length > 0 && <PeopleTable base={base} people={items} nowMs={nowMs} />}
        {isEmpty && wasDeleted && (
          <Empty title="This person was deleted">
            <a class="button" href={`${personPath(base, q.toLowerCase())}/deletion`}>
              View the receipt
            </a>
          </Empty>
        )}
        {isEmpty && !wasDeleted && list.isFiltered && <NoMatches what="people" list={list} />}
        {isEmpty && !list.isFiltered && <NobodyYet base={base} />}
        <ScanNote
          complete={complete}
          isEmpty={items.length === 0}
          read={counted(scans * (q === "" || account !== "" ? PEOPLE_SCAN : PEOPLE_SEARCHED), "person", "people")}
        />
        <Pager list={list} next={next} complete={complete} />
      </Panel>
    </>
  );
}

export function PeopleTable({
  base,
  people,
  nowMs,
}: {
  base: string;
  people: readonly PersonSummary[];
  nowMs: number;
}) {
  return (
    <Table
      caption="People"
      rows={people}
      href={({ email }) => personPath(base, email)}
      columns={[
        { head: "Email", cell: ({ email }) => email },
        ...TRAIT_NAMES.map((trait, index) => ({
          head: traitLabel(trait),
          cell: (person: PersonSummary) => person[trait],
          // The name stays, other traits leave first.
          ...(index === 0 ? {} : { drop: "narrow" as const }),
        })),
        { head: "Score", kind: "number", cell: ({ score }) => <Count value={score} /> },
        { head: "First seen", drop: "narrow", cell: ({ firstSeenMs }) => <Time ms={firstSeenMs} nowMs={nowMs} /> },
        { head: "Last seen", cell: ({ lastSeenMs }) => <Time ms={lastSeenMs} nowMs={nowMs} /> },
      ]}
    />
  );
}

function ExportMenu({ base }: { base: string }) {
  return (
    <Menu label="Export" text="Export">
      {Object.entries(EXPORTS).flatMap(([records, name]) =>
        Object.entries(FORMATS).map(([format, formatName]) => (
          <a href={`${base}/people/export?${new URLSearchParams({ records, format }).toString()}`} download>
            {name} as {formatName}
          </a>
        )),
      )}
      <a href={`${base}/settings/activity?action=data.exported`}>View past exports</a>
    </Menu>
  );
}

function NobodyYet({ base }: { base: string }) {
  return (
    <Empty title="No people yet">
      <p>
        The first signal with an <code>email</code> creates a person. An identify call with an email in its traits does
        so too.
      </p>
      <a class="button primary" href={`${base}/connect`}>
        Connect a sender
      </a>
    </Empty>
  );
}

function isKey<Key extends string>(options: Record<Key, unknown>, key: string): key is Key {
  return Object.hasOwn(options, key);
}

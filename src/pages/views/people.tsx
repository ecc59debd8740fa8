/** The list of people. */
import type { PageOf } from "../../platform/list-page.ts";
import type { PersonSummary } from "../../store/record-pages.ts";
import type { PeopleList } from "../people-query.ts";
import { PEOPLE_SORTS, SEARCHED } from "../people-query.ts";
import { ExportLinks } from "./export-links.tsx";
import { SelectField, TextField } from "./fields.tsx";
import { grouped } from "./format.ts";
import { Empty, Head, Pager, Panel, Table, Time } from "./parts.tsx";

/** Of any email: it may hold slashes, percent signs, whatever. */
export function personPath(base: string, email: string): string {
  return `${base}/people/${encodeURIComponent(email)}`;
}

interface Props {
  base: string;
  list: PeopleList;
  people: PageOf<PersonSummary>;
  /** Nobody is found, and there is a receipt for the deletion of whoever had this email. */
  wasDeleted: boolean;
  mayExport: boolean;
  nowMs: number;
}

export function PeopleView({ base, list, people, wasDeleted, mayExport, nowMs }: Props) {
  const path = `${base}/people`;
  const isSearch = list.q !== "";
  const isFiltered = isSearch || list.shown["cursor"] !== undefined;
  return (
    <>
      <Head title="People">
        Everybody whom a signal or an identify call has named by email, with the score that their signals have made.
      </Head>
      <form method="get" action={path} class="filters" role="search">
        <TextField name="q" type="search" label="Begins with" value={list.q} placeholder="jane@" />
        <SelectField name="by" label="In" value={list.by} options={Object.entries(SEARCHED)} />
        <SelectField name="sort" label="Sort by" value={list.sort} options={Object.entries(PEOPLE_SORTS)} />
        <button>Show</button>
        {isSearch && (
          <a class="button" href={path}>
            Show all
          </a>
        )}
      </form>
      {isSearch && <p class="quiet small">What is found comes in the order of the {list.by}.</p>}
      <Panel flush>
        {people.items.length > 0 ? (
          <PeopleTable base={base} people={people.items} nowMs={nowMs} />
        ) : isFiltered ? (
          <NobodyFound base={base} list={list} wasDeleted={wasDeleted} />
        ) : (
          <NobodyYet base={base} />
        )}
        <Pager path={path} query={list.shown} next={people.next} />
      </Panel>
      {mayExport && people.items.length > 0 && <ExportLinks base={base} />}
    </>
  );
}

function PeopleTable({ base, people, nowMs }: { base: string; people: PersonSummary[]; nowMs: number }) {
  return (
    <Table
      caption="People"
      head={["Email", "Name", "Company", "Title", { text: "Score", number: true }, "First seen", "Last seen"]}
    >
      {people.map((person) => (
        <tr>
          <th scope="row" class="who">
            <a href={personPath(base, person.email)}>{person.email}</a>
          </th>
          <td class="what">{person.name}</td>
          <td class="what">{person.company}</td>
          <td class="what">{person.title}</td>
          <td class={person.score === 0 ? "number quiet" : "number"}>{grouped(person.score)}</td>
          <td>
            <Time ms={person.firstSeenMs} nowMs={nowMs} />
          </td>
          <td>
            <Time ms={person.lastSeenMs} nowMs={nowMs} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function NobodyFound({ base, list: { q, by }, wasDeleted }: { base: string; list: PeopleList; wasDeleted: boolean }) {
  if (wasDeleted) {
    return (
      <Empty title="This person was deleted">
        <p>
          <a href={`${personPath(base, q.toLowerCase())}/deletion`}>See the receipt</a>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="Nobody found">
      {q === "" ? (
        <p>There is nobody on this page.</p>
      ) : (
        <p>
          No {by} begins with “{q}”. Only beginnings are searched.
        </p>
      )}
      <p>
        <a href={`${base}/people`}>Show everybody</a>
      </p>
    </Empty>
  );
}

function NobodyYet({ base }: { base: string }) {
  return (
    <Empty title="Nobody yet">
      <p>
        A person appears with the first signal that carries an <code>email</code>, or with an identify call that has one
        in its traits.
      </p>
      <p>
        <a href={`${base}/connect`}>Send a first signal</a>
      </p>
    </Empty>
  );
}

/** The list of people. */
import { SEARCHED_TRAITS, TRAIT_NAMES, traitLabel, traitsInWords } from "../../domain/signal/traits.ts";
import { PEOPLE_SCAN, PEOPLE_SEARCHED } from "../../limits.ts";
import type { PeoplePage, PersonSummary } from "../../store/protocol/people-and-accounts.ts";
import type { PeopleList } from "./people-query.ts";
import { PEOPLE_SORTS } from "./people-query.ts";
import { ExportLinks } from "./export-links.tsx";
import { DayFields, SelectField, TextField } from "../kit/forms.tsx";
import { counted, grouped } from "../kit/format.ts";
import { daysAsked, NothingFits } from "../views/nothing-fits.tsx";
import { Empty, PageHead, Panel, Time } from "../views/parts.tsx";
import { Pager, Table, NotAll } from "../views/table.tsx";

/** Path of a person's page; an email may hold slashes, percent signs, whatever. */
export function personPath(base: string, email: string): string {
  return `${base}/people/${encodeURIComponent(email)}`;
}

/** In what the search looks. */
const SEARCHED_FIELDS = `Email, ${traitsInWords(SEARCHED_TRAITS, "or")}`;

interface Props {
  base: string;
  list: PeopleList;
  people: PeoplePage;
  /** Whether nobody is found, and there is a receipt for the deletion of whoever had this email. */
  wasDeleted: boolean;
  mayExport: boolean;
  nowMs: number;
}

export function PeopleView({ base, list, people, wasDeleted, mayExport, nowMs }: Props) {
  const path = `${base}/people`;
  const { items, next, complete, sorted } = people;
  const isFiltered = Object.keys(list.shown).some((name) => name !== "sort");
  return (
    <>
      <PageHead title="People">
        Everybody whom a signal or an identify call has named by email, with the score that their signals have made.
      </PageHead>
      <form method="get" action={path} class="filters" role="search">
        <TextField name="q" type="search" label={SEARCHED_FIELDS} value={list.q} />
        <SelectField name="sort" label="Sort by" value={list.sort} options={Object.entries(PEOPLE_SORTS)} />
        <TextField name="score" type="number" label="Score at least" value={list.minScore} />
        <DayFields days={list.days} label="Last seen from" />
        <button>Show</button>
        {isFiltered && (
          <a class="button" href={path}>
            Show all
          </a>
        )}
      </form>
      {!sorted && (
        <p class="quiet small">More people fit than are sorted at a time: they come in the order of their email.</p>
      )}
      <Panel flush>
        {items.length > 0 && <PeopleTable base={base} people={items} nowMs={nowMs} />}
        {items.length === 0 && complete && isFiltered && (
          <NobodyFound base={base} list={list} wasDeleted={wasDeleted} />
        )}
        {items.length === 0 && complete && !isFiltered && <NobodyYet base={base} />}
        <NotAll complete={complete} what={counted(list.q === "" ? PEOPLE_SCAN : PEOPLE_SEARCHED, "person", "people")} />
        <Pager path={path} query={list.shown} next={next} />
      </Panel>
      {mayExport && items.length > 0 && <ExportLinks base={base} />}
    </>
  );
}

function PeopleTable({ base, people, nowMs }: { base: string; people: PersonSummary[]; nowMs: number }) {
  return (
    <Table
      caption="People"
      head={["Email", ...TRAIT_NAMES.map(traitLabel), { text: "Score", number: true }, "First seen", "Last seen"]}
    >
      {people.map((person) => (
        <tr>
          <th scope="row" class="who">
            <a href={personPath(base, person.email)}>{person.email}</a>
          </th>
          {TRAIT_NAMES.map((trait) => (
            <td class="what">{person[trait]}</td>
          ))}
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

function NobodyFound({ base, list, wasDeleted }: { base: string; list: PeopleList; wasDeleted: boolean }) {
  const { q, minScore, days, shown } = list;
  if (wasDeleted) {
    return (
      <Empty title="This person was deleted">
        <p>
          <a href={`${personPath(base, q.toLowerCase())}/deletion`}>See the receipt</a>
        </p>
      </Empty>
    );
  }
  const filters = [
    { label: `${SEARCHED_FIELDS} with`, value: q, names: ["q"] },
    { label: "Score at least", value: minScore, names: ["score"] },
    daysAsked("Last seen", days),
  ];
  return <NothingFits title="Nobody found" path={`${base}/people`} query={shown} filters={filters} />;
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

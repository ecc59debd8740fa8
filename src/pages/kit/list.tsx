/**
 * Lists: their address with search text, filters, sort order and cursor, the form of the filters, the empty states, and the
 * links between slices. One call reads a filter and makes its field and its chip. It returns undefined if the filter is not
 * in use. A value that makes no sense is not applied, and the page says so.
 */
import type { Child, PropsWithChildren } from "hono/jsx";
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import { IDENTITY_MAX_LENGTH } from "../../limits.ts";
import type { ListQuery, ListPage } from "../../platform/list-page.ts";
import { LinkButton, NameField, SelectField, TextField } from "./forms.tsx";
import { withQuery } from "../pages-env.ts";
import { Empty, Panel } from "./parts.tsx";

export interface ActiveFilter {
  label: string;
  value: string;
  names: readonly string[];
}

/** In UTC, in milliseconds since 1970; `untilMs` is not included. Undefined: unbounded. */
interface TimeRange {
  sinceMs: number | undefined;
  untilMs: number | undefined;
}

/** In UTC, both days included, in days since 1970. Undefined: unbounded. */
interface DayRange {
  sinceDay: number | undefined;
  untilDay: number | undefined;
}

/** Options that the error about an unknown option names. */
const OPTIONS_IN_ERROR = 8;

type Query = Record<string, string>;

/** A slice of a list that the server filters. `complete` false: the search stopped early and continues from `next`. */
export interface ScannedSlice<Row> extends ListPage<Row> {
  complete: boolean;
}

const SCANS_MAX = 10;

export type Scanned<Slice> = Slice & { scans: number };

/** Reads slices until one has a match, at most SCANS_MAX. `scans` is the number of slices read. */
export async function scanUntilMatch<Slice extends ScannedSlice<unknown>>(
  slice: ListQuery,
  read: (slice: ListQuery) => Promise<Slice>,
): Promise<Scanned<Slice>> {
  let found = await read(slice);
  let scans = 1;
  for (; found.items.length === 0 && !found.complete && scans < SCANS_MAX; scans++) {
    found = await read({ ...slice, cursor: found.next });
  }
  return { ...found, scans };
}

/** A slice of a list. `complete` false: the search stopped early. */
type Found = ListPage<unknown> & { complete?: boolean };

/** @param suggestions names that the field offers. */
type FilterField = (suggestions: readonly string[]) => Child;

export class ListAddress {
  readonly path: string;
  readonly active: ActiveFilter[] = [];
  readonly errors: string[] = [];
  /** By name, in the order in which the filters were read. */
  readonly fields = new Map<string, FilterField>();
  search: { name: string; label: string } | null = null;
  /** The order of the list; empty: it has only one. */
  sortedBy = "";
  /** The parameters that have an effect, with the cursor. */
  readonly query: Query = {};
  readonly #requested: Query;

  constructor(path: string, requested: Query) {
    this.path = path;
    this.#requested = requested;
    for (const name of ["cursor", "back"]) this.#keep(name, requested[name] ?? "");
  }

  slice(limit: number): ListQuery {
    return { cursor: this.query["cursor"] ?? null, limit };
  }

  /** The search field, above the filters. @param label of the chip. @param fieldLabel such as `Search event or signal id`. */
  searchText(name: string, label: string, fieldLabel: string): string | undefined {
    this.search = { name, label: fieldLabel };
    return this.#text(name, label);
  }

  text(name: string, label: string, fieldLabel = label): string | undefined {
    const value = this.#text(name, label);
    this.addText(name, fieldLabel, value ?? "");
    return value;
  }

  /** The option "" stands for any. */
  choice<Key extends string>(name: string, label: string, options: Record<Key, string>): Exclude<Key, ""> | undefined {
    const value = this.option(name, options, "" as NoInfer<Key>);
    this.addSelect(name, label, Object.entries(options), value);
    if (value === "") return undefined;
    this.active.push({ label, value: options[value], names: [name] });
    return value as Exclude<Key, "">;
  }

  sort<Key extends string>(options: Record<Key, string>, fallback: NoInfer<Key>): Key {
    const value = this.option("sort", options, fallback);
    this.addSelect("sort", "Sort by", Object.entries(options), value);
    this.sortedBy = value;
    return value;
  }

  /** For tabs: without a field and a chip. */
  option<Key extends string>(name: string, options: Record<Key, string>, fallback: NoInfer<Key>): Key {
    const value = this.#requested[name] ?? "";
    if (value === "" || value === fallback) return fallback;
    if (!Object.hasOwn(options, value)) {
      const names = Object.values<string>(options);
      const some = names.length > OPTIONS_IN_ERROR ? [...names.slice(0, OPTIONS_IN_ERROR), "…"] : names;
      this.errors.push(`“${value.slice(0, 40)}” is not one of: ${some.join(", ")}`);
      return fallback;
    }
    this.#keep(name, value);
    return value as Key;
  }

  wholeNumber(name: string, label: string): number | undefined {
    const text = (this.#requested[name] ?? "").trim();
    const isNumber = /^-?\d{1,9}$/.test(text);
    const value = isNumber ? Number(text) : undefined;
    this.fields.set(name, () => <TextField name={name} label={label} value={value ?? ""} inputmode="numeric" />);
    if (isNumber) this.addFilter(label, text, { [name]: text });
    else if (text !== "") this.errors.push(`${label}: enter a whole number.`);
    return value;
  }

  /** For lists that know only the day of a row. */
  days(label: string, fieldLabel = label): DayRange {
    const { sinceMs, untilMs } = this.times(label, fieldLabel);
    return {
      sinceDay: sinceMs === undefined ? undefined : dayOf(sinceMs),
      untilDay: untilMs === undefined ? undefined : dayOf(untilMs) - 1,
    };
  }

  /** @param label says what happened on the days, such as `Received`. */
  times(label: string, fieldLabel = label): TimeRange {
    const [from, to] = [this.#day("from"), this.#day("to")];
    const isReversed = from !== null && to !== null && from.ms > to.ms;
    if (isReversed) this.errors.push(`“From” (${from.text}) is after “To” (${to.text}). Swap the two days.`);
    const [first, last] = isReversed ? [null, null] : [from, to];
    const [fromText, toText] = [first?.text ?? "", last?.text ?? ""];
    this.fields.set("from", () => <TextField name="from" label={fieldLabel} type="date" value={fromText} />);
    this.fields.set("to", () => <TextField name="to" label="To (UTC)" type="date" value={toText} />);
    const texts = [first === null ? [] : `from ${fromText}`, last === null ? [] : `until ${toText}`].flat();
    this.addFilter(label, texts.length === 0 ? "" : `${texts.join(" ")} (UTC)`, { from: fromText, to: toText });
    return { sinceMs: first?.ms, untilMs: last === null ? undefined : last.ms + DAY_MS };
  }

  /** For a filter that the page reads itself. With an empty value it gets no chip. */
  addFilter(label: string, value: string, parameters: Query): void {
    for (const [name, text] of Object.entries(parameters)) this.#keep(name, text);
    if (value !== "") this.active.push({ label, value, names: Object.keys(parameters) });
  }

  addSelect(name: string, label: string, options: readonly (readonly [string, string])[], value: string): void {
    this.fields.set(name, () => <SelectField name={name} label={label} value={value} options={options} />);
  }

  addText(name: string, label: string, value: string): void {
    this.fields.set(name, (suggestions) => (
      <NameField name={name} label={label} value={value} suggestions={suggestions} />
    ));
  }

  /** For the headings of a table: another order begins at the first slice. */
  get order(): { current: string; href: (sort: string) => string } {
    const { cursor: _, back: __, ...rest } = this.query;
    return { current: this.sortedBy, href: (sort) => withQuery(this.path, { ...rest, sort }) };
  }

  get isFiltered(): boolean {
    return this.active.length > 0;
  }

  /** Null: no day, or no valid one. */
  #day(name: "from" | "to"): { text: string; ms: number } | null {
    const text = this.#requested[name] ?? "";
    if (text === "") return null;
    const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00.000Z`) : Number.NaN;
    // Date.parse makes a day of March from the 31st of February.
    if (!Number.isNaN(ms) && ms >= 0 && new Date(ms).toISOString().slice(0, 10) === text) return { text, ms };
    this.errors.push(`“${text.slice(0, 40)}” is not a day. Enter it as 2026-11-21.`);
    return null;
  }

  /** Without halves of surrogate pairs, which SQLite cannot compare. */
  #text(name: string, label: string): string | undefined {
    const value = (this.#requested[name] ?? "").toWellFormed().trim().slice(0, IDENTITY_MAX_LENGTH);
    this.addFilter(label, value, { [name]: value });
    return value || undefined;
  }

  #keep(name: string, value: string): void {
    if (value !== "") this.query[name] = value;
  }
}

/** The number of rows of all slices, if it is known. */
export function totalOf(list: ListAddress, { items, next, total, complete = true }: Found): number | undefined {
  const isWhole = list.query["cursor"] === undefined && next === null && complete;
  return isWhole ? items.length : total;
}

/**
 * A search field, a button that opens the other fields, and a chip for each filter in use.
 *
 * @param props.suggestions names that the field of a filter offers, by the filter.
 */
export function Filters({
  list,
  suggestions = {},
}: {
  list: ListAddress;
  suggestions?: Record<string, readonly string[]>;
}) {
  const { path, query, active, errors, search, fields } = list;
  return (
    <div class="stack tight">
      <form
        class="filters"
        method="get"
        action={path}
        role="search"
        aria-label="Filter the list"
        autocomplete="off"
        data-filters
      >
        {search !== null && (
          <input
            type="search"
            name={search.name}
            value={query[search.name] ?? ""}
            placeholder={search.label}
            aria-label={search.label}
            spellcheck={false}
          />
        )}
        {fields.size > 0 && (
          <details class="menu-of">
            <summary>Filter</summary>
            <div>
              {[...fields].map(([name, field]) => field(suggestions[name] ?? []))}
              <button class="primary">Apply</button>
            </div>
          </details>
        )}
        {search !== null && <button class="no-script">Search</button>}
      </form>
      {errors.map((error) => (
        <p class="error" role="alert">
          {error}
        </p>
      ))}
      {active.length > 0 && (
        <ul class="chips" aria-label="Filters in use">
          {active.map(({ label, value, names }) => (
            <li>
              <a href={addressWithout(list, names)} aria-label={`Remove filter ${label}: ${value}`}>
                <span class="quiet">{label}</span> {value}
              </a>
            </li>
          ))}
          {active.length > 1 && (
            <li>
              <a href={path}>Clear all</a>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

function addressWithout({ path, query }: ListAddress, names: readonly string[]): string {
  return withQuery(
    path,
    Object.entries(query).filter(([name]) => !["cursor", "back", ...names].includes(name)),
  );
}

/** @param props.noun such as `people`. */
export function NoMatches({ noun, list, text }: { noun: string; list: ListAddress; text?: string }) {
  return (
    <Empty title={`No ${noun} match these filters`} text={text}>
      <LinkButton href={list.path} text="Clear filters" />
    </Empty>
  );
}

export function LapsingNote({ lapsing }: { lapsing: boolean }) {
  return lapsing ? <p class="quiet small">Points are lapsing right now; the order may change.</p> : <></>;
}

interface ListPanelProps {
  list: ListAddress;
  found: Found;
  title?: Child;
  actions?: Child;
  id?: string;
  /** Such as `people`. */
  noun?: string;
  /** Such as `2,000 signals`. */
  searched?: string;
  head?: Child;
  end?: Child;
  empty?: Child;
  noMatches?: Child;
}

export function ListPanel({ list, found, noun = "rows", searched = "", ...props }: PropsWithChildren<ListPanelProps>) {
  const { head, end, empty, noMatches, children, ...panel } = props;
  const { items, next, complete = true } = found;
  const isEmpty = items.length === 0;
  return (
    <Panel {...panel} list>
      {head}
      {!isEmpty && children}
      {isEmpty && complete && (list.isFiltered ? noMatches || <NoMatches noun={noun} list={list} /> : empty)}
      {isEmpty && !complete && <Empty title={`No matches in ${searched}`} />}
      {!isEmpty && !complete && <p class="quiet small">Searched {searched}.</p>}
      {end}
      <Pager list={list} next={next} complete={complete} />
    </Panel>
  );
}

/** The oldest cursors are dropped beyond this length. */
const BACK_MAX_CHARACTERS = 1_500;

interface PagerProps {
  list: ListAddress;
  next: string | null;
  /** False: the search stopped early, and the next slice continues it. */
  complete: boolean;
}

/** Previous and Next. The address keeps the cursors of the slices before (`back`), because cursors lead forwards only. */
function Pager({ list: { path, query }, next, complete }: PagerProps) {
  const { cursor, back = "", ...rest } = query;
  if (cursor === undefined && next === null) return <></>;
  const before = back === "" ? [] : back.split(" ");
  const link = (more: Record<string, string>): string => withQuery(path, { ...rest, ...more });
  const previous = before.at(-1);
  const kept = (cursors: string[]): Record<string, string> =>
    cursors.length === 0 ? {} : { back: shortened(cursors) };
  return (
    <nav class="pager" aria-label="Pages">
      {cursor !== undefined && (
        <a
          class="button small"
          href={previous === undefined ? link({}) : link({ cursor: previous, ...kept(before.slice(0, -1)) })}
          rel="prev"
        >
          Previous
        </a>
      )}
      {next !== null && (
        <a
          class="button small"
          href={link({ cursor: next, ...kept(cursor === undefined ? before : [...before, cursor]) })}
          rel="next"
        >
          {complete ? "Next" : "Search further back"}
        </a>
      )}
    </nav>
  );
}

function shortened(cursors: string[]): string {
  let text = cursors.join(" ");
  while (text.length > BACK_MAX_CHARACTERS) text = text.slice(text.indexOf(" ") + 1 || text.length);
  return text;
}

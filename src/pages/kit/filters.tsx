/** The filters of a list: a search field, a button that opens the other fields, and a chip for each filter in use. */
import type { PropsWithChildren } from "hono/jsx";
import type { ListAddress } from "./list-address.ts";
import { Empty } from "./parts.tsx";

/**
 * @param props.search the search field; undefined: the list has none.
 * @param props.children the fields behind the Filter button; undefined: the list has none.
 */
export function Filters({
  list,
  search,
  children,
}: PropsWithChildren<{ list: ListAddress; search?: { name: string; label: string } }>) {
  const { path, query, active, errors } = list;
  return (
    <div class="stack tight">
      <form class="filters" method="get" action={path} role="search" autocomplete="off" data-filters>
        {search !== undefined && (
          <input
            type="search"
            name={search.name}
            value={query[search.name] ?? ""}
            placeholder={search.label}
            aria-label={search.label}
            spellcheck={false}
          />
        )}
        {children !== undefined && (
          <details class="menu-of">
            <summary>Filter</summary>
            <div>
              {children}
              <button class="primary">Apply</button>
            </div>
          </details>
        )}
        {search !== undefined && <button class="no-script">Search</button>}
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

/** The empty state of a list whose filters nothing matches. @param props.what such as `people`. */
export function NoMatches({ what, list, children }: PropsWithChildren<{ what: string; list: ListAddress }>) {
  return (
    <Empty title={`No ${what} match these filters`}>
      {children}
      <a class="button" href={list.path}>
        Clear filters
      </a>
    </Empty>
  );
}

/** Shows the extent of the search, if the server stopped before the end. @param props.read such as `2,000 signals`. */
export function ScanNote({ complete, isEmpty, read }: { complete: boolean; isEmpty: boolean; read: string }) {
  if (complete) return <></>;
  return isEmpty ? <Empty title={`No matches in ${read}`} /> : <p class="quiet small">Searched {read}.</p>;
}

/** Says that the order by score is not final, while the nightly job removes points that have lapsed. */
export function LapsingNote({ lapsing }: { lapsing: boolean }) {
  return lapsing ? <p class="quiet small">Points are lapsing right now; the order may change.</p> : <></>;
}

function addressWithout({ path, query }: ListAddress, names: readonly string[]): string {
  const rest = Object.entries(query).filter(([name]) => !["cursor", "back", ...names].includes(name));
  return rest.length === 0 ? path : `${path}?${new URLSearchParams(rest).toString()}`;
}

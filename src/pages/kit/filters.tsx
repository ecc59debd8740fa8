/** The filters of a list: a search field, a button that opens the other fields, and a chip for each filter in use. */
import type { Child, PropsWithChildren } from "hono/jsx";
import type { DayRange } from "../day-range.ts";
import { Empty } from "./parts.tsx";

export interface ActiveFilter {
  label: string;
  /** The value as people read it. Empty: the filter is not in use. */
  value: string;
  /** The filter's parameters in the address. */
  names: readonly string[];
}

interface ListAddress {
  path: string;
  query: Record<string, string>;
}

/**
 * @param props.search the search field; undefined: the list has none.
 * @param props.active all filters of the list; those in use have a chip.
 * @param props.errors what is wrong with the values, such as a day range that ends before it begins.
 * @param props.children the fields behind the Filter button.
 */
export function Filters({
  path,
  query,
  search,
  active,
  errors = [],
  children,
}: PropsWithChildren<
  ListAddress & {
    search?: { name: string; label: string; value: string };
    active: readonly ActiveFilter[];
    errors?: readonly string[];
  }
>) {
  const used = active.filter(({ value }) => value !== "");
  return (
    <div class="stack tight">
      <form class="filters" method="get" action={path} role="search" autocomplete="off" data-filters>
        {search !== undefined && (
          <input
            type="search"
            name={search.name}
            value={search.value}
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
      {used.length > 0 && (
        <ul class="chips" aria-label="Filters in use">
          {used.map(({ label, value, names }) => (
            <li>
              <a href={without({ path, query }, names)} aria-label={`Remove filter ${label}: ${value}`}>
                <span class="quiet">{label}</span> {value}
              </a>
            </li>
          ))}
          {used.length > 1 && (
            <li>
              <a class="clear" href={path}>
                Clear all
              </a>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

/** The empty state of a list whose filters nothing matches. */
export function NoMatches({ what, path, children }: PropsWithChildren<{ what: string; path: string }>) {
  return (
    <Empty title={`No ${what} match these filters`}>
      {children}
      <a class="button" href={path}>
        Clear filters
      </a>
    </Empty>
  );
}

/** A filter by days, both ends included. @param label says what happened on those days. */
export function daysFilter(label: string, { from, to }: DayRange): ActiveFilter {
  const value = from === "" ? (to === "" ? "" : `until ${to}`) : to === "" ? `from ${from}` : `${from} to ${to}`;
  return { label, value: value === "" ? "" : `${value} (UTC)`, names: ["from", "to"] };
}

/** Said where a slice ends because the server has read as much as one request may. */
export function ScanNote({ complete, read }: { complete: boolean; read: Child }) {
  if (complete) return <></>;
  return <p class="quiet small">Searched {read}. Next continues the search.</p>;
}

function without({ path, query }: ListAddress, names: readonly string[]): string {
  const rest = Object.entries(query).filter(([name]) => !["cursor", "back", "done", ...names].includes(name));
  return rest.length === 0 ? path : `${path}?${new URLSearchParams(rest).toString()}`;
}

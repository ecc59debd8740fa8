/** What a list says that is empty because of what was asked for: each filter, and the way to the list without it. */
import type { Child } from "hono/jsx";
import type { DayRange } from "../day-range.ts";
import { Empty } from "./parts.tsx";

export interface AskedFilter {
  label: string;
  /** What is asked for, as people read it. Empty: the filter is not in use. */
  value: string;
  /** The filter's fields in the address's query. */
  names: readonly string[];
}

interface Props {
  title: string;
  /** The list's path. */
  path: string;
  /** The query of the list's address. */
  query: Record<string, string>;
  /** All filters of the list; those in use are shown. */
  filters: readonly AskedFilter[];
  /** What else there is to say. */
  children?: Child;
}

export function NothingFits({ title, path, query, filters, children }: Props) {
  const asked = filters.filter(({ value }) => value !== "");
  const without = (names: readonly string[]) => {
    const rest = Object.entries(query).filter(([name]) => name !== "cursor" && !names.includes(name));
    return rest.length === 0 ? path : `${path}?${new URLSearchParams(rest).toString()}`;
  };
  return (
    <Empty title={title}>
      {children}
      {asked.length > 0 && (
        <ul class="asked-for">
          {asked.map(({ label, value, names }) => (
            <li>
              {label}: <strong>{value}</strong>{" "}
              <a href={without(names)} aria-label={`Clear “${label}”`}>
                Clear
              </a>
            </li>
          ))}
        </ul>
      )}
      <p>
        <a class="button" href={asked.length === 0 ? without([]) : path}>
          {asked.length === 0 ? "To the first page" : asked.length === 1 ? "Show all" : "Clear all of them"}
        </a>
      </p>
    </Empty>
  );
}

/** A filter by days. @param label says what happened on those days. */
export function daysAsked(label: string, { from, to }: DayRange): AskedFilter {
  const value = from === "" ? (to === "" ? "" : `until ${to}`) : to === "" ? `from ${from}` : `${from} to ${to}`;
  return { label, value: value === "" ? "" : `${value} (UTC)`, names: ["from", "to"] };
}

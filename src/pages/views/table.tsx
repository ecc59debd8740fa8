/** A table, a count in it, and what stands below it: the links to the next of its pages. */
import type { PropsWithChildren } from "hono/jsx";
import { grouped } from "../kit/format.ts";

type Column = string | { text: string; number?: boolean; hidden?: boolean };

/**
 * A table that scrolls by itself where it is too wide, and is a list of cards on a phone.
 *
 * @param props.caption names it for screen readers.
 * @param props.tall for many rows of little weight: on a phone they stay within a screen.
 */
export function Table({
  caption,
  head,
  tall,
  children,
}: PropsWithChildren<{ caption: string; head: Column[]; tall?: boolean }>) {
  return (
    <div class={tall === true ? "table tall" : "table"} role="region" aria-label={caption} tabindex={0}>
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {head.map((column) => {
              const { text, number, hidden } =
                typeof column === "string" ? { text: column } : { number: false, hidden: false, ...column };
              return (
                <th scope="col" class={number === true ? "number" : undefined}>
                  {hidden === true ? <span class="visually-hidden">{text}</span> : text}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/**
 * Links of a list that pages by cursor.
 *
 * @param query query of the page that is shown, with its `cursor` where it is not the first.
 */
export function Pager({ path, query, next }: { path: string; query: Record<string, string>; next: string | null }) {
  const { cursor, ...rest } = query;
  if (cursor === undefined && next === null) return <></>;
  const link = (more: Record<string, string>) => `${path}?${new URLSearchParams({ ...rest, ...more }).toString()}`;
  return (
    <nav class="pager" aria-label="Pages">
      {cursor !== undefined && (
        <a class="button small" href={link({})}>
          First page
        </a>
      )}
      {next !== null && (
        <a class="button small" href={link({ cursor: next })} rel="next">
          Next page
        </a>
      )}
    </nav>
  );
}

/** Said where a page has looked at as much as one page may. */
export function NotAll({ complete, what }: { complete: boolean; what: string }) {
  if (complete) return <></>;
  return <p class="not-all quiet small">Looked through {what}; the next page goes on from there.</p>;
}

/** A count in a table, faint where there is nothing. */
export function Count({ value }: { value: number }) {
  return <td class={value === 0 ? "number quiet" : "number"}>{grouped(value)}</td>;
}

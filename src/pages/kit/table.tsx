/** Tables. */
import type { Child } from "hono/jsx";
import { grouped } from "./format.ts";

export interface Column<Row> {
  /** The heading. Empty: the column has actions, and its heading is for screen readers only. */
  head: string;
  cell: (row: Row) => Child;
  /**
   * `number`: right-aligned digits. `text`: sentences, which may wrap. `actions`: buttons, at the right. Otherwise a short
   * value.
   */
  kind?: "number" | "text" | "actions";
  /** `narrow`: the column leaves where the table has less than some 900 pixels. `phone`: it leaves on a phone only. */
  drop?: "narrow" | "phone";
}

interface TableProps<Row> {
  /** Names the table for screen readers. */
  caption: string;
  rows: readonly Row[];
  /** The first column names the row. */
  columns: readonly Column<Row>[];
  /** The page of a row. The whole row is a link to it. */
  href?: (row: Row) => string;
  /** Further attributes of a row, such as its id. */
  attributes?: (row: Row) => Record<string, string | undefined>;
}

/** A table without a horizontal scroll bar: columns of little weight leave first, and on a phone each row is a short text. */
export function Table<Row>({ caption, rows, columns, href, attributes }: TableProps<Row>) {
  return (
    <div class="table">
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={classOf(column)}>
                {column.kind === "actions" ? (
                  <span class="visually-hidden">{column.head || "Actions"}</span>
                ) : (
                  column.head
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr {...attributes?.(row)}>
              {columns.map((column, index) =>
                index === 0 ? (
                  <th scope="row" class={classOf(column)}>
                    {href === undefined ? (
                      column.cell(row)
                    ) : (
                      <a class="row-link" href={href(row)}>
                        {column.cell(row)}
                      </a>
                    )}
                  </th>
                ) : (
                  <td
                    class={classOf(column)}
                    data-label={column.kind === undefined || column.kind === "number" ? column.head : undefined}
                  >
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf<Row>({ kind, drop }: Column<Row>): string | undefined {
  const classes = [kind, drop === "narrow" ? "narrow-drop phone-drop" : drop === "phone" ? "phone-drop" : undefined];
  return classes.filter((name) => name !== undefined).join(" ") || undefined;
}

/** A count in a table, faint where it is 0. */
export function Count({ value }: { value: number }) {
  return value === 0 ? <span class="quiet">0</span> : <>{grouped(value)}</>;
}

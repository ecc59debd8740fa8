/** The small parts of all pages. Functions of data; the classes are those of style.css. */
import type { Child, PropsWithChildren } from "hono/jsx";
import { STATUS_COPY, type Tone } from "../copy.ts";
import { ago, exactTime, grouped } from "./format.ts";

/** A relative time. The title has the exact time: in UTC, or with a script in the viewer's time zone. */
export function Time({ ms }: { ms: number }) {
  return (
    <time datetime={new Date(ms).toISOString()} title={exactTime(ms)}>
      {ago(ms, Date.now())}
    </time>
  );
}

export function Badge({ tone = "quiet", title, children }: PropsWithChildren<{ tone?: Tone; title?: string }>) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

export function StatusBadge({ status }: { status: keyof typeof STATUS_COPY }) {
  const { label, tone, meaning } = STATUS_COPY[status];
  return (
    <Badge tone={tone} title={meaning}>
      {label}
    </Badge>
  );
}

/** @param props.list the content is a table or a list, so the panel has no padding. */
export function Panel({
  title,
  actions,
  list = false,
  id,
  children,
}: PropsWithChildren<{ title?: Child; actions?: Child; list?: boolean; id?: string }>) {
  return (
    <section class={list ? "panel list" : "panel"} id={id}>
      {title !== undefined && (
        <div class="panel-head">
          <h2>{title}</h2>
          {actions}
        </div>
      )}
      {children}
    </section>
  );
}

export function Tabs({
  label,
  tabs,
}: {
  label: string;
  tabs: readonly { href: string; text: Child; current: boolean }[];
}) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ href, text, current }) => (
        <a href={href} aria-current={current ? "page" : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

export function Stats({ children }: PropsWithChildren) {
  return <dl class="stats">{children}</dl>;
}

export function Stat({ label, value, note }: { label: Child; value: Child; note?: Child }) {
  return (
    <div class="stat">
      <dt>{label}</dt>
      <dd>
        {typeof value === "number" ? grouped(value) : value}
        {note !== undefined && <small>{note}</small>}
      </dd>
    </div>
  );
}

export function Meter({ share, label, tone }: { share: number; label: string; tone?: Tone }) {
  return (
    <svg class={`meter ${tone ?? ""}`} viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect width={100} height={1} class="rest" />
      <rect width={Math.min(100, Math.max(0, 100 * share))} height={1} />
    </svg>
  );
}

export function Facts({ of }: { of: readonly (readonly [name: Child, value: Child] | false)[] }) {
  return (
    <dl class="facts">
      {of.map((fact) => {
        const [name, value = null] = fact || [];
        if (value === null || value === false || value === "") return <></>;
        return (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        );
      })}
    </dl>
  );
}

/** Two lines of a long text. A click shows all of it. */
export function Clamped({ children }: PropsWithChildren) {
  return (
    <details class="clamp">
      <summary>{children}</summary>
    </details>
  );
}

/** Shows the end of an id, which tells ids apart. Copying it copies the whole id. */
export function ShortId({ id }: { id: string }) {
  return (
    <code class="short-id" title={id}>
      {id}
    </code>
  );
}

/** An email or a name in a table: one line, cut at its end where the table is narrow. The title has all of it. */
export function OneLine({ text }: { text: string }) {
  return (
    <span class="one-line" title={text}>
      {text}
    </span>
  );
}

export function Empty({ title, text, children }: PropsWithChildren<{ title: string; text?: Child }>) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {text !== undefined && <p>{text}</p>}
      {children}
    </div>
  );
}

interface NoticeProps {
  tone?: Tone;
  title?: Child;
  text?: Child | undefined;
}

export function Notice({ tone = "info", title, text, children }: PropsWithChildren<NoticeProps>) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {title !== undefined && <strong>{title}</strong>}
      {text && <p>{text}</p>}
      {children}
    </div>
  );
}

/** Longest JSON text on a page. Only a payload of mostly white space is longer. */
const JSON_MAX_CHARACTERS = 100_000;
/** Longest JSON text in a list, where a link leads to the whole text. */
export const JSON_SAMPLE_CHARACTERS = 5_000;

/** Indented JSON with the values as sent. @param props.characters longer text is cut, and the end says so. */
export function Json({
  value,
  label,
  characters = JSON_MAX_CHARACTERS,
}: {
  value: unknown;
  label: string;
  characters?: number;
}) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return (
    <pre tabindex={0} aria-label={label}>
      {text.length > characters ? `${text.slice(0, characters)}\n… (${grouped(text.length - characters)} more)` : text}
    </pre>
  );
}

/** Text with a button that copies it. Without a script, a click selects the whole text. */
export function CopyText({
  id,
  label,
  text,
  block = false,
}: {
  id: string;
  label: string;
  text: string;
  block?: boolean;
}) {
  return (
    <div class="copy">
      {block ? (
        <pre id={id} tabindex={0} aria-label={label}>
          {text}
        </pre>
      ) : (
        <output id={id} aria-label={label}>
          {text}
        </output>
      )}
      <button type="button" class="needs-script" data-copy={`#${id}`} aria-label={`Copy ${label}`}>
        Copy
      </button>
    </div>
  );
}

export interface TimelineStep {
  title: Child;
  ms?: number | null;
  tone?: Tone;
  text: Child;
}

export function Timeline({ steps }: { steps: readonly TimelineStep[] }) {
  return (
    <ol class="timeline">
      {steps.map(({ title, ms = null, tone = "quiet", text }) => (
        <li class={tone === "quiet" ? undefined : tone}>
          <div class="row">
            <strong>{title}</strong>
            {ms !== null && (
              <span class="quiet small">
                <Time ms={ms} />
              </span>
            )}
          </div>
          <div class="quiet">{text}</div>
        </li>
      ))}
    </ol>
  );
}

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
  caption: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  href?: (row: Row) => string;
  empty?: Child;
  attributes?: (row: Row) => Record<string, string | undefined>;
}

/** A table without a horizontal scroll bar: columns of little weight leave first, and on a phone each row is a short text. */
export function Table<Row>({ caption, rows, columns, href, empty, attributes }: TableProps<Row>) {
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
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
  return [kind, drop && `${drop}-drop`].filter(Boolean).join(" ") || undefined;
}

export function Count({ value }: { value: number }) {
  return value === 0 ? <span class="quiet">0</span> : <>{grouped(value)}</>;
}

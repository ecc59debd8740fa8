/** The small parts of all pages. Functions of data; the classes are those of style.css. */
import type { Child, PropsWithChildren } from "hono/jsx";
import { STATUS_COPY, type Tone } from "../copy.ts";
import { dayOf } from "../../domain/duration.ts";
import { ago, clock, day, exactTime, grouped, later, timeOfDay } from "./format.ts";

/** A relative time. The title has the exact time: in UTC, or with a script in the viewer's time zone. */
export function Time({ ms }: { ms: number }) {
  return (
    <time datetime={new Date(ms).toISOString()} title={exactTime(ms)}>
      {ago(ms, Date.now())}
    </time>
  );
}

/** A day in UTC, for times of which only the day is known. */
export function Day({ ms }: { ms: number }) {
  const [today, that] = [dayOf(Date.now()), dayOf(ms)];
  const text = that === today ? "Today" : that === today - 1 ? "Yesterday" : day(ms);
  return <time datetime={new Date(ms).toISOString().slice(0, 10)}>{text}</time>;
}

/** The time of a day that is said elsewhere, in UTC, such as `10:35`. */
export function Clock({ ms }: { ms: number }) {
  return (
    <time datetime={new Date(ms).toISOString()} title={exactTime(ms)}>
      {timeOfDay(ms)}
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
  unsaved,
  children,
}: PropsWithChildren<{ title?: Child; actions?: Child; list?: boolean; id?: string; unsaved?: number }>) {
  return (
    <section class={list ? "panel list" : "panel"} id={id} data-unsaved={unsaved}>
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

interface StatProps {
  label: Child;
  value: Child;
  note?: Child;
  /** The figure that the page is about: large. */
  lead?: boolean;
}

export function Stat({ label, value, note, lead = false }: StatProps) {
  return (
    <div class={lead ? "stat lead" : "stat"}>
      <dt>{label}</dt>
      <dd>
        {typeof value === "number" ? grouped(value) : value}
        {note !== undefined && <small>{note}</small>}
      </dd>
    </div>
  );
}

/** A bar in parts, the largest first. @param props.label says the parts in words. */
export function ShareBar({ parts, label }: { parts: readonly number[]; label: string }) {
  const sum = parts.reduce((total, part) => total + part, 0);
  let passed = 0;
  return (
    <svg class="meter shares" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label={label}>
      {parts.map((part) => {
        const x = passed;
        passed += (100 * part) / sum;
        return <rect x={x} width={passed - x} height={1} />;
      })}
    </svg>
  );
}

/** Such as `45%`; a share below one percent is `<1%`. */
export function shareText(part: number, sum: number): string {
  const percent = (100 * part) / sum;
  return percent < 1 ? "<1%" : `${Math.round(percent)}%`;
}

interface MeterProps {
  /** Part of the bar, 0 to 1. */
  share: number;
  label: string;
  /** The share at which a limit is marked, and the tone of what is beyond it. */
  mark?: number;
  beyond?: Tone;
}

export function Meter({ share, label, mark = 1, beyond }: MeterProps) {
  const [end, limit] = [Math.min(1, Math.max(0, share)), Math.min(1, mark)];
  return (
    <svg class="meter" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect width={100} height={1} class="rest" />
      <rect width={100 * Math.min(end, limit)} height={1} class={end >= 1 && limit === 1 ? beyond : undefined} />
      {end > limit && <rect class={beyond} x={100 * limit} width={100 * (end - limit)} height={1} />}
      {limit < 1 && <line class="mark" x1={100 * limit} x2={100 * limit} y2={1} />}
    </svg>
  );
}

export function ValueList({ of }: { of: readonly (readonly [name: Child, value: Child] | false)[] }) {
  return (
    <dl class="value-list">
      {of.map((entry) => {
        const [name, value = null] = entry || [];
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

/** A text with `code` between backticks. */
export function WithCode({ text }: { text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 === 0 ? part : <code>{part}</code>))}</>;
}

/** Shows the end of an id, which distinguishes ids. Copying it copies the whole id. */
export function ShortId({ id }: { id: string }) {
  return (
    <code class="short-id" title={id}>
      {id}
    </code>
  );
}

/** A whole id on one line, with a button that copies it. @param props.label such as `signal id`. */
export function CopyId({ id, label }: { id: string; label: string }) {
  const element = label.replaceAll(" ", "-");
  return (
    <span class="copy-id">
      <code id={element} title={id}>
        {id}
      </code>
      <button type="button" class="link small needs-script" data-copy={`#${element}`} aria-label={`Copy ${label}`}>
        Copy
      </button>
    </span>
  );
}

/** A name in a table: one line, cut at its end where the table is narrow. The title has all of it. */
export function OneLine({ text }: { text: string }) {
  return (
    <span class="one-line" title={text}>
      {text}
    </span>
  );
}

/**
 * An email in a table or a list of values. Where it has too little room it breaks, first before its domain. Only in a wide table it is
 * cut.
 */
export function EmailText({ text }: { text: string }) {
  const [name, ...domain] = text.split(/(?=@)/);
  return (
    <span class="one-line email" title={text}>
      {name}
      {domain.length > 0 && <span class="domain">{domain.join("")}</span>}
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

/** To the millisecond, in UTC. The day is said unless it is that of `fromMs`. */
export function ExactTime({ ms, fromMs = ms }: { ms: number; fromMs?: number }) {
  const isOtherDay = ms === fromMs || dayOf(ms) !== dayOf(fromMs);
  return (
    <time datetime={new Date(ms).toISOString()} title={exactTime(ms)}>
      {isOtherDay && `${day(ms)}, `}
      {clock(ms)} UTC
    </time>
  );
}

export interface TimelineStep {
  title: Child;
  ms?: number | null;
  tone?: Tone;
  text: Child;
}

/** @param props.fromMs shows exact times: a time from which later ones are measured. */
export function Timeline({ steps, fromMs }: { steps: readonly TimelineStep[]; fromMs?: number }) {
  return (
    <ol class="timeline">
      {steps.map(({ title, ms = null, tone = "quiet", text }) => (
        <li class={tone === "quiet" ? undefined : tone}>
          <div class="row">
            <strong>{title}</strong>
            {ms !== null && (
              <span class={fromMs === undefined ? "quiet small" : "quiet small at-end"}>
                {fromMs === undefined ? (
                  <Time ms={ms} />
                ) : (
                  <>
                    {ms > fromMs && `${later(ms - fromMs)} · `}
                    <ExactTime ms={ms} fromMs={fromMs} />
                  </>
                )}
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
  /** The orders of the list by this column: the usual one, and its reverse. */
  sorts?: readonly string[];
}

interface TableProps<Row> {
  caption: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  href?: (row: Row) => string;
  empty?: Child;
  attributes?: (row: Row) => Record<string, string | undefined>;
  /** The order of the list, and the addresses of the other orders. */
  order?: { current: string; href: (sort: string) => string };
}

/**
 * A table without a horizontal scroll bar: columns of little weight leave first, and on a phone each row is a short text. A column whose
 * cells are all empty is left out.
 */
export function Table<Row>({ caption, rows, columns: all, href, empty, attributes, order }: TableProps<Row>) {
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  const columns = all.filter(
    ({ cell }, index) => index === 0 || rows.length === 0 || rows.some((row) => !isBlank(cell(row))),
  );
  return (
    <div class="table">
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={classOf(column)} aria-sort={sortOf(column, order)}>
                <Heading column={column} order={order} />
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

function isBlank(content: Child): boolean {
  return content === null || content === undefined || content === false || content === "";
}

function Heading<Row>({
  column: { head, kind, sorts = [] },
  order,
}: {
  column: Column<Row>;
  order: TableProps<Row>["order"];
}) {
  const [usual, reverse = usual] = sorts;
  if (order !== undefined && usual !== undefined && reverse !== undefined) {
    const next = order.current === usual ? reverse : usual;
    return <a href={order.href(next)}>{head}</a>;
  }
  return kind === "actions" ? <span class="visually-hidden">{head || "Actions"}</span> : <>{head}</>;
}

/** Names are in ascending order, and numbers and times in descending order, unless the order says `_up`. */
function sortOf<Row>({ sorts, kind, head }: Column<Row>, order: TableProps<Row>["order"]) {
  if (order === undefined || sorts?.includes(order.current) !== true) return undefined;
  const isName = kind === undefined && !/seen|used|time/i.test(head);
  return isName || order.current.endsWith("_up") ? "ascending" : "descending";
}

function classOf<Row>({ kind, drop }: Column<Row>): string | undefined {
  return [kind, drop && `${drop}-drop`].filter(Boolean).join(" ") || undefined;
}

export function Count({ value }: { value: number }) {
  return value === 0 ? <span class="quiet">0</span> : <>{grouped(value)}</>;
}

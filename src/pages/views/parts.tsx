/** The small parts that all pages are made of. Functions of data; classes are those of style/base.css. */
import type { Child, PropsWithChildren } from "hono/jsx";
import { STATUS_COPY, type Tone } from "../copy.ts";
import { ago, exactTime, grouped } from "./format.ts";

/** A relative time; on hover the exact one, in UTC or with a script in the viewer's own zone. */
export function Time({ ms, nowMs = Date.now() }: { ms: number; nowMs?: number }) {
  return (
    <time datetime={new Date(ms).toISOString()} title={exactTime(ms)} class="nowrap">
      {ago(ms, nowMs)}
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

/** Heading of a page: what it is, a line about it, what can be done here. */
export function Head({
  title,
  crumbs,
  children,
  actions,
}: PropsWithChildren<{ title: Child; crumbs?: Child; actions?: Child }>) {
  return (
    <header class="head">
      <div>
        {crumbs !== undefined && (
          <nav class="crumbs" aria-label="Where you are">
            {crumbs}
          </nav>
        )}
        <h1>{title}</h1>
        {children !== undefined && <p class="quiet">{children}</p>}
      </div>
      {actions !== undefined && <div class="row">{actions}</div>}
    </header>
  );
}

export function Panel({
  title,
  flush,
  id,
  children,
}: PropsWithChildren<{ title?: Child; flush?: boolean; id?: string }>) {
  return (
    <section class={flush === true ? "panel flush" : "panel"} id={id}>
      {title !== undefined && <h2>{title}</h2>}
      {children}
    </section>
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

export type Column = string | { text: string; number?: boolean; hidden?: boolean };

/** Two lines of a long text; all of it once it is opened. */
export function Clamped({ children }: PropsWithChildren) {
  return (
    <details class="clamp">
      <summary>{children}</summary>
    </details>
  );
}

/** An id of which the end is enough to look at; copying it copies all of it. */
export function ShortId({ id }: { id: string }) {
  return (
    <code class="small short-id" title={id}>
      {id}
    </code>
  );
}

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

/** What there is when there is nothing: says what to do first. */
export function Empty({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
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

export function Notice({ tone = "info", title, children }: PropsWithChildren<{ tone?: Tone; title?: Child }>) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {title !== undefined && <strong>{title}</strong>}
      {children}
    </div>
  );
}

/** Text to be copied; without a script it can be selected as a whole. */
export function Copy({ id, label, text, block }: { id: string; label: string; text: string; block?: boolean }) {
  return (
    <div class="copy">
      {block === true ? (
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

/** JSON as it came, indented; hostile text stays text. */
export function Json({ value, label }: { value: unknown; label: string }) {
  return (
    <pre tabindex={0} aria-label={label}>
      {typeof value === "string" ? value : JSON.stringify(value, null, 2)}
    </pre>
  );
}

export function Facts({ children }: PropsWithChildren) {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ name, children }: PropsWithChildren<{ name: Child }>) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

interface Confirmation {
  label: string;
  action: string;
  submit: string;
  tone?: "danger" | "primary";
  /** Tells it apart from others on the page with the same label and action. */
  of?: string;
}

/** A button that says first what will happen, above the page: nothing on it moves. Works without a script. */
export function Confirm({
  label,
  action,
  submit,
  tone = "danger",
  of = "",
  children,
}: PropsWithChildren<Confirmation>) {
  const id = `confirm-${label}-${of}-${action}`.replaceAll(" ", "-");
  return (
    <>
      <button type="button" class={`small ${tone === "danger" ? "danger" : ""}`} popovertarget={id}>
        {label}
      </button>
      <div class="confirm" popover="auto" id={id} role="dialog" aria-label={label}>
        <form method="post" action={action} data-once>
          {children}
          <div class="row">
            <button class={tone}>{submit}</button>
            <button type="button" popovertarget={id} popovertargetaction="hide">
              Cancel
            </button>
          </div>
        </form>
      </div>
    </>
  );
}

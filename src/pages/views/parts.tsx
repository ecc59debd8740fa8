/** The small parts that all pages are made of. Functions of data; classes are those of style/. */
import type { Child, PropsWithChildren } from "hono/jsx";
import { STATUS_COPY, type Tone } from "../copy.ts";
import { ago, exactTime, grouped } from "../kit/format.ts";

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
export function PageHead({
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

/** What there is when there is nothing: says what to do first. */
export function Empty({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
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

/** JSON as it came, indented; hostile text stays text. */
/** A payload, whole: white space makes a payload of 64 KB longer than this only if it consists of hardly anything else. */
const JSON_MAX_CHARACTERS = 100_000;
/** A payload in a list, where a link leads to all of it. */
export const JSON_SAMPLE_CHARACTERS = 5_000;

/** @param props.characters the text is cut behind so many, and says so. */
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

export function FactList({ children }: PropsWithChildren) {
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

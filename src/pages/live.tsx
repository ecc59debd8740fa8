/** Live: the latest signals and rejected calls. A script (client/live-page.ts) adds newer rows; without it a link reloads. */
import type { Child } from "hono/jsx";
import type { KeyName } from "../d1/api-keys.ts";
import type { RejectionEntry } from "../domain/keys/rejection.ts";
import type { SignalStatus } from "../domain/signal/signal.ts";
import { MISFIT_KEPT_DAYS } from "../limits.ts";
import { hashAtOnce } from "../platform/hashes.ts";
import type { LiveSignal } from "../store/protocol/stored-signals.ts";
import { optionsOf, STATUS_COPY, signalTitle } from "./copy.ts";
import { keyText, KeyTitle, readKeyNames } from "./keys/key-parts.tsx";
import { LinkButton } from "./kit/forms.tsx";
import { counted, signed } from "./kit/format.ts";
import { Filters, ListAddress } from "./kit/list.tsx";
import { Clamped, EmailText, Empty, Panel, StatusBadge, Table, Time, WithCode } from "./kit/parts.tsx";
import { fragment, page } from "./page.tsx";
import { adviceFor, reasonText } from "./rejection-texts.ts";
import { callPath } from "./rejections.tsx";
import { counterOf, type Ctx, pages, storeOf, workspacePath, personPath, signalPath, withQuery } from "./pages-env.ts";

const LIVE_ROWS = 50;
/** A shorter text has at most two lines, and needs no button that shows the rest. */
const CLAMPED_FROM = 80;

const { in_flight: _, ...STATUSES } = STATUS_COPY;
const OPTIONS = optionsOf("Everything", STATUSES);

interface LiveItem {
  /** A newer row with the same key replaces this row. */
  key: string;
  atMs: number;
  /** Null: the row counts further signals. */
  status: SignalStatus | "rejected" | null;
  title: string;
  href: string;
  email?: string;
  from?: string;
  /** Undefined: no rejected call, or the member may not see keys (spec §1). */
  apiKey?: KeyName | undefined;
  reason?: string;
  /** Which form, page, mail or feature the event is about. */
  topic?: string;
  /** Where the details lead: to the original of a duplicate. */
  detailHref?: string;
  personHref?: string;
}

export const livePages = pages
  .createApp()
  .get("/", async (c) => {
    const base = workspacePath(c);
    const list = new ListAddress(`${base}/live`, c.req.query());
    const status = list.choice("status", "Status", OPTIONS);
    const text = list.searchText("text", "Text", "Filter by event, email, source or reason")?.toLowerCase() ?? "";
    const [signals, rejections] = await Promise.all([
      storeOf(c).latest(null, LIVE_ROWS),
      counterOf(c).rejections(LIVE_ROWS),
    ]);
    const items = [...signalItems(c, signals?.signals ?? []), ...(await rejectionItems(c, rejections))]
      .sort((a, b) => b.atMs - a.atMs)
      .filter((item) => (status === undefined || item.status === status) && textOf(item).includes(text))
      .slice(0, LIVE_ROWS);
    const actions = [
      <LinkButton href={withQuery(list.path, list.query)} text="Refresh" look="no-script" />,
      <span class="badge good needs-script" id="live-state" role="status">
        Live
      </span>,
      <button type="button" class="needs-script" id="live-pause">
        Pause
      </button>,
    ];
    return page(
      c,
      { section: "live", title: "Live", intro: "Signals and rejected calls as they arrive.", actions },
      <Filters list={list} />,
      <Panel list>
        <div
          data-live={list.path}
          data-live-signals={signals?.cursor ?? ""}
          data-live-rejections={hashOf(rejections)}
          hidden={items.length === 0}
        >
          <LiveTable items={items} />
        </div>
        <div id="live-empty" hidden={items.length > 0}>
          <Empty
            title={list.isFiltered ? "No rows match these filters yet" : "Nothing has arrived yet"}
            text="New signals and rejected calls appear here."
          >
            <LinkButton href={`${base}/connect`} text="Connect a sender" />
          </Empty>
        </div>
      </Panel>,
    );
  })
  .get("/signals", async (c) => {
    const found = await storeOf(c).latest(c.req.query("after") ?? null, LIVE_ROWS);
    if (found === null) return c.body(null, 204);
    const { signals, more, cursor } = found;
    return newRows(c, [...signalItems(c, signals), ...moreItems(c, signals, more)], cursor);
  })
  .get("/rejections", async (c) => {
    const rejections = await counterOf(c).rejections(LIVE_ROWS);
    const hash = hashOf(rejections);
    if (hash === c.req.query("after")) return c.body(null, 204);
    return newRows(c, await rejectionItems(c, rejections), hash);
  });

function hashOf(rejections: readonly RejectionEntry[]): string {
  return hashAtOnce(JSON.stringify(rejections)).digest("base64url");
}

function newRows(c: Ctx, items: readonly LiveItem[], cursor: string) {
  return fragment(
    c,
    <div data-seen={cursor}>
      <LiveTable items={items} />
    </div>,
  );
}

const REASON = {
  processed: ({ points }) => (points === 0 ? "" : `${signed(points)} points`),
  held: () => "Beyond the signal limit",
  anonymous: () => "Visitor not known yet",
  duplicate: ({ sameId }) => (sameId ? "Same id as an earlier signal" : "Same content as an earlier signal"),
  purged: ({ kind, deletedAtMs }) => {
    if (deletedAtMs !== null) return "Deleted with its person";
    return kind === "unknown" ? `No template has fitted it within ${MISFIT_KEPT_DAYS} days` : "Billing period ended";
  },
  dead: ({ deadReason }) => deadReason ?? "",
} as const satisfies Record<SignalStatus, (signal: LiveSignal) => string>;

function signalItems(c: Ctx, signals: readonly LiveSignal[]): LiveItem[] {
  return signals.map((signal) => ({
    key: `${signal.id} ${signal.status}`,
    atMs: signal.receivedAtMs,
    status: signal.status,
    title: signalTitle(signal),
    email: signal.email ?? "",
    from: signal.source ?? "",
    reason: REASON[signal.status](signal),
    topic: signal.topic ?? "",
    href: signalPath(workspacePath(c), signal.id),
    ...(signal.duplicateOf !== null && { detailHref: signalPath(workspacePath(c), signal.duplicateOf) }),
    ...(signal.email !== null &&
      (signal.status === "processed" || signal.status === "anonymous") && {
        personHref: personPath(workspacePath(c), signal.email),
      }),
  }));
}

function moreItems(c: Ctx, signals: readonly LiveSignal[], more: number): LiveItem[] {
  const last = signals.at(-1);
  if (more === 0 || last === undefined) return [];
  const [title, href] = [counted(more, "more signal"), `${workspacePath(c)}/signals/all`];
  return [{ key: `more ${last.id}`, atMs: last.receivedAtMs, status: null, title, href }];
}

async function rejectionItems(c: Ctx, rejections: readonly RejectionEntry[]): Promise<LiveItem[]> {
  const names = await readKeyNames(
    c,
    rejections.map(({ keyId }) => keyId),
  );
  return rejections.map((entry) => {
    const { lastAtMs, keyId, code, detail, requestId, calls, signals } = entry;
    const many = calls > 1 ? `${counted(calls, "call")}. ` : signals > 1 ? `${counted(signals, "signal")}. ` : "";
    return {
      key: `${requestId} ${code}`,
      atMs: lastAtMs,
      status: "rejected",
      title: reasonText(entry),
      from: keyText(names.get(keyId), keyId),
      apiKey: names.get(keyId),
      reason: many + (entry.cause === null ? detail : adviceFor(entry)),
      href: callPath(workspacePath(c), entry),
    };
  });
}

function textOf({ title, email = "", from = "", reason = "", topic = "" }: LiveItem): string {
  return `${title}\n${topic}\n${email}\n${from}\n${reason}`.toLowerCase();
}

function personCell({ email = "", personHref }: LiveItem): Child {
  if (email === "") return null;
  const text = <EmailText text={email} />;
  return personHref === undefined ? text : <a href={personHref}>{text}</a>;
}

function detailsCell({ topic = "", reason = "", detailHref }: LiveItem): Child {
  const why = detailHref === undefined ? <WithCode text={reason} /> : <a href={detailHref}>{reason}</a>;
  if (topic === "" && reason === "") return null;
  const both = [topic, topic !== "" && reason !== "" && " · ", reason !== "" && why];
  // A link in a summary would open it.
  return detailHref === undefined && reason.length > CLAMPED_FROM ? <Clamped>{both}</Clamped> : <>{both}</>;
}

function LiveTable({ items }: { items: readonly LiveItem[] }) {
  return (
    <Table
      caption="Latest signals and rejected calls"
      rows={items}
      href={({ href }) => href}
      attributes={(item) => ({
        "data-key": item.key,
        "data-at": new Date(item.atMs).toISOString(),
        "data-status": item.status ?? "",
        "data-text": textOf(item),
      })}
      columns={[
        { head: "Event", cell: ({ title }) => title },
        { head: "Status", cell: ({ status }) => status !== null && <StatusBadge status={status} /> },
        { head: "Person", cell: personCell },
        {
          head: "Source or key",
          cell: ({ from, apiKey }) => (apiKey === undefined ? from : <KeyTitle {...apiKey} />),
          drop: "narrow",
        },
        { head: "Details", kind: "text", cell: detailsCell },
        { head: "Time", cell: ({ atMs }) => <Time ms={atMs} /> },
      ]}
    />
  );
}

/**
 * Live: the latest signals and refused calls. The page's script (client/live-page.ts) asks for what is new and puts the rows
 * on top; without a script, a link looks again.
 */
import type { SignalStatus } from "../domain/signal/signal.ts";
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { keyNames, type KeyName } from "../control/api-keys.ts";
import type { Rejection } from "../domain/keys/refusal.ts";
import { canManageKeys } from "../domain/keys/role.ts";
import { REFUSALS } from "../http/refusal-table.ts";
import { hashAtOnce } from "../platform/hashes.ts";
import type { LatestSignals, LiveSignal } from "../store/protocol/stored-signals.ts";
import { quotaCounter, signalStore } from "../workspace/objects.ts";
import { STATUS_COPY, type Tone, CAUSE_COPY } from "./copy.ts";
import { fragment, page } from "./page.tsx";
import { pages, type PagesEnv, workspacePath } from "./pages-env.ts";
import { SelectField, TextField } from "./kit/forms.tsx";
import { keyText } from "./key-names.tsx";
import { Badge, Clamped, Empty, PageHead, Panel, Time } from "./views/parts.tsx";
import { Table } from "./views/table.tsx";

/** Rows that the page begins with, and that come at a time: more than anyone reads in two seconds. */
const LIVE_ROWS = 50;

type LiveStatus = SignalStatus | "rejected";

interface LiveItem {
  /** Identifies the line: one that comes again takes the place of the earlier one. */
  key: string;
  atMs: number;
  status: LiveStatus;
  /** A signal's event, else its kind; a refused call's reason. */
  what: string;
  email: string;
  /** The signal's source, or the key of a refused call. */
  from: string;
  reason: string;
  /** Id of the signal to follow; null for a refused call, which left none. */
  signalId: string | null;
}

interface LiveFilter {
  status: string;
  /** Text to be found anywhere in the line; letter case does not matter. */
  text: string;
}

export const livePages = pages
  .createApp()
  .get("/", async (c) => {
    const { status = "", text = "" } = c.req.query();
    const filter = { status, text };
    const [signals, rejections] = await Promise.all([latestSignals(c, null), latestRejections(c)]);
    const items = [...(signals?.signals.map(signalItem) ?? []), ...(await rejectionItems(c, rejections))]
      .sort((a, b) => b.atMs - a.atMs)
      .filter((item) => isShown(item, filter))
      .slice(0, LIVE_ROWS);
    const seen = { signals: signals?.cursor ?? "", rejections: cursorOf(rejections) };
    const data = { path: workspacePath(c), items, filter, seen, nowMs: Date.now() };
    return page(c, { title: "Live", section: "live" }, <LiveView {...data} />);
  })
  .get("/signals", async (c) => {
    const found = await latestSignals(c, c.req.query("after") ?? null);
    return found === null ? c.body(null, 204) : news(c, found.signals.map(signalItem), found.cursor, found.more);
  })
  .get("/rejections", async (c) => {
    const rejections = await latestRejections(c);
    const cursor = cursorOf(rejections);
    if (cursor === c.req.query("after")) return c.body(null, 204);
    return news(c, await rejectionItems(c, rejections), cursor, 0);
  });

function latestSignals(c: Context<PagesEnv>, after: string | null): Promise<LatestSignals | null> {
  return signalStore(c.env, c.get("workspace").id).latest(after, LIVE_ROWS);
}

function latestRejections(c: Context<PagesEnv>): Promise<Rejection[]> {
  return quotaCounter(c.env, c.get("workspace").id).rejections(LIVE_ROWS);
}

/** Refused calls, with the names of their keys for whoever may see keys (spec §1). */
async function rejectionItems(c: Context<PagesEnv>, rejections: readonly Rejection[]): Promise<LiveItem[]> {
  const keyIds = rejections.map(({ keyId }) => keyId);
  const names = canManageKeys(c.get("role"))
    ? await keyNames(c.get("db"), c.get("workspace").id, keyIds)
    : new Map<string, KeyName>();
  return rejections.map((rejection) => rejectionItem(rejection, names));
}

/** Changes with each refused call. */
function cursorOf(rejections: readonly Rejection[]): string {
  return hashAtOnce(JSON.stringify(rejections)).digest("base64url");
}

/** Rows for the page's script, the latest first. */
function news(c: Context<PagesEnv>, items: readonly LiveItem[], cursor: string, more: number) {
  const rows: Child = (
    <table>
      <tbody data-seen={cursor}>
        {items.map((item) => (
          <LiveRow path={workspacePath(c)} item={item} nowMs={Date.now()} />
        ))}
        {more > 0 && (
          <tr data-at={isoOf(items.at(-1)?.atMs ?? 0)}>
            <td colspan={6} class="quiet small">
              and {more} more
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
  return fragment(c, rows);
}

const WHY = {
  processed: ({ points }) => (points === 0 ? "" : `${points > 0 ? "+" : ""}${points} points`),
  held: () => "Beyond the signal limit",
  anonymous: () => "Its visitor is not known yet",
  duplicate: ({ duplicateOf }) => `The same as ${duplicateOf ?? "one before"}`,
  purged: () => "Its billing period had ended",
  dead: ({ deadReason }) => deadReason ?? "",
} as const satisfies Record<SignalStatus, (signal: LiveSignal) => string>;

const KIND = {
  signal: "(no event)",
  identify: "Identify",
  account: "Account update",
  unknown: "(could not be read)",
} as const satisfies Record<LiveSignal["kind"], string>;

function signalItem(signal: LiveSignal): LiveItem {
  const { id, receivedAtMs, status, kind, event, source, email } = signal;
  return {
    key: `${id} ${status}`,
    atMs: receivedAtMs,
    status,
    what: event ?? KIND[kind],
    email: email ?? "",
    from: source ?? "",
    reason: WHY[status](signal),
    signalId: id,
  };
}

function rejectionItem(rejection: Rejection, names: ReadonlyMap<string, KeyName>): LiveItem {
  const { lastAtMs, keyId, code, cause, detail, requestId, calls, signals } = rejection;
  const many = calls > 1 ? `${calls} calls. ` : signals > 1 ? `${signals} signals. ` : "";
  return {
    key: `${requestId} ${code}`,
    atMs: lastAtMs,
    status: "rejected",
    what: REFUSALS[code].label,
    email: "",
    from: keyText(names.get(keyId), keyId),
    reason: many + (cause === null ? detail : CAUSE_COPY[cause]),
    signalId: null,
  };
}

function isShown(item: LiveItem, { status, text }: LiveFilter): boolean {
  if (status !== "" && item.status !== status) return false;
  const within = `${item.what}\n${item.email}\n${item.from}\n${item.reason}`.toLowerCase();
  return within.includes(text.trim().toLowerCase());
}

const { in_flight: _, ...RECORDED } = STATUS_COPY;
const STATUSES: Record<LiveStatus, { label: string; tone: Tone; meaning: string }> = {
  ...RECORDED,
  rejected: { label: "Rejected", tone: "bad", meaning: "The call was refused; nothing of it was kept." },
};

interface LiveData {
  /** The workspace's path, `/w/{slug}`. */
  path: string;
  items: readonly LiveItem[];
  filter: LiveFilter;
  /** Which signals and which refused calls the page has. */
  seen: { signals: string; rejections: string };
  nowMs: number;
}

function LiveView({ path, items, filter, seen, nowMs }: LiveData) {
  const query = new URLSearchParams({ status: filter.status, text: filter.text }).toString();
  return (
    <>
      <PageHead
        title="Live"
        actions={
          <a class="button no-script" href={`${path}/live?${query}`}>
            Refresh
          </a>
        }
      >
        Signals and refused calls as they arrive.
      </PageHead>
      <div
        class="stack"
        data-live={`${path}/live`}
        data-live-signals={seen.signals}
        data-live-rejections={seen.rejections}
      >
        <form method="get" action={`${path}/live`} class="filters" id="live-filter">
          <SelectField
            name="status"
            label="What"
            value={filter.status}
            options={[
              ["", "Everything"],
              ...Object.entries(STATUSES).map(([status, { label }]) => [status, label] as const),
            ]}
          />
          <TextField
            name="text"
            label="With the text"
            value={filter.text}
            placeholder="event, email, source"
            autocomplete="off"
          />
          <button class="no-script">Filter</button>
          <button type="button" class="needs-script" id="live-pause">
            Pause
          </button>
          <span class="live-state needs-script" id="live-state" role="status">
            Live
          </span>
        </form>
        <Panel flush>
          <Table
            caption="The latest, newest first"
            tall
            head={["Time", "Status", "What", "Who", "Source or key", "Why"]}
          >
            {items.map((item) => (
              <LiveRow path={path} item={item} nowMs={nowMs} />
            ))}
          </Table>
          <div id="live-empty" hidden={items.length > 0}>
            <Empty
              title={filter.status === "" && filter.text === "" ? "Nothing has arrived yet" : "Nothing like that yet"}
            >
              <p>
                What arrives is shown here. <a href={`${path}/connect`}>Connect a sender</a>, and send a test signal.
              </p>
            </Empty>
          </div>
        </Panel>
      </div>
    </>
  );
}

function Status({ status }: { status: LiveStatus }) {
  const { label, tone, meaning } = STATUSES[status];
  return (
    <Badge tone={tone} title={meaning}>
      {label}
    </Badge>
  );
}

function LiveRow({ path, item, nowMs }: { path: string; item: LiveItem; nowMs: number }) {
  return (
    <tr data-key={item.key} data-at={isoOf(item.atMs)} data-status={item.status}>
      <td>
        <Time ms={item.atMs} nowMs={nowMs} />
      </td>
      <td>
        <Status status={item.status} />
      </td>
      <td class="event">
        {item.signalId === null ? item.what : <a href={`${path}/signals/${item.signalId}`}>{item.what}</a>}
      </td>
      <td class="event">{item.email}</td>
      <td class="what">{item.from}</td>
      <td class="why">{item.reason !== "" && <Clamped>{item.reason}</Clamped>}</td>
    </tr>
  );
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}

/** The list of all signals, and what the lists of signals share: tabs, table, addresses. */
import type { SignalStatus } from "../../domain/signal/signal.ts";
import { LIST_SCAN_SIGNALS, PAGE_ROWS } from "../../limits.ts";
import type { FoundSignals, SignalSummary, StoreTotals } from "../../store/protocol/stored-signals.ts";
import { signalStore } from "../../workspace/objects.ts";
import { optionsOf, STATUS_COPY } from "../copy.ts";
import { KeyFields, readKeyFilter } from "../key-names.tsx";
import { Filters, NoMatches, ScanNote } from "../kit/filters.tsx";
import { counted, grouped } from "../kit/format.ts";
import { DayFields, NameField, SelectField } from "../kit/forms.tsx";
import { ListAddress, scanOn, type Scanned } from "../kit/list-address.ts";
import { Empty, PageHead, Panel, StatusBadge, Tabs, Time } from "../kit/parts.tsx";
import { type Column, Pager, Table } from "../kit/table.tsx";
import { page } from "../page.tsx";
import { pages, workspacePath } from "../pages-env.ts";
import { personPath } from "../people/person.tsx";

const { in_flight: _, rejected: __, ...RECORDED } = STATUS_COPY;
const STATUS_OPTIONS = optionsOf<SignalStatus>("Any status", RECORDED);

export const listPages = pages.createApp().get("/all", async (c) => {
  const base = workspacePath(c);
  const query = c.req.query();
  const id = [query["id"], query["email"]].find(isSignalId);
  if (id !== undefined) return c.redirect(signalPath(base, id.trim()), 303);
  const list = new ListAddress(`${base}/signals/all`, query);
  const email = list.text("email", "Person");
  const event = list.text("event", "Event");
  const source = list.text("source", "Source");
  const status = list.choice("status", "Status", STATUS_OPTIONS, "");
  const keyFilter = await readKeyFilter(c, list);
  const days = list.days("Received");
  const store = signalStore(c.env, c.get("workspace").id);
  const names = await store.recentNames();
  const filter = {
    email: email || undefined,
    event: inKnownCase(event, names.events) || undefined,
    source: inKnownCase(source, names.sources) || undefined,
    status: status || undefined,
    keyId: keyFilter?.id || undefined,
    sinceMs: days.sinceMs ?? undefined,
    untilMs: days.untilMs ?? undefined,
  };
  const signals = await scanOn(list.slice(PAGE_ROWS), (slice) => store.signals(filter, slice));
  const totals = await store.totals();
  return page(
    c,
    { title: "All signals", section: "signals" },
    <>
      <SignalHead base={base} shown={status === "held" ? "/all?status=held" : "/all"} totals={totals} />
      {status === "held" && totals.held > 0 && (
        <p>
          Held signals do not update scores until an owner or admin releases them.{" "}
          <a href={`${base}/usage/plan`}>Release held signals</a>
        </p>
      )}
      <Filters list={list} search={{ name: "email", label: "Search email or signal id" }}>
        <NameField name="event" label="Event" value={event} known={names.events} />
        <NameField name="source" label="Source" value={source} known={names.sources} />
        <SelectField name="status" label="Status" value={status} options={Object.entries(STATUS_OPTIONS)} />
        {keyFilter !== null && <KeyFields filter={keyFilter} />}
        <DayFields days={days} label="Received" />
      </Filters>
      <Panel list>
        <SignalTable base={base} list={list} signals={signals} withEvent />
        {signals.items.length === 0 && signals.complete && !list.isFiltered && <NoSignals base={base} />}
      </Panel>
    </>,
  );
});

/** Address of a group; names may contain any characters. */
export function groupPath(base: string, event: string, source: string): string {
  return `${base}/signals/group?${new URLSearchParams({ event, source }).toString()}`;
}

export function signalPath(base: string, id: string): string {
  return `${base}/signals/${encodeURIComponent(id)}`;
}

/** The title has the signal's id. */
export function SignalLink({ base, id }: { base: string; id: string }) {
  return (
    <a class="small" href={signalPath(base, id)} title={id}>
      View signal
    </a>
  );
}

export function isSignalId(text: string | undefined): text is string {
  return /^\s*sig_[\w-]+\s*$/.test(text ?? "");
}

/** The known name that equals the text apart from letter case; otherwise the text. */
function inKnownCase(text: string, known: readonly string[]): string {
  if (known.includes(text)) return text;
  return known.find((name) => name.toLowerCase() === text.toLowerCase()) ?? text;
}

interface HeadProps {
  base: string;
  shown: "" | "/all" | "/all?status=held" | "/dead-letters";
  totals: StoreTotals;
}

export function SignalHead({ base, shown, totals: { held, deadLettered } }: HeadProps) {
  const tabs = [
    ["", "By event", 0],
    ["/all", "All signals", 0],
    ["/all?status=held", "Held", held],
    ["/dead-letters", "Dead letters", deadLettered],
  ] as const;
  return (
    <>
      <PageHead title="Signal queue" />
      <Tabs
        label="Lists of signals"
        tabs={tabs.map(([path, text, count]) => ({
          href: `${base}/signals${path}`,
          text: [text, " ", count > 0 && <span class="tag">{grouped(count)}</span>],
          current: path === shown,
        }))}
      />
    </>
  );
}

const KIND_LABEL = {
  signal: "Signal",
  identify: "Identify call",
  account: "Account update",
  unknown: "Unreadable signal",
} as const satisfies Record<SignalSummary["kind"], string>;

/** The event of a signal, else its kind. */
export function titleOf({ kind, event }: Pick<SignalSummary, "kind" | "event">): string {
  return kind === "signal" && event !== null ? event : KIND_LABEL[kind];
}

/** A slice of signals with its empty states and pager. @param props.withEvent false: all signals have the same event. */
export function SignalTable({
  base,
  list,
  signals: { items, next, complete, scans },
  withEvent,
}: {
  base: string;
  list: ListAddress;
  signals: Scanned<FoundSignals>;
  withEvent: boolean;
}) {
  const names: Column<SignalSummary>[] = [
    { head: "Event", cell: titleOf },
    { head: "Person", cell: ({ email }) => email !== null && <a href={personPath(base, email)}>{email}</a> },
    { head: "Source", cell: ({ source }) => source, drop: "narrow" },
  ];
  const isHeldTab = list.active.length === 1 && list.query["status"] === "held";
  const person: Column<SignalSummary> = { head: "Person", cell: ({ email }) => email ?? "Unknown person" };
  return (
    <>
      {items.length > 0 && (
        <Table
          caption="Signals"
          rows={items}
          href={({ id }) => signalPath(base, id)}
          columns={[
            ...(withEvent ? names : [person]),
            { head: "Status", cell: ({ status }) => <StatusBadge status={status} /> },
            { head: "Occurred", cell: ({ occurredAtMs }) => <Time ms={occurredAtMs} />, drop: "narrow" },
            { head: "Received", cell: ({ receivedAtMs }) => <Time ms={receivedAtMs} /> },
          ]}
        />
      )}
      {items.length === 0 &&
        complete &&
        list.isFiltered &&
        (isHeldTab ? (
          <Empty title="No held signals">
            <p>Signals beyond the signal limit wait here until they are released or their billing period ends.</p>
          </Empty>
        ) : (
          <NoMatches what="signals" list={list} />
        ))}
      <ScanNote complete={complete} isEmpty={items.length === 0} read={counted(scans * LIST_SCAN_SIGNALS, "signal")} />
      <Pager list={list} next={next} complete={complete} />
    </>
  );
}

export function NoSignals({ base }: { base: string }) {
  return (
    <Empty title="No signals yet">
      <p>The first signal appears here within seconds.</p>
      <a class="button primary" href={`${base}/connect`}>
        Connect a sender
      </a>
    </Empty>
  );
}

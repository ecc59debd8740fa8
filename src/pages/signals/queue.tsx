/** Signal queue (spec §6.3): signals by event and source, the page of an event, and the routes of the other pages of signals. */
import { asSent } from "../../domain/json/json-value.ts";
import { DAY_MS, dayOf, latestDays } from "../../domain/duration.ts";
import { DAYS_COUNTED, GROUP_SAMPLES, PAGE_ROWS, QUEUE_SCAN_GROUPS, QUEUE_SORTED_GROUPS } from "../../limits.ts";
import type { QueueGroup, QueueSort, SignalTrace, StoreTotals } from "../../store/protocol/stored-signals.ts";
import { LinkButton } from "../kit/forms.tsx";
import { Sparkline, TimeChart } from "../kit/charts.tsx";
import { counted } from "../kit/format.ts";
import { Filters, ListAddress, ListPanel, scanUntilMatch } from "../kit/list.tsx";
import { Count, Empty, Json, Notice, Panel, Stat, Stats, StatusBadge, Table, Time } from "../kit/parts.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { type Ctx, pages, storeOf, workspacePath, groupPath, signalPath, withQuery } from "../pages-env.ts";
import { SignalList } from "../signal-list.tsx";
import { isSignalId, listPages, NoSignals, SIGNAL_PAGE, SignalLink, SignalTabs } from "./signals.tsx";
import { tracePages } from "./trace.tsx";

const SPARKLINE_DAYS = 14;

const SORTS = {
  last_seen: "Last seen",
  last_seen_up: "Longest unseen",
  count: "Most signals",
  name: "Event name",
} as const satisfies Record<QueueSort, string>;

const ONLY = { "": "All events", held: "With held signals", anonymous: "With anonymous signals" } as const;

export const signalPages = pages
  .createApp()
  .get("/", async (c) => {
    const base = workspacePath(c);
    const asked = c.req.query("q");
    if (isSignalId(asked)) return c.redirect(signalPath(base, asked.trim()), 303);
    const list = new ListAddress(`${base}/signals`, c.req.query());
    const filter = {
      search: list.searchText("q", "Search", "Search event or signal id"),
      source: list.text("source", "Source"),
      only: list.choice("only", "Show", ONLY),
      sort: list.sort(SORTS, "last_seen"),
      ...list.days("Last seen", "Last seen from"),
    };
    const found = await scanUntilMatch(list.slice(PAGE_ROWS), async (slice) => {
      const { groups, ...rest } = await storeOf(c).queuePage(filter, slice);
      return { ...groups, ...rest };
    });
    const { items, isCut, scans, sources, totals, isFull } = found;
    return page(
      c,
      SIGNAL_PAGE,
      <SignalTabs base={base} shown="" totals={totals} />,
      isFull && (
        <Notice tone="bad" title="Storage full">
          <p>
            New signals are accepted, but wait until there is room. <a href={`${base}/usage`}>Make room</a>
          </p>
        </Notice>
      ),
      <Filters list={list} suggestions={{ source: sources }} />,
      isCut && <p class="quiet small">Sorted among the latest {counted(QUEUE_SORTED_GROUPS, "event")}.</p>,
      <ListPanel
        list={list}
        found={found}
        noun="events"
        searched={counted(scans * QUEUE_SCAN_GROUPS, "event")}
        empty={<NoEvents base={base} totals={totals} />}
      >
        <Groups base={base} items={items} order={list.order} />
      </ListPanel>,
    );
  })
  .get("/group", (c) => groupPage(c))
  .route("/", listPages)
  .route("/", tracePages);

interface GroupsProps {
  base: string;
  items: readonly QueueGroup[];
  order: ListAddress["order"];
}

function Groups({ base, items, order }: GroupsProps) {
  const today = dayOf(Date.now());
  return (
    <Table
      caption="Events"
      rows={items}
      href={({ event, source }) => groupPath(base, event, source)}
      order={order}
      columns={[
        { head: "Event", cell: ({ event }) => event, sorts: ["name"] },
        { head: "Source", cell: ({ source }) => source },
        { head: "Signals", kind: "number", cell: ({ count }) => <Count value={count} />, sorts: ["count"] },
        { head: "Held", kind: "number", cell: ({ held }) => held > 0 && <Count value={held} />, drop: "phone" },
        {
          head: "Anonymous",
          kind: "number",
          cell: ({ anonymous }) => anonymous > 0 && <Count value={anonymous} />,
          drop: "narrow",
        },
        {
          head: `Last ${SPARKLINE_DAYS} days`,
          cell: ({ days }) => <LatestDays values={latestDays(days, today, SPARKLINE_DAYS)} />,
          drop: "narrow",
        },
        {
          head: "Last seen",
          cell: ({ lastSeenMs }) => <Time ms={lastSeenMs} />,
          sorts: ["last_seen", "last_seen_up"],
        },
      ]}
    />
  );
}

function LatestDays({ values }: { values: readonly number[] }) {
  const total = values.reduce((sum, count) => sum + count, 0);
  const label = `${counted(total, "signal")} in ${SPARKLINE_DAYS} days, ${counted(values.at(-1) ?? 0, "signal")} today`;
  return <Sparkline values={values} label={label} />;
}

function NoEvents({ base, totals }: { base: string; totals: StoreTotals }) {
  if (Object.values(totals).every((count) => count === 0)) return <NoSignals base={base} />;
  return (
    <Empty
      title="No events yet"
      text="So far only identify calls, account updates and unreadable signals have arrived."
    >
      <LinkButton href={`${base}/signals/all`} text="View all signals" />
    </Empty>
  );
}

async function groupPage(c: Ctx): Promise<Response> {
  const { event = "", source = "" } = c.req.query();
  const base = workspacePath(c);
  const list = new ListAddress(`${base}/signals/group`, c.req.query());
  list.addFilter("Event", "", { event, source });
  const store = storeOf(c);
  const { group, ...signals } = await scanUntilMatch(list.slice(PAGE_ROWS), async (slice) => {
    const found = await store.queueGroup(event, source, undefined, slice);
    return { group: null, items: [], next: null, complete: true, ...found?.signals, ...found };
  });
  if (group === null) return notFoundPage(c, "event");
  const ids = new Set([group.sampleId, ...signals.items.map(({ id }) => id)]);
  const wanted = list.query["cursor"] === undefined ? [...ids].slice(0, GROUP_SAMPLES) : [];
  const traces = await Promise.all(wanted.map((id) => store.signal(id)));
  const samples = traces.flatMap((trace) => (trace === null || trace.payload === null ? [] : [trace]));
  const from = (samples.length === 0 ? [group.sampleId] : wanted).map((id): [string, string] => ["from", id]);
  const all = withQuery(`${base}/signals/all`, { event: group.event, source: group.source });
  const create = <LinkButton href={withQuery(`${base}/rules/new`, from)} text="Create mapping rule" look="primary" />;
  return page(
    c,
    {
      section: "signals",
      title: event,
      crumbs: [],
      intro: group.source === "" ? "From sources that name a person." : `From ${group.source}.`,
      actions: mayManage(c) && create,
    },
    <Stats>
      <Stat label="Signals" value={group.count} note="excluding duplicates" />
      <Stat label="Held" value={group.held} />
      <Stat label="Anonymous" value={group.anonymous} />
      <Stat label="First seen" value={<Time ms={group.firstSeenMs} />} />
      <Stat label="Last seen" value={<Time ms={group.lastSeenMs} />} />
    </Stats>,
    <div class="columns wide">
      <DaysPanel group={group} />
      {samples.length > 0 && <SamplesPanel base={base} samples={samples} />}
    </div>,
    <SignalList
      base={base}
      list={list}
      signals={signals}
      withEvent={false}
      title="Signals"
      actions={<a href={all}>Filter signals</a>}
    />,
  );
}

function DaysPanel({ group }: { group: QueueGroup }) {
  const today = dayOf(Date.now());
  const days = latestDays(group.days, today, DAYS_COUNTED);
  const total = days.reduce((sum, count) => sum + count, 0);
  const firstDay = today - DAYS_COUNTED + 1;
  const text = `${counted(total, "signal")}, at most ${counted(Math.max(...days), "signal")} on one day (UTC)`;
  return (
    <Panel title={`Signals per day, last ${DAYS_COUNTED} days`}>
      <TimeChart
        label={text}
        caption={text}
        series={[{ kind: "area", points: days.map((value, index) => ({ atMs: (firstDay + index) * DAY_MS, value })) }]}
        fromMs={firstDay * DAY_MS}
        toMs={today * DAY_MS}
      />
    </Panel>
  );
}

function SamplesPanel({ base, samples }: { base: string; samples: readonly SignalTrace[] }) {
  return (
    <Panel title="Latest payloads">
      {samples.map(({ id, status, email, receivedAtMs, payload }, index) => (
        <details open={index === 0}>
          <summary>
            <StatusBadge status={status} /> {email ?? "Unknown person"}, <Time ms={receivedAtMs} />
          </summary>
          <Json value={asSent(payload)} label={`Payload of ${id}`} />
          <SignalLink base={base} id={id} />
        </details>
      ))}
    </Panel>
  );
}

/** Signal queue (spec §6.3): signals by event and source, and the routes of all pages of signals. */
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import { PAGE_ROWS, QUEUE_SCAN_GROUPS, QUEUE_SORTED_GROUPS } from "../../limits.ts";
import type { QueueFilter, QueueGroup, QueueSort, StoreTotals } from "../../store/protocol/stored-signals.ts";
import { LinkButton } from "../kit/actions.tsx";
import { Sparkline } from "../kit/charts.tsx";
import { counted } from "../kit/format.ts";
import { Filters, ListAddress, ListPanel, scanOn } from "../kit/list.tsx";
import { Count, Empty, Notice, Table, Time } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { pages, storeOf, workspacePath } from "../pages-env.ts";
import { deadLetterPages } from "./dead-letters.tsx";
import { groupPages } from "./group.tsx";
import { groupPath, isSignalId, listPages, NoSignals, SIGNAL_PAGE, signalPath, SignalTabs } from "./signals.tsx";
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
    const search = list.searchText("q", "Search", "Search event or signal id");
    const source = list.text("source", "Source");
    const only = list.choice("only", "Show", ONLY, "");
    const sort = list.sort(SORTS, "last_seen");
    const { sinceMs, untilMs } = list.days("Last seen");
    const filter: QueueFilter = {
      sort,
      search: search || undefined,
      source: source || undefined,
      only: only || undefined,
      sinceDay: sinceMs === null ? undefined : dayOf(sinceMs),
      untilDay: untilMs === null ? undefined : dayOf(untilMs) - 1,
    };
    const found = await scanOn(list.slice(PAGE_ROWS), async (slice) => {
      const { groups, ...rest } = await storeOf(c).queuePage(filter, slice);
      return { ...groups, ...rest };
    });
    const { items, isCut, scans, sources, totals, isFull } = found;
    return page(
      c,
      SIGNAL_PAGE,
      <>
        <SignalTabs base={base} shown="" totals={totals} />
        {isFull && (
          <Notice tone="bad" title="Storage full">
            <p>
              New signals are accepted, but wait until there is room. <a href={`${base}/usage`}>Make room</a>
            </p>
          </Notice>
        )}
        <Filters list={list} known={{ source: sources }} />
        {isCut && <p class="quiet small">Sorted among the latest {counted(QUEUE_SORTED_GROUPS, "event")}.</p>}
        <ListPanel
          list={list}
          found={found}
          what="events"
          read={counted(scans * QUEUE_SCAN_GROUPS, "event")}
          empty={<NoEvents base={base} totals={totals} />}
        >
          <Groups base={base} items={items} />
        </ListPanel>
      </>,
    );
  })
  .route("/", listPages)
  .route("/", groupPages)
  .route("/", deadLetterPages)
  .route("/", tracePages);

function Groups({ base, items }: { base: string; items: readonly QueueGroup[] }) {
  const today = dayOf(Date.now());
  return (
    <Table
      caption="Events"
      rows={items}
      href={({ event, source }) => groupPath(base, event, source)}
      columns={[
        { head: "Event", cell: ({ event }) => event },
        { head: "Source", cell: ({ source }) => source },
        { head: "Signals", kind: "number", cell: ({ count }) => <Count value={count} /> },
        { head: "Held", kind: "number", cell: ({ held }) => <Count value={held} />, drop: "phone" },
        { head: "Anonymous", kind: "number", cell: ({ anonymous }) => <Count value={anonymous} />, drop: "narrow" },
        {
          head: `Last ${SPARKLINE_DAYS} days`,
          cell: ({ days }) => <Days values={latestDays(days, today, SPARKLINE_DAYS)} />,
          drop: "narrow",
        },
        { head: "First seen", cell: ({ firstSeenMs }) => <Time ms={firstSeenMs} />, drop: "narrow" },
        { head: "Last seen", cell: ({ lastSeenMs }) => <Time ms={lastSeenMs} /> },
      ]}
    />
  );
}

/** @param props.values a count for each day, today last. */
function Days({ values }: { values: readonly number[] }) {
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

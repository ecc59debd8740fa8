/** Signal queue (spec §6.3): signals by event and source, and the routes of all pages of signals. */
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import { PAGE_ROWS, QUEUE_SCAN_GROUPS, QUEUE_SORTED_GROUPS } from "../../limits.ts";
import type { QueueFilter, QueueGroup, QueueSort, StoreTotals } from "../../store/protocol/stored-signals.ts";
import { signalStore } from "../../workspace/objects.ts";
import { Sparkline } from "../kit/charts.tsx";
import { Filters, NoMatches, ScanNote } from "../kit/filters.tsx";
import { counted } from "../kit/format.ts";
import { DayFields, NameField, SelectField } from "../kit/forms.tsx";
import { ListAddress, scanOn } from "../kit/list-address.ts";
import { Empty, Notice, Panel, Time } from "../kit/parts.tsx";
import { Count, Pager, Table } from "../kit/table.tsx";
import { page } from "../page.tsx";
import { pages, workspacePath } from "../pages-env.ts";
import { deadLetterPages } from "./dead-letters.tsx";
import { groupPages } from "./group.tsx";
import { groupPath, isSignalId, listPages, NoSignals, SignalHead, signalPath } from "./signals.tsx";
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
    const search = list.text("q", "Search");
    const source = list.text("source", "Source");
    const only = list.choice("only", "Show", ONLY, "");
    const sort = list.choice("sort", null, SORTS, "last_seen");
    const days = list.days("Last seen");
    const filter: QueueFilter = {
      sort,
      search: search || undefined,
      source: source || undefined,
      only: only || undefined,
      sinceDay: days.sinceMs === null ? undefined : dayOf(days.sinceMs),
      untilDay: days.untilMs === null ? undefined : dayOf(days.untilMs) - 1,
    };
    const store = signalStore(c.env, c.get("workspace").id);
    const { items, next, complete, isCut, scans, sources, totals, isFull } = await scanOn(
      list.slice(PAGE_ROWS),
      async (slice) => {
        const { groups, ...rest } = await store.queuePage(filter, slice);
        return { ...groups, ...rest };
      },
    );
    const isEmpty = items.length === 0;
    return page(
      c,
      { title: "Signal queue", section: "signals" },
      <>
        <SignalHead base={base} shown="" totals={totals} />
        {isFull && (
          <Notice tone="bad" title="Storage full">
            <p>
              New signals are accepted, but wait until there is room. <a href={`${base}/usage`}>Make room</a>
            </p>
          </Notice>
        )}
        <Filters list={list} search={{ name: "q", label: "Search event or signal id" }}>
          <NameField name="source" label="Source" value={source} known={sources} />
          <SelectField name="only" label="Show" value={only} options={Object.entries(ONLY)} />
          <SelectField name="sort" label="Sort by" value={sort} options={Object.entries(SORTS)} />
          <DayFields days={days} label="Last seen" />
        </Filters>
        {isCut && <p class="quiet small">Sorted among the latest {counted(QUEUE_SORTED_GROUPS, "event")}.</p>}
        <Panel list>
          {!isEmpty && <Groups base={base} items={items} />}
          {isEmpty && complete && list.isFiltered && <NoMatches what="events" list={list} />}
          {isEmpty && complete && !list.isFiltered && <NoEvents base={base} totals={totals} />}
          <ScanNote complete={complete} isEmpty={isEmpty} read={counted(scans * QUEUE_SCAN_GROUPS, "event")} />
          <Pager list={list} next={next} complete={complete} />
        </Panel>
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
    <Empty title="No events yet">
      <p>So far only identify calls, account updates and unreadable signals have arrived.</p>
      <a class="button" href={`${base}/signals/all`}>
        View all signals
      </a>
    </Empty>
  );
}

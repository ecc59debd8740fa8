/** An event of the signal queue: its counts, its latest payloads and its signals. */
import { DAY_MS } from "../../domain/duration.ts";
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import { DAYS_COUNTED, GROUP_SAMPLES, PAGE_ROWS } from "../../limits.ts";
import type { QueueGroup, SignalTrace } from "../../store/protocol/stored-signals.ts";
import { LinkButton } from "../kit/actions.tsx";
import { TimeChart } from "../kit/charts.tsx";
import { counted, withQuery } from "../kit/format.ts";
import { ListAddress, scanOn } from "../kit/list.tsx";
import { Json, Panel, Stat, Stats, StatusBadge, Time } from "../kit/parts.tsx";
import { mayManage, notFoundPage, page } from "../page.tsx";
import { pages, storeOf, workspacePath } from "../pages-env.ts";
import { SignalLink, SignalPanel } from "./signals.tsx";

export const groupPages = pages.createApp().get("/group", async (c) => {
  const { event = "", source = "" } = c.req.query();
  const base = workspacePath(c);
  const list = new ListAddress(`${base}/signals/group`, c.req.query());
  list.use("Event", "", { event, source });
  const store = storeOf(c);
  const { group, ...signals } = await scanOn(list.slice(PAGE_ROWS), async (slice) => {
    const found = await store.queueGroup(event, source, undefined, slice);
    return { group: null, items: [], next: null, complete: true, ...found?.signals, ...found };
  });
  if (group === null) return notFoundPage(c, "event");
  const stored = signals.items.filter(({ status }) => status !== "duplicate" && status !== "purged");
  const ids = new Set([group.sampleId, ...stored.map(({ id }) => id)]);
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
    <>
      <Stats>
        <Stat label="Signals" value={group.count} note="excluding duplicates" />
        <Stat label="Held" value={group.held} />
        <Stat label="Anonymous" value={group.anonymous} />
        <Stat label="First seen" value={<Time ms={group.firstSeenMs} />} />
        <Stat label="Last seen" value={<Time ms={group.lastSeenMs} />} />
      </Stats>
      <div class="columns wide">
        <DaysPanel group={group} />
        {samples.length > 0 && <SamplesPanel base={base} samples={samples} />}
      </div>
      <SignalPanel
        base={base}
        list={list}
        signals={signals}
        withEvent={false}
        title="Signals"
        actions={<a href={all}>Filter signals</a>}
        empty={<></>}
      />
    </>,
  );
});

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
          <Json value={payload} label={`Payload of ${id}`} />
          <SignalLink base={base} id={id} />
        </details>
      ))}
    </Panel>
  );
}

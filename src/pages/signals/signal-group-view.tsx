/** One event of the signal queue: how often it comes, what it looks like, and its signals. */
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import { DAYS_COUNTED } from "../../limits.ts";
import type { FoundSignals } from "../../store/protocol/stored-signals.ts";
import type { SignalTrace } from "../../store/protocol/stored-signals.ts";
import type { QueueGroup } from "../../store/protocol/stored-signals.ts";
import { STATUS_OPTIONS } from "./signal-filters.ts";
import { Sparkline } from "../views/charts.tsx";
import { SelectField } from "../kit/forms.tsx";
import { counted } from "../kit/format.ts";
import { NothingFits } from "../views/nothing-fits.tsx";
import { Fact, FactList, PageHead, Json, Panel, Stat, Stats, StatusBadge, Time } from "../views/parts.tsx";
import { groupPath, SignalLink, SignalTable } from "./signal-parts.tsx";

export function SignalGroupView({
  base,
  manager,
  query,
  nowMs,
  group,
  signals,
  samples,
}: {
  base: string;
  manager: boolean;
  query: Record<string, string>;
  nowMs: number;
  group: QueueGroup;
  signals: FoundSignals;
  samples: readonly SignalTrace[];
}) {
  const { event, source } = group;
  const days = latestDays(group.days, dayOf(nowMs), DAYS_COUNTED);
  const total = days.reduce((sum, count) => sum + count, 0);
  const from = samples.length > 0 ? samples.map(({ id }) => id) : [group.sampleId];
  const { status: asked = "" } = query;
  const status = STATUS_OPTIONS.find(([value]) => value !== "" && value === asked)?.[1] ?? "";
  const newRule = new URLSearchParams(from.map((id) => ["from", id]));
  return (
    <>
      <PageHead
        title={event}
        crumbs={<a href={`${base}/signals`}>Signal Queue</a>}
        actions={
          manager && (
            <a class="button primary" href={`${base}/rules/new?${newRule.toString()}`}>
              Create mapping rule
            </a>
          )
        }
      >
        {source === "" ? "from sources that name a person" : `from ${source}`}
      </PageHead>
      <Stats>
        <Stat label="Signals" value={group.count} note="excluding duplicates" />
        <Stat
          label="Held"
          value={group.held}
          note={group.held > 0 ? <a href={`${base}/usage`}>What is held, and why</a> : undefined}
        />
        <Stat label="Anonymous" value={group.anonymous} />
      </Stats>
      <div class="columns">
        <Panel title={`Signals per day, last ${DAYS_COUNTED} days`}>
          <figure class="days">
            <Sparkline values={days} label={`${counted(total, "signal")} in ${DAYS_COUNTED} days`} />
            <figcaption>
              {counted(total, "signal")}; days in UTC, today is the last. Most on one day:{" "}
              {counted(Math.max(...days), "signal")}.
            </figcaption>
          </figure>
          <FactList>
            <Fact name="First seen">
              <Time ms={group.firstSeenMs} nowMs={nowMs} />
            </Fact>
            <Fact name="Last seen">
              <Time ms={group.lastSeenMs} nowMs={nowMs} />
            </Fact>
          </FactList>
        </Panel>
        {samples.length > 0 && (
          <Panel title={samples.length === 1 ? "The latest sample" : "The latest samples"}>
            {samples.map((sample, index) => (
              <details class="sample" open={index === 0}>
                <summary>
                  <StatusBadge status={sample.status} /> {sample.email ?? "no email"} ·{" "}
                  <Time ms={sample.receivedAtMs} nowMs={nowMs} />
                </summary>
                <Json value={sample.payload} label={`Payload of ${sample.id}`} />
                <p class="small">
                  <SignalLink base={base} id={sample.id} />
                </p>
              </details>
            ))}
          </Panel>
        )}
      </div>
      <form class="filters" method="get">
        <input type="hidden" name="event" value={event} />
        <input type="hidden" name="source" value={source} />
        <SelectField name="status" label="Signals with status" value={query["status"] ?? ""} options={STATUS_OPTIONS} />
        <button>Show</button>
      </form>
      <Panel flush title="Signals">
        <SignalTable
          base={base}
          path={`${base}/signals/group`}
          caption={`Signals of ${event}`}
          query={query}
          signals={signals}
          withEvent={false}
          empty={
            <NothingFits
              title="No signal fits"
              path={groupPath(base, event, source)}
              query={{}}
              filters={[{ label: "Status", value: status, names: ["status"] }]}
            />
          }
        />
      </Panel>
    </>
  );
}

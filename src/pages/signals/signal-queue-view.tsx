/** The signal queue (spec §6.3): signals grouped by event name and source. */
import type { Child } from "hono/jsx";
import { dayOf, latestDays } from "../../domain/quota/day-counts.ts";
import { QUEUE_SCAN_GROUPS, QUEUE_SORTED_GROUPS } from "../../limits.ts";
import type { StoreTotals } from "../../store/protocol/stored-signals.ts";
import type { QueueGroup, QueuePage } from "../../store/protocol/stored-signals.ts";
import { readDayRange } from "../day-range.ts";
import { QUEUE_SORTS } from "./signal-filters.ts";
import { Sparkline } from "../views/charts.tsx";
import { DayFields, NameField, SelectField, TextField } from "../kit/forms.tsx";
import { counted } from "../kit/format.ts";
import { daysAsked, NothingFits } from "../views/nothing-fits.tsx";
import type { AskedFilter } from "../views/nothing-fits.tsx";
import { Empty, PageHead, Notice, Panel, Time } from "../views/parts.tsx";
import { Pager, Table, Count, NotAll } from "../views/table.tsx";
import { groupPath, SignalTabs } from "./signal-parts.tsx";

/** Days of a sparkline. */
const SPARKLINE_DAYS = 14;

interface Known {
  base: string;
  query: Record<string, string>;
  nowMs: number;
}

export function SignalQueueView({
  base,
  query,
  nowMs,
  groups,
  sources,
  totals,
  isFull,
  firstSteps,
}: Known & {
  groups: QueuePage;
  sources: readonly string[];
  totals: StoreTotals;
  isFull: boolean;
  firstSteps: Child;
}) {
  const asked = askedOf(query);
  const filtered = asked.some(({ value }) => value !== "");
  const nothing = groups.items.length === 0 && groups.complete;
  return (
    <>
      <PageHead title="Signal Queue">
        What has come in, by event name and source. Open an event to see its signals.
      </PageHead>
      <SignalTabs base={base} shown="queue" />
      {firstSteps}
      {isFull && <Full base={base} />}
      <Waiting base={base} totals={totals} />
      <Filters query={query} sources={sources} />
      {groups.isCut && <p class="quiet small">Of the {counted(QUEUE_SORTED_GROUPS, "event")} that were seen last.</p>}
      <Panel flush>
        {nothing && filtered && (
          <NothingFits title="No event fits" path={`${base}/signals`} query={query} filters={asked} />
        )}
        {nothing && !filtered && <FirstSignal base={base} totals={totals} />}
        {!nothing && <Groups base={base} items={groups.items} nowMs={nowMs} />}
        <NotAll complete={groups.complete} what={counted(QUEUE_SCAN_GROUPS, "event")} />
        <Pager path={`${base}/signals`} query={query} next={groups.next} />
      </Panel>
    </>
  );
}

/** Says that the storage is full, which is why nothing new comes in. */
function Full({ base }: { base: string }) {
  return (
    <Notice tone="bad" title="The storage is full: signals are accepted, but none is processed.">
      <p>
        None is lost. <a href={`${base}/usage`}>How many wait, and what to do</a>
      </p>
    </Notice>
  );
}

/** Notices of held signals and dead letters: somebody has to look at them. */
function Waiting({ base, totals: { held, deadLettered } }: { base: string; totals: StoreTotals }) {
  return (
    <>
      {held > 0 && (
        <Notice tone="warn" title={`${counted(held, "signal is", "signals are")} held`}>
          <p>
            They came beyond the plan's signal limit and update no scores.{" "}
            <a href={`${base}/usage`}>What is held, and why</a>
          </p>
        </Notice>
      )}
      {deadLettered > 0 && (
        <Notice tone="bad" title={`${counted(deadLettered, "signal")} could not be processed`}>
          <p>
            <a href={`${base}/signals/dead-letters`}>See the reasons, and replay</a>
          </p>
        </Notice>
      )}
    </>
  );
}

const ONLY = [
  ["", "All events"],
  ["held", "With held signals"],
  ["anonymous", "With anonymous signals"],
] as const;

function askedOf(query: Record<string, string>): AskedFilter[] {
  const only = query["only"] ?? "";
  return [
    { label: "Event name with", value: (query["q"] ?? "").trim(), names: ["q"] },
    { label: "Source", value: (query["source"] ?? "").trim(), names: ["source"] },
    { label: "Show", value: only === "" ? "" : (ONLY.find(([value]) => value === only)?.[1] ?? ""), names: ["only"] },
    daysAsked("Last seen", readDayRange(query)),
  ];
}

function Filters({ query, sources }: { query: Record<string, string>; sources: readonly string[] }) {
  return (
    <form class="filters" method="get" role="search">
      <TextField name="q" label="Event or signal id" value={query["q"] ?? ""} autocomplete="off" spellcheck={false} />
      <NameField name="source" label="Source" value={query["source"] ?? ""} known={sources} />
      <SelectField name="only" label="Show" value={query["only"] ?? ""} options={ONLY} />
      <SelectField name="sort" label="Sort by" value={query["sort"] ?? ""} options={Object.entries(QUEUE_SORTS)} />
      <DayFields days={readDayRange(query)} label="Last seen from" />
      <button>Search</button>
    </form>
  );
}

function Groups({ base, items, nowMs }: { base: string; items: readonly QueueGroup[]; nowMs: number }) {
  const head = [
    "Event",
    "Source",
    { text: "Signals", number: true },
    { text: "Held", number: true },
    { text: "Anonymous", number: true },
    `Last ${SPARKLINE_DAYS} days`,
    "First seen",
    "Last seen",
  ];
  return (
    <Table caption="Events" head={head}>
      {items.map((group) => {
        const days = latestDays(group.days, dayOf(nowMs), SPARKLINE_DAYS);
        const total = days.reduce((sum, count) => sum + count, 0);
        return (
          <tr>
            <th scope="row" class="event">
              <a href={groupPath(base, group.event, group.source)}>{group.event}</a>
            </th>
            <td class="event">{group.source}</td>
            <Count value={group.count} />
            <Count value={group.held} />
            <Count value={group.anonymous} />
            <td>
              <Sparkline
                values={days}
                label={`${counted(total, "signal")} in ${SPARKLINE_DAYS} days, ${counted(days.at(-1) ?? 0, "signal")} today`}
              />
            </td>
            <td>
              <Time ms={group.firstSeenMs} nowMs={nowMs} />
            </td>
            <td>
              <Time ms={group.lastSeenMs} nowMs={nowMs} />
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

/** Whether anything has been recorded, of whatever kind. */
export function hasSignals(totals: StoreTotals): boolean {
  return totals.processed + totals.duplicates + totals.held + totals.purged + totals.deadLettered > 0;
}

function FirstSignal({ base, totals }: { base: string; totals: StoreTotals }) {
  const any = hasSignals(totals);
  return (
    <Empty title={any ? "No events yet" : "No signals yet"}>
      <p>
        {any
          ? "What has come so far were identify calls, account updates or what could not be processed."
          : "As soon as a sender posts its first signal, it shows up here."}
      </p>
      <p>
        <a class="button" href={`${base}/connect`}>
          Connect a sender
        </a>
      </p>
    </Empty>
  );
}

/** Usage (spec §8): the tabs Usage and Ledger (the books of design §1.2, past periods, storage). plan.tsx has the tab Plan. */
import { plansFor, type Plan } from "../../control/plans.ts";
import { DAY_MS } from "../../domain/duration.ts";
import type { Balance } from "../../domain/quota/balance.ts";
import type { OveragePrice } from "../../domain/quota/billing.ts";
import { expectedUsage, paceOf, whenReached, type Pace } from "../../domain/quota/forecast.ts";
import { ordinalsTaken, quotaBounds, quotaCeiling, VERDICTS, type VerdictCounts } from "../../domain/quota/quota.ts";
import { usageCurve, utcDay, verdictsPerDay, type CurvePoint, type UsageDay } from "../../domain/quota/usage-day.ts";
import { usageLevel } from "../../domain/quota/usage-levels.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS } from "../../limits.ts";
import type { ClosedPeriod, Usage } from "../../quota/protocol.ts";
import { usageByDayOf, usageOf } from "../../workspace/configure-workspace.ts";
import { readBooks, readStorageHealth, type Room } from "../../workspace/read-health.ts";
import { VERDICT_LABELS, verdictSentence } from "../copy.ts";
import { DayBars, TimeChart, type Point, type Reference, type Series } from "../kit/charts.tsx";
import { ago, counted, day, grouped } from "../kit/format.ts";
import { Badge, type Column, Count, Empty, Facts, Meter, Panel, Stat, Stats, Table } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { type Ctx, pages, workspacePath } from "../pages-env.ts";
import { percentFull, usageHead, UsageTabs, waitingText } from "../usage-notices.tsx";
import { costText, planPages } from "./plan.tsx";

export const usagePages = pages
  .createApp()
  .get("/", async (c) => {
    const workspace = c.get("workspace");
    const [{ usage, days, firstDayMs }, room, plans] = await Promise.all([
      usageByDayOf(c.env, c.get("db"), workspace),
      readStorageHealth(c.env, workspace.id),
      plansFor(c.get("db"), workspace),
    ]);
    const nowMs = Date.now();
    const used = ordinalsTaken(usage);
    const plan = plans.find(({ id }) => id === workspace.plan);
    const pace = paceOf(days, firstDayMs, { nowMs, periodStartMs: usage.periodStartMs, used });
    const ceiling = quotaCeiling(usage);
    const limit = usage.extraRoomRemoved ? "up to the limit" : "up to twice the limit";
    const base = workspacePath(c);
    return page(
      c,
      { ...usageHead(usage), title: "Usage" },
      <UsageTabs base={base} current="" usage={usage} room={room} />,
      <Stats>
        <Stat label="Used" value={used} note={`${percent(used, usage.signalLimit)} of ${grouped(usage.signalLimit)}`} />
        {usage.overages ? (
          <Stat label="Overages" value={usage.overage} note="accepted beyond the limit" />
        ) : (
          <Stat label="Held" value={usage.held} note="no effect on scores" />
        )}
        <Stat label="Refused" value={usage.rejected} note="with a 429" />
        <Stat
          label="Left until refusals"
          value={ceiling === null ? "Unlimited" : Math.max(0, ceiling - used)}
          note={ceiling === null ? "overages are on" : limit}
        />
      </Stats>,
      <PeriodPanel base={base} usage={usage} days={days} pace={pace} plan={plan} nowMs={nowMs} />,
      <DaysPanel usage={usage} days={days} nowMs={nowMs} />,
    );
  })
  .get("/ledger", (c) => ledgerPage(c))
  .route("/", planPages);

interface Props {
  usage: Usage;
  /** Days with counts, in order, without today. */
  days: readonly UsageDay[];
  nowMs: number;
}

interface PeriodProps extends Props {
  base: string;
  /** Null: too few signals for a forecast. */
  pace: Pace | null;
  plan: Plan | undefined;
}

function percent(used: number, signalLimit: number): string {
  const value = (100 * used) / signalLimit;
  return `${value > 0 && value < 10 ? value.toFixed(1) : grouped(Math.floor(value))} %`;
}

function PeriodPanel({ base, usage, days, pace, plan, nowMs }: PeriodProps) {
  const { periodStartMs, periodEndMs, signalLimit } = usage;
  const used = ordinalsTaken(usage);
  const ceiling = quotaCeiling(usage);
  const forecast = forecastText(usage, pace, plan?.overagePrice ?? null, nowMs);
  const references: Reference[] = [{ value: signalLimit, label: `Limit ${grouped(signalLimit)}` }];
  if (ceiling !== null && ceiling > signalLimit) {
    references.push({ value: ceiling, label: `Twice the limit ${grouped(ceiling)}`, tone: "bad" });
  }
  const planName = plan === undefined ? "View plan" : `${plan.name} plan`;
  return (
    <Panel title="This period" actions={<a href={`${base}/usage/plan`}>{planName}</a>}>
      <UsageMeter usage={usage} nowMs={nowMs} />
      <TimeChart
        label={`${counted(used, "signal")} since ${day(periodStartMs)}, limit ${grouped(signalLimit)}. ${forecast}`}
        caption={forecast}
        series={curves(usageCurve(days, periodStartMs, { ...usage, nowMs }), pace, periodEndMs, ceiling)}
        references={references}
        fromMs={periodStartMs}
        toMs={periodEndMs}
      />
    </Panel>
  );
}

export function UsageMeter({ usage, nowMs }: { usage: Usage; nowMs: number }) {
  const { signalLimit, periodEndMs, overages } = usage;
  const used = ordinalsTaken(usage);
  const level = usageLevel(used, signalLimit);
  const tone = level === null ? {} : { tone: level === 80 || overages ? ("warn" as const) : ("bad" as const) };
  const text = `${grouped(used)} of ${counted(signalLimit, "signal")} used`;
  return (
    <>
      <Meter share={used / signalLimit} label={text} {...tone} />
      <p class="quiet">
        {text}. The period ends on {day(periodEndMs)}, {ago(periodEndMs, nowMs)}.
      </p>
    </>
  );
}

/** A forecast from fewer full days may be far too high, and would flatten the measured curve. */
const FORECAST_DRAWN_DAYS = 3;

/** Without overages the forecast is flat from the ceiling on, because further signals are refused. */
function curves(curve: CurvePoint[], pace: Pace | null, periodEndMs: number, ceiling: number | null): Series[] {
  const points = curve.map((point): Point => ({ atMs: point.atMs, value: ordinalsTaken(point) }));
  const measured: Series = { kind: "area", points };
  const now = points.at(-1);
  if (now === undefined || pace === null || pace.fullDays < FORECAST_DRAWN_DAYS) return [measured];
  const end = now.value + (pace.perDay * Math.max(0, periodEndMs - now.atMs)) / DAY_MS;
  const highest = Math.max(now.value, ceiling ?? Infinity);
  if (end <= highest) return [measured, { kind: "dashed", points: [now, { atMs: periodEndMs, value: end }] }];
  const reachedMs = now.atMs + ((highest - now.value) / pace.perDay) * DAY_MS;
  const flat = [reachedMs, periodEndMs].map((atMs): Point => ({ atMs, value: highest }));
  return [measured, { kind: "dashed", points: [now, ...flat] }];
}

function forecastText(usage: Usage, pace: Pace | null, price: OveragePrice | null, nowMs: number): string {
  if (pace === null) return "No forecast yet: it needs an hour of signals.";
  const { signalLimit, periodEndMs, overages, extraRoomRemoved } = usage;
  const now = { nowMs, periodEndMs, used: ordinalsTaken(usage) };
  const basis =
    pace.fullDays === 0 ? "a rough estimate" : `average of the last ${counted(pace.fullDays, "full day", "full days")}`;
  const perDay = `At ${counted(Math.round(pace.perDay), "signal")} a day (${basis})`;
  const total = expectedUsage(pace.perDay, now);
  if (overages && total > signalLimit) {
    const beyond = total - signalLimit;
    return `${perDay}, you reach about ${grouped(total)} by ${day(periodEndMs)}: ${counted(beyond, "overage")}${costText(beyond, price)}.`;
  }
  const reach = (target: number, name: string): string => {
    const at = whenReached(target, pace.perDay, now);
    if (at === null) return `do not reach ${name} in this period`;
    return at === "reached" ? `have reached ${name}` : `reach ${name} on ${day(at)}`;
  };
  const isReached = whenReached(signalLimit, pace.perDay, now) !== null;
  const twice = isReached && !overages && !extraRoomRemoved;
  return `${perDay}, you ${reach(signalLimit, "the limit")}${twice ? ` and ${reach(quotaBounds(usage).hold, "twice the limit")}` : ""}.`;
}

const VERDICT_COLUMNS = VERDICTS.map((verdict): Column<VerdictCounts> => {
  return { head: VERDICT_LABELS[verdict], kind: "number", cell: (counts) => <Count value={counts[verdict]} /> };
});

function DaysPanel({ usage, days, nowMs }: Props) {
  const { periodStartMs, periodEndMs } = usage;
  const today = utcDay(nowMs);
  const counts = [...days.filter((entry) => entry.periodStartMs === periodStartMs), { ...usage, dayMs: today }];
  const fromMs = utcDay(periodStartMs);
  const bars = verdictsPerDay(counts, fromMs, utcDay(periodEndMs - 1) + DAY_MS);
  return (
    <Panel title="Signals per day">
      <DayBars days={bars} label={`${verdictSentence(usage)} in this period.`} legend={VERDICT_LABELS} />
      <details>
        <summary class="small">Numbers by day</summary>
        <Table
          caption="Usage by day"
          rows={bars.filter(({ atMs }) => atMs <= today).toReversed()}
          columns={[{ head: "Day (UTC)", cell: ({ atMs }) => day(atMs) }, ...VERDICT_COLUMNS]}
        />
      </details>
    </Panel>
  );
}

async function ledgerPage(c: Ctx): Promise<Response> {
  const { id } = c.get("workspace");
  const [usage, room, total] = await Promise.all([
    usageOf(c.env, c.get("db"), c.get("workspace")),
    readStorageHealth(c.env, id),
    readBooks(c.env, id, undefined),
  ]);
  const period = await readBooks(c.env, id, usage.periodStartMs);
  const base = workspacePath(c);
  return page(
    c,
    { ...usageHead(usage), title: "Ledger" },
    <UsageTabs base={base} current="/ledger" usage={usage} room={room} />,
    <BooksPanel base={base} total={total} period={period} />,
    <PastPeriods periods={usage.history} />,
    <StoragePanel room={room} />,
  );
}

interface Place {
  name: string;
  meaning: string;
  /** Below the workspace's path. */
  path?: string;
}

/** The places of accepted signals (design §1.2). Their counts add up to `accepted`. */
const PLACES = {
  processed: {
    name: "Processed",
    meaning: "Applied, or in cold storage until the visitor is known",
    path: "signals/all?status=processed",
  },
  duplicates: {
    name: "Duplicates",
    meaning: "Same content as an earlier signal",
    path: "signals/all?status=duplicate",
  },
  held: { name: "Held", meaning: "Over the limit, no effect on scores", path: "signals/all?status=held" },
  purged: { name: "Purged", meaning: "Still held when their period ended", path: "signals/all?status=purged" },
  deadLettered: { name: "Dead letters", meaning: "Could not be processed", path: "signals/dead-letters" },
  inFlight: { name: "In flight", meaning: "On their way to the store" },
  accepted: { name: "Accepted", meaning: "All signals answered with 202" },
} as const satisfies Record<Exclude<keyof Balance, "balanced">, Place>;

function BooksPanel({ base, total, period }: { base: string; total: Balance; period: Balance }) {
  const places = Object.entries<Place>(PLACES) as [keyof typeof PLACES, Place][];
  const isBalanced = total.balanced && period.balanced;
  return (
    <Panel
      title="Books"
      actions={<Badge tone={isBalanced ? "good" : "bad"}>{isBalanced ? "Balanced" : "Not balanced"}</Badge>}
      list
    >
      <p class="quiet">Each signal answered with 202 is in exactly one place.</p>
      {!isBalanced && (
        <p class="error" role="alert">
          The places do not add up to the accepted signals. Reload in a moment. If this stays, report a bug.
        </p>
      )}
      <Table
        caption="Books"
        rows={places}
        columns={[
          {
            head: "Place",
            cell: ([, { name, path }]) =>
              path === undefined ? (
                name
              ) : (
                <a class="row-link" href={`${base}/${path}`}>
                  {name}
                </a>
              ),
          },
          { head: "Meaning", kind: "text", drop: "phone", cell: ([, { meaning }]) => meaning },
          { head: "This period", kind: "number", cell: ([field]) => <Count value={period[field]} /> },
          { head: "Total", kind: "number", cell: ([field]) => <Count value={total[field]} /> },
        ]}
      />
    </Panel>
  );
}

function PastPeriods({ periods }: { periods: readonly ClosedPeriod[] }) {
  return (
    <Panel title="Past periods" list>
      <Table
        caption="Past periods"
        rows={periods}
        empty={<Empty title="No past periods yet" text="Each period appears here when it ends." />}
        columns={[
          { head: "Period", cell: ({ periodStartMs, periodEndMs }) => `${day(periodStartMs)} to ${day(periodEndMs)}` },
          { head: "Limit", kind: "number", drop: "narrow", cell: ({ signalLimit }) => grouped(signalLimit) },
          ...VERDICT_COLUMNS,
          {
            head: "Overages",
            kind: "number",
            cell: ({ overages, overage }) => (overages ? <Count value={overage} /> : <span class="quiet">Off</span>),
          },
          { head: "In a row over the limit", kind: "number", drop: "narrow", cell: ({ streak }) => grouped(streak) },
        ]}
      />
    </Panel>
  );
}

function StoragePanel({ room }: { room: Room }) {
  const used = storedText(room);
  return (
    <Panel title="Storage">
      <Meter share={room.store.bytes / room.store.maxBytes} label={used} />
      <Facts
        of={[
          ["Used", used],
          ["Waiting", waitingText(room, Date.now())],
          ["Duplicates", duplicatesText(room)],
        ]}
      />
    </Panel>
  );
}

export function storedText({ store }: Room): string {
  return `${byteSize(store.bytes)} of ${byteSize(store.maxBytes)} (${percentFull(store)})`;
}

const HOUR_MS = 3_600_000;
const WINDOW_DAYS = DUPLICATE_WINDOW_WITH_ID_MS / DAY_MS;

export function duplicatesText({ duplicatesCoveredMs: coveredMs }: Room): string {
  if (coveredMs >= DUPLICATE_WINDOW_WITH_ID_MS) return `Detected within ${counted(WINDOW_DAYS, "day")}.`;
  const days = Math.floor(coveredMs / DAY_MS);
  const back = days === 0 ? counted(Math.floor(coveredMs / HOUR_MS), "hour") : counted(days, "day");
  return `Detected within ${back} instead of ${WINDOW_DAYS} days, because of the high volume. Later repeats count again.`;
}

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const BYTE_UNITS = ["KB", "MB", "GB"] as const;

/** Such as `412 bytes`, `1.2 MB` or `9 GB`; a MB is a million bytes. */
function byteSize(bytes: number): string {
  const power = Math.min(BYTE_UNITS.length, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const unit = BYTE_UNITS[power - 1];
  return unit === undefined ? counted(bytes, "byte") : `${NUMBER.format(bytes / 1_000 ** power)} ${unit}`;
}

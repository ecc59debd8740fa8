/** Usage (spec §8): the tabs Usage and Ledger (the books of design §1.2, past periods, storage). plan.tsx has the tab Plan. */
import { plansFor, type Plan } from "../../d1/plans.ts";
import { canManage } from "../../domain/keys/role.ts";
import { DAY_MS, utcDay } from "../../domain/duration.ts";
import type { Balance } from "../../domain/quota/balance.ts";
import type { OveragePrice } from "../../domain/quota/billing.ts";
import { expectedUsage, paceOf, whenReached, type Pace } from "../../domain/quota/forecast.ts";
import { ordinalsTaken, quotaBounds, quotaCeiling, VERDICTS, type VerdictCounts } from "../../domain/quota/quota.ts";
import { usageCurve, verdictsPerDay, type CurvePoint, type UsageDay } from "../../domain/quota/usage-day.ts";
import { DUPLICATE_WINDOW_WITH_ID_MS } from "../../limits.ts";
import type { ClosedPeriod, Usage } from "../../quota/protocol.ts";
import { usageByDayOf, usageOf } from "../../use-cases/configure-workspace.ts";
import { readBooks, readStorageHealth, type Room } from "../../use-cases/read-health.ts";
import { VERDICT_LABELS, verdictSentence } from "../copy.ts";
import { DayBars, TimeChart, type Point, type Reference, type Series } from "../kit/charts.tsx";
import { ago, counted, day, grouped, theLast } from "../kit/format.ts";
import { Badge, type Column, Count, Empty, ValueList, Meter, Panel, Stat, Stats, Table } from "../kit/parts.tsx";
import { page } from "../page.tsx";
import { keyText, readKeyNames } from "../keys/key-parts.tsx";
import { sectionPath } from "../kit/layout.tsx";
import { type Ctx, keyPath, pages, storeOf, workspacePath } from "../pages-env.ts";
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
        <Stat label="Rejected" value={usage.rejected} note="with a 429" />
        <Stat
          label="Left until rejections"
          value={ceiling === null ? "Unlimited" : Math.max(0, ceiling - used)}
          note={ceiling === null ? "overages are on" : limit}
        />
      </Stats>,
      <PeriodPanel base={base} usage={usage} days={days} pace={pace} plan={plan} nowMs={nowMs} />,
      <DaysPanel usage={usage} days={days} nowMs={nowMs} />,
      await keysPanel(c, usage),
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
  return `${value > 0 && value < 10 ? value.toFixed(1) : grouped(Math.floor(value))}%`;
}

function PeriodPanel({ base, usage, days, pace, plan, nowMs }: PeriodProps) {
  const { periodStartMs, periodEndMs, signalLimit } = usage;
  const used = ordinalsTaken(usage);
  const ceiling = quotaCeiling(usage);
  const curve = usageCurve(days, periodStartMs, { ...usage, nowMs });
  const forecast = forecastText(usage, pace, plan?.overagePrice ?? null, { nowMs, curve });
  const lines = curves(curve, pace, periodEndMs, ceiling);
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
        series={lines}
        references={references}
        fromMs={periodStartMs}
        toMs={periodEndMs}
      />
      <ul class="legend">
        <li>Used</li>
        {lines.length > 1 && <li class="dashed">Forecast</li>}
      </ul>
    </Panel>
  );
}

/** The bar ends at twice the limit, or without extra room at the limit: beyond the limit it is amber, at its end red. */
export function UsageMeter({ usage, nowMs }: { usage: Usage; nowMs: number }) {
  const { signalLimit, periodEndMs, overages } = usage;
  const used = ordinalsTaken(usage);
  const end = quotaBounds(usage).hold;
  const text = `${grouped(used)} of ${counted(signalLimit, "signal")} used`;
  const beyond = !overages && used >= end ? "bad" : "warn";
  return (
    <>
      <div>
        <Meter share={used / end} mark={signalLimit / end} label={text} beyond={beyond} />
        {end > signalLimit && (
          <div class="meter-scale" aria-hidden="true">
            <span>Limit {grouped(signalLimit)}</span>
            <span>Twice the limit {grouped(end)}</span>
          </div>
        )}
      </div>
      <p class="quiet">
        {text}. The period ends on {day(periodEndMs)}, {ago(periodEndMs, nowMs)}.
      </p>
    </>
  );
}

/** A forecast from fewer full days may be far too high, and would flatten the measured curve. */
const FORECAST_DRAWN_DAYS = 3;

/** Without overages the forecast is flat from the ceiling on, because further signals are rejected. */
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

interface Until {
  nowMs: number;
  /** What was used, in order of time. */
  curve: readonly CurvePoint[];
}

export function forecastText(
  usage: Usage,
  pace: Pace | null,
  price: OveragePrice | null,
  { nowMs, curve }: Until,
): string {
  if (pace === null) return "No forecast yet: it needs an hour of signals.";
  const { signalLimit, periodEndMs, overages, extraRoomRemoved } = usage;
  const now = { nowMs, periodEndMs, used: ordinalsTaken(usage) };
  const basis = pace.fullDays === 0 ? "a rough estimate" : `average of ${theLast(pace.fullDays, "full day")}`;
  const perDay = `At ${counted(Math.round(pace.perDay), "signal")} a day (${basis})`;
  const total = expectedUsage(pace.perDay, now);
  if (overages && total > signalLimit) {
    const beyond = total - signalLimit;
    return `${perDay}, you reach about ${grouped(total)} by ${day(periodEndMs)}: ${counted(beyond, "overage")}${costText(beyond, price)}.`;
  }
  const { hold } = quotaBounds(usage);
  const limitAt = whenReached(signalLimit, pace.perDay, now);
  const hasRoom = limitAt !== null && !overages && !extraRoomRemoved;
  const twiceAt = hasRoom ? whenReached(hold, pace.perDay, now) : null;
  const dayOfPassing = (target: number): string => {
    const passed = curve.find((point) => ordinalsTaken(point) >= target);
    // A point is at the end of its day.
    return passed === undefined ? "" : ` on ${day(passed.atMs - 1)}`;
  };
  // The limit may have been higher on that day.
  const passed =
    limitAt === "reached"
      ? `You reached ${counted(signalLimit, "signal")} (the limit)${dayOfPassing(signalLimit)}`
      : "";
  if (twiceAt === "reached") return `${passed}, and twice as many${dayOfPassing(hold)}.`;
  const twice =
    twiceAt === null ? "stay below twice the limit in this period" : `reach twice the limit on ${day(twiceAt)}`;
  if (passed !== "") return hasRoom ? `${passed}. ${perDay}, you ${twice}.` : `${passed}.`;
  if (typeof limitAt !== "number") return `${perDay}, you stay below the limit in this period.`;
  return `${perDay}, you reach the limit on ${day(limitAt)}${hasRoom ? `, and ${twice}` : ""}.`;
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

const KEYS_SHOWN = 100;

/** Signals by key, most first. Only for owners and admins, who may see keys (spec §1). */
async function keysPanel(c: Ctx, usage: Usage) {
  if (!canManage(c.get("role"))) return <></>;
  const found = Object.entries(await storeOf(c).keyUsage(usage.periodStartMs));
  const sent = found.filter(([, { signals }]) => signals > 0).toSorted(([, a], [, b]) => b.signals - a.signals);
  const shown = sent.slice(0, KEYS_SHOWN);
  const [names, base] = [
    await readKeyNames(
      c,
      shown.map(([keyId]) => keyId),
    ),
    workspacePath(c),
  ];
  const inFlight = ordinalsTaken(usage) - sent.reduce((sum, [, { signals }]) => sum + signals, 0);
  return (
    <Panel title="Signals by key, this period" actions={<a href={sectionPath(c, "keys")}>View all keys</a>} list>
      <Table
        caption="Signals by key"
        rows={shown}
        href={([keyId]) => keyPath(base, keyId)}
        empty={<Empty title="No signals yet" text="Each key that sends in this period appears here." />}
        columns={[
          { head: "Key", cell: ([keyId]) => keyText(names.get(keyId), keyId) },
          { head: "Signals", kind: "number", cell: ([, { signals }]) => <Count value={signals} /> },
          { head: "Today (UTC)", kind: "number", cell: ([, { days }]) => <Count value={days.at(-1) ?? 0} /> },
        ]}
      />
      {inFlight > 0 && (
        <p class="quiet">{counted(inFlight, "more signal is", "more signals are")} on the way to the store.</p>
      )}
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
  purged: {
    name: "Purged",
    meaning:
      "Deleted with their person while held or a dead letter, still held when their period ended, or kept for 90 days without a template that fits",
    path: "signals/all?status=purged",
  },
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
      <ValueList
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

/** The Usage page's curve of the period: the chart, what it means in words, and its numbers. */
import { expected, reaches, type Pace } from "../../domain/quota/forecast.ts";
import { ordinalsTaken, quotaBounds, quotaCeiling } from "../../domain/quota/quota.ts";
import type { CurvePoint } from "../../domain/quota/usage-day.ts";
import type { OveragePrice } from "../../domain/quota/billing.ts";
import type { Usage } from "../../quota/protocol.ts";
import { thatCost } from "../views/usage-copy.ts";
import { counted, day, grouped } from "../kit/format.ts";
import { Panel } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";
import { UsageChart } from "./usage-chart.tsx";

export interface CurveData {
  usage: Usage;
  curve: readonly CurvePoint[];
  pace: Pace | null;
  /** What overages cost on the workspace's plan; null: no price is configured. */
  price: OveragePrice | null;
  nowMs: number;
}

export function UsageCurvePanel({ data: { usage, curve, pace, price, nowMs } }: { data: CurveData }) {
  const used = ordinalsTaken(usage);
  const ceiling = quotaCeiling(usage);
  const said = forecastSaid(usage, pace, price, nowMs);
  const label = `${counted(used, "signal")} since ${day(usage.periodStartMs)}, against a limit of ${grouped(usage.signalLimit)}. ${said}`;
  return (
    <Panel title="This period">
      <div class="chart-scroll" role="region" aria-label="The period's curve" tabindex={0}>
        <UsageChart
          label={label}
          curve={curve}
          periodStartMs={usage.periodStartMs}
          periodEndMs={usage.periodEndMs}
          signalLimit={usage.signalLimit}
          ceiling={ceiling}
          pace={pace}
        />
      </div>
      <ul class="chart-keys">
        <Key name="accepted">Accepted</Key>
        {usage.accepted > usage.signalLimit && <Key name="overage">Accepted beyond the limit (overages)</Key>}
        {usage.held > 0 && <Key name="held">Held</Key>}
        {usage.rejected > 0 && <Key name="refused">Refused that day</Key>}
        {pace !== null && <Key name="forecast">Forecast</Key>}
      </ul>
      <p>{said}</p>
      <details>
        <summary class="small">The numbers, day by day</summary>
        <Table
          caption="Usage by day"
          head={[
            "Until the end of",
            { text: "Accepted", number: true },
            { text: "Held", number: true },
            { text: "Refused", number: true },
          ]}
        >
          {curve.slice(1).map(({ atMs, accepted, held, rejected }, index, points) => (
            <tr>
              <th scope="row" class="nowrap">
                {index === points.length - 1 ? "now" : day(atMs - 1)}
              </th>
              <td class="number">{grouped(accepted)}</td>
              <td class="number">{grouped(held)}</td>
              <td class="number">{grouped(rejected)}</td>
            </tr>
          ))}
        </Table>
      </details>
    </Panel>
  );
}

function Key({ name, children }: { name: string; children: string }) {
  return (
    <li>
      <span class={`key ${name}`} aria-hidden="true" />
      {children}
    </li>
  );
}

/** When the limit and twice the limit are reached, and what that is reckoned from. */
function forecastSaid(usage: Usage, pace: Pace | null, price: OveragePrice | null, nowMs: number): string {
  if (pace === null) return "There is no forecast yet: it needs at least an hour of signals.";
  const now = { nowMs, periodEndMs: usage.periodEndMs, used: ordinalsTaken(usage) };
  const from =
    pace.fullDays === 0
      ? "roughly, since no full day has been counted yet"
      : `the mean of the last ${pace.fullDays === 1 ? "full day" : `${pace.fullDays} full days`}`;
  const perDay = `At ${counted(Math.round(pace.perDay), "signal")} a day (${from})`;
  const when = (target: number, name: string) => {
    const at = reaches(target, pace.perDay, now);
    if (at === "reached") return `${name} is reached`;
    return at === null ? `${name} will not be reached in this period` : `${name} will be reached on ${day(at)}`;
  };
  const limit = when(usage.signalLimit, "the limit");
  if (usage.overages) {
    const total = expected(pace.perDay, now);
    const overages = total - usage.signalLimit;
    if (overages <= 0) return `${perDay}, ${limit}.`;
    return `${perDay}, about ${grouped(total)} by ${day(usage.periodEndMs)}, ${grouped(overages)} of them overages${thatCost(overages, price)}.`;
  }
  // Without extra room all signals beyond the limit are refused: twice the limit is never reached.
  const twice = usage.extraRoomRemoved ? null : when(quotaBounds(usage).hold, "twice the limit");
  if (twice === null || limit.includes("not")) return `${perDay}, ${limit}.`;
  return `${perDay}, ${limit}, and ${twice}.`;
}

/** What came with a key, day by day: accepted and refused calls, as a chart and as a table. */
import { scaleLinear } from "d3-scale";
import { DAY_MS } from "../../domain/duration.ts";
import { dayOf } from "../../domain/quota/day-counts.ts";
import { DAYS_COUNTED } from "../../limits.ts";
import type { KeyCalls } from "../../quota/protocol.ts";
import { compact, counted, day, grouped } from "../kit/format.ts";
import { Panel } from "../views/parts.tsx";
import { Table } from "../views/table.tsx";

/** The chart is narrow, so that its words can be read on a phone. */
const WIDTH = 480;
const HEIGHT = 130;
const MARGIN = { top: 10, right: 4, bottom: 24, left: 44 };

interface Day {
  atMs: number;
  accepted: number;
  refused: number;
}

export function KeyCallsPanel({ calls, nowMs }: { calls: KeyCalls; nowMs: number }) {
  const days = daysOf(calls, nowMs);
  const sum = (what: "accepted" | "refused") => days.reduce((total, one) => total + one[what], 0);
  const said = `${counted(sum("accepted"), "call")} accepted and ${grouped(sum("refused"))} refused in ${DAYS_COUNTED} days`;
  if (sum("accepted") + sum("refused") === 0) {
    return (
      <Panel title="Calls">
        <p class="quiet">None in the last {DAYS_COUNTED} days.</p>
      </Panel>
    );
  }
  return (
    <Panel title="Calls">
      <p>{said}.</p>
      <Bars days={days} label={`${said}. Most on one day: ${grouped(Math.max(...days.map(heightOf)))}.`} />
      <ul class="chart-keys">
        <li>
          <span class="key calls-accepted" aria-hidden="true" />
          Accepted
        </li>
        <li>
          <span class="key calls-refused" aria-hidden="true" />
          Refused, as a whole or in part: a call that was accepted in part is both
        </li>
      </ul>
      <details>
        <summary class="small">The numbers, day by day (UTC)</summary>
        <Table
          caption="Calls by day"
          head={["Day", { text: "Accepted", number: true }, { text: "Refused", number: true }]}
        >
          {days.toReversed().map((one) => (
            <tr>
              <th scope="row" class="nowrap">
                {day(one.atMs)}
              </th>
              <td class="number">{grouped(one.accepted)}</td>
              <td class="number">{grouped(one.refused)}</td>
            </tr>
          ))}
        </Table>
      </details>
    </Panel>
  );
}

/** The latest days, the oldest first. */
function daysOf({ days }: KeyCalls, nowMs: number): Day[] {
  const first = dayOf(nowMs) - DAYS_COUNTED + 1;
  return Array.from({ length: DAYS_COUNTED }, (_, index) => ({
    atMs: (first + index) * DAY_MS,
    ...(days[first + index] ?? { accepted: 0, refused: 0 }),
  }));
}

function heightOf({ accepted, refused }: Day): number {
  return accepted + refused;
}

function Bars({ days, label }: { days: readonly Day[]; label: string }) {
  const x = scaleLinear([0, days.length], [MARGIN.left, WIDTH - MARGIN.right]);
  const y = scaleLinear([0, Math.max(1, ...days.map(heightOf))], [HEIGHT - MARGIN.bottom, MARGIN.top]).nice(3);
  const width = x(1) - x(0) - 2;
  const ticks = y.ticks(3).filter((tick) => Number.isInteger(tick));
  // Three bars have their day below: the first, the last, and the one in the middle.
  const named = [
    { index: 0, anchor: "start" },
    { index: Math.floor(days.length / 2), anchor: "middle" },
    { index: days.length - 1, anchor: "end" },
  ] as const;
  return (
    <svg class="chart calls-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      {ticks.map((tick) => (
        <g>
          <line class="grid" x1={MARGIN.left} x2={WIDTH - MARGIN.right} y1={y(tick)} y2={y(tick)} />
          <text x={MARGIN.left - 8} y={y(tick) + 4} text-anchor="end">
            {compact(tick)}
          </text>
        </g>
      ))}
      {days.map(({ atMs, accepted, refused }, index) => {
        const total = accepted + refused;
        if (total === 0) return <></>;
        return (
          <g>
            <title>{`${day(atMs)}: ${grouped(accepted)} accepted, ${grouped(refused)} refused`}</title>
            <rect class="accepted" x={x(index)} y={y(accepted)} width={width} height={y(0) - y(accepted)} />
            <rect class="refused" x={x(index)} y={y(total)} width={width} height={y(accepted) - y(total)} />
          </g>
        );
      })}
      {named.map(({ index, anchor }) => (
        <text x={x(anchor === "end" ? index + 1 : index)} y={HEIGHT - 6} text-anchor={anchor}>
          {day(days[index]?.atMs ?? 0).replace(/, \d{4}$/, "")}
        </text>
      ))}
    </svg>
  );
}

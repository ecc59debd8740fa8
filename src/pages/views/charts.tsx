/** Charts, drawn on the server: scales and shapes by d3, a text alternative with each. No styles inline (the CSP). */
import { scaleLinear, scaleUtc, type ScaleLinear, type ScaleTime } from "d3-scale";
import { area, line } from "d3-shape";
import type { Child } from "hono/jsx";
import { DAY_MS } from "../../domain/duration.ts";
import { compact, day, timeOfDay } from "./format.ts";

const WIDTH = 720;
const HEIGHT = 240;
/** More names of days would meet on a phone. */
const NAMED_TIMES_MAX = 6;
const MARGIN = { top: 12, right: 16, bottom: 26, left: 48 };

interface Point {
  atMs: number;
  value: number;
}

interface Series {
  points: readonly Point[];
  /** `dashed`: a forecast. */
  kind: "line" | "area" | "dashed";
}

interface Reference {
  value: number;
  label: string;
  tone?: "bad";
}

/** Values over time, with horizontal lines to compare with. `label` says in words what is to be seen. */
export function TimeChart({
  label,
  caption,
  series,
  references = [],
  fromMs,
  toMs,
}: {
  label: string;
  caption?: Child;
  series: readonly Series[];
  references?: readonly Reference[];
  fromMs: number;
  toMs: number;
}) {
  const values = series.flatMap(({ points }) => points.map(({ value }) => value));
  const top = Math.max(1, ...values, ...references.map(({ value }) => value));
  const x = scaleUtc([fromMs, toMs], [MARGIN.left, WIDTH - MARGIN.right]);
  const y = scaleLinear([Math.min(0, ...values), top], [HEIGHT - MARGIN.bottom, MARGIN.top]).nice(4);
  const drawLine = line<Point>(
    (point) => x(point.atMs),
    (point) => y(point.value),
  );
  const drawArea = area<Point>(
    (point) => x(point.atMs),
    y(0),
    (point) => y(point.value),
  );
  return (
    <figure>
      <svg class="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
        <Axes x={x} y={y} height={HEIGHT} time={toMs - fromMs < 2 * DAY_MS ? timeOfDay : dayOfYear} />
        {series.map(({ points, kind }) =>
          kind === "area" ? (
            <>
              <path class="area" d={drawArea([...points]) ?? ""} />
              <path class="line" d={drawLine([...points]) ?? ""} />
            </>
          ) : (
            <path class={kind} d={drawLine([...points]) ?? ""} />
          ),
        )}
        {references.map(({ value, label: name, tone }) => (
          <g>
            <line
              class={`reference ${tone ?? ""}`}
              x1={MARGIN.left}
              x2={WIDTH - MARGIN.right}
              y1={y(value)}
              y2={y(value)}
            />
            <text x={WIDTH - MARGIN.right} y={y(value) - 5} text-anchor="end">
              {name}
            </text>
          </g>
        ))}
      </svg>
      {caption !== undefined && <figcaption>{caption}</figcaption>}
    </figure>
  );
}

/** A few values, small, in a line of text or a table. `label` says them in words. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const x = scaleLinear([0, Math.max(1, values.length)], [0, 104]);
  const y = scaleLinear([0, Math.max(1, ...values)], [0, 26]);
  const width = Math.max(1, x(1) - 1);
  return (
    <svg class="chart sparkline" viewBox="0 0 104 28" role="img" aria-label={label}>
      {values.map((value, index) => {
        const height = value === 0 ? 1 : Math.max(2, y(value));
        return <rect class={value === 0 ? "grid" : "bar"} x={x(index)} y={28 - height} width={width} height={height} />;
      })}
    </svg>
  );
}

/** Axes of a chart: lines across at round values, and times below. */
export function Axes({
  x,
  y,
  height,
  time: text = dayOfYear,
}: {
  x: ScaleTime<number, number>;
  y: ScaleLinear<number, number>;
  height: number;
  time?: (ms: number) => string;
}) {
  const [left = 0, right = 0] = x.range();
  return (
    <>
      {y.ticks(4).map((tick) => (
        <g>
          <line class="grid" x1={left} x2={right} y1={y(tick)} y2={y(tick)} />
          <text x={left - 8} y={y(tick) + 4} text-anchor="end">
            {compact(tick)}
          </text>
        </g>
      ))}
      {namedTimes(x).map((tick) => (
        <text x={x(tick)} y={height - 6} text-anchor="middle">
          {text(tick.getTime())}
        </text>
      ))}
    </>
  );
}

/** The times that are named below a chart. Asked for five, d3 gives up to ten: more than a phone has room for. */
export function namedTimes(x: ScaleTime<number, number>): Date[] {
  const ticks = x.ticks(5);
  const step = Math.ceil(ticks.length / NAMED_TIMES_MAX);
  return ticks.filter((_, index) => index % step === 0);
}

function dayOfYear(ms: number): string {
  return day(ms).replace(/, \d{4}$/, "");
}

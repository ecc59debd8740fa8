/** Charts, drawn on the server: scales and shapes by d3, a text alternative with each. No styles inline (the CSP). */
import { scaleLinear, scaleUtc, type ScaleLinear, type ScaleTime } from "d3-scale";
import { area, line } from "d3-shape";
import type { Child } from "hono/jsx";
import { DAY_MS } from "../../domain/duration.ts";
import { compact, day, timeOfDay } from "../kit/format.ts";

const WIDTH = 720;
const HEIGHT = 240;
/** The largest font size of a chart with axes, in units of its view box: a person's chart on a phone (style/records.css). */
const FONT_SIZE = 22;
/** Upper bound of a character's mean width in the system fonts, as a share of the font size. Digits of DejaVu Sans have 0.64. */
const CHARACTER_WIDTH = 0.66;
/** The least space between two labels, and between the vertical axis and its labels. */
const LABEL_GAP = 8;
const YEAR_MS = 365 * DAY_MS;
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
        <Axes x={x} y={y} height={HEIGHT} />
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
}: {
  x: ScaleTime<number, number>;
  y: ScaleLinear<number, number>;
  height: number;
}) {
  const [left = 0, right = 0] = x.range();
  return (
    <>
      {y.ticks(4).map((tick) => (
        <g>
          <line class="grid" x1={left} x2={right} y1={y(tick)} y2={y(tick)} />
          <text x={left - LABEL_GAP} y={y(tick) + 4} text-anchor="end">
            {compact(tick)}
          </text>
        </g>
      ))}
      {timeLabels(x).map(({ center, text }) => (
        <text x={center} y={height - 6} text-anchor="middle">
          {text}
        </text>
      ))}
    </>
  );
}

interface TimeLabel {
  text: string;
  /** Where the text is, in units of the view box. Its width is an estimate. */
  start: number;
  center: number;
  end: number;
}

/**
 * The labels below a chart. None touches the labels of the vertical axis, the chart's right edge or another label. The server
 * does not know the browser's font, so it estimates widths. Where the labels of all ticks are too wide, every second tick
 * has one, or every third: even intervals are easier to read than as many labels as possible.
 */
export function timeLabels(x: ScaleTime<number, number>): TimeLabel[] {
  const [left = 0, right = 0] = x.range();
  const [from = 0, to = 0] = x.domain().map(Number);
  const format = timeFormat(to - from);
  const labels = x
    .ticks(5)
    .map((tick) => labelAt(x(tick), format(tick.getTime())))
    .filter(({ start, end }) => start >= left && end <= right + LABEL_GAP)
    // Two ticks on one day would have the same label.
    .filter(({ text }, index, all) => text !== all[index - 1]?.text);
  for (let step = 1; ; step++) {
    const chosen = labels.filter((_, index) => index % step === 0);
    if (chosen.every(({ end }, index) => end + LABEL_GAP <= (chosen[index + 1]?.start ?? Infinity))) return chosen;
  }
}

function labelAt(center: number, text: string): TimeLabel {
  const half = (text.length * CHARACTER_WIDTH * FONT_SIZE) / 2;
  return { text, start: center - half, center, end: center + half };
}

/** How to write times on an axis of this span. From a year on, d3 places labels on the first day of a month only. */
function timeFormat(spanMs: number): (ms: number) => string {
  if (spanMs < 2 * DAY_MS) return timeOfDay;
  return spanMs < YEAR_MS ? (ms) => day(ms).replace(/, \d{4}$/, "") : (ms) => day(ms).replace(/ \d+,/, "");
}

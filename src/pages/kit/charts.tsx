/**
 * Charts, drawn on the server: scales and shapes by d3, a text alternative with each. The content security policy forbids
 * inline styles. Each chart is drawn for three widths, and the style sheet shows the one that fits, so that its text keeps
 * its size.
 */
import { scaleLinear, scaleUtc, type ScaleLinear, type ScaleTime } from "d3-scale";
import { area, line } from "d3-shape";
import type { Child } from "hono/jsx";
import { DAY_MS } from "../../domain/duration.ts";
import { compact, day, grouped, timeOfDay } from "./format.ts";

/** Widths in units of the view box: about the pixels that a chart has. */
const WIDTHS = { small: 340, medium: 620, large: 1_080 } as const;
const HEIGHT = 200;
const MARGIN = { top: 10, right: 4, bottom: 24, left: 40 };
const FONT_SIZE = 12;
/** Upper bound of a character's mean width in the system fonts, as a share of the font size. Digits of DejaVu Sans have 0.64. */
const CHARACTER_WIDTH = 0.66;
/** Least space between two labels, and between the vertical axis and its labels. */
const LABEL_GAP = 8;
const YEAR_MS = 365 * DAY_MS;

type TimeScale = ScaleTime<number, number>;
type ValueScale = ScaleLinear<number, number>;

interface ChartProps {
  /** Says in words what the chart shows. */
  label: string;
  caption?: Child;
}

/** Draws a chart for each width. */
function Drawn({ label, caption, draw }: ChartProps & { draw: (width: number) => Child }) {
  return (
    <figure>
      {Object.entries(WIDTHS).map(([name, width]) => (
        <svg class={`chart ${name}`} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={label}>
          {draw(width)}
        </svg>
      ))}
      {caption !== undefined && <figcaption>{caption}</figcaption>}
    </figure>
  );
}

export interface Point {
  atMs: number;
  value: number;
}

export interface Series {
  points: readonly Point[];
  /** `dashed`: a forecast. */
  kind: "area" | "dashed";
}

export interface Reference {
  value: number;
  label: string;
  tone?: "bad";
}

/** Values over time, with horizontal lines to compare with. The data decide the height: a line above it is left out. */
export function TimeChart({
  series,
  references = [],
  fromMs,
  toMs,
  ...chart
}: ChartProps & { series: readonly Series[]; references?: readonly Reference[]; fromMs: number; toMs: number }) {
  const values = series.flatMap(({ points }) => points.map(({ value }) => value));
  const most = Math.max(1, ...values);
  const near = references.filter(({ value }) => value <= 1.5 * most);
  const domain = [Math.min(0, ...values), Math.max(most, ...near.map(({ value }) => value))];
  return (
    <Drawn
      {...chart}
      draw={(width) => {
        const x = scaleUtc([fromMs, toMs], [MARGIN.left, width - MARGIN.right]);
        const y = scaleLinear(domain, [HEIGHT - MARGIN.bottom, MARGIN.top]).nice(4);
        return (
          <>
            <ValueAxis y={y} width={width} />
            {timeLabels(x).map(({ center, text }) => (
              <text x={center} y={HEIGHT - 6} text-anchor="middle">
                {text}
              </text>
            ))}
            {series.map((part) => (
              <Line {...part} x={x} y={y} />
            ))}
            {near.map(({ value, label, tone }) => (
              <g class={tone}>
                <line class="reference" x1={MARGIN.left} x2={width - MARGIN.right} y1={y(value)} y2={y(value)} />
                <text x={width - MARGIN.right} y={y(value) - 5} text-anchor="end">
                  {label}
                </text>
              </g>
            ))}
          </>
        );
      }}
    />
  );
}

function Line({ points, kind, x, y }: Series & { x: TimeScale; y: ValueScale }) {
  const at = (point: Point): number => x(point.atMs);
  const height = (point: Point): number => y(point.value);
  const path = line<Point>(at, height)([...points]) ?? "";
  if (kind === "dashed") return <path class="dashed" d={path} />;
  return (
    <>
      <path class="area" d={area<Point>(at, y(0), height)([...points]) ?? ""} />
      <path class="line" d={path} />
    </>
  );
}

export interface DayBar {
  /** The day's first moment, in UTC. */
  atMs: number;
  accepted: number;
  held: number;
  refused: number;
}

const BAR_PARTS = ["accepted", "held", "refused"] as const;
const PART_TONE = { accepted: "", held: "warn", refused: "bad" } as const;

/** A bar for each day: accepted, held and refused on top of each other. @param props.unit such as `signal`. */
export function DayBars({ days, ...chart }: ChartProps & { days: readonly DayBar[] }) {
  const most = Math.max(1, ...days.map((bar) => bar.accepted + bar.held + bar.refused));
  return (
    <Drawn
      {...chart}
      draw={(width) => {
        const x = scaleLinear([0, days.length], [MARGIN.left, width - MARGIN.right]);
        const y = scaleLinear([0, most], [HEIGHT - MARGIN.bottom, MARGIN.top]).nice(4);
        const barWidth = Math.min(48, (x(1) - x(0)) * 0.72);
        const center = (index: number): number => x(index + 0.5);
        return (
          <>
            <ValueAxis y={y} width={width} />
            {days.map((bar, index) => {
              let below = 0;
              return (
                <g>
                  <title>
                    {`${day(bar.atMs)}: ${BAR_PARTS.map((part) => `${grouped(bar[part])} ${part}`).join(", ")}`}
                  </title>
                  {BAR_PARTS.map((part) => {
                    const [from, to] = [below, below + bar[part]];
                    below = to;
                    const left = center(index) - barWidth / 2;
                    return to === from ? (
                      <></>
                    ) : (
                      <rect
                        class={`bar ${PART_TONE[part]}`}
                        x={left}
                        y={y(to)}
                        width={barWidth}
                        height={Math.max(1, y(from) - y(to))}
                      />
                    );
                  })}
                </g>
              );
            })}
            {spaced(
              within(
                x,
                days.map(({ atMs }, index) => labelAt(center(index), shortDay(atMs))),
              ),
            ).map((label) => (
              <text x={label.center} y={HEIGHT - 6} text-anchor="middle">
                {label.text}
              </text>
            ))}
          </>
        );
      }}
    />
  );
}

export function BarLegend({ parts }: { parts: readonly (readonly [tone: string, text: string])[] }) {
  return (
    <ul class="legend">
      {parts.map(([tone, text]) => (
        <li class={tone}>{text}</li>
      ))}
    </ul>
  );
}

/** A few values, small, in a table. @param props.label says them in words. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const x = scaleLinear([0, Math.max(1, values.length)], [0, 88]);
  const y = scaleLinear([0, Math.max(1, ...values)], [0, 20]);
  const width = Math.max(1, x(1) - 1.5);
  return (
    <svg class="chart sparkline" viewBox="0 0 88 22" role="img" aria-label={label}>
      {values.map((value, index) => {
        const height = value === 0 ? 1 : Math.max(2, y(value));
        return <rect class={value === 0 ? "grid" : "bar"} x={x(index)} y={22 - height} width={width} height={height} />;
      })}
    </svg>
  );
}

/** Lines across at round values, with their labels. Counts are whole numbers. */
function ValueAxis({ y, width }: { y: ValueScale; width: number }) {
  return (
    <>
      {y
        .ticks(4)
        .filter((tick) => Number.isInteger(tick))
        .map((tick) => (
          <g>
            <line class="grid" x1={MARGIN.left} x2={width - MARGIN.right} y1={y(tick)} y2={y(tick)} />
            <text x={MARGIN.left - LABEL_GAP} y={y(tick) + 4} text-anchor="end">
              {compact(tick)}
            </text>
          </g>
        ))}
    </>
  );
}

interface TimeLabel {
  text: string;
  /** Position of the text, in units of the view box. Its width is an estimate. */
  start: number;
  center: number;
  end: number;
}

/** Labels of a time axis. None touches the labels of the vertical axis, the right edge or another label. */
export function timeLabels(x: TimeScale): TimeLabel[] {
  const [from = 0, to = 0] = x.domain().map(Number);
  const format = timeFormat(to - from);
  return spaced(
    within(
      x,
      x.ticks(6).map((tick) => labelAt(x(tick), format(tick.getTime()))),
    )
      // Two ticks on one day would have the same label.
      .filter(({ text }, index, all) => text !== all[index - 1]?.text),
  );
}

/** The labels that touch neither the labels of the vertical axis nor the right edge. */
function within(x: TimeScale | ValueScale, labels: readonly TimeLabel[]): TimeLabel[] {
  const [left = 0, right = 0] = x.range();
  return labels.filter(({ start, end }) => start >= left && end <= right + LABEL_GAP);
}

/** Every label where all have room, else every second one, or every third: even intervals are easy to read. */
function spaced(labels: readonly TimeLabel[]): TimeLabel[] {
  for (let step = 1; ; step++) {
    const chosen = labels.filter((_, index) => index % step === 0);
    if (chosen.every(({ end }, index) => end + LABEL_GAP <= (chosen[index + 1]?.start ?? Infinity))) return chosen;
  }
}

/** The server does not know the browser's font, so the width is an estimate. */
function labelAt(center: number, text: string): TimeLabel {
  const half = (text.length * CHARACTER_WIDTH * FONT_SIZE) / 2;
  return { text, start: center - half, center, end: center + half };
}

function shortDay(ms: number): string {
  return day(ms).replace(/, \d{4}$/, "");
}

/** From a year on, d3 places ticks on the first day of a month only. */
function timeFormat(spanMs: number): (ms: number) => string {
  if (spanMs < 2 * DAY_MS) return timeOfDay;
  return spanMs < YEAR_MS ? shortDay : (ms) => day(ms).replace(/ \d+,/, "");
}

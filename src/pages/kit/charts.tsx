/**
 * Charts, drawn on the server: scales and shapes by d3, a text alternative with each. The content security policy forbids
 * inline styles. Each chart is drawn for three widths, and the style sheet shows the one that fits, so that its text keeps
 * its size.
 */
import { scaleLinear, scaleUtc, type ScaleLinear, type ScaleTime } from "d3-scale";
import { area, line } from "d3-shape";
import type { Child } from "hono/jsx";
import { DAY_MS } from "../../domain/duration.ts";
import { VERDICT_DISPLAY, VERDICTS, verdictWords, type Verdict, type VerdictCounts } from "../../domain/quota/quota.ts";
import { compact, day, timeOfDay } from "./format.ts";

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
  label: string;
  caption?: Child;
}

interface ChartFrameProps extends ChartProps {
  values: readonly [number, number];
  draw: (y: ValueScale, width: number) => Child;
}

/** Draws a chart for each width, with lines across at round values. Counts are whole numbers. */
function ChartFrame({ label, caption, values, draw }: ChartFrameProps) {
  const y = scaleLinear(values, [HEIGHT - MARGIN.bottom, MARGIN.top]).nice(4);
  const ticks = y.ticks(4).filter((tick) => Number.isInteger(tick));
  const svg = (name: string, width: number) => (
    <svg class={`chart ${name}`} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={label}>
      {ticks.map((tick) => (
        <g>
          <line class="grid" x1={MARGIN.left} x2={width - MARGIN.right} y1={y(tick)} y2={y(tick)} />
          <text x={MARGIN.left - LABEL_GAP} y={y(tick) + 4} text-anchor="end">
            {compact(tick)}
          </text>
        </g>
      ))}
      {draw(y, width)}
    </svg>
  );
  return (
    <figure>
      {Object.entries(WIDTHS).map(([name, width]) => svg(name, width))}
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
  kind: "area" | "dashed";
}

export interface Reference {
  value: number;
  label: string;
  tone?: "bad";
}

interface TimeChartProps extends ChartProps {
  series: readonly Series[];
  references?: readonly Reference[];
  fromMs: number;
  toMs: number;
}

/** Values over time. The data decide the height: a reference far above them is left out. */
export function TimeChart({ series, references = [], fromMs, toMs, ...chart }: TimeChartProps) {
  const values = series.flatMap(({ points }) => points.map(({ value }) => value));
  const most = Math.max(1, ...values);
  const near = references.filter(({ value }) => value <= 1.5 * most);
  const draw = (y: ValueScale, width: number) => {
    const x = scaleUtc([fromMs, toMs], [MARGIN.left, width - MARGIN.right]);
    return (
      <>
        <Labels labels={timeLabels(x)} />
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
  };
  const range = [Math.min(0, ...values), Math.max(most, ...near.map(({ value }) => value))] as const;
  return <ChartFrame {...chart} values={range} draw={draw} />;
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

export interface DayBar extends VerdictCounts {
  atMs: number;
}

interface DayBarsProps extends ChartProps {
  days: readonly DayBar[];
  /** A verdict without a name is not in the legend. */
  legend: Partial<Record<Verdict, string>>;
}

export function DayBars({ days, legend, ...chart }: DayBarsProps) {
  const most = Math.max(1, ...days.map((bar) => VERDICTS.reduce((sum, verdict) => sum + bar[verdict], 0)));
  const draw = (y: ValueScale, width: number) => {
    const x = scaleLinear([0, days.length], [MARGIN.left, width - MARGIN.right]);
    const barWidth = Math.min(48, (x(1) - x(0)) * 0.72);
    const labels = days.map(({ atMs }, index) => labelAt(x(index + 0.5), shortDay(atMs)));
    return (
      <>
        {days.map((bar, index) => (
          <Bar bar={bar} left={x(index + 0.5) - barWidth / 2} width={barWidth} y={y} />
        ))}
        <Labels labels={fitting(x, labels)} />
      </>
    );
  };
  return (
    <>
      <ChartFrame {...chart} values={[0, most]} draw={draw} />
      <ul class="legend">
        {VERDICTS.map(
          (verdict) =>
            legend[verdict] !== undefined && <li class={VERDICT_DISPLAY[verdict].tone}>{legend[verdict]}</li>,
        )}
      </ul>
    </>
  );
}

function Bar({ bar, left, width, y }: { bar: DayBar; left: number; width: number; y: ValueScale }) {
  let below = 0;
  return (
    <g>
      <title>{`${day(bar.atMs)}: ${verdictWords(bar).join(", ")}`}</title>
      {VERDICTS.filter((verdict) => bar[verdict] > 0).map((verdict) => {
        const [from, to] = [y(below), y(below + bar[verdict])];
        below += bar[verdict];
        return (
          <rect
            class={`bar ${VERDICT_DISPLAY[verdict].tone}`}
            x={left}
            y={to}
            width={width}
            height={Math.max(1, from - to)}
          />
        );
      })}
    </g>
  );
}

export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const x = scaleLinear([0, Math.max(1, values.length)], [0, 88]);
  const y = scaleLinear([0, Math.max(1, ...values)], [0, 20]);
  const width = Math.max(1, x(1) - 1.5);
  return (
    <svg class="sparkline" viewBox="0 0 88 22" role="img" aria-label={label}>
      {values.map((value, index) => {
        const height = value === 0 ? 1 : Math.max(2, y(value));
        const look = value === 0 ? "rest" : undefined;
        return <rect class={look} x={x(index)} y={22 - height} width={width} height={height} />;
      })}
    </svg>
  );
}

interface TimeLabel {
  text: string;
  /** Position of the text, in units of the view box. Its width is an estimate. */
  start: number;
  center: number;
  end: number;
}

function Labels({ labels }: { labels: readonly TimeLabel[] }) {
  return (
    <>
      {labels.map(({ center, text }) => (
        <text x={center} y={HEIGHT - 6} text-anchor="middle">
          {text}
        </text>
      ))}
    </>
  );
}

/** Labels of a time axis. None touches the labels of the vertical axis, the right edge or another label. */
export function timeLabels(x: TimeScale): TimeLabel[] {
  const [from = 0, to = 0] = x.domain().map(Number);
  const format = timeFormat(to - from);
  return fitting(
    x,
    x.ticks(6).map((tick) => labelAt(x(tick), format(tick.getTime()))),
  );
}

/** The labels that fit: all where they have room, else every second one, or every third: even intervals are easy to read. */
function fitting(x: TimeScale | ValueScale, labels: readonly TimeLabel[]): TimeLabel[] {
  const [left = 0, right = 0] = x.range();
  const within = labels
    .filter(({ start, end }) => start >= left && end <= right + LABEL_GAP)
    // Two ticks on one day would have the same label.
    .filter(({ text }, index, all) => text !== all[index - 1]?.text);
  for (let step = 1; ; step++) {
    const chosen = within.filter((_, index) => index % step === 0);
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

/**
 * Charts, drawn on the server: scales and shapes by d3, a text alternative with each. The content security policy forbids
 * inline styles. A chart has no view box: one unit is a pixel, so that text keeps its size at every width. Horizontal places
 * are percentages of the plot. A path knows no percentages, so a picture inside the chart stretches it.
 */
import { scaleLinear, scaleUtc, type ScaleLinear, type ScaleTime } from "d3-scale";
import { area, line } from "d3-shape";
import type { Child } from "hono/jsx";
import { DAY_MS } from "../../domain/duration.ts";
import { VERDICTS, verdictWords, type Verdict, type VerdictCounts } from "../../domain/quota/quota.ts";
import { VERDICT_DISPLAY } from "../copy.ts";
import { compact, day, timeOfDay } from "./format.ts";

/**
 * The least width of a plot in pixels, for which the labels of the time axis are chosen: the style sheet shows the labels of
 * one of them. The margins of a plot take 44 pixels of the figure.
 */
const LEAST_WIDTHS = { small: 236, medium: 404, large: 788 } as const;
/** In pixels, as in the style sheet. The lowest part has the labels of the time axis. */
const HEIGHT = 200;
const PLOT = { top: 10, bottom: HEIGHT - 24 };
/** Width of the stretched picture, in its own units. */
const STRETCHED_WIDTH = 1_000;
/** A bar takes this share of its day, and of a wide plot at most 48 pixels. */
const [BAR_SHARE, BAR_MAX_SHARE] = [0.72, 0.046];
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
  draw: (y: ValueScale) => Child;
  /** The labels of the time axis on a plot of this width. */
  labels: (width: number) => readonly TimeLabel[];
}

/** A chart with lines across at round values. Counts are whole numbers. */
function ChartFrame({ label, caption, values, draw, labels }: ChartFrameProps) {
  const y = scaleLinear(values, [PLOT.bottom, PLOT.top]).nice(4);
  const ticks = y.ticks(4).filter((tick) => Number.isInteger(tick));
  return (
    <figure>
      <svg class="chart" role="img" aria-label={label}>
        {ticks.map((tick) => (
          <g>
            <line class="grid" x2="100%" y1={y(tick)} y2={y(tick)} />
            <text x={-LABEL_GAP} y={y(tick) + 4} text-anchor="end">
              {compact(tick)}
            </text>
          </g>
        ))}
        {draw(y)}
        {Object.entries(LEAST_WIDTHS).map(([name, width]) => (
          <g class={name}>
            {labels(width).map(({ center, text }) => (
              <text x={percent(center / width)} y={HEIGHT - 6} text-anchor="middle">
                {text}
              </text>
            ))}
          </g>
        ))}
      </svg>
      {caption !== undefined && <figcaption>{caption}</figcaption>}
    </figure>
  );
}

function percent(share: number): string {
  return `${Number((100 * share).toFixed(2))}%`;
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
  const timeScale = (width: number) => scaleUtc([fromMs, toMs], [0, width]);
  const draw = (y: ValueScale) => (
    <>
      <svg viewBox={`0 0 ${STRETCHED_WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
        {series.map((part) => (
          <Line {...part} x={timeScale(STRETCHED_WIDTH)} y={y} />
        ))}
      </svg>
      {near.map(({ value, label, tone }) => (
        <g class={tone}>
          <line class="reference" x2="100%" y1={y(value)} y2={y(value)} />
          <text x="100%" y={y(value) - 5} text-anchor="end">
            {label}
          </text>
        </g>
      ))}
    </>
  );
  const labels = (width: number) => timeLabels(timeScale(width));
  const range = [Math.min(0, ...values), Math.max(most, ...near.map(({ value }) => value))] as const;
  return <ChartFrame {...chart} values={range} draw={draw} labels={labels} />;
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

/** The least height of the axis, so that a single call is no bar of full height. */
const DAY_BARS_LEAST = 5;

export interface DayBar extends VerdictCounts {
  atMs: number;
}

interface DayBarsProps extends ChartProps {
  days: readonly DayBar[];
  /** A verdict without a name is not in the legend. */
  legend: Partial<Record<Verdict, string>>;
}

export function DayBars({ days, legend, ...chart }: DayBarsProps) {
  const most = Math.max(DAY_BARS_LEAST, ...days.map((bar) => VERDICTS.reduce((sum, verdict) => sum + bar[verdict], 0)));
  const share = Math.min(BAR_SHARE / days.length, BAR_MAX_SHARE);
  const draw = (y: ValueScale) =>
    days.map((bar, index) => <Bar bar={bar} left={(index + 0.5) / days.length - share / 2} share={share} y={y} />);
  const labels = (width: number) => {
    const x = scaleLinear([0, days.length], [0, width]);
    return fitting(
      x,
      days.map(({ atMs }, index) => labelAt(x(index + 0.5), shortDay(atMs))),
    );
  };
  return (
    <>
      <ChartFrame {...chart} values={[0, most]} draw={draw} labels={labels} />
      {Object.keys(legend).length > 0 && (
        <ul class="legend">
          {VERDICTS.map(
            (verdict) =>
              legend[verdict] !== undefined && <li class={VERDICT_DISPLAY[verdict].tone}>{legend[verdict]}</li>,
          )}
        </ul>
      )}
    </>
  );
}

function Bar({ bar, left, share, y }: { bar: DayBar; left: number; share: number; y: ValueScale }) {
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
            x={percent(left)}
            y={to}
            width={percent(share)}
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
  /** Position of the text, in pixels from the left of the plot. Its width is an estimate. */
  start: number;
  center: number;
  end: number;
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
